"""Generates the tables and listings of how-a-conv2d-becomes-instructions.md from one network.

`tables.py` puts them into the page, and a test compares them with what the compiler does now.
"""

import importlib.util
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

from matloom.arch.config import PRESETS, Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import FORMATS, Opcode
from matloom.arch.machine import Machine
from matloom.compiler import compile_network
from matloom.ir.graph import Graph
from matloom.ir.text import to_text
from matloom.passes import run_passes
from matloom.program import EngineStep, Program
from matloom.program.disassemble import disassemble
from matloom.program.instruction_table import unpack_all
from matloom.select.partition import EngineRun, partition
from matloom.select.stage import ArrayStage

__all__ = ["BLOCKS", "instructions"]

_EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "graph_by_hand.py"
CONFIG: Config = PRESETS["reference"]

#: Fields that every instruction has, and that the page explains once.
_COMMON = {item.name for item in FORMATS[Opcode.END].fields}


def _example() -> ModuleType:
    """Return the module of the example `graph_by_hand`."""
    spec = importlib.util.spec_from_file_location("graph_by_hand", _EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _graph() -> Graph:
    """Return the example's graph after the compiler's passes."""
    return run_passes(_example().network())


@cache
def _program() -> Program:
    """Return the example's network as a compiled program."""
    return compile_network(_example().network(), CONFIG, check="sample")


def _step() -> EngineStep:
    """Return the program's only step, which runs on the engine."""
    (step,) = _program().steps
    assert isinstance(step, EngineStep)
    return step


def instructions() -> list[Instruction]:
    """Return the example program's instructions for its first call."""
    return list(unpack_all(_program().commands(_step())))


def _stage() -> ArrayStage:
    """Return the example's only stage: the convolution before it is cut into tiles."""
    graph = _graph()
    names = {number: tensor.name for number, tensor in graph.tensors.items()}
    (run,) = partition(graph, Machine(config=CONFIG), names).runs
    assert isinstance(run, EngineRun)
    ((stage,),) = run.stages
    assert isinstance(stage, ArrayStage)
    return stage


def _listing(lines: list[str]) -> str:
    """Return a Markdown code block of the lines, with long ones wrapped."""
    broken = (
        textwrap.fill(line, 112, subsequent_indent=" " * 20, break_long_words=False)
        for line in lines
    )
    return "```text\n" + "\n".join(broken) + "\n```\n"


def _table(headings: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Return a Markdown table, given the headings and rows of cells."""
    lines = [headings, ("---",) * len(headings), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _meanings(instruction: Instruction) -> str:
    """Return a table of an instruction's non-zero fields: name, value and documentation."""
    rows: list[tuple[object, ...]] = [
        (f"`{item.name}`", f"{value:,}", item.doc)
        for item in FORMATS[instruction.opcode].fields
        if item.name not in _COMMON and (value := getattr(instruction, item.name))
    ]
    return _table((instruction.opcode.name, "value", "meaning"), rows)


def _instructions_of(opcode: Opcode) -> list[Instruction]:
    """Return the example program's instructions of one opcode."""
    return [item for item in instructions() if item.opcode is opcode]


def _loop_nest() -> str:
    """Return a table of the EXEC fields that are the same for all tiles of the stage."""
    stage = _stage()
    fields = stage.loop_nest.fields((0, 1), (0, 1), 0)
    meanings = {item.name: item.doc for item in FORMATS[Opcode.EXEC].fields}
    names = ("kernel_rows", "kernel_row_step", "kernel_cols", "blocks", "x_step", "y_step")
    rows: list[tuple[object, ...]] = [
        (f"`{name}`", f"{fields[name]:,}", meanings[name])
        for name in (*names, "pad_value", "first_row", "first_byte")
    ]
    return _table(("EXEC, of output row 0", "value", "meaning"), rows)


def _tiles() -> str:
    """Return a table of tiles, each the EXECs before one POST, with their steps and vectors."""
    rows: list[tuple[object, ...]] = []
    first, steps, count = 0, 0, 0
    for item in instructions():
        if item.opcode is Opcode.EXEC:
            steps += item.kernel_rows * item.kernel_cols * item.blocks * item.oc_blocks
            count += 1
        if item.opcode is Opcode.POST:
            last = first + item.height - 1
            vectors = item.height * item.width
            rows.append(
                (len(rows), f"{first} to {last}", count, steps, vectors, f"{steps * vectors:,}")
            )
            first, steps, count = last + 1, 0, 0
    headings = ("tile", "output rows", "EXECs", "steps", "vectors per step", "vectors")
    return _table(headings, rows)


def _cycles() -> str:
    """Return a table of predicted cycles of a first call and of later ones."""
    program, step = _program(), _step()
    assert step.repeat is not None
    again = list(unpack_all(program.commands(step.repeat)))
    loads = sum(item.opcode is Opcode.LOAD for item in again)
    return _table(
        ("call", "instructions", "LOADs", "cycles (predicted)", "utilisation"),
        [
            (
                "first",
                len(instructions()),
                len(_instructions_of(Opcode.LOAD)),
                f"{step.predicted_cycles:,}",
                f"{program.utilisation(step.predicted_cycles):.3f}",
            ),
            (
                "later",
                len(again),
                loads,
                f"{step.repeat.predicted_cycles:,}",
                f"{program.utilisation(step.repeat.predicted_cycles):.3f}",
            ),
        ],
    )


def _commands() -> str:
    """Return the disassembly of the example program."""
    return _listing(disassemble(_program().commands(_step())).splitlines())


#: What `tables.py` puts between the markers of each name.
BLOCKS: dict[str, Callable[[], str]] = {
    "walk graph": lambda: _listing(to_text(_graph()).splitlines()),
    "walk loop nest": _loop_nest,
    "walk tiles": _tiles,
    "walk commands": _commands,
    "walk exec": lambda: _meanings(_instructions_of(Opcode.EXEC)[0]),
    "walk post": lambda: _meanings(_instructions_of(Opcode.POST)[0]),
    "walk store": lambda: _meanings(_instructions_of(Opcode.STORE)[0]),
    "walk cycles": _cycles,
}
