"""Tables of whole networks: the collections, and what narrower numbers cost in accuracy."""

from typing import Any

from peer_tables import times
from report_table import Column, count, report, table


def _host(row: dict[str, Any]) -> str:
    return ", ".join(times(*pair) for pair in row["host_operators"].items())


def _share(row: dict[str, Any]) -> float | None:
    return row["engine_macs"] / row["macs"] if row["macs"] else None


def _collection() -> str:
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


def _exactness(row: dict[str, Any]) -> str:
    whose = "TFLM" if row["expected"] == "out0_tflm" else "LiteRT"
    kinds = ("difference", "labelled_difference", "chip_difference")
    worst = max(row.get(kind, 0.0) for kind in kinds)
    verdict = "equal" if worst == 0 else f"within {worst:.0e}"
    return f"{row['samples'] + row.get('labelled', 0)} {verdict} ({whose})"


def _floats() -> str:
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


def _left(row: dict[str, Any]) -> str:
    first, last = row["left_in_int8"]
    return f"first {first}, last {last}" if first else "none"


def _four_bits() -> str:
    return table(
        report("precision.json")["i8xi4"]["results"],
        (
            Column("network", lambda row: f"`{row['network']}`"),
            *(Column("left in int8", _left), Column("samples", lambda row: row["samples"], count)),
            Column("accuracy in int8", lambda row: row["accuracy_before"], "{:.3f}".format),
            Column("in `i8xi4`", lambda row: row["accuracy_after"], "{:.3f}".format),
            Column("same result", lambda row: row["agreement"], "{:.1%}".format),
            Column("largest difference", lambda row: row["largest_deviation"], "{:.2g}".format),
            Column("mean", lambda row: row["mean_deviation"], "{:.2g}".format),
            Column("cycles in int8", lambda row: row["cycles_before"], count),
            Column("in `i8xi4`", lambda row: row["cycles_after"], count),
        ),
    )


BLOCKS = {
    "collection": _collection,
    "floats": _floats,
    "four bits": _four_bits,
}
