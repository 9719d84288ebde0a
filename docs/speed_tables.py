"""Tables of cycles and seconds: the benchmark's reports, sweeps, memories, the tools."""

from collections.abc import Callable
from typing import Any

from report_table import Column, count, report, table, text_table

from matloom.arch.config import load_config
from matloom.arch.csr import EXEC_CAUSES

PRESETS = ("reference", "medium", "small", "nano")

_CAUSES = [name.removeprefix("exec_") for name, _doc in EXEC_CAUSES]


def bench(preset: str = PRESETS[0]) -> dict[str, Any]:
    """Return the benchmark's report for a preset."""
    return dict(report(f"bench_{preset}.json"))


def _key(name: str) -> Column:
    """Return a column of the entry `name`, a count, of each row; its heading is the name, too."""
    return Column(name, lambda row: row[name], count)


def _share(name: str, heading: str) -> Column:
    """Return a column that shows counter `name` as a share of a row's cycles."""

    def value(row: dict[str, Any]) -> float | None:
        """Return the counter as a share of a row's cycles; None if the row lacks it."""
        found = row["counters"].get(name)
        return None if found is None else found / row["cycles"]

    return Column(heading, value, "{:.1%}".format)


def _name_column(heading: str) -> Column:
    """Return a column that shows the name of each row."""
    return Column(heading, lambda row: row["name"])


def _networks(preset: str) -> str:
    """Return a table of cycles and utilisation of the benchmark's networks at a preset."""
    found = bench(preset)
    rows, columns = found["array"]
    return table(
        found["results"],
        (
            _name_column(f"at `{preset}` ({rows}x{columns})"),
            Column("MACs", lambda row: row["macs"], count),
            *map(_key, ("cycles", "target")),
            Column("utilisation", lambda row: row["utilisation"], "{:.3f}".format),
            Column(
                "predicted",
                lambda row: row["predicted_cycles"] / row["cycles"] - 1,
                "{:+.1%}".format,
            ),
        ),
    )


#: The MLPerf Tiny networks by the names of the benchmark, and what they do.
_MLPERF = {
    "ic": "image classification",
    "kws": "keyword spotting",
    "vww": "person detection",
    "ad": "anomaly detection",
}


def _mlperf() -> str:
    """Return a table of the cycles of the MLPerf Tiny networks at three presets."""
    found = {
        preset: {row["name"]: row for row in bench(preset)["results"]}
        for preset in ("nano", "small", "reference")
    }

    def cycles(preset: str) -> Column:
        """Return a column that shows the networks' cycles at a preset."""
        rows, columns = bench(preset)["array"]
        heading = f"cycles at `{preset}` ({rows}x{columns})"
        return Column(heading, lambda name: found[preset][name]["cycles"], count)

    return table(
        _MLPERF,
        (
            Column("network", lambda name: f"{name}, {_MLPERF[name]}"),
            Column("MACs", lambda name: found["nano"][name]["macs"], count),
            *map(cycles, found),
            Column(
                "utilisation",
                lambda name: found["reference"][name]["utilisation"],
                "{:.3f}".format,
            ),
        ),
    )


def _causes() -> str:
    """Return a table of why no vector entered the array, as shares of each network's cycles."""
    causes = (_share(f"exec_{cause}", cause.replace("_", " ")) for cause in _CAUSES)
    return table(bench()["results"], (_name_column(f"at `{PRESETS[0]}`"), *causes))


def _units() -> str:
    """Return a table of how busy the units are, and of bytes and bursts on the bus."""
    counters = {"read_bursts": "read bursts", "write_bursts": "write bursts"}
    return table(
        bench()["results"],
        (
            _name_column(f"at `{PRESETS[0]}`"),
            *(_share(f"{unit.lower()}_busy", unit) for unit in ("LOAD", "POST", "STORE")),
            Column("bytes read", lambda row: row["bytes_read"], count),
            Column("written", lambda row: row["bytes_written"], count),
            *(
                Column(heading, lambda row, key=key: row["counters"][key], count)
                for key, heading in counters.items()
            ),
        ),
    )


