"""Adds up the reports of the iterations of a loop, and of a network with its loops."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from matloom.report.layers import LayerReport, LoopReport
from matloom.report.report import Report

#: Fields of a report that are sums over its parts.
_SUMS = ("cycles", "predicted_cycles", "macs", "bytes_read", "bytes_written")


def add_iteration(sums: Report, last: Report) -> Report:
    """Return the report of several iterations of a loop's body, with one more added.

    `sums` covers the iterations so far, and `last` the one to add.
    """
    loops = tuple(
        replace(
            before,
            iterations=before.iterations + loop.iterations,
            cycles=before.cycles + loop.cycles,
            counted=before.counted or loop.counted,
            layers=_add_layers(before.layers, loop.layers),
        )
        for before, loop in zip(sums.loops, last.loops, strict=True)
    )
    return replace(
        sums, **_add_totals(sums, last), layers=_add_layers(sums.layers, last.layers), loops=loops
    )


def with_loop(report: Report, name: str, iterations: int, inside: Report | None) -> Report:
    """Return a network's report with the cost of one of its loops added.

    Parameters
    ----------
    name:
        Name of the loop's operator.
    inside:
        Report of all iterations of the body together; None if there were none.
    """
    if inside is None:
        return replace(report, loops=(*report.loops, LoopReport(name=name, iterations=iterations)))
    loop = LoopReport(
        name=name,
        iterations=iterations,
        cycles=inside.cycles,
        counted=inside.cycles_source == "counters",
        layers=inside.layers,
    )
    return replace(
        report,
        **_add_totals(report, inside),
        cycles_source=inside.cycles_source,
        layers=tuple(
            replace(
                layer,
                macs=inside.macs,
                cycles=inside.cycles if loop.counted else None,
                predicted_cycles=inside.predicted_cycles,
            )
            if layer.name == name
            else layer
            for layer in report.layers
        ),
        loops=(*report.loops, loop),
    )


def _add_totals(first: Report, second: Report) -> dict[str, Any]:
    """Return the sums of the members of two reports, and the utilisation of both together."""
    cycles = first.cycles + second.cycles
    ideal = sum(each.utilisation * each.cycles for each in (first, second))
    return {
        **{name: getattr(first, name) + getattr(second, name) for name in _SUMS},
        "utilisation": ideal / cycles if cycles else 0.0,
        "stalls": _add_by_key(first.stalls, second.stalls),
        "counters": _add_by_key(first.counters, second.counters),
    }


def _add_by_key(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of numbers with equal keys."""
    total = Counter(first)
    total.update(second)
    return dict(total)


def _add_layers(
    sums: tuple[LayerReport, ...], iteration: tuple[LayerReport, ...]
) -> tuple[LayerReport, ...]:
    """Return the operators of a loop's body, with MACs and cycles of one more iteration added.

    If one side is empty, because its loop had no iteration, the other is returned unchanged.
    """
    if not (sums and iteration):
        return sums or iteration
    return tuple(
        replace(
            one,
            macs=one.macs + other.macs,
            cycles=None if one.cycles is None else one.cycles + (other.cycles or 0),
            predicted_cycles=one.predicted_cycles + other.predicted_cycles,
        )
        for one, other in zip(sums, iteration, strict=True)
    )
