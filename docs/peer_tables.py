"""Tables of Matloom beside other designs and their tools."""

from collections.abc import Iterable
from statistics import geometric_mean
from typing import Any

from report_table import Column, count, report, table
from speed_tables import bench


def _peers() -> str:
    """Return a table of published latencies on MLPerf Tiny, by system and network."""
    found = {row["name"]: row["peers"] for row in bench()["results"]}
    names = [name for name in ("ic", "kws", "vww", "ad") if name in found]
    columns = (Column(name, lambda whose, name=name: found[name].get(whose)) for name in names)
    every = dict.fromkeys(whose for name in names for whose in found[name])
    return table(every, (Column("latency, MLPerf Tiny", str), *columns))


def _scalesim() -> str:
    """Return a table of cycles on the chip and in the simulator SCALE-Sim, by network."""
    found = report("scalesim.json")
    cycles = {row["name"]: row["cycles"] for row in bench(found["config"])["results"]}
    kinds = {
        "ws": f"SCALE-Sim {found['scalesim']}, weight-stationary",
        "os": "output-stationary",
        "ws_prefetch": "weight-stationary with prefetch",
        "os_prefetch": "output-stationary with prefetch",
    }
    return table(
        found["results"].items(),
        (
            Column(f"cycles at `{found['config']}`", lambda row: row[0]),
            Column("Matloom, all included", lambda row: cycles.get(row[0]), count),
            *(
                Column(heading, lambda row, kind=kind: row[1][kind], count)
                for kind, heading in kinds.items()
            ),
        ),
    )


def times(operator: str, number: int) -> str:
    """Return the name of an operator, preceded by its number of occurrences unless that is 1."""
    return operator if number == 1 else f"{number} {operator}"


def _both_compilers() -> Iterable[dict[str, Any]]:
    """Yield Vela's rows of networks that have also run on the simulated chip, with both results."""
    found = report("vela.json")
    counted = {
        (row["collection"], row["name"]): row
        for row in report("wild.json")["results"]
        if row["preset"] == found["config"] and "cycles" in row
    }
    for row in found["results"]:
        own = counted.get((row["collection"], row["name"]))
        first = row[next(iter(found["systems"]))]
        if own is not None and first.get("estimated_cycles") is not None:
            estimates = [row[name].get("estimated_cycles") for name in found["systems"]]
            ratio = estimates[0] / own["cycles"]
            yield row | {"own": own, "first": first, "estimates": estimates, "ratio": ratio}


def _vela() -> str:
    """Return a table of Vela's estimated cycles, our counted ones, and both compile times."""
    found, rows = report("vela.json"), list(_both_compilers())
    ratios = [
        row["ratio"]
        for row in rows
        if not row["first"]["other_operators"]
        and row["own"]["host_operators"].keys() <= {"SOFTMAX"}
    ]
    seconds = zip(("`matloom compile`, s", "with its check, s"), range(2), strict=True)
    shown = table(
        rows,
        (
            Column("network", lambda row: row["name"]),
            Column("Ethos-U55-256, estimate", lambda row: row["estimates"][0], count),
            Column("Ethos-U85-256, estimate", lambda row: row["estimates"][1], count),
            Column(
                f"Matloom `{found['config']}`, counted", lambda row: row["own"]["cycles"], count
            ),
            Column("U55 / Matloom", lambda row: row["ratio"], "{:.2f}".format),
            Column(
                "operators Vela leaves out",
                lambda row: row["first"]["other_operators"] or None,
                count,
            ),
            Column(
                "operators of Matloom's host",
                lambda row: ", ".join(
                    times(*pair) for pair in row["own"]["host_operators"].items()
                ),
            ),
            Column("Vela, s", lambda row: row["first"]["seconds"], "{:.1f}".format),
            *(
                Column(
                    heading,
                    lambda row, at=at: list(row["matloom_seconds"].values())[at],
                    "{:.1f}".format,
                )
                for heading, at in seconds
            ),
        ),
    )
    mean = (
        f"Geometric mean of U55 / Matloom over the {len(ratios)} networks that run entirely on "
        f"both engines (Matloom may leave SOFTMAX to the host): {geometric_mean(ratios):.1f}. "
        f"Measured with Vela {found['vela']}."
    )
    return f"{shown}\n{mean}\n"


BLOCKS = {
    "peers": _peers,
    "scalesim": _scalesim,
    "vela": _vela,
}
