"""Lists the files that are mutated, and the tests that should notice."""

import hashlib
from pathlib import Path

from mutation.rules import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
RTL = ROOT / "rtl" / "matloom_rtl"

#: Folders of the engine whose files are mutated, all but what serves tests; its parts, connected.
_FOLDERS = ("memory", "control", "dma", "array", "post", "arith")
_WHOLE = ("core",)

#: Folders of what stands around it.
_AROUND = ("bus", "sdram", "link", "soc")

#: Files of these that are not mutated: for tests; constants; wholes and the processor, whose tests
#: are simulations of a whole chip, in host/tests/device.
_LEFT_OUT = {
    *("testing", "sdram/initiator", "sdram/pins", "link/settings", "soc/settings"),
    *("link/core", "link/encoder", "link/link", "link/top", "soc/core", "soc/cpu"),
    # Names, widths and connections.
    *("bus/axi", "bus/axi_lite", "bus/slice"),
}

#: Tests, other than that of the same name, that notice mutants of a file: of what uses it.
_USERS: dict[str, dict[str, tuple[str, ...]]] = {
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
        **dict.fromkeys(("exponentials", "reciprocals", "softmax"), ("softmax", "post")),
        "layouts": ("positions", "lanes", "reader", "writer", "post"),
    },
    "arith": {"stages": ("add",)},
    "bus": {},
    "sdram": {
        **dict.fromkeys(("banks", "chunks", "columns", "datapath", "opener"), ("controller",)),
        **dict.fromkeys(("port", "sequence"), ("controller",)),
        "unanswered": ("merge",),
    },
    "link": {
        "accesses": ("executor",),
        **dict.fromkeys(("receiver", "transmitter"), ("uart",)),
    },
    "soc": {
        **dict.fromkeys(("block_memory", "bus_arbiter", "bus_decoder"), ("bus",)),
        **dict.fromkeys(("interrupts", "peripheral", "system", "timer", "uart"), ("peripherals",)),
    },
}


def _units(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the units, files to mutate, in some folders."""
    return tuple(
        f"{folder}/{path.stem}"
        for folder in folders
        for path in sorted((RTL / folder).glob("*.py"))
        if path.stem != "__init__" and not {path.stem, f"{folder}/{path.stem}"} & _LEFT_OUT
    )


#: Mutated files of the engine.
ENGINE = (*_units(_FOLDERS), *_WHOLE)

#: All mutated files, as ``folder/name``.
UNITS = (*ENGINE, *_units(_AROUND))

#: Mutants of a unit, however small it is.
FLOOR = 4


def source_of(unit: str) -> Path:
    """Return the path of a unit's source file."""
    return RTL / f"{unit}.py"


def tests_of(unit: str) -> list[str]:
    """Return the test files of a unit, from the root, in the order in which they run.

    The unit's own test comes first, if it has one, then those of its users; if there are none, all
    tests of its folder.
    """
    folder, _slash, name = unit.rpartition("/")
    tests = ROOT / "rtl" / "tests" / folder
    names = (name, *_USERS.get(folder, {}).get(name, ()))
    files = [path for path in (tests / f"test_{each}.py" for each in names) if path.is_file()]
    return [str(path.relative_to(ROOT)) for path in files or sorted(tests.glob("test_*.py"))]


def candidates(unit: str, seed: int) -> list[Mutant]:
    """Return all mutants of a unit, in an order that the seed decides."""
    found = mutants_of(unit, source_of(unit).read_text())
    return sorted(found, key=lambda each: hashlib.sha256(f"{seed} {each.key}".encode()).digest())


def shares(total: int) -> dict[str, int]:
    """Return the number of mutants of each unit: proportional to its size, at least `FLOOR`.

    `total` is approximately the engine's number; units around it get as many for their size.
    """
    counts = {unit: len(candidates(unit, 0)) for unit in UNITS}
    whole = sum(counts[unit] for unit in ENGINE)
    return {unit: max(FLOOR, round(total * count / whole)) for unit, count in counts.items()}
