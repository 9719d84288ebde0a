"""Fills the tables of README.md and of the pages here from the reports: python docs/tables.py."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import chip_tables
import coverage_tables
import proofs

import walkthrough
from matloom.arch.csr import EXEC_CAUSES

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = (
    ROOT / "README.md",
    ROOT / "bitstreams" / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            *("how-a-conv2d-becomes-instructions", "numerics", "performance", "networks"),
            "verification",
            "firmware",
            "boards",
        )
    ),
)
PRESETS = ("reference", "medium", "small", "nano")

#: What looks at a program when it is compiled, and the verifier.
_CHECKS = ("meaning", "self-check", "hazards")

CAUSES = [name.removeprefix("exec_") for name, _doc in EXEC_CAUSES]


def _marked(text: str, name: str, table: str) -> str:
    """Return the text with the table between a name's markers, where it has them."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    if begin not in text:
        return text
    head, rest = text.split(begin)
    _old, tail = rest.split(end)
    return f"{head}{begin}{table}{end}{tail}"


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table: its first column to the left, the others to the right."""
    headings = list(headings)
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _bench(preset: str) -> dict[str, Any]:
    path = RESULTS / f"bench_{preset}.json"
    return json.loads(path.read_text()) if path.is_file() else {"results": []}


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _share(count: int | None, whole: int) -> str:
    return "" if count is None else f"{count / whole:.1%}"


def _networks(preset: str = "reference") -> str:
    report = _bench(preset)
    if not report["results"]:
        return f"No report of `{preset}` is committed yet.\n"
    rows, columns = report["array"]
    return _table(
        [
            f"at `{preset}` ({rows}x{columns})",
            *("MACs", "cycles", "target", "utilisation", "predicted"),
        ],
        (
            [
                item["name"],
                *(_count(item[key]) for key in ("macs", "cycles", "target")),
                f"{item['utilisation']:.3f}",
                f"{item['predicted_cycles'] / item['cycles'] - 1:+.1%}",
            ]
            for item in report["results"]
        ),
    )


def _causes() -> str:
    return _table(
        [f"at `{PRESETS[0]}`", *(cause.replace("_", " ") for cause in CAUSES)],
        (
            [
                item["name"],
                *(
                    _share(item["counters"].get(f"exec_{cause}"), item["cycles"])
                    for cause in CAUSES
                ),
            ]
            for item in _bench(PRESETS[0])["results"]
        ),
    )


def _units() -> str:
    units = ("load_busy", "post_busy", "store_busy")
    rows = (
        [
            item["name"],
            *(f"{item['counters'][unit] / item['cycles']:.1%}" for unit in units),
            *(_count(item[key]) for key in ("bytes_read", "bytes_written")),
            *(_count(item["counters"][key]) for key in ("read_bursts", "write_bursts")),
        ]
        for item in _bench(PRESETS[0])["results"]
    )
    headings = ("LOAD", "POST", "STORE", "bytes read", "written", "read bursts", "write bursts")
    return _table([f"at `{PRESETS[0]}`", *headings], rows)


def _presets() -> str:
    found = {preset: _bench(preset)["results"] for preset in PRESETS}
    used = {
        preset: {item["name"]: item["utilisation"] for item in results}
        for preset, results in found.items()
    }
    return _table(
        ["utilisation", *(f"`{preset}`" for preset in PRESETS)],
        (
            [name, *(f"{used[preset][name]:.3f}" if used[preset] else "" for preset in PRESETS)]
            for name in used[PRESETS[0]]
        ),
    )


def _peers() -> str:
    found = {item["name"]: item["peers"] for item in _bench(PRESETS[0])["results"]}
    names = [name for name in ("ic", "kws", "vww", "ad") if name in found]
    peers = dict.fromkeys(whose for name in names for whose in found[name])
    rows = ([whose, *(found[name].get(whose, "") for name in names)] for whose in peers)
    return _table(["latency, MLPerf Tiny", *names], rows)


def _scalesim() -> str:
    path = RESULTS / "scalesim.json"
    if not path.is_file():
        return "No report of SCALE-Sim is committed yet.\n"
    report = json.loads(path.read_text())
    cycles = {item["name"]: item["cycles"] for item in _bench(report["config"])["results"]}
    kinds = ("ws", "os", "ws_prefetch", "os_prefetch")
    return _table(
        [
            f"cycles at `{report['config']}`",
            "Matloom, all included",
            f"SCALE-Sim {report['scalesim']}, weight-stationary",
            "output-stationary",
            "weight-stationary with prefetch",
            "output-stationary with prefetch",
        ],
        (
            [name, _count(cycles.get(name)), *(_count(totals[kind]) for kind in kinds)]
            for name, totals in report["results"].items()
        ),
    )


def _counted(preset: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the networks whose cycles the chip counted at a preset."""
    path = RESULTS / "wild.json"
    items = json.loads(path.read_text())["results"] if path.is_file() else []
    return {
        (item["collection"], item["name"]): item
        for item in items
        if item["preset"] == preset and "cycles" in item
    }


