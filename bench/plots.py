"""Draws the plots of docs/performance.md from the committed reports: python bench/plots.py."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
DRAWINGS = ROOT / "docs" / "drawings"
SWEEPS = RESULTS / "sweeps.json"
BENCH = RESULTS / "bench_reference.json"
COMPILE = RESULTS / "compile_time.json"

#: Text stays text, and the same reports give the same file.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "matloom", "font.size": 9})


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot: its file, the report it shows, the drawing function, and the legend's position."""

    name: str
    source: Path
    draw: Callable[[Axes, Any], None]
    legend: str = "best"


def digest(source: Path) -> str:
    """Return the digest of a report, which is stored in the plots made from it."""
    return "sha256:" + hashlib.sha256(source.read_bytes()).hexdigest()


def _sweep(sweep: str, label: str, names: tuple[str, ...]) -> Callable[[Axes, Any], None]:
    """Return a function that plots cycles against a parameter, with dashed rooflines."""

    def draw(axes: Axes, report: Any) -> None:
        """Draw the points of the sweep, a line for each network."""
        for index, name in enumerate(names):
            points = [
                item for item in report["points"] if item["sweep"] == sweep and item["name"] == name
            ]
            values = [item["value"] for item in points]
            cycles = [item["cycles"] for item in points]
            bounds = [item["bound"] for item in points]
            axes.plot(values, cycles, "o-", color=f"C{index}", label=name)
            axes.plot(values, bounds, "--", color=f"C{index}", label=f"{name}, roofline")
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="cycles")
        axes.minorticks_off()
        low, high = (math.log10(limit) for limit in axes.get_ylim())
        axes.set_ylim(10 ** math.floor(low), 10 ** math.ceil(high))
        ticks = sorted({item["value"] for item in report["points"] if item["sweep"] == sweep})
        axes.set_xticks(ticks, labels=[f"{tick:,}" for tick in ticks])

    return draw


def _compilation(sweep: str, label: str) -> Callable[[Axes, Any], None]:
    """Return a function that draws compile times against a parameter, with checks dashed."""

    def draw(axes: Axes, report: Any) -> None:
        """Draw the points of the sweep, two lines for each preset."""
        points = [item for item in report["points"] if item["sweep"] == sweep]
        for index, preset in enumerate(sorted({item["preset"] for item in points})):
            chosen = [item for item in points if item["preset"] == preset and item["seconds"]]
            values = [item[sweep] for item in chosen]
            for key, line, name in (
                ("seconds", "o-", preset),
                ("checked_seconds", "o--", f"{preset}, with checks"),
            ):
                axes.plot(
                    values, [item[key] for item in chosen], line, color=f"C{index}", label=name
                )
        axes.set(xlabel=label, ylabel="seconds of processor time", xlim=(0, None), ylim=(0, None))

    return draw


def _roofline(axes: Axes, report: Any) -> None:
    """Draw MACs per cycle against MACs per byte of the bus, with both roofs."""
    rows, columns = report["array"]
    peak, bus = rows * columns, report["bus_bytes"]
    places = []
    for index, item in enumerate(report["results"]):
        carried = item["bytes_read"] + item["bytes_written"]
        place = item["macs"] / carried, item["macs"] / item["cycles"]
        marker = "o" if index < 10 else "s"
        axes.plot(*place, marker, color=f"C{index % 10}", label=item["name"])
        places.append(place[0])
    intensities = [min(places, default=1) / 2, peak / bus, max(places, default=1) * 2]
    roof = [min(peak, bus * intensity) for intensity in intensities]
    axes.plot(intensities, roof, "k--", label=f"{peak} multipliers, {bus} bytes per cycle")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="multiply-accumulates per byte read or written",
        ylabel="multiply-accumulates per cycle",
    )


_NETWORKS = ("ic", "ad", "matmul 256")
PLOTS = (
    Plot(
        name="cycles_size",
        source=SWEEPS,
        draw=_sweep("size", "side of the matrices", ("matmul",)),
    ),
    Plot(name="cycles_bus", source=SWEEPS, draw=_sweep("bus", "width of the bus, bits", _NETWORKS)),
    Plot(
        name="cycles_latency",
        source=SWEEPS,
        draw=_sweep("latency", "cycles from a read's address to its first beat", _NETWORKS),
    ),
    Plot(
        name="cycles_array",
        source=SWEEPS,
        draw=_sweep("array", "rows and columns of the array", _NETWORKS),
    ),
    Plot(
        name="compile_layers",
        source=COMPILE,
        draw=_compilation("layers", "convolutions, at 96x96"),
    ),
    Plot(
        name="compile_size",
        source=COMPILE,
        draw=_compilation("size", "rows and columns of the input, 52 convolutions"),
    ),
    Plot(name="roofline", source=BENCH, draw=_roofline, legend="lower right"),
)


def render(plot: Plot) -> None:
    """Write the file of a plot, with the report's digest in its metadata."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    plot.draw(axes, json.loads(plot.source.read_text()))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc=plot.legend)
    metadata = {"Date": None, "Creator": None, "Source": digest(plot.source)}
    figure.savefig(DRAWINGS / f"{plot.name}.svg", metadata=metadata)


if __name__ == "__main__":
    for chosen in PLOTS:
        render(chosen)
