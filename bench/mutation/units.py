"""Which files are mutated, and which tests should notice."""

import hashlib
from pathlib import Path

from mutation.rules import Mutant, mutants_of

__all__ = ["ROOT", "RTL", "UNITS", "candidates", "shares", "tests_of"]

ROOT = Path(__file__).resolve().parents[2]
RTL = ROOT / "rtl" / "matloom_rtl"

#: Of each file the unit tests, those of the unit itself first: what uses it comes later. A file
#: with none but those of its folder is a part of that unit.
_TESTS = {
    "memory": {
        "bank": ("bank", "scratchpad"),
        "claims": ("claims",),
        "gather": ("gather", "scratchpad"),
        "reserved": ("reserved",),
        "rotate": ("rotate",),
        "scatter": ("scatter", "scratchpad"),
        "scratchpad": ("scratchpad",),
        "select": ("select", "scratchpad"),
        "slice": ("slice",),
        "wide": ("wide", "select", "gather"),
    },
    "control": {
        "bounds": ("bounds", "dispatch"),
        "control": ("control",),
        "counters": ("counters", "control"),
        "csr": ("csr",),
        "dispatch": ("dispatch",),
        "layouts": ("layouts", "queue", "dispatch"),
        "legality": ("dispatch",),
        "marks": ("marks",),
        "queue": ("queue", "control"),
        "supervisor": ("supervisor", "control"),
    },
    "dma": {
        "bursts": ("bursts", "load"),
        "fetch": ("fetch",),
        "load": ("load",),
        "read_port": ("read_port",),
        "rows": ("rows", "load", "store"),
        "spread": ("spread", "load"),
        "store": ("store",),
    },
    "array": {
        "accumulators": ("accumulators",),
        "array": ("array",),
        "cells": ("cells", "array"),
        "execute": ("execute",),
        "float_columns": ("float_columns",),
        "loader": ("loader", "execute"),
        "outputs": ("outputs", "walk"),
        "walk": ("walk", "execute"),
        "windows": ("windows", "execute"),
    },
    "post": {
        "float_lane": ("float_lane",),
        "lane": ("lane", "post"),
        "lanes": ("lanes", "post"),
        "layouts": ("positions", "lanes", "reader", "writer", "post"),
        "numbers": ("numbers", "post"),
        "parameters": ("parameters", "post"),
        "positions": ("positions", "post"),
        "post": ("post",),
        "products": ("products", "post"),
        "quotient": ("quotient", "post"),
        "reader": ("reader", "post"),
        "sequencer": ("sequencer", "post"),
        "tables": ("tables", "post"),
        "writer": ("writer", "post"),
    },
    "arith": {
        "add": ("add",),
        "multiply": ("multiply",),
        "narrow": ("narrow",),
        "stages": ("stages", "add"),
        "unpack": ("unpack",),
        "widen": ("widen",),
    },
}

#: Mutated files, as ``folder/name``.
UNITS = tuple(f"{folder}/{name}" for folder, names in _TESTS.items() for name in names)

#: Mutants of a unit, however small it is.
FLOOR = 4


def source_of(unit: str) -> Path:
    """Return the file of a unit."""
    return RTL / f"{unit}.py"


def tests_of(unit: str) -> list[str]:
    """Return the test files of a unit, from the root, in the order in which they run."""
    folder, name = unit.split("/")
    return [f"rtl/tests/{folder}/test_{each}.py" for each in _TESTS[folder][name]]


def digest_of(unit: str) -> str:
    """Return a digest of a unit's source and tests."""
    files = [source_of(unit), *(ROOT / each for each in tests_of(unit))]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def candidates(unit: str, seed: int) -> list[Mutant]:
    """Return all mutants of a unit in an order that the seed decides."""
    found = mutants_of(unit, source_of(unit).read_text())
    return sorted(found, key=lambda each: hashlib.sha256(f"{seed} {each.key}".encode()).digest())


def shares(total: int) -> dict[str, int]:
    """Return how many mutants each unit gets: in proportion to its size, `FLOOR` at least."""
    counts = {unit: len(candidates(unit, 0)) for unit in UNITS}
    whole = sum(counts.values())
    return {unit: max(FLOOR, round(total * count / whole)) for unit, count in counts.items()}