def _firmware() -> str:
    found = json.loads((RESULTS / "firmware.json").read_text())
    return _table(
        ["processor, network", "code", "constants"],
        [
            [name, _count(sizes["code"]), _count(sizes["constants"])]
            for name, sizes in found.items()
        ],
    )


def _vela() -> str:
    """Return Vela's estimates next to counted cycles, and the seconds of both compilers."""
    path = RESULTS / "vela.json"
    if not path.is_file():
        return "No report of Vela is committed yet.\n"
    report = json.loads(path.read_text())
    counted = _counted(report["config"])
    rows, ratios = [], []
    for item in report["results"]:
        own = counted.get((item["collection"], item["name"]))
        systems = [item[name] for name in report["systems"]]
        estimates = [system.get("estimated_cycles") for system in systems]
        if estimates[0] is None or own is None:
            continue
        left, ratio = systems[0]["other_operators"], estimates[0] / own["cycles"]
        if not left and own["host_operators"].keys() <= {"SOFTMAX"}:
            ratios.append(ratio)
        rows.append(
            [
                item["name"],
                *map(_count, (*estimates, own["cycles"])),
                f"{ratio:.2f}",
                _count(left or None),
                ", ".join(_times(*pair) for pair in own["host_operators"].items()),
                f"{systems[0]['seconds']:.1f}",
                *(f"{seconds:.1f}" for seconds in item["matloom_seconds"].values()),
            ]
        )
    headings = [
        *("Ethos-U55-256, estimate", "Ethos-U85-256, estimate"),
        *(f"Matloom `{report['config']}`, counted", "U55 / Matloom"),
        *("operators Vela leaves out", "operators of Matloom's host"),
        *("Vela, s", "`matloom compile`, s", "with its check, s"),
    ]
    return (
        f"{_table(['network', *headings], rows)}\n"
        f"Geometric mean of U55 / Matloom over the {len(ratios)} networks that run wholly on both "
        f"engines, Matloom's but for a SOFTMAX: {geometric_mean(ratios):.1f}. "
        f"By Vela {report['vela']}.\n"
    )


def _sweep(sweep: str, heading: str) -> str:
    path = RESULTS / "sweeps.json"
    points = json.loads(path.read_text())["points"] if path.is_file() else []
    points = [item for item in points if item["sweep"] == sweep]
    values = sorted({item["value"] for item in points})
    rows = []
    for name in dict.fromkeys(item["name"] for item in points):
        known = {item["value"]: item for item in points if item["name"] == name}
        for label, key in ((name, "cycles"), (f"{name}, roofline", "bound")):
            rows.append([label, *(_count(known.get(value, {}).get(key)) for value in values)])
    return _table([heading, *(f"{value:,}" for value in values)], rows)


def _memories() -> str:
    """Return cycles by bytes a cycle at two latencies, and the greatest error of a prediction."""
    path = RESULTS / "memories.json"
    kept = json.loads(path.read_text())["results"] if path.is_file() else []
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for item in kept:
        groups.setdefault((item["config"], item["network"], item["call"]), []).append(item)
    rows = []
    for key, items in groups.items():
        cycles = {(item["bytes_a_cycle"], item["read_latency"]): item["cycles"] for item in items}
        worst = max(items, key=lambda item: abs(item["predicted_cycles"] / item["cycles"] - 1))
        error = worst["predicted_cycles"] / worst["cycles"] - 1
        where = f"{worst['bytes_a_cycle']} B, {worst['read_latency']}"
        counts = [_count(cycles.get((rate, 32))) for rate in (8, 4, 2, 1)]
        slow = [_count(cycles.get((rate, 128))) for rate in (8, 4)]
        rows.append([", ".join(key), *counts, *slow, f"{error:+.1%} ({where})"])
    headings = [f"{rate} B" for rate in (8, 4, 2, 1)] + [f"{rate} B, 128" for rate in (8, 4)]
    text = _table(["configuration, network, call", *headings, "greatest error"], rows)
    near = sum(
        abs(item["predicted_cycles"] - item["cycles"]) <= max(50, 0.05 * item["cycles"])
        for item in kept
    )
    return f"{text}\n{near} of {len(kept)} predictions are within 5 % or 50 cycles.\n"


