"""Rotation of tests in a run that is cut short: each test gets its turn."""

import importlib.util
from itertools import pairwise
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "root_conftest", Path(__file__).resolve().parents[2] / "conftest.py"
)
CONFTEST = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(CONFTEST)


def test_turn_0_is_the_usual_order():
    assert CONFTEST.rotate(list("abcde"), 0) == list("abcde")
    assert CONFTEST.rotate([], 7) == []


@pytest.mark.parametrize("turn", [1, 2, 1000, 12345])
def test_neighbours_stay_neighbours_and_nobody_is_lost(turn):
    items = list(range(101))
    order = CONFTEST.rotate(items, turn)
    assert sorted(order) == items
    assert all((after - before) % 101 == 1 for before, after in pairwise(order))


@pytest.mark.parametrize("first", [0, 700, 4321])
def test_a_tenth_of_each_run_reaches_every_test_in_twenty_commits(first):
    items = list(range(200))
    reached = set()
    for turn in range(first, first + 20):
        reached.update(CONFTEST.rotate(items, turn)[:20])
    assert reached == set(items)
