"""The page of an exploration: a table of the Pareto front, and a diagram of all points."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from matloom.pages import Column, Markup, Page, PageSection, code, figures, join, legend, table, tag
from matloom.tools.explore import Exploration, ExploredPoint, front_of

#: Number of parts between the lines of an axis.
_PARTS = 4

#: Size of the diagram, and its margins for labels, in SVG units.
_WIDTH, _HEIGHT, _LEFT, _FOOT, _RIGHT = 960, 380, 70, 44, 24


def to_html(exploration: Exploration, points: Sequence[ExploredPoint]) -> str:
    """Return the page of an exploration as HTML: its best engines, and a drawing of all."""
    part, best = exploration.part, front_of(points)
    names = [Path(network).name for network in exploration.networks]
    summary = figures(
        (
            ("Engines", f"{len(points):,}", "predicted, all fit the device"),
            ("On the front", str(len(best)), "none is both faster and smaller"),
            ("Clock of the board", f"{part.clock_mhz:.4g} MHz", "less where less is expected"),
        )
    )
    return Page(
        title=f"Engines for {part.board}",
        subtitle=f"{part.device}; one call each of {', '.join(names)}.",
        sections=(
            PageSection(name="front", title="Front", content=join(summary, _engine_table(best))),
            PageSection(
                name="points",
                title="All engines",
                lead="Time of one call of each network against tables; towards the lower left is "
                "better.",
                content=join(legend((("front", 2), ("others", 8))), _drawing(points, best)),
            ),
        ),
        foot=tag("p", "Times and sizes are predictions: matloom build --config routes an engine."),
    ).to_html()


def _engine_table(best: Sequence[ExploredPoint]) -> Markup:
    """Return a table of the best engines: time, configuration, clock, resources, measurements."""
    confirmed = any(each.measured for each in best)
    columns = (
        Column(title="ms", numeric=True),
        Column(title="engine, for --config"),
        Column(title="MHz", numeric=True),
        *(Column(title=name, numeric=True, wide=True) for name in (best[0].uses if best else ())),
        *((Column(title="measured", wide=True),) if confirmed else ()),
    )
    rows = [
        (
            f"{each.milliseconds:.3f}",
            code(each.text),
            f"{each.mhz:.1f}",
            *(f"{used:,}" for used in each.uses.values()),
            *((measurement_text(each),) if confirmed else ()),
        )
        for each in best
    ]
    return table(columns, rows, sortable=True, caption="The fastest first")


def measurement_text(point: ExploredPoint) -> str:
    """Return a phrase on the results of synthesis and routing; empty without any."""
    found = point.measured
    parts = []
    if "tables" in found:
        parts.append(f"{found['tables']:,} tables by synthesis (predicted {found['error']:+.1%})")
    if found.get("routing mhz"):
        parts.append(f"routed at {found['routing mhz']} MHz, {found['routing tables']:,} tables")
    parts += [str(found[name]) for name in ("synthesis why", "routing why") if name in found]
    return "; ".join(parts)


def _drawing(points: Sequence[ExploredPoint], best: Sequence[ExploredPoint]) -> Markup:
    """Return a drawing of all engines by time and LUTs, with the best ones highlighted."""
    able = [each for each in points if math.isfinite(each.milliseconds)]
    if not able:
        return tag("p", "No engine can run the networks.")
    times = [math.log10(each.milliseconds) for each in able]
    low, high = min(times) - 0.05, max(times) + 0.05
    most = _PARTS * _round_up(max(each.tables for each in able) * 1.05 / _PARTS)

    def position(point: ExploredPoint) -> tuple[float, float]:
        """Return the position of an engine in the drawing, x and y."""
        share = (math.log10(point.milliseconds) - low) / (high - low)
        x = _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
        return x, 6 + (_HEIGHT - _FOOT) * (1 - point.tables / most)

    chosen = {each.text for each in best}
    circles = []
    for each in sorted(able, key=lambda one: one.text in chosen):
        x, y = position(each)
        on = each.text in chosen
        circles.append(
            tag(
                "circle",
                cx=f"{x:.1f}",
                cy=f"{y:.1f}",
                r=5 if on else 3,
                class_="c2 point" if on else "c8 point",
                tabindex=0 if on else None,
                data_tip=f"{each.text}\n{each.milliseconds:.3f} ms, {each.tables:,} tables",
            )
        )
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    drawing = tag("svg", *_axes(low, high, most), *circles, viewBox=box, role="img")
    return tag("div", drawing, class_="chart", tabindex=0, role="region", aria_label="Engines")


def _axes(low: float, high: float, most: float) -> Iterator[Markup]:
    """Yield the lines and labels of axes: times from 10**`low` to 10**`high` ms, LUTs to `most`."""
    bottom = 6 + _HEIGHT - _FOOT
    for part in range(_PARTS + 1):
        time = 10 ** (low + (high - low) * part / _PARTS)
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * part / _PARTS
        yield tag("line", x1=x, x2=x, y1=6, y2=bottom, class_="axis")
        yield tag("text", f"{time:.3g} ms", x=x, y=bottom + 16, text_anchor="middle")
        y = bottom - (bottom - 6) * part / _PARTS
        yield tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="axis")
        label = f"{most * part / _PARTS:,.0f}"
        yield tag("text", label, x=_LEFT - 6, y=y + 4, text_anchor="end")
    # Few engines are both slow and large.
    yield tag("text", "tables", x=_WIDTH - _RIGHT - 6, y=20, text_anchor="end", class_="ink")


def _round_up(number: float) -> float:
    """Return the next larger round number, of one or two digits, for the lines of an axis."""
    unit: float = 10.0 ** math.floor(math.log10(number))
    steps = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return unit * next(step for step in steps if step * unit >= number)