def _compile_time() -> str:
    """Return the seconds that the family of networks takes to compile."""
    points = json.loads((RESULTS / "compile_time.json").read_text())["points"]
    rows = [
        (
            item["preset"],
            str(item["layers"]),
            f"{item['size']}x{item['size']}",
            *(
                ("not done",) * 4
                if item["seconds"] is None
                else (
                    f"{item['instructions']:,}",
                    f"{item['seconds']:.1f}",
                    f"{item['checked_seconds']:.1f}",
                    f"{1000 * item['seconds'] / item['instructions']:.2f}",
                )
            ),
        )
        for item in points
    ]
    headings = ("preset", "convolutions", "input", "instructions", "s", "with checks, s")
    return _table((*headings, "ms an instruction"), rows)


def _tools() -> str:
    names = ("ic", "matmul 512")
    report = _bench(PRESETS[0])
    rows = [
        [
            item["name"],
            f"{item['simulated_kilocycles_per_second']:,.0f}",
            *(f"{item[key]:.3f}" for key in ("simulation_seconds", "model_seconds")),
            f"{item['compile_seconds']:.3f}",
        ]
        for item in report["results"]
        if item["name"] in names
    ]
    headings = ("thousand cycles/s in Verilator", "simulation, s", "functional model, s")
    text = _table([f"at `{PRESETS[0]}`", *headings, "compilation, s"], rows)
    return f"{text}\n`import matloom` takes {report['import_seconds']} s, interpreter included.\n"


def _exceptions() -> str:
    lines = [
        f"- {item['name']} at `{preset}` ({item['prediction_error']:+.1%}): {item['exception']}\n"
        for preset in PRESETS
        for item in _bench(preset)["results"]
        if item.get("exception")
    ]
    return "".join(lines) or "No prediction is exempt.\n"


def _collection() -> str:
    path = RESULTS / "networks.json"
    if not path.is_file():
        return "No report of the collection is committed yet.\n"
    report = json.loads(path.read_text())
    headings = (
        *("operators on the engine", "on the host", "MACs", "on the engine", "cycles"),
        *("utilisation", "recorded outputs"),
    )
    rows = (
        [
            item["name"],
            str(item["engine_operators"]),
            ", ".join(_times(*pair) for pair in item["host_operators"].items()),
            _count(item["macs"]),
            f"{item['engine_macs'] / item['macs']:.0%}" if item["macs"] else "",
            _count(item.get("cycles")),
            f"{item['utilisation']:.3f}" if item.get("utilisation") else "",
            _exactness(item),
        ]
        for item in report["results"]
    )
    return _table([f"network, at `{report['config']}`", *headings], rows)


def _wild() -> str:
    """Return both collections at three presets: a row for each network and preset."""
    path = RESULTS / "wild.json"
    if not path.is_file():
        return "No report of the wild collection is committed yet.\n"
    headings = ("at", "on the engine", "on the host", "cycles", "seconds to compile", "outputs")
    rows = (
        [
            item["name"],
            f"`{item['preset']}`",
            _count(item.get("engine_operators")),
            _count(sum(item.get("host_operators", {}).values()) or None),
            _cycles(item),
            _seconds(item),
            _equality(item),
        ]
        for item in json.loads(path.read_text())["results"]
    )
    return _table(["network", *headings], rows)


def _cycles(item: dict[str, Any]) -> str:
    """Return the cycles of the chip's counters where it ran, else those that are predicted."""
    if "cycles" in item:
        return f"{item['cycles']:,} (counters)"
    predicted = item.get("predicted_cycles")
    return f"{predicted:,} (predicted)" if predicted else ""


def _seconds(item: dict[str, Any]) -> str:
    seconds = item["compile_seconds"]
    return f"more than {item['limit_seconds']:.0f}" if seconds is None else f"{seconds:.1f}"


