"""Chart of a search: signal-to-noise ratio of the outputs against predicted cycles, as SVG."""

from collections.abc import Iterator

from matloom.pages import Markup, tag
from matloom.quantiser.search import Search
from matloom.quantiser.trials import MixedPoint

__all__ = ["front_chart"]

#: Size of the chart, and of its margins.
_WIDTH, _HEIGHT, _LEFT, _MARGIN = 640, 280, 60, 36


def front_chart(search: Search) -> Markup:
    """Return the points of a search; those that no other beats are joined by a line."""
    points = search.points
    ends = (
        _widened([point.cycles for point in points]),
        _widened([point.sqnr_db for point in points]),
    )

    def place(point: MixedPoint) -> tuple[float, float]:
        across, up = (
            (value - low) / (high - low)
            for value, (low, high) in zip((point.cycles, point.sqnr_db), ends, strict=True)
        )
        x = _LEFT + across * (_WIDTH - _LEFT - _MARGIN)
        return x, _HEIGHT - _MARGIN - up * (_HEIGHT - 2 * _MARGIN)

    best = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(each) for each in points if each.best))
    return tag(
        "svg",
        _axes(ends),
        tag("polyline", points=best, fill="none", stroke="currentColor", stroke_opacity=0.4),
        (_mark(search, point, *place(point)) for point in points),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label="SQNR of the outputs against predicted cycles",
        width="100%",
    )


def _widened(values: list[float]) -> tuple[float, float]:
    """Return limits of an axis that are apart."""
    low, high = min(values), max(values)
    spare = (high - low) * 0.05 or 1.0
    return low - spare, high + spare


def _axes(ends: tuple[tuple[float, float], tuple[float, float]]) -> Iterator[Markup]:
    bottom, right = _HEIGHT - _MARGIN, _WIDTH - _MARGIN
    corner = f"{_LEFT},{_MARGIN} {_LEFT},{bottom} {right},{bottom}"
    yield tag("polyline", points=corner, fill="none", stroke="currentColor")
    labels = (
        (_LEFT, bottom + 16, "start", f"{ends[0][0]:,.0f}"),
        (right, bottom + 16, "end", f"{ends[0][1]:,.0f} cycles"),
        (_LEFT - 6, bottom, "end", f"{ends[1][0]:.0f}"),
        (_LEFT - 6, _MARGIN, "end", f"{ends[1][1]:.0f} dB"),
    )
    for x, y, anchor, text in labels:
        yield tag("text", text, x=x, y=y, text_anchor=anchor, fill="currentColor", font_size=12)


def _mark(search: Search, point: MixedPoint, x: float, y: float) -> Markup:
    chosen = point.layers == search.chosen.layers
    text = f"{point.cycles:,} cycles, {point.sqnr_db:.1f} dB, {point.agreement:.1%} agree"
    return tag(
        "circle",
        tag("title", f"{len(point.layers)} layers of 4 bits: {text}"),
        cx=f"{x:.1f}",
        cy=f"{y:.1f}",
        r=6 if chosen else 4,
        fill="currentColor" if chosen else "none",
        stroke="currentColor",
        data_tip=text,
    )
