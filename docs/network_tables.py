"""Tables of whole networks: the collections, and what narrower numbers cost in accuracy."""

import functools
import operator
from collections import Counter
from statistics import geometric_mean
from typing import Any

from peer_tables import times
from report_table import Column, count, report, table

from matloom.arch.config import PRESETS

#: Networks of fewer multiply-accumulates are too small for means of utilisation.
_MANY_MACS = 1_000_000

#: The presets that networks exported from PyTorch were measured at.
_PRESETS = ("nano", "small", "reference")


def _host(row: dict[str, Any]) -> str:
    """Return the operators that a network runs on the host, with their numbers."""
    return ", ".join(times(*pair) for pair in row["host_operators"].items())


def _share(row: dict[str, Any]) -> float | None:
    """Return the share of a network's MACs that the engine computes; None if it has none."""
    return row["engine_macs"] / row["macs"] if row["macs"] else None


def _collection() -> str:
    """Return a table of the networks of the collection: where they run, cycles, and exactness."""
    found = report("networks.json")
    return table(
        found["results"],
        (
            Column(f"network, at `{found['config']}`", lambda row: row["name"]),
            Column("operators on the engine", lambda row: row["engine_operators"]),
            Column("on the host", _host),
            Column("MACs", lambda row: row["macs"], count),
            Column("on the engine", _share, "{:.0%}".format),
            Column("cycles", lambda row: row.get("cycles"), count),
            Column("utilisation", lambda row: row.get("utilisation") or None, "{:.3f}".format),
            Column("recorded outputs", _exactness),
        ),
    )


def _wild_rows() -> list[dict[str, Any]]:
    """Return the report's rows for the collection "wild" with cycles counted at `reference`."""
    size = PRESETS["reference"].rows * PRESETS["reference"].columns
    return [
        {**row, "utilisation": row["engine_macs"] / size / row["cycles"]}
        for row in report("wild.json")["results"]
        if row["collection"] == "wild" and row["preset"] == "reference" and row.get("engine_macs")
    ]


def _wild() -> str:
    """Return a table of the cycles of networks that nobody tuned, next to their rooflines."""
    rows = _wild_rows()
    large = [row for row in rows if row["macs"] > _MANY_MACS]
    utilisation = geometric_mean(row["utilisation"] for row in large)
    roofline = geometric_mean(_share_of_roofline(row) for row in large)
    columns = (
        Column("network, at `reference`", lambda row: row["name"]),
        Column("on the host", _host),
        Column("MACs", lambda row: row["macs"], count),
        Column("roofline", lambda row: row["roofline"], count),
        Column("predicted cycles", lambda row: row["predicted_cycles"], count),
        Column("counted", lambda row: row["cycles"], count),
        Column("utilisation", lambda row: row["utilisation"], "{:.3f}".format),
        Column("roofline / counted", _share_of_roofline, "{:.3f}".format),
    )
    return (
        f"{table(rows, columns)}\n\nGeometric means of the {len(large)} networks of more than a "
        f"million MACs: utilisation {utilisation:.3f}, roofline over counted cycles {roofline:.3f}."
    )


def _share_of_roofline(row: dict[str, Any]) -> float:
    """Return a network's roofline cycles divided by its counted cycles."""
    return row["roofline"] / row["cycles"]


def _exactness(row: dict[str, Any]) -> str:
    """Return how many samples were compared, how well they agree, and with which interpreter."""
    whose = "TFLM" if row["expected"] == "out0_tflm" else "LiteRT"
    kinds = ("difference", "labelled_difference", "chip_difference")
    worst = max(row.get(kind, 0.0) for kind in kinds)
    verdict = "equal" if worst == 0 else f"within {worst:.0e}"
    return f"{row['samples'] + row.get('labelled', 0)} {verdict} ({whose})"


def _collapse() -> str:
    """Return a table of the accuracy of a MobileNet whose int8 version may collapse."""
    found = report("collapse.json")["rows"].items()
    return table(
        found,
        (
            Column("scales and options", lambda row: row[0]),
            Column("accuracy", lambda row: row[1]["accuracy"], "{:.1%}".format),
            Column("of the float network", lambda row: row[1]["float"], "{:.1%}".format),
            Column("agreement", lambda row: row[1]["agreement"], "{:.1%}".format),
            Column("SQNR, dB", lambda row: row[1]["sqnr_db"], "{:.1f}".format),
        ),
    )


