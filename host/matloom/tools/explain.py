"""Explains, for each operator of a program, where it runs, why, and what it costs."""

from collections.abc import Iterator
from dataclasses import replace

from rich.table import Table

from matloom.arch.isa import Opcode, Region
from matloom.arch.machine import Machine
from matloom.ir.graph import short_name
from matloom.pre import preprocessing_of
from matloom.program import EngineStep, HostStep, LayerInfo, Program
from matloom.program.describe_state import describe_state
from matloom.program.instruction_table import unpack_all
from matloom.program.verdict import describe_verdict
from matloom.terminal.tables import count_text, layer_table, macs_cell

_RATE = "MACs per\ncycle"

#: Layers that can treat rows of a one-channel input as channels.
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def explain(program: Program) -> list[Table | str]:
    """Return a table of the operators, then sentences on reasons, totals and the largest cost."""
    table = layer_table(
        f"{program.name}: operators, by the name of their output",
        ("output", "operator", "where"),
        ("MACs", "bytes", "cycles", _RATE),
        spare=(_RATE, "bytes", "MACs", "where"),
    )
    for row in _operator_rows(program):
        table.add_row(*row)
    return [table, *_reason_lines(program), *_missing_features(program), *_total_lines(program)]


def _operator_rows(program: Program, indent: str = "") -> Iterator[tuple[str, ...]]:
    """Yield a table row for each operator; rows of a loop's body follow the row of the loop.

    Of operators that an interpreter runs together, the first has the bytes of all.
    """
    shared = program.shared_timestamps
    iterations = dict(_loop_bodies(program))
    together = ""
    for layer in program.layers:
        is_first, together = layer.name != together, layer.name
        on_engine = layer.where == "engine"
        macs = program.macs_of(layer)
        rate = macs / layer.predicted_cycles if layer.predicted_cycles else 0.0
        yield (
            indent + short_name(layer.name),
            layer.operator,
            f"{layer.where} {layer.mode}".rstrip(),
            macs_cell(layer.operator, layer.macs),
            f"{layer.tensor_bytes:,}" if is_first else "",
            _cycles_cell(program, layer) if on_engine else "",
            f"{rate:.1f}" if on_engine and macs and layer.timestamp not in shared else "",
        )
        if layer.name in iterations:
            yield from _operator_rows(iterations[layer.name], f"{indent}  ")


def _cycles_cell(program: Program, layer: LayerInfo) -> str:
    """Return the table cell of an operator's predicted cycles.

    Of operators that share a timestamp, one has the cycles of all.
    """
    if layer.name in program.fused:
        return "fused"
    if layer.timestamp not in program.shared_timestamps:
        return f"{layer.predicted_cycles:,}"
    return f"{layer.predicted_cycles:,} together" if layer.predicted_cycles else "together"


def _macs_phrase(program: Program) -> str:
    """Return a phrase with the multiply-accumulates, and the share of them on the engine."""
    if program.uncounted:
        names = ", ".join(program.uncounted)
        return (
            f"{program.macs:,} MACs, {program.engine_macs:,} of them on the engine, "
            f"without those of {names}, which are unknown"
        )
    share = program.engine_macs / program.macs if program.macs else 0.0
    return f"{program.macs:,} MACs, {share:.1%} of them on the engine"


def _reason_lines(program: Program) -> list[str]:
    """Return a line for each reason why operators do not run on the engine, with their outputs.

    Reasons that differ only in the operator's name are one line.
    """
    layers: dict[tuple[str, str], list[LayerInfo]] = {}
    for layer in program.layers:
        if layer.reason:
            rest = layer.reason.removeprefix(f"{layer.operator} ")
            layers.setdefault((layer.where, rest), []).append(layer)
    return [_reason_line(group) for group in layers.values()]