def _presets() -> str:
    """Return a table of the networks' utilisation by preset."""
    used = {
        preset: {row["name"]: row["utilisation"] for row in bench(preset)["results"]}
        for preset in PRESETS
    }
    columns = (
        Column(f"`{preset}`", lambda name, preset=preset: used[preset][name], "{:.3f}".format)
        for preset in PRESETS
    )
    return table(used[PRESETS[0]], (Column("utilisation", str), *columns))


def _sweep(sweep: str, heading: str) -> str:
    """Return a table of cycles and rooflines by the value of a swept parameter."""
    points = [row for row in report("sweeps.json")["points"] if row["sweep"] == sweep]
    values = sorted({row["value"] for row in points})
    rows = []
    for name in dict.fromkeys(row["name"] for row in points):
        known = {row["value"]: row for row in points if row["name"] == name}
        rows += [(name, "cycles", known), (f"{name}, roofline", "bound", known)]
    columns = (
        Column(f"{value:,}", lambda row, value=value: row[2].get(value, {}).get(row[1]), count)
        for value in values
    )
    return table(rows, (Column(heading, lambda row: row[0]), *columns))


def _error(row: dict[str, Any]) -> float:
    """Return the relative error of the predicted cycles."""
    return float(row["predicted_cycles"] / row["cycles"] - 1)


def _memories() -> str:
    """Return a table of cycles by memory bandwidth and latency, with the largest error."""
    kept = report("memories.json")["results"]
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in kept:
        groups.setdefault((row["config"], row["network"], row["call"]), []).append(row)
    points = {
        **{f"{rate} B": (rate, 32) for rate in (8, 4, 2, 1)},
        **{f"{rate} B, 128": (rate, 128) for rate in (8, 4)},
    }

    def cycles(rows: list[dict[str, Any]], point: tuple[int, int]) -> int | None:
        """Return the cycles at a point, bytes per cycle and read latency; None if not measured."""
        found = {(row["bytes_per_cycle"], row["read_latency"]): row["cycles"] for row in rows}
        return found.get(point)

    def worst(rows: list[dict[str, Any]]) -> str:
        """Return the largest prediction error of some rows, and the memory at which it occurs."""
        row = max(rows, key=lambda row: abs(_error(row)))
        return f"{_error(row):+.1%} ({row['bytes_per_cycle']} B, {row['read_latency']})"

    shown = table(
        groups.items(),
        (
            Column("configuration, network, call", lambda group: ", ".join(group[0])),
            *(
                Column(heading, lambda group, point=point: cycles(group[1], point), count)
                for heading, point in points.items()
            ),
            Column("greatest error", lambda group: worst(group[1])),
        ),
    )
    near = sum(
        abs(row["predicted_cycles"] - row["cycles"]) <= max(50, 0.05 * row["cycles"])
        for row in kept
    )
    return f"{shown}\n{near} of {len(kept)} predictions are within 5 % or 50 cycles.\n"


def _unless_stopped(
    heading: str, value: Callable[[Any], Any], form: Callable[[Any], str]
) -> Column:
    """Return a column that shows "not done" for compilations that hit the time limit."""

    def text(row: dict[str, Any]) -> str:
        """Return the text of a cell: "not done" for a compilation without a time."""
        return "not done" if row["seconds"] is None else form(value(row))

    return Column(heading, text)


def _compile_time() -> str:
    """Return a table of the seconds to compile networks of growing size."""
    one = "{:.1f}".format
    return table(
        report("compile_time.json")["points"],
        (
            Column("preset", lambda row: row["preset"]),
            Column("convolutions", lambda row: row["layers"]),
            Column("input", lambda row: f"{row['size']}x{row['size']}"),
            _unless_stopped("instructions", lambda row: row["instructions"], count),
            _unless_stopped("s", lambda row: row["seconds"], one),
            _unless_stopped("with checks, s", lambda row: row["checked_seconds"], one),
            _unless_stopped(
                "ms an instruction",
                lambda row: 1000 * row["seconds"] / row["instructions"],
                "{:.2f}".format,
            ),
        ),
    )