#: Of ONNX's tests, what the report's names of places mean.
_PLACES = {
    "engine": "on the engine",
    "engine and onnxruntime": "on the engine, in part on ONNX Runtime",
    "host": "on kernels of the host",
    "onnx": "on ONNX's reference implementation",
    "onnx and onnxruntime": "on ONNX Runtime and ONNX's reference implementation",
    "onnxruntime": "on ONNX Runtime",
}


def _onnx_nodes() -> str:
    """Return a table of ONNX's own tests by outcome, for operators and for whole models."""
    found = report("onnx_nodes.json")
    sides = [_onnx_counts(found), _onnx_counts(found["models"])]
    rows = [(name, *(side.get(name, 0) for side in sides)) for name in {**sides[0], **sides[1]}]
    return table(
        rows,
        (
            Column(f"onnx {found['onnx']}, onnxruntime {found['onnxruntime']}", lambda row: row[0]),
            Column("tests of operators", lambda row: row[1], count),
            Column("models in files", lambda row: row[2], count),
        ),
    )


def _onnx_counts(results: dict[str, Any]) -> dict[str, int]:
    """Return numbers of ONNX's tests, by where they run or why they are refused."""
    refused = Counter(_refusal(line) for line in results["refused"].values())
    run = {f"run {_PLACES[place]}": number for place, number in results["run"].items()}
    others = results["compared_with_onnx"]
    return {
        "all": results["tests"],
        **run,
        "compared with ONNX Runtime": sum(results["run"].values()) - others,
        "of these, different": len(results["differ"]),
        "compared with ONNX's own outputs": others,
        "of these, different beyond its tolerance": len(results["differ_from_onnx"]),
        **{f"refused: {reason}": number for reason, number in refused.most_common()},
    }


def _exported_table() -> str:
    """Return a table of the errors in floating point of networks exported by PyTorch."""
    found = report("exported.json")
    return table(
        found["rows"].items(),
        (
            Column(f"network (torch {found['torch']})", lambda item: item[0]),
            Column("program: error", lambda item: item[1]["error"], "{:.1g}".format),
            Column("file: error", lambda item: item[1]["file_error"], "{:.1g}".format),
        ),
    )


def _exported_quantised() -> str:
    """Return a table of exported networks' outputs that equal ONNX Runtime's, by file form."""
    found = report("exported.json")

    def presets(row: dict[str, Any], *path: str) -> list[dict[str, Any]]:
        """Return the value at a path in each preset's measurements."""
        return [functools.reduce(operator.getitem, path, row[name]) for name in _PRESETS]

    def total(rows: list[dict[str, Any]], key: str) -> int:
        """Return the sum of an entry over some rows."""
        return sum(row[key] for row in rows)

    def equal(row: dict[str, Any], *path: str) -> str:
        """Return the numbers of equal outputs on the model and on the chip, for all presets."""
        devices = [presets(row, *path, device) for device in ("model", "rtl")]
        return ", ".join(f"{total(each, 'equal')} of {total(each, 'samples')}" for each in devices)

    def shares(row: dict[str, Any]) -> str:
        """Return the share of MACs on the engine in either form of a quantised file."""
        forms = [presets(row, form, "exact") for form in ("QDQ", "QOperator")]
        return " / ".join(
            f"{total(form, 'engine_macs') / total(form, 'macs'):.0%}" for form in forms
        )

    return table(
        found["rows"].items(),
        (
            Column(f"onnxruntime {found['onnxruntime']}", lambda item: item[0]),
            Column("float", lambda item: equal(item[1], "float")),
            Column("QDQ", lambda item: equal(item[1], "QDQ", "default")),
            Column("QOperator", lambda item: equal(item[1], "QOperator", "default")),
            Column("QDQ, exact", lambda item: equal(item[1], "QDQ", "exact")),
            Column("QOperator, exact", lambda item: equal(item[1], "QOperator", "exact")),
            Column("exact: MACs on the engine", lambda item: shares(item[1])),
        ),
    )