def _equality(item: dict[str, Any]) -> str:
    if "exact" not in item:
        return "not run"
    whose = "TFLM" if item["expected"] == "tflm" else "LiteRT"
    verdict = "equal" if item["exact"] and item.get("exact_on_chip", True) else "different"
    return f"{item['samples']} {verdict} ({whose})"


def _times(operator: str, count: int) -> str:
    return operator if count == 1 else f"{count} {operator}"


def _exactness(item: dict[str, Any]) -> str:
    whose = "TFLM" if item["expected"] == "out0_tflm" else "LiteRT"
    kinds = ("difference", "labelled_difference", "chip_difference")
    worst = max(item.get(kind, 0.0) for kind in kinds)
    verdict = "equal" if worst == 0 else f"within {worst:.0e}"
    return f"{item['samples'] + item.get('labelled', 0)} {verdict} ({whose})"


def _floats() -> str:
    results = json.loads((RESULTS / "precision.json").read_text())["float"]["results"]
    rows = [
        [
            f"`{item['network'].rpartition('/')[2]}`",
            item["precision"],
            _count(item["engine_layers"]),
            _count(item["samples"]),
            f"{item['accuracy']:.3f}",
            *(f"{item[key]:.1g}" for key in ("largest_deviation", "mean_deviation")),
        ]
        for item in results
    ]
    headings = ("precision", "layers on the engine", "samples", "accuracy")
    return _table(["network", *headings, "largest difference", "mean"], rows)


def _four_bits() -> str:
    results = json.loads((RESULTS / "precision.json").read_text())["i8xi4"]["results"]
    rows = []
    for item in results:
        first, last = item["left_in_int8"]
        left = f"first {first}, last {last}" if first else "none"
        rows.append(
            [
                f"`{item['network']}`",
                left,
                _count(item["samples"]),
                *(f"{item[f'accuracy_{when}']:.3f}" for when in ("before", "after")),
                f"{item['agreement']:.1%}",
                *(f"{item[key]:.2g}" for key in ("largest_deviation", "mean_deviation")),
                *(_count(item[f"cycles_{when}"]) for when in ("before", "after")),
            ]
        )
    headings = (
        *("left in int8", "samples", "accuracy in int8", "in `i8xi4`", "same result"),
        *("largest difference", "mean", "cycles in int8", "in `i8xi4`"),
    )
    return _table(["network", *headings], rows)


def _mutants() -> list[dict[str, Any]]:
    path = RESULTS / "mutants.json"
    return list(json.loads(path.read_text())["mutants"].values()) if path.is_file() else []


def _mutation_scores() -> str:
    """Return the score of each unit; what is the same hardware, or none, does not count."""
    found = _mutants()
    rows = []
    for unit in [*dict.fromkeys(item["unit"] for item in found), "all"]:
        counts = Counter(
            "streams" if item["verdict"] == "killed" and "streams" in item else item["verdict"]
            for item in found
            if unit in (item["unit"], "all")
        )
        noticed = counts["killed"] + counts["timeout"] + counts["streams"]
        whole = noticed + counts["survived"]
        tests = counts["killed"] + counts["timeout"]
        numbers = (whole, tests, counts["streams"], counts["survived"], counts["equivalent"])
        rows.append([f"`{unit}`", *map(str, numbers), f"{noticed / whole:.0%}" if whole else ""])
    headings = ("mutants", "noticed by tests", "by streams", "by nothing", "equivalent", "score")
    return _table(["unit", *headings], rows)


def _mutation_survivors() -> str:
    rows = [
        [
            f"`{item['unit']}.py`",
            f"{item['line']}",
            *(_code(item[key]) for key in ("before", "after")),
        ]
        for item in _mutants()
        if item["verdict"] == "survived"
    ]
    return _table(["file", "line", "instead of", "the mutant has"], rows) if rows else "None.\n"


def _netlist_mutants() -> str:
    """Return by unit what notices mutants of the netlist; those without effect do not count."""
    path = RESULTS / "netlist_mutants.json"
    found = list(json.loads(path.read_text())["mutants"].values()) if path.is_file() else []
    kinds = ("streams", "more streams", "proofs", "nothing", "equivalent", "no difference")
    rows = []
    for unit in [*sorted({item["unit"] for item in found}), "all"]:
        counts = Counter(item["verdict"] for item in found if unit in (item["unit"], "all"))
        noticed = sum(counts[kind] for kind in kinds[:3])
        whole = noticed + counts["nothing"]
        score = f"{noticed / whole:.0%}" if whole else ""
        if unit == "all" and whole:
            score += " ({:.0%} to {:.0%})".format(*_interval(noticed, whole))
        rows.append([f"`{unit}`", str(whole), *(str(counts[kind]) for kind in kinds), score])
    headings = ("mutants", "by 20 streams", "by 160 more", "by proofs", "by nothing")
    return _table(["unit", *headings, "equivalent", "no difference", "score"], rows)