def _reason_line(layers: list[LayerInfo]) -> str:
    """Return a line with the reason that these layers share, and the layers' names."""
    names = ", ".join(dict.fromkeys(short_name(layer.name) for layer in layers))
    line = f"{layers[0].where}: {layers[0].reason} ({names})"
    operators = list(dict.fromkeys(layer.operator for layer in layers))
    same = all(layer.reason == layers[0].reason for layer in layers)
    return line if same else f"{line}; the same holds for {', '.join(operators[1:])}"


def _missing_features(program: Program) -> list[str]:
    """Return a line on a hardware feature that would save cycles here; no line if there is none."""
    config = program.config
    first = next((layer.operator for layer in program.layers if layer.where == "engine"), "")
    folds = first in _CONVOLUTIONS and any(info.shape[-1:] == (1,) for info in program.inputs)
    if not config.element_stride and folds:
        return ["element_stride = 0: the first layer takes one channel, not rows as channels"]
    depthwise = [
        short_name(layer.name)
        for layer in program.layers
        if layer.where == "engine" and layer.operator == "DEPTHWISE_CONV_2D"
    ]
    if not config.windows and depthwise:
        names = ", ".join(depthwise)
        return [f"windows = 0: a step for each tap, not one for each window ({names})"]
    pairs = replace(config, paired_windows=1).has_paired_windows
    if pairs and not config.paired_windows and _slides_at_stride_2(program):
        return ["paired_windows = 0: windows at stride 2 take one position a cycle, not four"]
    return []


def _slides_at_stride_2(program: Program) -> bool:
    """Return whether any EXEC with a sliding window skips every other output of a line."""
    return any(
        instruction.values.get("window") and instruction.values["out_x_skip"] == 1
        for step in program.steps
        if isinstance(step, EngineStep)
        for instruction in unpack_all(program.commands(step))
        if instruction.opcode is Opcode.EXEC
    )


def _total_lines(program: Program) -> list[str]:
    """Return lines on the whole program: operators, cycles, bytes, memory, state, and advice."""
    engine = [layer for layer in program.layers if layer.where == "engine"]
    steps = sum(isinstance(step, EngineStep) for step in program.steps)
    sizes = ", ".join(f"{region.name} {size:,}" for region, size in program.region_bytes.items())
    elsewhere = len(program.layers) - len(engine)
    buffers = count_text(steps, "command buffer")
    lines = [
        f"operators: {len(engine)} on the engine in {buffers}, {elsewhere} elsewhere",
        _macs_phrase(program),
        *_cycles_of_all(program, steps),
        *_iterations(program),
        *([program.shared_slots] if program.shared_slots else []),
        *_fusions(program),
        *_tuning_sentence(program),
        f"external memory in bytes: {sizes}; the host's constants: {len(program.host_data):,}",
    ]
    if engine:
        moved = _bytes_moved(program)
        parts = ", ".join(f"{region.name} {moved[region]:,}" for region in Region)
        lines.insert(-1, f"bytes moved between memory and chip: {sum(moved.values()):,} ({parts})")
    if program.repeat is not None:
        again = program.repeat.predicted_cycles
        kept_bytes = sum(end - start for start, end in program.repeat.kept)
        lines.append(
            f"{again:,} cycles (predicted) from a session's second call on: {kept_bytes:,} bytes "
            f"of weights stay on chip: utilisation {program.utilisation(again):.3f}"
        )
    lines += describe_state(program)
    infos = {info.name: info for info in program.inputs}
    for name, stage in preprocessing_of(program).items():
        lines.append(f"before {name}, on the host: {stage.describe(infos[name])}")
    return [*lines, describe_verdict(program.verdict), f"what would help most: {_advice(program)}"]


def _cycles_of_all(program: Program, steps: int) -> list[str]:
    """Return lines on the cycles of a call; `steps` is the number of command buffers."""
    if not steps and not program.loops:
        return ["no cycles: the engine runs no operator"]
    cycles = program.predicted_cycles
    return [
        f"{cycles:,} cycles (predicted): utilisation {program.utilisation(cycles):.3f}",
        f"cycles are predicted for memory {program.memory.name}",
    ]


