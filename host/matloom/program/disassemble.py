"""Text listings of the instructions of a program or command buffer."""

import enum

from matloom.arch.instruction import Instruction, unpack
from matloom.arch.isa import FORMATS, UNITS, Field, Opcode
from matloom.arch.modes import MAC_MODES
from matloom.arch.numerics import SUPPORTED_ROUNDINGS, Rounding
from matloom.printable import printable
from matloom.program import EngineStep, Program
from matloom.program.describe_state import describe_state
from matloom.program.verdict import describe_verdict

#: Names of the values of fields whose legal values depend on the configuration.
_NAMES: dict[str, dict[int, str]] = {
    "mode": dict(enumerate(MAC_MODES)),
    "rounding": {int(rule): rule.name for rule in (*SUPPORTED_ROUNDINGS, Rounding.FLOAT)},
}


def disassemble(source: Program | bytes) -> str:
    """Return a text with one line per instruction: index, offset, opcode, waits, nonzero fields.

    For a program, the first lines say what was checked at compile time, for which memory cycles are
    predicted, and which state the program keeps. An instruction with a timestamp is followed by the
    layer that it completes. Raises `IsaError` for bytes that are not instructions.
    """
    if isinstance(source, bytes):
        return "\n".join(_instruction_lines(source, {}))
    layers = {
        layer.timestamp: f"{layer.operator} {layer.name}"
        for layer in source.layers
        if layer.timestamp
    }
    known = (
        describe_verdict(source.verdict),
        f"cycles are predicted for memory {source.memory.name}",
        *describe_state(source),
    )
    lines = [f"; {line}" for line in known]
    for number, step in enumerate(source.steps):
        if isinstance(step, EngineStep):
            lines.append(f"step {number}: engine, {step.predicted_cycles:,} cycles predicted")
            lines += _instruction_lines(source.commands(step), layers)
            if step.repeat is not None:
                cycles = step.repeat.predicted_cycles
                lines.append(f"step {number}, weights on chip: engine, {cycles:,} cycles predicted")
                lines += _instruction_lines(source.commands(step.repeat), layers)
        else:
            lines.append(f"step {number}: host, {step.operator} {', '.join(step.inputs)}")
    return "\n".join(map(printable, lines))


def _instruction_lines(commands: bytes, layers: dict[int, str]) -> list[str]:
    """Return a line for each instruction up to END."""
    lines, offset, number = [], 0, 0
    while offset < len(commands):
        instruction, end = unpack(commands, offset)
        lines.append(f"{number:5d} {offset:7d}  {_instruction_text(instruction, layers)}")
        offset, number = end, number + 1
        if instruction.opcode is Opcode.END:
            break
    return lines


def _instruction_text(instruction: Instruction, layers: dict[int, str]) -> str:
    """Return an instruction as text; `layers` are the names of operators by timestamp slot."""
    waits = "".join(
        f" {unit.name.lower()}-{getattr(instruction, 'wait_' + unit.name.lower())}"
        for unit in UNITS
        if getattr(instruction, f"wait_{unit.name.lower()}")
    )
    fields = " ".join(
        f"{item.name}={_value(item, value)}"
        for item in FORMATS[instruction.opcode].fields
        if (value := getattr(instruction, item.name))
    )
    text = f"{instruction.opcode.name:<5}{' after' + waits if waits else ''} {fields}".rstrip()
    if instruction.timestamp:
        slot = instruction.timestamp
        text += f"  ; completes {layers.get(slot, f'timestamp {slot}')}"
    return text


def _value(field: Field, value: int) -> str:
    """Return the name of a field's value, or the value as text if it has no name."""
    if field.name in _NAMES:
        return _NAMES[field.name].get(value, str(value))
    choices = field.choices if isinstance(field.choices, tuple) else ()
    named = (item for item in choices if isinstance(item, enum.Enum))
    return next((item.name for item in named if item.value == value), str(value))