def _onnx_networks() -> str:
    """Return a table of ONNX networks: layers on the engine, channels proven equal, outputs."""
    found = report("onnx_networks.json")
    runs = found["runs"]
    rows = [
        (name, row["default"], row["exact"])
        for name, row in sorted(runs["nano model"].items(), key=_by_collection)
    ]

    def share(row: dict[str, Any]) -> str:
        """Return the share of a network's MACs that the engine computes, as a percentage."""
        return f"{row['engine_macs'] / row['macs']:.0%}" if row["macs"] else "unknown"

    def equal(row: dict[str, Any]) -> str:
        """Return the number of equal outputs, and the largest error of the others."""
        off = f", others within {row['largest']:.0e}" if row["largest"] else ""
        return f"{row['equal']} of {row['samples']}{off}"

    return table(
        rows,
        (
            Column("network", lambda row: f"`{row[0].rpartition('/')[2]}`"),
            Column("MACs on the engine", lambda row: share(row[1])),
            Column("layers there", lambda row: row[1]["layers"], count),
            Column("of these proven", lambda row: row[1]["proven"], count),
            Column("channels", lambda row: row[1]["channels"], count),
            Column("repaired", lambda row: row[1]["repaired"], count),
            Column("can differ", lambda row: row[1]["can_differ"], count),
            Column("exact: channels apart", lambda row: row[2].get("apart", 0), count),
            Column("transposes", lambda row: row[1]["transposes"], count),
            Column("outputs equal", lambda row: equal(row[1])),
            Column("exact: MACs on the engine", lambda row: share(row[2])),
            Column("exact: outputs equal", lambda row: equal(row[2])),
        ),
    )


def _by_collection(item: tuple[str, dict[str, Any]]) -> tuple[bool, str]:
    """Return a sort key: whether a network runs on the engine, then its name."""
    name, row = item
    return bool(row["default"]["engine_macs"]), name


def _onnx_runs() -> str:
    """Return a table of how many outputs equal ONNX Runtime's, by configuration and device."""
    runs = report("onnx_networks.json")["runs"]

    def counts(rows: dict[str, Any], kind: str, quantised: bool) -> str:
        """Return the number of equal outputs in a mode, over quantised networks or the others."""
        found = [row[kind] for row in rows.values() if bool(row["default"]["layers"]) == quantised]
        equal, samples = (sum(each[name] for each in found) for name in ("equal", "samples"))
        off = max(each["largest"] for each in found)
        return f"{equal:,} of {samples:,}" + (f", others within {off:.0e}" if off else "")

    return table(
        runs.items(),
        (
            Column("configuration, device", lambda item: f"`{item[0]}`"),
            Column("inputs of a network", lambda item: _samples(item[1]), count),
            Column("no layer on the engine: equal", lambda item: counts(item[1], "exact", False)),
            Column("layers on the engine: equal", lambda item: counts(item[1], "default", True)),
            Column("exact: equal", lambda item: counts(item[1], "exact", True)),
        ),
    )


def _samples(rows: dict[str, Any]) -> int:
    """Return the smallest number of samples that any network was run on."""
    return min(int(row["exact"]["samples"]) for row in rows.values())


def _refusal(sentence: str) -> str:
    """Return the category of an error message that refuses a test; else the message itself."""
    kinds = {
        "onnx refuses": "neither ONNX Runtime nor ONNX's reference implementation has it",
        "which NumPy does not have": "a type that NumPy does not have",
        "of a type that NumPy": "a type that NumPy does not have",
        "must be a tensor": "a sequence or an optional value",
        "inputs and outputs": "no inputs",
        "ONNX Runtime refuses the network": "an output that is a sequence, or fails",
        "failed in onnx": "the interpreter fails on the inputs",
    }
    return next((kind for part, kind in kinds.items() if part in sentence), sentence)


