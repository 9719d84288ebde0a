"""Mutants of the scheduler: results of the rules, and some that must be noticed."""

import pytest

from matloom.schedule.tiling import array as array_tiling
from matloom.schedule.tiling import tiles
from matloom.select import exec_steps
from support import mutants as module
from support.mutant_cases import FUNCTIONS, HISTORICAL, cases, chosen
from support.mutant_rules import RULES
from support.mutants import Mutant, applied, baseline, mutants, try_out


def subject(first, second, limits):
    """Function with a place for every rule."""
    limits.last = first
    if first > second and limits:
        return 0
    total = first + 2
    total = max(total, first - second)
    return total


class TilingParams:
    last = 0


@pytest.fixture
def here(monkeypatch):
    """Return a module that contains only `subject`."""
    monkeypatch.setattr(module, "_function", lambda _module, _name: (module, "subject", subject))
    monkeypatch.setattr(module, "subject", subject, raising=False)
    return module


@pytest.mark.parametrize(
    ("rule", "place", "result"),
    [
        ("term dropped", 0, 3),
        ("term dropped", 1, 5),
        ("operands swapped", 0, 6),
        ("one more", 1, 6),
        ("minimum for maximum", 0, -6),
        ("bound moved", 0, 5),
        ("condition forgotten", 0, 5),
        ("update forgotten", 0, 5),
    ],
)
def test_each_rule_changes_one_place(here, rule, place, result):
    limits = TilingParams()
    mutant = Mutant(module=module.__name__, function="subject", rule=rule, place=place, line="")
    with applied(mutant):
        assert here.subject(3, 9, limits) == result
    assert here.subject is subject
    assert limits.last == (0 if rule == "update forgotten" else 3)


def test_every_place_is_named(here):
    found = list(mutants(module.__name__, ["subject"]))
    assert {mutant.rule for mutant in found} == set(RULES)
    assert [item.line for item in found if item.rule == "term dropped"] == [
        "total = first + 2",
        "total = max(total, first - second)",
    ]


def test_a_mutant_is_wherever_its_function_was_imported():
    right = exec_steps.limit_steps
    mutant = next(iter(mutants("matloom.select.exec_steps", ["limit_steps"])))
    with applied(mutant):
        assert exec_steps.limit_steps is tiles.limit_steps is not right
    assert exec_steps.limit_steps is tiles.limit_steps is right
    addend_range = array_tiling.addend_range
    with applied(next(iter(mutants("matloom.schedule.tiling.array_ranges", ["addend_range"])))):
        assert array_tiling.addend_range is not addend_range


def test_there_are_mutants_of_every_function():
    some = chosen(seed=0, of_each=1)
    named = {(mutant.module, mutant.function) for mutant in some if mutant.rule != "as it was"}
    assert named == {(name, each) for name, functions in FUNCTIONS.items() for each in functions}
    assert chosen(seed=0, of_each=1) == some


@pytest.fixture(scope="module")
def small():
    """Return two of the networks, with their right programs."""
    found = [case for case in cases() if case.name in ("layer 16", "spilled 173")]
    assert len(found) == 2
    return found, baseline(found)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("mutant", HISTORICAL, ids=lambda mutant: mutant.function)
def test_defects_that_were_met_in_use_are_noticed(small, mutant):
    outcome = try_out(mutant, *small)
    assert outcome.kind == "caught"
    assert outcome.caught["meaning"]
    assert outcome.caught["self-check"]


@pytest.mark.slow
@pytest.mark.parametrize("function", ["_Emitter._input", "_Emitter._post"])
def test_no_wrong_address_goes_unnoticed(small, function):
    terms = [
        mutant
        for mutant in mutants("matloom.schedule.commands.emit", [function])
        if mutant.rule == "term dropped"
    ]
    kinds = [try_out(mutant, *small).kind for mutant in terms]
    assert "caught" in kinds
    assert "right" not in kinds


def test_a_compiler_that_does_not_end_is_stopped(small):
    text = "def limit_steps(*_arguments):\n    while True:\n        pass\n"
    endless = Mutant(
        module="matloom.select.exec_steps",
        function="limit_steps",
        rule="as it was",
        place=0,
        line="",
        texts=(("matloom.select.exec_steps", "limit_steps", text),),
    )
    outcome = try_out(endless, *small, seconds=1)
    assert outcome.kind == "refused"
    assert outcome.reason == "the compiler does not end"