def _interval(found: int, of: int) -> tuple[float, float]:
    """Return Wilson's interval of a share, at 95 %."""
    z = 1.96
    middle = (found + z * z / 2) / (of + z * z)
    half = z / (of + z * z) * (found * (of - found) / of + z * z / 4) ** 0.5
    return middle - half, middle + half


def _compiler_mutants() -> list[dict[str, Any]]:
    path = RESULTS / "compiler_mutants.json"
    return list(json.loads(path.read_text())["mutants"]) if path.is_file() else []


def _compiler_checks() -> str:
    """Return by module what notices the scheduler's mutants that make other programs."""
    found = _compiler_mutants()
    rows = []
    for module in [*dict.fromkeys(item["module"] for item in found), "all"]:
        items = [item for item in found if module in (item["module"], "all")]
        wrong = [item for item in items if item["outcome"] == "caught"]
        by = [sum(bool(item["caught"][name]) for item in wrong) for name in _CHECKS]
        alone = sum(
            list(map(bool, item["caught"].values())) == [False, False, True] for item in wrong
        )
        others = Counter(item["outcome"] for item in items)
        counts = (len(items), others["unchanged"], others["refused"], others["right"], len(wrong))
        rows.append([f"`{module.removeprefix('matloom.')}`", *map(str, (*counts, *by, alone))])
    headings = ("module", "mutants", "same programs", "compiler stops", "right", "wrong")
    return _table([*headings, *(f"by {name}" for name in _CHECKS), "by hazards alone"], rows)


def _found_in_use() -> str:
    """Return the mutants that were defects once, and what each check says of them."""
    rows = [
        [f"`{item['function']}`", *(_code(item["caught"][name]) for name in _CHECKS[:2])]
        for item in _compiler_mutants()
        if item["rule"] == "as it was"
    ]
    return _table(["function", *_CHECKS[:2]], rows)


def _right_programs() -> str:
    """Return how the programs of mutants differ that every check finds right."""
    items = [item for item in _compiler_mutants() if item["outcome"] == "right"]
    count = Counter(item["difference"] for item in items)
    return _table(
        ["they differ in", "mutants"], [[text, str(number)] for text, number in count.most_common()]
    )


def _code(text: str) -> str:
    """Return source text on one line of a table, cut where it is long."""
    line = " ".join(text.split()).replace("|", "\\|")
    return f"`{line if len(line) < 80 else line[:76] + ' ...'}`"


TABLES: dict[str, Callable[[], str]] = {
    "networks": _networks,
    "floats": _floats,
    "four bits": _four_bits,
    "networks medium": lambda: _networks("medium"),
    "networks small": lambda: _networks("small"),
    "networks nano": lambda: _networks("nano"),
    "presets": _presets,
    "causes": _causes,
    "units": _units,
    "peers": _peers,
    "scalesim": _scalesim,
    "vela": _vela,
    "firmware": _firmware,
    "compile_time": _compile_time,
    "size": lambda: _sweep("size", "side of the matrices"),
    "bus": lambda: _sweep("bus", "bits of the bus"),
    "latency": lambda: _sweep("latency", "cycles of latency"),
    "array": lambda: _sweep("array", "rows and columns"),
    "memories": _memories,
    "tools": _tools,
    "exceptions": _exceptions,
    "collection": _collection,
    "wild": _wild,
    "mutants": _mutation_scores,
    "survivors": _mutation_survivors,
    "netlist mutants": _netlist_mutants,
    "compiler mutants": _compiler_checks,
    "found in use": _found_in_use,
    "right programs": _right_programs,
    **chip_tables.BLOCKS,
    **coverage_tables.BLOCKS,
    **proofs.BLOCKS,
    **walkthrough.BLOCKS,
}


def filled(text: str) -> str:
    """Return a page's text with fresh tables."""
    for name, make in TABLES.items():
        if f"<!-- {name}: begin -->" in text:
            text = _marked(text, name, make())
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text()))
