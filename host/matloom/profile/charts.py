"""Drawings of a profile over time as SVG: activity of units and bus, contents of the scratchpad."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from matloom.arch.isa import UNITS, Opcode
from matloom.ir.graph import short_name
from matloom.pages import Markup, tag
from matloom.profile.occupancy import CONTENTS, Holding, holdings, piece_count
from matloom.profile.profile import OperatorProfile, Profile
from matloom.profile.timeline import Timeline, moved_bytes

#: Width of a drawing, and its margins on the left and on the right, in SVG units.
WIDTH, LEFT, RIGHT = 960, 92, 24

#: Number of columns into which the time axis is divided for curves.
_COLUMNS = 432

#: Height of a lane, which shows a unit or a direction of the bus, and of the gap between lanes.
_LANE, _GAP = 34, 12

#: Index of each unit's colour on the page.
_COLOURS = {Opcode.LOAD: 4, Opcode.EXEC: 1, Opcode.POST: 3, Opcode.STORE: 5}


@dataclass(frozen=True, kw_only=True)
class _TimeAxis:
    """Horizontal axis of a drawing: the cycles of all engine steps, one after another."""

    cycles: int

    def x(self, time: float) -> float:
        """Return the horizontal position of a time in cycles."""
        return LEFT + (WIDTH - LEFT - RIGHT) * time / self.cycles

    def axis(self, top: float, bottom: float) -> Iterator[Markup]:
        """Yield vertical lines from `top` to `bottom` at round times, with labels below."""
        step = _round_step(self.cycles / 6)
        for time in range(0, self.cycles + 1, step):
            place = f"{self.x(time):.1f}"
            yield tag("line", x1=place, x2=place, y1=top, y2=bottom, class_="axis")
            yield text(self.x(time), bottom + 15, f"{time:,}", "middle")


def _round_step(size: float) -> int:
    """Return the smallest integer of at least `size` that is 1, 2 or 5 times a power of ten."""
    power: int = 10 ** max(0, math.floor(math.log10(max(size, 1))))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= size)


def text(x: float, y: float, words: str, anchor: str = "start", class_: str = "") -> Markup:
    """Return a text with its ``"start"``, ``"middle"`` or ``"end"`` (`anchor`) at a position."""
    shown = class_ or None
    return tag("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=shown)


def drawing(height: float, title: str, content: Iterable[Markup]) -> Markup:
    """Return a drawing that scrolls horizontally on a narrow screen."""
    box = f"0 0 {WIDTH} {height:.0f}"
    drawing = tag("svg", tag("title", title), *content, viewBox=box, role="img")
    return tag("div", drawing, class_="chart", tabindex=0, role="region", aria_label=title)


def _time_axis(profile: Profile) -> _TimeAxis:
    """Return the axis for the cycles of all engine steps of a profile."""
    return _TimeAxis(cycles=max(1, sum(each.cycles for each in profile.timelines)))


def _with_offsets(timelines: Sequence[Timeline]) -> Iterator[tuple[int, Timeline]]:
    """Yield each timeline after the total cycles of those before it."""
    offset = 0
    for each in timelines:
        yield offset, each
        offset += each.cycles


def activity(profile: Profile) -> Markup:
    """Return a drawing over time of operators, work of the units, and bytes on the bus."""
    time_axis, top = _time_axis(profile), 26
    parts = list(_operator_boxes(profile, time_axis))
    busy = _busy_shares(profile.timelines, time_axis)
    for unit in (Opcode.EXEC, Opcode.POST, Opcode.LOAD, Opcode.STORE):
        top += _GAP
        share = busy[unit]
        parts.append(_step_curve(share, top, f"c{_COLOURS[unit]}"))
        parts.append(text(LEFT - 8, top + _LANE / 2 + 4, unit.name, "end", "ink"))
        parts.append(_lane_line(top))
        top += _LANE
    names = {Opcode.LOAD: "bus, read", Opcode.STORE: "bus, written"}
    width = profile.program.config.bus_bytes
    for unit, name in names.items():
        top += _GAP
        rates = _rates(profile.timelines, time_axis, unit) / width
        parts.append(_step_curve(np.minimum(rates, 1), top, f"c{_COLOURS[unit]}"))
        parts.append(text(LEFT - 8, top + _LANE / 2 + 4, name, "end", "ink"))
        parts.append(text(LEFT - 8, top + _LANE / 2 + 18, f"of {width} B/cycle", "end"))
        parts.append(_lane_line(top))
        top += _LANE
    parts += time_axis.axis(24, top + 4)
    title = "Operators, units and bus over time, in cycles"
    return drawing(top + 26, title, parts)


def _lane_line(top: float) -> Markup:
    """Return the line below a lane, the strip of a drawing that shows one unit, at height `top`."""
    y = top + _LANE
    return tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="axis")


def _operator_boxes(profile: Profile, time_axis: _TimeAxis) -> Iterator[Markup]:
    """Yield a box for each operator over the time in which it runs, with number and tooltip."""
    yield text(LEFT - 8, 16, "operators", "end", "ink")
    place = 0
    for offset, timeline in _with_offsets(profile.timelines):
        for window in timeline.windows:
            own = profile.operators[window.layer]
            x, end = time_axis.x(offset + window.start), time_axis.x(offset + window.end)
            place += 1
            yield tag(
                "rect",
                x=f"{x:.1f}",
                y=4,
                width=f"{max(0.5, end - x - 0.6):.1f}",
                height=18,
                rx=2,
                class_=f"c{(8, 10)[place % 2]}",
                data_tip=operator_tip(own),
            )
            if end - x > 9 * len(str(own.number)):
                yield text((x + end) / 2, 17, str(own.number), "middle", "on")


def operator_tip(operator: OperatorProfile) -> str:
    """Return the tooltip of an operator: name, cycles, and the main causes, a line each."""
    causes = sorted(operator.causes.items(), key=lambda item: -item[1])[:3]
    lines = [
        f"{operator.number} {operator.operator}",
        short_name(operator.name),
        f"{operator.cycles:,} cycles",
    ]
    lines += [f"{count / max(1, operator.cycles):.0%} {name}" for name, count in causes]
    return "\n".join(lines)


def _busy_shares(timelines: Sequence[Timeline], time_axis: _TimeAxis) -> dict[Opcode, np.ndarray]:
    """Return, for each unit, the share of time in each column of the drawing in which it works.

    The arrays have shape (columns,).
    """
    total = {unit: np.zeros(_COLUMNS) for unit in UNITS}
    for offset, timeline in _with_offsets(timelines):
        for span in timeline.spans:
            _add_rate(total[span.unit], time_axis, offset + span.start, offset + span.end, 1.0)
    return {unit: np.minimum(share, 1) for unit, share in total.items()}


def _rates(timelines: Sequence[Timeline], time_axis: _TimeAxis, unit: Opcode) -> np.ndarray:
    """Return the bytes per cycle that a unit moves over the bus, in each column of the drawing.

    The array has shape (columns,).
    """
    total = np.zeros(_COLUMNS)
    for offset, timeline in _with_offsets(timelines):
        for span in timeline.spans:
            size = moved_bytes(timeline.instructions[span.index]) if span.unit is unit else 0
            if size:
                end = max(span.end, span.start + 1)
                _add_rate(
                    total, time_axis, offset + span.start, offset + end, size / (end - span.start)
                )
    return total


def _add_rate(total: np.ndarray, time_axis: _TimeAxis, start: int, end: int, rate: float) -> None:
    """Add a rate between two times to `total`, in proportion to the covered part of each column."""
    first, last = (time * _COLUMNS / time_axis.cycles for time in (start, end))
    low, high = int(first), min(int(last), _COLUMNS - 1)
    if low >= _COLUMNS:
        return
    if low == high:
        total[low] += rate * (last - first)
        return
    total[low] += rate * (low + 1 - first)
    total[low + 1 : high] += rate
    total[high] += rate * (last - high)


def _step_curve(shares: np.ndarray, top: float, class_: str) -> Markup:
    """Return a filled step curve of shares (columns,) of a lane's height."""
    width = (WIDTH - LEFT - RIGHT) / _COLUMNS
    heights = np.round(shares * _LANE, 1)
    path, base = [f"M{LEFT} {top + _LANE:g}"], top + _LANE
    for at, height in enumerate(heights):
        if at == 0 or height != heights[at - 1]:
            path.append(f"H{LEFT + at * width:.1f}V{base - height:g}")
    path.append(f"H{WIDTH - RIGHT}V{base:g}Z")
    return tag("path", d="".join(path), class_=class_)


