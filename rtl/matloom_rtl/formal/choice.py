"""Chooses proofs that fit into a time limit, given their durations in an earlier report."""

from collections import defaultdict
from collections.abc import Iterable

__all__ = ["choose"]


def choose(report: dict, configs: Iterable[str], seconds: float) -> dict[str, set]:
    """Return proofs that take at most `seconds` in all: pairs of kind and unit, by configuration.

    Parameters
    ----------
    report
        Report written by `python -m matloom_rtl.formal --report`; each distinct claim counts once.
    seconds
        Total time of the proofs to choose. The quickest proof of each kind comes first, then the
        others, the quickest first; a proof that does not fit into the remaining time is skipped.
    """
    wanted = set(configs)
    claims = sorted(
        (claim for claim in report["claims"] if wanted & set(claim["configs"])),
        key=lambda claim: claim["seconds"],
    )
    first = {claim["kind"]: claim for claim in reversed(claims)}.values()
    total, found = 0.0, defaultdict(set)
    for claim in [*first, *(claim for claim in claims if claim not in first)]:
        if total + claim["seconds"] <= seconds:
            total += claim["seconds"]
            for config in wanted & set(claim["configs"]):
                found[config].add((claim["kind"], claim["unit"]))
    return found
