"""The verdict as a sentence."""

from matloom.program import Verdict
from matloom.program.verdict import describe_equality, describe_verdict


def test_sentences():
    assert (
        describe_verdict(None)
        == describe_verdict(Verdict(mode="none"))
        == "checked when compiled: nothing"
    )
    checked = Verdict(mode="sample", seed=4, share=0.25, calls=2, stages=(7, 7))
    assert describe_verdict(checked) == (
        "checked when compiled: 25% of MACs in 2 runs on the functional model, seed 4 (sample); "
        "7 of 7 stages instruction by instruction"
    )
    host = Verdict(mode="sample", share=1.0, calls=4)
    assert (
        describe_verdict(host)
        == "checked when compiled: nothing, because the engine runs no operator"
    )
    assert describe_equality(host) == "the engine runs no operator"
    static = Verdict(mode="none", stages=(3, 4), fallback="why")
    assert describe_verdict(static) == (
        "checked when compiled: 3 of 4 stages instruction by instruction; a simpler schedule: why"
    )