#: Height of the map of the scratchpad, and the index of the colour of each of `CONTENTS`.
_MAP_HEIGHT = 240
CONTENT_COLOURS = (4, 2, 1)


def scratchpad(profile: Profile) -> Markup:
    """Return a drawing of the scratchpad's contents over time; bytes not in use are light."""
    time_axis, config = _time_axis(profile), profile.program.config
    count = piece_count(config)
    parts = [
        tag("rect", x=LEFT, y=6, width=WIDTH - LEFT - RIGHT, height=_MAP_HEIGHT, class_="ground")
    ]
    paths: list[list[str]] = [[] for _ in CONTENTS]
    for offset, timeline in _with_offsets(profile.timelines):
        for each in holdings(timeline, config):
            paths[each.content].append(_svg_box(each, time_axis, offset, count))
    for content, boxes in enumerate(paths):
        if boxes:
            class_ = f"c{CONTENT_COLOURS[content]} held"
            parts.append(tag("path", d="".join(boxes), class_=class_))
    parts += time_axis.axis(6, 6 + _MAP_HEIGHT)
    for bank in range(config.spad_banks + 1):
        y = 6 + _MAP_HEIGHT * bank / config.spad_banks
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="axis"))
        if bank < config.spad_banks:
            middle = y + _MAP_HEIGHT / config.spad_banks / 2 + 4
            parts.append(text(LEFT - 8, middle, f"bank {bank}", "end", "ink"))
    title = f"The {config.spad_bytes:,} bytes of the scratchpad over time, in cycles"
    return drawing(_MAP_HEIGHT + 30, title, parts)


def _svg_box(holding: Holding, time_axis: _TimeAxis, offset: int, count: int) -> str:
    """Return the SVG path of the rectangle for one of the scratchpad's contents."""
    x = time_axis.x(offset + holding.start)
    width = max(0.4, time_axis.x(offset + holding.last_read) - x)
    top, bottom = (6 + _MAP_HEIGHT * place / count for place in (holding.first, holding.end))
    return f"M{x:.1f} {top:.1f}h{width:.1f}v{bottom - top:.1f}h-{width:.1f}z"
