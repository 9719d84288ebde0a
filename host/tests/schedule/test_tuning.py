"""All constants that steer the search are in one file, with unit, reason and measurement."""

import ast
from pathlib import Path

import pytest

from matloom.schedule import tuning

FOLDER = Path(tuning.__file__).parent

#: Numbers of other kinds: of files and formats, of what is remembered, and of names for numbers.
OTHERS = {
    *("cache._PLANS", "cache._FAILURES", "image._ALIGNMENT", "options.EFFORTS"),
    *("params.UNBOUNDED", "plan.PARAMS", "plan.TABLE", "choices.candidates._PROLOGUES"),
    *("choices.policies._SHARE_OF_SHAPES", "choices.policies._SHARE_SPILLED"),
    *("commands.dependencies._NO_ACCESS", "commands.dependencies._DRAM_LINE"),
    *("memory.allocator._SHORT", "memory.allocator._FEW_BUFFERS", "memory.external._ARENA_LIMIT"),
    *(
        "memory.live_ranges._LEVEL_BITS",
        "memory.placing._MIN_GROUP_SLOTS",
        "memory.placing._SLOTS_AROUND",
    ),
    *(
        "tiling.array._FEW_BYTES",
        "tiling.first_tiles._JOINED_PIECES",
        "tiling.prologue.GROUPS",
        "tiling.sequence._MAX_CACHED_ORDERS",
        "tiling.sequence._MAX_NESTED",
    ),
    "tiling.stages._MAX_CACHED_TILINGS",
}


#: What an expression of numbers alone is made of.
PARTS = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Tuple, ast.Load)


def numbers(path):
    """Yield the names of a module's numeric constants."""
    for item in ast.parse(path.read_text()).body:
        if not isinstance(item, ast.Assign):
            continue
        parts = list(ast.walk(item.value))
        constants = [each.value for each in parts if isinstance(each, ast.Constant)]
        alone = all(isinstance(each, PARTS) for each in parts)
        if alone and constants and all(isinstance(each, int | float) for each in constants):
            target = item.targets[0]
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (name.id for name in names if isinstance(name, ast.Name))


def test_all_numbers_have_a_row():
    assert set(numbers(FOLDER / "tuning.py")) == set(tuning.TABLE)


@pytest.mark.parametrize("name", sorted(tuning.TABLE))
def test_a_row_names_the_fault_and_its_reason(name):
    row = tuning.TABLE[name]
    assert getattr(tuning, name) > 0
    assert row.unit
    assert row.chosen
    assert row.reason.endswith(".")


def test_no_other_module_has_numbers_of_its_own():
    found = {
        ".".join((*path.relative_to(FOLDER).with_suffix("").parts, name))
        for path in FOLDER.rglob("*.py")
        if path.stem != "tuning"
        for name in numbers(path)
    }
    assert found == OTHERS
