"""The roofline of a profile as SVG."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.modes import MODES
from matloom.pages import Markup, tag
from matloom.profile.charts import RIGHT, WIDTH, drawing, operator_tip, text
from matloom.profile.profile import OperatorProfile, Profile

#: Height of the roofline, and its margins below and on the left, in SVG units.
_ROOF, _FOOT, _SIDE = 330, 40, 60


def roofline(profile: Profile) -> Markup:
    """Return the roofline: multiply-accumulates per cycle against those per byte on the bus.

    Both axes are logarithmic; there is a circle for each operator with multiply-accumulates.
    """
    config = profile.program.config
    points = [
        (each.macs / max(1, each.bytes_read + each.bytes_written), each.rate, each)
        for each in profile.operators
        if each.macs and each.cycles
    ]
    modes = {mode for each in profile.operators for mode in each.mode.split(", ") if mode in MODES}
    peak = max(config.macs_per_cycle(mode) for mode in modes or {"i8xi8"})
    bus = min(config.bus_bytes, float(profile.program.memory.rate))
    xs = [x for x, _, _ in points] or [1.0]
    ys = [y for _, y, _ in points] or [1.0]
    left, right = _decades(min(*xs, peak / bus / 4), max(*xs, peak / bus * 4))
    low, high = _decades(min(*ys, peak / 20), max(*ys, peak))
    scale = _LogAxes(left=left, right=right, low=low, high=high)
    parts = list(scale.axes())
    knee = peak / bus
    start = max(left, low / bus)
    line = (
        f"M{scale.x(start):.1f} {scale.y(start * bus):.1f}"
        f"L{scale.x(knee):.1f} {scale.y(peak):.1f}L{scale.x(right):.1f} {scale.y(peak):.1f}"
    )
    parts.append(tag("path", d=line, class_="rule"))
    most = max((each.cycles for each in profile.operators), default=1)
    for x, y, each in sorted(points, key=lambda point: -point[2].cycles):
        parts.append(_operator_circle(scale, x, y, each, most))
    name, place = f"array: {peak:g} a cycle", scale.x(right) - 4
    parts.append(text(place, scale.y(peak) - 7, name, "end", "ink over"))
    return drawing(_ROOF + _FOOT + 6, "Roofline of the operators", parts)


def _decades(low: float, high: float) -> tuple[float, float]:
    """Return the powers of ten just below `low` and just above `high`."""
    return 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high * 1.05))


@dataclass(frozen=True, kw_only=True)
class _LogAxes:
    """Two logarithmic axes: horizontal from `left` to `right`, vertical from `low` to `high`."""

    left: float
    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        """Return the position of a value on the horizontal axis."""
        share = math.log(value / self.left) / math.log(self.right / self.left)
        return _SIDE + share * (WIDTH - _SIDE - RIGHT)

    def y(self, value: float) -> float:
        """Return the position of a value on the vertical axis."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return 6 + _ROOF * (1 - share)

    def axes(self) -> Iterator[Markup]:
        """Yield a line for each decade, with its value, and the names of the axes."""
        value = self.left
        while value <= self.right * 1.01:
            x = f"{self.x(value):.1f}"
            yield tag("line", x1=x, x2=x, y1=6, y2=6 + _ROOF, class_="axis")
            yield text(self.x(value), _ROOF + 22, f"{value:g}", "middle")
            value *= 10
        value = self.low
        while value <= self.high * 1.01:
            y = f"{self.y(value):.1f}"
            yield tag("line", x1=_SIDE, x2=WIDTH - RIGHT, y1=y, y2=y, class_="axis")
            yield text(_SIDE - 6, self.y(value) + 4, f"{value:g}", "end")
            value *= 10
        middle = (_SIDE + WIDTH - RIGHT) / 2
        yield text(middle, _ROOF + 40, "multiply-accumulates per byte on the bus", "middle", "ink")
        turn = f"rotate(-90 14 {_ROOF / 2:g})"
        label = "multiply-accumulates per cycle"
        yield tag(
            "text", label, x=14, y=f"{_ROOF / 2:g}", text_anchor="middle", transform=turn,
            class_="ink",
        )  # fmt: skip


def _operator_circle(
    scale: _LogAxes, x: float, y: float, operator: OperatorProfile, most_cycles: int
) -> Markup:
    """Return the circle of an operator at `x`, `y`; its area grows with the operator's cycles."""
    radius = 4 + 9 * math.sqrt(operator.cycles / most_cycles)
    share = f"{operator.rate:.1f} a cycle, {operator.utilisation:.0%} of the array"
    return tag(
        "circle",
        cx=f"{scale.x(x):.1f}",
        cy=f"{scale.y(max(y, scale.low)):.1f}",
        r=f"{radius:.1f}",
        class_="c1 point",
        tabindex=0,
        data_tip=f"{operator_tip(operator)}\n{share}\n{x:,.1f} multiply-accumulates per byte",
        aria_label=f"{operator.number} {operator.operator}: {share}",
    )
