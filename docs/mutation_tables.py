"""Tables of mutants: of the hardware, of its netlist, of the scheduler."""

from collections import Counter
from typing import Any

from report_table import report, text_table

#: What looks at a program when it is compiled, and the verifier.
_CHECKS = ("meaning", "self-check", "hazards")


def _mutants() -> list[dict[str, Any]]:
    """Return the entries of the hardware's mutants in the report."""
    return list(report("mutants.json")["mutants"].values())


def _mutation_scores() -> str:
    """Return a table of each unit's mutation score: the share of its mutants that are noticed.

    Mutants that are equivalent to the original or not valid hardware do not count.
    """
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
    return text_table(["unit", *headings], rows)


def _mutation_survivors() -> str:
    """Return a table of the mutants that no test noticed, or "None."."""
    rows = [
        [
            f"`{item['unit']}.py`",
            f"{item['line']}",
            *(_code(item[key]) for key in ("before", "after")),
        ]
        for item in _mutants()
        if item["verdict"] == "survived"
    ]
    return text_table(["file", "line", "instead of", "the mutant has"], rows) if rows else "None.\n"


def _netlist_mutants() -> str:
    """Return a table of netlist mutants by unit and by the check that noticed them.

    Mutants that are equivalent to the original do not count in the score.
    """
    found = list(report("netlist_mutants.json")["mutants"].values())
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
    return text_table(["unit", *headings, "equivalent", "no difference", "score"], rows)


def _interval(noticed: int, total: int) -> tuple[float, float]:
    """Return the lower and upper end of the 95 % Wilson interval of ``noticed / total``."""
    z = 1.96
    middle = (noticed + z * z / 2) / (total + z * z)
    half = z / (total + z * z) * (noticed * (total - noticed) / total + z * z / 4) ** 0.5
    return middle - half, middle + half


def _compiler_mutants() -> list[dict[str, Any]]:
    """Return the entries of the compiler's mutants in the report."""
    return list(report("compiler_mutants.json")["mutants"])


def _compiler_checks() -> str:
    """Return a table of the scheduler's mutants by module: outcomes, and checks that noticed."""
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
    return text_table([*headings, *(f"by {name}" for name in _CHECKS), "by hazards alone"], rows)


def _found_in_use() -> str:
    """Return a table of mutants that restore former bugs, and what the checks report."""
    rows = [
        [f"`{item['function']}`", *(_code(item["caught"][name]) for name in _CHECKS[:2])]
        for item in _compiler_mutants()
        if item["rule"] == "as it was"
    ]
    return text_table(["function", *_CHECKS[:2]], rows)


def _right_programs() -> str:
    """Return a table of differences between programs, for mutants that all checks accept."""
    items = [item for item in _compiler_mutants() if item["outcome"] == "right"]
    count = Counter(item["difference"] for item in items)
    return text_table(
        ["they differ in", "mutants"], [[text, str(number)] for text, number in count.most_common()]
    )


def _code(text: str) -> str:
    """Return source text as Markdown code on one line, truncated if it is long."""
    line = " ".join(text.split()).replace("|", "\\|")
    return f"`{line if len(line) < 80 else line[:76] + ' ...'}`"


BLOCKS = {
    "mutants": _mutation_scores,
    "survivors": _mutation_survivors,
    "netlist mutants": _netlist_mutants,
    "compiler mutants": _compiler_checks,
    "found in use": _found_in_use,
    "right programs": _right_programs,
}
