"""Sentences on a program's verdict: how it was checked when it was compiled."""

from matloom.program import Verdict

_PERCENT = 0.01


def describe_verdict(verdict: Verdict | None) -> str:
    """Return a sentence that says what was checked when a program was compiled."""
    if verdict is None or (verdict.mode == "none" and not verdict.stages[1]):
        return "checked when compiled: nothing"
    if not verdict.stages[1]:
        return "checked when compiled: nothing, because the engine runs no operator"
    parts = []
    if verdict.mode != "none":
        parts.append(
            f"{_share_text(verdict)} on the functional model, seed {verdict.seed} ({verdict.mode})"
        )
    if verdict.stages[1]:
        parts.append(
            f"{verdict.stages[0]} of {verdict.stages[1]} stages instruction by instruction"
        )
    text = f"checked when compiled: {'; '.join(parts)}"
    return f"{text}; a simpler schedule: {verdict.fallback}" if verdict.fallback else text


def _share_text(verdict: Verdict) -> str:
    """Return a phrase on the share of MACs that was compared, and on the runs that did so."""
    runs = f"{verdict.calls} runs" if verdict.calls or not verdict.tiles else ""
    tiles = f"{verdict.tiles} single tiles" if verdict.tiles else ""
    share = f"{verdict.share:.0%}" if not 0 < verdict.share < _PERCENT else "less than 1%"
    return f"{share} of MACs in {' and '.join(filter(None, (runs, tiles)))}"


def describe_equality(verdict: Verdict | None) -> str:
    """Return a sentence that says whether a program computes exactly what the operators define."""
    if verdict is None or (verdict.mode == "none" and not verdict.stages[1]):
        return "whether the program gives the same results was not checked when it was compiled"
    if not verdict.stages[1]:
        return "the engine runs no operator"
    proven = verdict.stages[0] == verdict.stages[1] and verdict.stages[1]
    extent = "the program gives the same" if proven or verdict.share == 1 else "checked in part"
    return f"{extent}: {describe_verdict(verdict)}"
