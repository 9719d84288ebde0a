"""The search for the largest engine: within the device, and monotonic in its size."""

import dataclasses

import pytest

from matloom.tools.fit import FILL, EngineSearch, Part

PART = Part(
    board="none",
    device="ecp5-25k",
    family="ecp5",
    capacity={"tables": 24288, "flip-flops": 24288, "multipliers": 28, "block RAMs": 56},
    soft_multiplier=True,
    blocks_per_cell=1,
    memory_kind="sdram",
    memory_bytes=1 << 25,
    clock_mhz=50.0,
)


def searched(**changes):
    fit = EngineSearch(part=dataclasses.replace(PART, **changes))
    fit.search()
    return fit


@pytest.fixture(scope="module")
def usual():
    return searched()


def test_found_engines_fit(usual):
    assert usual.best
    for item in usual.best:
        for name, use in item.uses.items():
            assert 0 < use.used <= use.room <= FILL[name] * PART.capacity[name], (item.text, name)
        assert item.mhz >= PART.clock_mhz


def test_an_8x8_that_was_not_routed_on_a_25f_does_not_fit():
    """It was placed with 19,750 of 24,288 tables, but not routed (bitstreams/README.md)."""
    fit = searched(clock_mhz=75.0)
    assert all((item.config.rows, item.config.columns) != (8, 8) for item in fit.best)
    assert (
        fit.next_larger.config.rows,
        fit.next_larger.config.columns,
        fit.next_larger.limit[0],
    ) == (8, 8, "tables")


def test_the_largest_comes_first(usual):
    macs = [item.macs for item in usual.best]
    assert macs == sorted(macs, reverse=True)


def test_the_next_larger_lacks_something(usual):
    assert usual.next_larger.macs > usual.best[0].macs
    name, beyond = usual.next_larger.limit
    assert beyond > 0
    assert usual.next_larger.uses[name].used > usual.next_larger.uses[name].room


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", FILL)
def test_more_of_a_resource_never_gives_a_smaller_array(usual, name):
    more = searched(capacity=PART.capacity | {name: 4 * PART.capacity[name]})
    assert more.best[0].macs >= usual.best[0].macs


def test_a_clock_out_of_reach_is_the_limit():
    fit = searched(clock_mhz=400.0)
    assert not fit.best
    assert fit.next_larger.limit[0] == "clock"


def test_latency_comes_before_size(usual):
    slow, fast = usual.best[0], usual.best[-1]
    slow.milliseconds, fast.milliseconds = 2.0, 1.0
    assert min(usual.best, key=lambda item: item.rank) is fast
    slow.milliseconds = fast.milliseconds = None


@pytest.mark.parametrize(
    ("device", "text", "beyond"),
    [
        ("ecp5-85k", "medium+windows=1", False),
        ("ecp5-85k", "medium", False),
        ("ecp5-85k", "medium+products=2", True),
        ("ecp5-85k", "medium+lanes=16+columns=32+acc_bytes=131072", True),
        ("ecp5-25k", "nano", False),
        ("xc7a35t", "nano", True),
    ],
)
def test_designs_larger_than_any_routed_one_are_marked(device, text, beyond):
    """The engine of a ULX3S-85F is the largest routed design; an Artix-7 has none."""
    capacity = PART.capacity | {"multipliers": 156}
    part = dataclasses.replace(PART, device=device, capacity=capacity)
    candidate = EngineSearch(part=part).candidate(text)
    assert candidate.is_beyond_routed is beyond