def _fusions(program: Program) -> Iterator[str]:
    """Yield a sentence for each operator whose instructions also compute other operators."""
    for carrier in dict.fromkeys(program.fused.values()):
        names = [short_name(name) for name, other in program.fused.items() if other == carrier]
        yield f"fused: the cycles of {', '.join(names)} are among those of {short_name(carrier)}"


def _iterations(program: Program) -> Iterator[str]:
    """Yield a sentence for each loop on the cycles of one iteration; totals do not include them."""
    for name, body in _loop_bodies(program):
        again = "" if body.repeat is None else f", {body.repeat.predicted_cycles:,} from the second"
        yield (
            f"each iteration of {short_name(name)} takes {body.predicted_cycles:,} cycles more "
            f"(predicted){again}"
        )


def _loop_bodies(program: Program) -> Iterator[tuple[str, Program]]:
    """Yield the name of each loop's operator (its first output), and the program of its body."""
    for number, (body, *_) in program.loops.items():
        step = program.steps[number]
        assert isinstance(step, HostStep)
        yield step.outputs[0], body


def _tuning_sentence(program: Program) -> list[str]:
    """Return a list with a sentence on the choices of `matloom tune`; empty if none are used."""
    return [program.origin.tuned] if program.origin is not None and program.origin.tuned else []


def _bytes_moved(program: Program) -> dict[Region, int]:
    """Return the number of bytes that LOADs and STOREs of a first run move, by region."""
    moved = dict.fromkeys(Region, 0)
    for step in program.steps:
        if not isinstance(step, EngineStep):
            continue
        for instruction in unpack_all(program.commands(step)):
            values = instruction.values
            if instruction.opcode in (Opcode.LOAD, Opcode.STORE) and not values.get("fill"):
                size = values["row_bytes"] * values["rows"] * values["planes"]
                moved[Region(values["region"])] += size
    return moved


def _advice(program: Program) -> str:
    """Return a phrase on the largest cost: arithmetic on the host, else the array's idle cycles."""
    host = [layer for layer in program.layers if layer.where == "host"]
    largest = max(host, key=lambda layer: layer.macs, default=None)
    if largest is not None and largest.macs:
        return f"{_name_and_operator(largest)}, {largest.macs:,} MACs on the host: {largest.reason}"
    engine = [layer for layer in program.layers if layer.where == "engine"]
    if not engine:
        return "operators in int8, which the engine could run"
    lost, group = max(
        ((_lost_cycles(program, group), group) for group in _groups_by_timestamp(program, engine)),
        key=lambda item: item[0],
    )
    share = lost / max(program.predicted_cycles, 1)
    name = _name_and_operator(group[0])
    if len(group) > 1:
        name = f"the {len(group)} operators from {name} to {_name_and_operator(group[-1])}"
    text = f"{name}, {lost:,} cycles ({share:.0%}) beyond full use of the array"
    machine = Machine(config=program.config, memory=program.memory)
    transfer = int(machine.transfer_cycles(sum(layer.tensor_bytes for layer in group)))
    if 2 * transfer > sum(layer.predicted_cycles for layer in group):
        tensors = "its tensors" if len(group) == 1 else "their tensors"
        text += f"; {tensors} alone take the bus {transfer:,}"
    return text


def _groups_by_timestamp(program: Program, engine: list[LayerInfo]) -> list[list[LayerInfo]]:
    """Return the operators in groups that share a timestamp; any other is a group by itself."""
    groups: dict[object, list[LayerInfo]] = {}
    for at, layer in enumerate(engine):
        joint = layer.timestamp in program.shared_timestamps
        groups.setdefault(("joint", layer.timestamp) if joint else at, []).append(layer)
    return list(groups.values())


def _lost_cycles(program: Program, group: list[LayerInfo]) -> int:
    """Return the predicted cycles of operators minus those that a fully used array would take."""
    return sum(layer.predicted_cycles - int(program.ideal_cycles(layer)) for layer in group)


def _name_and_operator(layer: LayerInfo) -> str:
    """Return a layer's short name, with its operator."""
    return f"{short_name(layer.name)} ({layer.operator})"