def _floats() -> str:
    """Return a table of the accuracy of float networks in each precision."""
    return table(
        report("precision.json")["float"]["results"],
        (
            Column("network", lambda row: f"`{row['network'].rpartition('/')[2]}`"),
            Column("precision", lambda row: row["precision"]),
            Column("layers on the engine", lambda row: row["engine_layers"], count),
            Column("samples", lambda row: row["samples"], count),
            Column("accuracy", lambda row: row["accuracy"], "{:.3f}".format),
            Column("largest difference", lambda row: row["largest_deviation"], "{:.1g}".format),
            Column("mean", lambda row: row["mean_deviation"], "{:.1g}".format),
        ),
    )


def _layers_left(row: dict[str, Any]) -> str:
    """Return the numbers of first and last layers that stay in int8."""
    first, last = row["left_in_int8"]
    return f"first {first}, last {last}" if first else "none"


def _four_bits() -> str:
    """Return a table of accuracy and cycles with weights of 4 bits, against int8."""
    return table(
        report("precision.json")["i8xi4"]["results"],
        (
            Column("network", lambda row: f"`{row['network']}`"),
            *(
                Column("left in int8", _layers_left),
                Column("samples", lambda row: row["samples"], count),
            ),
            Column("accuracy in int8", lambda row: row["accuracy_before"], "{:.3f}".format),
            Column("in `i8xi4`", lambda row: row["accuracy_after"], "{:.3f}".format),
            Column("same result", lambda row: row["agreement"], "{:.1%}".format),
            Column("largest difference", lambda row: row["largest_deviation"], "{:.2g}".format),
            Column("mean", lambda row: row["mean_deviation"], "{:.2g}".format),
            Column("cycles in int8", lambda row: row["cycles_before"], count),
            Column("in `i8xi4`", lambda row: row["cycles_after"], count),
        ),
    )


#: Rows of the table of quantisers, of those that were measured.
_QUANTISERS = (
    *("published int8", "ai-edge-quantizer", "onnxruntime, MinMax", "onnxruntime, Entropy"),
    *(
        "onnxruntime, Percentile",
        "matloom",
        "matloom, equalised",
        "matloom, not equalised",
        "matloom, i8xi4",
    ),
    "matloom, points=0.5",
)


def _quantisers() -> str:
    """Return a table of the accuracy of networks from Matloom's and other quantisers."""
    found = report("quantise.json")

    def interval(row: dict[str, Any]) -> str | None:
        """Return the agreement with the float network and its confidence interval, or None."""
        if "agreement" not in row:
            return None
        low, high = row["interval"]
        return f"{row['agreement']:.1%} ({100 * low:.1f} to {100 * high:.1f})"

    def decibels(name: str) -> Column:
        """Return a column that shows a signal-to-noise ratio in dB, the entry `name`."""
        heading = {"sqnr_db": "SQNR of outputs, dB", "mean_sqnr_db": "of layers"}[name]
        return Column(heading, lambda row: row[2].get(name), "{:.1f}".format)

    return table(
        [(net, way, found[net][way]) for net in found for way in _QUANTISERS if way in found[net]],
        (
            Column("network", lambda row: row[0]),
            Column("quantiser", lambda row: row[1]),
            Column("agreement", lambda row: interval(row[2])),
            Column("on views", lambda row: row[2].get("views"), "{:.1%}".format),
            Column("accuracy", lambda row: row[2].get("accuracy"), "{:.1%}".format),
            Column("on views", lambda row: row[2].get("views_accuracy"), "{:.1%}".format),
            Column("p", lambda row: row[2].get("mcnemar"), "{:.2f}".format),
            Column("AUC", lambda row: row[2].get("auc"), "{:.3f}".format),
            *(decibels("sqnr_db"), decibels("mean_sqnr_db")),
            Column("cycles", lambda row: row[2].get("cycles"), count),
            Column("counted", lambda row: row[2].get("counted"), count),
        ),
    )


BLOCKS = {
    "collapse": _collapse,
    "collection": _collection,
    "wild": _wild,
    "floats": _floats,
    "four bits": _four_bits,
    "exported": _exported_table,
    "exported quantised": _exported_quantised,
    "quantisers": _quantisers,
    "onnx networks": _onnx_networks,
    "onnx runs": _onnx_runs,
    "onnx nodes": _onnx_nodes,
}
