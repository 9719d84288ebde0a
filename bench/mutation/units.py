"""Which files are mutated, and which tests should notice."""

import hashlib
from pathlib import Path

from mutation.rules import Mutant, mutants_of

__all__ = ["ROOT", "RTL", "UNITS", "candidates", "shares", "tests_of"]

ROOT = Path(__file__).resolve().parents[2]
RTL = ROOT / "rtl" / "matloom_rtl"

#: Folders whose files are mutated, all but what serves tests.
_FOLDERS = ("memory", "control", "dma", "array", "post", "arith")

#: Tests, other than that of the same name, that notice mutants of a file: of what uses it.
_USERS = {
    "memory": {
        **dict.fromkeys(("bank", "gather", "scatter", "select"), ("scratchpad",)),
    },
    "control": {
        **dict.fromkeys(("bounds", "legality"), ("dispatch",)),
        **dict.fromkeys(("counters", "queue", "queues", "supervisor"), ("control",)),
        "layouts": ("queue", "dispatch"),
    },
    "dma": {
        **dict.fromkeys(("bursts", "spread"), ("load",)),
        "rows": ("load", "store"),
    },
    "array": {
        "cells": ("array",),
        **dict.fromkeys(("loader", "walk", "windows"), ("execute",)),
        "outputs": ("walk",),
    },
    "post": {
        **dict.fromkeys(
            ("lane", "lanes", "numbers", "parameters", "positions", "products"), ("post",)
        ),
        **dict.fromkeys(("quotient", "reader", "sequencer", "tables", "writer"), ("post",)),
        "layouts": ("positions", "lanes", "reader", "writer", "post"),
    },
    "arith": {"stages": ("add",)},
}

#: Mutated files, as ``folder/name``.
UNITS = tuple(
    f"{folder}/{path.stem}"
    for folder in _FOLDERS
    for path in sorted((RTL / folder).glob("*.py"))
    if path.stem not in ("__init__", "testing")
)

#: Mutants of a unit, however small it is.
FLOOR = 4


def source_of(unit: str) -> Path:
    """Return the file of a unit."""
    return RTL / f"{unit}.py"


def tests_of(unit: str) -> list[str]:
    """Return the test files of a unit, from the root, in the order in which they run.

    First that of the unit itself, where it has one, then those of what uses it; where there are
    none, all of its folder.
    """
    folder, name = unit.split("/")
    tests = ROOT / "rtl" / "tests" / folder
    names = (name, *_USERS[folder].get(name, ()))
    files = [path for path in (tests / f"test_{each}.py" for each in names) if path.is_file()]
    return [str(path.relative_to(ROOT)) for path in files or sorted(tests.glob("test_*.py"))]


def candidates(unit: str, seed: int) -> list[Mutant]:
    """Return all mutants of a unit in an order that the seed decides."""
    found = mutants_of(unit, source_of(unit).read_text())
    return sorted(found, key=lambda each: hashlib.sha256(f"{seed} {each.key}".encode()).digest())


def shares(total: int) -> dict[str, int]:
    """Return how many mutants each unit gets: in proportion to its size, `FLOOR` at least."""
    counts = {unit: len(candidates(unit, 0)) for unit in UNITS}
    whole = sum(counts.values())
    return {unit: max(FLOOR, round(total * count / whole)) for unit, count in counts.items()}
