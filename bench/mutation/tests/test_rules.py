"""Rules: their results on small texts; mutants of the hardware parse and have unique names."""

import ast
import json
from collections import Counter

import pytest

from mutation import units
from mutation.campaign import EQUIVALENT, score
from mutation.rules import mutants_of
from mutation.units import FLOOR, ROOT, UNITS, candidates, shares


def test_tests_that_the_report_names_exist():
    """A verdict must not rest on a test that was renamed, or never committed."""
    report = json.loads((ROOT / "docs" / "results" / "mutants.json").read_text())
    named = {item.get("by", "").partition("[")[0] for item in report["mutants"].values()}
    tests = [name.split("::") for name in named if "::" in name]
    assert tests
    missing = [test for test in tests if f"def {test[-1]}(" not in (ROOT / test[0]).read_text()]
    assert missing == []


def texts(source):
    return {mutant.source for mutant in mutants_of("x.py", source)}


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("a = b + c", {"a = (b - c)"}),
        ("a = b & ~c", {"a = (b | ~c)", "a = (b)", "a = (~c)", "a = b & (c)"}),
        ("a = b <= c", {"a = (b < c)"}),
        ("a = b[2:]", {"a = b[3:]", "a = b[1:]"}),
        ("a = b[: len(c)]", {"a = b[: (len(c)) - 1]"}),
        ("a = range(n)", {"a = range((n) - 1)"}),
        ("a = Mux(b, c, d)", {"a = Mux(b, d, c)"}),
        ("a = b.any()", {"a = b.all()"}),
        (
            "m.d.sync += [a.eq(b), c.eq(d)]",
            {"m.d.sync += [*(), c.eq(d)]", "m.d.sync += [a.eq(b), *()]"},
        ),
        ("m.d.comb += a.eq(b)", {"m.d.comb += []"}),
        ("with m.If(a):\n    pass", {"with m.If((a) == 0):\n    pass", "with m.If(1):\n    pass"}),
        ("a = b if c else d", {"a = (d if c else b)"}),
        ("a = Signal(name='b', reset_less=True, attrs={'keep': 1})", set()),
        ("'''One text.'''\nimport a\nassert b == 1\nraise C(1)", set()),
        ("def f(a: int = 1) -> list[1]:\n    '''Text.'''\n    return a", set()),
        ("a = 'ä', 5", {"a = 'ä', 6", "a = 'ä', 4"}),
        ("a = True", set()),
        ("a = Out(8)", {"a = Out(7)"}),
    ],
)
def test_mutants_of_one_line(source, mutants):
    assert texts(source) == mutants


def test_elif_loses_its_condition_and_its_place():
    source = "with m.If(a):\n    pass\nwith m.Elif(b):\n    pass\n"
    changed = {text.splitlines()[2] for text in texts(source)} - {"with m.Elif(b):"}
    assert changed == {"with m.Elif((b) == 0):", "with m.Elif(1):", "with m.If(b):"}


def test_a_name_outlives_changes_of_other_lines():
    before = {mutant.key for mutant in mutants_of("x.py", "a = b + 1\nc = d & e\n")}
    after = {
        mutant.key for mutant in mutants_of("x.py", "f = g\n\na = b + 1\nif c:\n    c = d & e\n")
    }
    assert before == after
    assert not before & {mutant.key for mutant in mutants_of("y.py", "a = b + 1\nc = d & e\n")}


def test_same_lines_have_their_own_names():
    names = [mutant.key for mutant in mutants_of("x.py", "a = b + c\na = b + c\n")]
    assert len(set(names)) == 2


@pytest.mark.fast_cases(18)
@pytest.mark.parametrize("unit", UNITS)
def test_mutants_of_the_hardware(unit):
    found = candidates(unit, 0)
    assert len(found) > 2 * FLOOR
    assert len({mutant.key for mutant in found}) == len(found)
    for mutant in found[:20]:
        ast.parse(mutant.source)
    assert [mutant.key for mutant in found] != [mutant.key for mutant in candidates(unit, 1)]
    assert all((ROOT / test).is_file() for test in units.tests_of(unit))


def test_every_unit_has_its_share():
    found = shares(300)
    assert min(found.values()) == FLOOR
    assert 290 <= sum(found[unit] for unit in units.ENGINE) <= 400


def test_every_folder_of_hardware_is_mutated():
    """Except folders without hardware, and those built from mutated ones."""
    others = {"board", "formal", "fpga", "integration"}
    folders = {path.parent.name for path in units.RTL.glob("*/__init__.py")} - others
    # In bus there are names and connections alone, so far.
    assert {unit.split("/")[0] for unit in UNITS} == {*folders - {"bus"}, "core"}
    files = {
        f"{folder}/{path.stem}" for folder in folders for path in (units.RTL / folder).glob("*.py")
    }
    left_out = {
        file for file in files - set(UNITS) if file.split("/")[1] not in ("__init__", "testing")
    }
    assert left_out == units._LEFT_OUT - {"testing"}


def test_each_entry_is_a_mutant_of_the_present_source():
    """If not, a line was changed: `make mutate ARGS="--only UNIT"` tries what it has become."""
    kept = json.loads((ROOT / "docs" / "results" / "mutants.json").read_text())["mutants"]
    known = json.loads(EQUIVALENT.read_text())
    entries = {key: item["unit"] for key, item in (*kept.items(), *known.items())}
    present = {mutant.key for unit in set(entries.values()) for mutant in candidates(unit, seed=0)}
    assert not {f"{unit} {key}" for key, unit in entries.items() if key not in present}


def test_tests_of_users_are_of_units_that_exist():
    named = {f"{folder}/{name}" for folder, users in units._USERS.items() for name in users}
    assert named <= set(UNITS)


def test_score():
    verdicts = [("a/b", "killed"), ("a/b", "survived"), ("a/c", "timeout"), ("a/b", "equivalent")]
    report = {
        "mutants": {
            str(number): {"unit": unit, "verdict": verdict}
            for number, (unit, verdict) in enumerate(verdicts)
        }
    }
    assert score(report) == {
        "a/b": Counter(killed=1, survived=1, equivalent=1),
        "a/c": Counter(timeout=1),
        "all": Counter(killed=1, survived=1, timeout=1, equivalent=1),
    }
