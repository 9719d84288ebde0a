from matloom_rtl.formal.choice import choose


def claim(kind, unit, seconds, *configs):
    return {"kind": kind, "unit": unit, "seconds": seconds, "configs": list(configs)}


REPORT = {
    "claims": [
        claim("queues", "a", 2.0, "nano"),
        claim("queues", "b", 3.0, "nano", "small"),
        claim("bus", "c", 40.0, "nano"),
        claim("bus", "d", 50.0, "nano"),
        claim("bus", "e", 1.0, "small"),
    ]
}


def test_the_fastest_of_each_kind_come_first():
    assert choose(REPORT, ["nano"], 44) == {"nano": {("queues", "a"), ("bus", "c")}}
    assert choose(REPORT, ["nano"], 45)["nano"] == {("queues", "a"), ("queues", "b"), ("bus", "c")}


def test_a_claim_of_several_configurations_counts_once():
    assert choose(REPORT, ["nano", "small"], 6)["small"] == {("queues", "b"), ("bus", "e")}


def test_candidates_that_do_not_fit_are_left_out():
    assert choose(REPORT, ["nano"], 1) == {}