def _tools() -> str:
    """Return a table of the speed of compiler, model and simulator, and the import time."""
    found = bench()
    seconds = {
        "simulation, s": "simulation_seconds",
        "functional model, s": "model_seconds",
        "compilation, s": "compile_seconds",
    }
    shown = table(
        [row for row in found["results"] if row["name"] in ("ic", "matmul 512")],
        (
            _name_column(f"at `{PRESETS[0]}`"),
            Column(
                "thousand cycles/s in Verilator",
                lambda row: row["simulated_kilocycles_per_second"],
                "{:,.0f}".format,
            ),
            *(
                Column(heading, lambda row, key=key: row[key], "{:.3f}".format)
                for heading, key in seconds.items()
            ),
        ),
    )
    return f"{shown}\n`import matloom` takes {found['import_seconds']} s, interpreter included.\n"


def _exceptions() -> str:
    """Return a list of the networks whose predictions may be off, with the reasons."""
    lines = [
        f"- {row['name']} at `{preset}` ({row['prediction_error']:+.1%}): {row['exception']}\n"
        for preset in PRESETS
        for row in bench(preset)["results"]
        if row.get("exception")
    ]
    return "".join(lines) or "No prediction is exempt.\n"


def _firmware() -> str:
    """Return a table of the firmware's bytes of code and of constants."""
    rows = [
        [name, count(sizes["code"]), count(sizes["constants"])]
        for name, sizes in report("firmware.json").items()
    ]
    return text_table(["processor, network", "code", "constants"], rows)


def _rate(row: dict[str, Any]) -> str:
    """Return a layer's MACs or bytes per cycle, or where else it runs."""
    if row.get("host"):
        return "on the host"
    if row.get("fused"):
        return "with the layer before"
    # The few products of squeeze and excite are not what it is there for.
    multiplies = row["macs"] > row["bytes"]
    done, unit = (row["macs"], "MAC") if multiplies else (row["bytes"], "bytes")
    return f"{done / row['cycles']:.1f} {unit}"


def _shapes() -> str:
    """Return a table of the cycles of one layer of each class."""
    return table(
        report("shapes.json")["layers"],
        (
            _name_column("layer"),
            Column("map", lambda row: row["map"], lambda sizes: "x".join(map(str, sizes))),
            Column("cycles", lambda row: row["cycles"] or None, count),
            Column("per cycle", _rate),
            Column("streaming", _streaming, "{:.0%}".format),
            Column("waits most for", _longest_wait),
        ),
    )


def _transformers() -> str:
    """Return a table of the cycles and utilisation of whole transformers."""
    found = report("transformers.json")
    config = load_config(found["config"])
    multipliers = config.rows * config.columns
    return table(
        found["rows"],
        (
            Column("tokens x width x heads", lambda row: row["size"]),
            Column("MACs", lambda row: row["macs"], count),
            Column("predicted cycles", lambda row: row["cycles"], count),
            Column("counted", lambda row: row["counted"], count),
            Column(
                "utilisation",
                lambda row: row["macs"] / multipliers / row["counted"],
                "{:.3f}".format,
            ),
        ),
    )


def _streaming(row: dict[str, Any]) -> float | None:
    """Return the share of the layer's cycles in which a vector enters the array."""
    return max(0, min(1, row["streaming"])) if "streaming" in row else None


def _longest_wait(row: dict[str, Any]) -> str | None:
    """Return the cause of a layer's longest wait, with its share of the layer's cycles.

    Returns None if that is below 1 %.
    """
    waiting = min(1, row.get("waiting", 0))
    return f"{row['wait']}, {waiting:.0%}" if waiting >= 0.01 else None


BLOCKS = {
    "shapes": _shapes,
    "transformers": _transformers,
    "mlperf": _mlperf,
    "networks": lambda: _networks("reference"),
    **{f"networks {name}": lambda name=name: _networks(name) for name in PRESETS[1:]},
    "presets": _presets,
    "causes": _causes,
    "units": _units,
    "firmware": _firmware,
    "compile_time": _compile_time,
    "size": lambda: _sweep("size", "side of the matrices"),
    "bus": lambda: _sweep("bus", "bits of the bus"),
    "latency": lambda: _sweep("latency", "cycles of latency"),
    "array": lambda: _sweep("array", "rows and columns"),
    "memories": _memories,
    "tools": _tools,
    "exceptions": _exceptions,
}
