"""Chart of a search: signal-to-noise ratio of the outputs against predicted cycles, as SVG."""

from collections.abc import Iterator, Sequence

from matloom.pages import Markup, tag
from matloom.quantiser.judge import Judgement, is_unbeaten

#: Size of the chart, and its margins on the left and on the other sides, in SVG units.
_WIDTH, _HEIGHT, _LEFT, _MARGIN = 640, 280, 60, 36


def front_chart(points: Sequence[Judgement], summaries: Sequence[str], chosen: Judgement) -> Markup:
    """Return a chart of the networks of a search; a line joins those that `is_unbeaten`.

    Parameters
    ----------
    points:
        The networks, by ascending cycles.
    summaries:
        Phrase on each network, for its tooltip.
    """
    ends = (
        _axis_limits([point.cycles for point in points]),
        _axis_limits([point.sqnr_db for point in points]),
    )

    def place(point: Judgement) -> tuple[float, float]:
        """Return the x and y of a judged network in the drawing."""
        across, up = (
            (value - low) / (high - low)
            for value, (low, high) in zip((point.cycles, point.sqnr_db), ends, strict=True)
        )
        x = _LEFT + across * (_WIDTH - _LEFT - _MARGIN)
        return x, _HEIGHT - _MARGIN - up * (_HEIGHT - 2 * _MARGIN)

    front = (place(each) for each in points if is_unbeaten(each, points))
    best = " ".join(f"{x:.1f},{y:.1f}" for x, y in front)
    return tag(
        "svg",
        _draw_axes(ends),
        tag("polyline", points=best, fill="none", stroke="currentColor", stroke_opacity=0.4),
        (
            _draw_point(point, summary, point == chosen, *place(point))
            for point, summary in zip(points, summaries, strict=True)
        ),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label="SQNR of the outputs against predicted cycles",
        width="100%",
    )


def _axis_limits(values: list[float]) -> tuple[float, float]:
    """Return start and end of an axis: minimum and maximum of the values, with a margin."""
    low, high = min(values), max(values)
    spare = (high - low) * 0.05 or 1.0
    return low - spare, high + spare


def _draw_axes(ends: tuple[tuple[float, float], tuple[float, float]]) -> Iterator[Markup]:
    """Yield the axes and their labels; `ends` are the lowest and highest cycles, then dB."""
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


def _draw_point(point: Judgement, summary: str, chosen: bool, x: float, y: float) -> Markup:
    """Return a circle at x, y for a judged network, with a text for the pointer."""
    text = f"{point.cycles:,} cycles, {point.sqnr_db:.1f} dB, {point.agreement:.1%} agree"
    return tag(
        "circle",
        tag("title", f"{summary}: {text}"),
        cx=f"{x:.1f}",
        cy=f"{y:.1f}",
        r=6 if chosen else 4,
        fill="currentColor" if chosen else "none",
        stroke="currentColor",
        data_tip=text,
    )
