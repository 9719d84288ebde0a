"""Lists the instructions of a program or command buffer for people."""

from matloom.arch.isa import HEAD, UNITS, Instruction, Opcode, unpack
from matloom.program import EngineStep, Program

__all__ = ["disassemble"]

_HEAD_NAMES = {item.name for item in HEAD}


def disassemble(source: Program | bytes) -> str:
    """Return one line an instruction: number, offset, opcode, waits, and fields that are not 0.

    A mark is followed by the layer that it completes. Raises `IsaError` for bytes that are no
    instructions.
    """
    if isinstance(source, bytes):
        return "\n".join(_lines(source, {}))
    layers = {layer.mark: f"{layer.operator} {layer.name}" for layer in source.layers if layer.mark}
    lines: list[str] = []
    for number, step in enumerate(source.steps):
        if isinstance(step, EngineStep):
            lines.append(f"step {number}: engine, {step.predicted_cycles:,} cycles predicted")
            end = step.command_offset + step.command_bytes
            lines += _lines(source.image[step.command_offset : end], layers)
        else:
            lines.append(f"step {number}: host, {step.operator} {', '.join(step.inputs)}")
    return "\n".join(lines)


def _lines(commands: bytes, layers: dict[int, str]) -> list[str]:
    lines, offset, number = [], 0, 0
    while offset < len(commands):
        instruction, end = unpack(commands, offset)
        lines.append(f"{number:5d} {offset:7d}  {_text(instruction, layers)}")
        offset, number = end, number + 1
        if instruction.opcode is Opcode.END:
            break
    return lines


def _text(instruction: Instruction, layers: dict[int, str]) -> str:
    waits = "".join(
        f" {unit.name.lower()}-{getattr(instruction, 'wait_' + unit.name.lower())}"
        for unit in UNITS
        if getattr(instruction, f"wait_{unit.name.lower()}")
    )
    fields = " ".join(
        f"{name}={value}"
        for name, value in instruction.values.items()
        if value and name not in _HEAD_NAMES
    )
    text = f"{instruction.opcode.name:<5}{' after' + waits if waits else ''} {fields}".rstrip()
    if instruction.mark:
        text += f"  ; completes {layers.get(instruction.mark, f'mark {instruction.mark}')}"
    return text
