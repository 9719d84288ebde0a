"""Predicted cycles of a command buffer: decoupled units, their queues and their waits."""

from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import (
    FORMATS,
    GRANULE_BYTES,
    UNITS,
    Destination,
    Opcode,
    Region,
    Table,
    post_element_bytes,
)
from matloom.arch.numerics import Rounding

__all__ = ["Prediction", "predict"]

#: Cycles from start to the first instruction, beside what the dispatcher takes for it.
_START = 23

#: Cycles that the dispatcher takes for an instruction: its granules, its extents, its verdict.
_DISPATCH = {Opcode.LOAD: 25, Opcode.EXEC: 30, Opcode.POST: 37, Opcode.STORE: 25}

#: Cycles from start to the first command's first beat; bytes of commands that are read ahead, half
#: of them in a burst.
_FIRST_COMMAND = 42
_READ_AHEAD = 512

#: Places of a queue, however shallow it should be.
_QUEUE_PLACES = 3

#: Cycles from a LOAD's start to its first beat, with those from its last to its completion.
_LOAD_LATENCY = 37

#: Cycles from the address of a burst to its last beat, of a short one; to the response of a write.
_BURST_LATENCY = 37
_WRITE_LATENCY = 18

#: Cycles from a STORE's start to its first beat, with the response at its end; by how much less
#: it keeps its unit, because another one's beats follow while the response is on its way.
_STORE_LATENCY = 18
_STORE_RESPONSE = 17

#: Cycles from the last vector of an EXEC to its last sum in the accumulators.
_EXEC_LATENCY = 20

#: What floating-point modes add to it: unpacking, a longer product and sum; each tree level.
_FLOAT_LATENCY, _FLOAT_LEVEL = 9, 7

#: Cycles of a POST beside its results and the time in which updates settle: of each, of one that
#: looks up, of floating-point numbers, of one that makes sums; and between its output blocks.
_POST_LATENCY = 23
_POST_LOOK_UP = 1
_POST_FLOAT = 3
_POST_SUMS = 5
_POST_BLOCK = 1

#: Reads of a block's biases, and of its multipliers and shifts; cycles to fetch them beside the
#: reads; and by how much the fetch of a first block is longer than the way of its results.
_POST_BIAS = 4
_POST_SCALE = 5
_POST_FETCH = 12
_POST_LEAD = 5

#: Cycles between the end of what an instruction waits for and its first action.
_HANDOVER = 3

_WAITS = ("wait_load", "wait_exec", "wait_post", "wait_store")


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Cycles of a command buffer.

    Members
    -------
    cycles:
        From the doorbell to done.
    marks:
        Completion time of each mark.
    busy:
        Cycles that each unit works, by its name in lower case.
    """

    cycles: int
    marks: dict[int, int]
    busy: dict[str, int]


def exec_cycles(values: dict[str, int], config: Config) -> int:
    """Return the cycles for which an EXEC streams."""
    taps = values["kernel_rows"] * values["kernel_cols"] * values["blocks"]
    steps, vectors = taps * values["oc_blocks"], values["width"] * values["height"]
    # What adds to sums lets those before it arrive.
    cooling = config.acc_update_latency if values.get("accumulate") else 0
    if values.get("weights_fixed"):
        return max(vectors, config.acc_update_latency) * steps + cooling
    load = config.tile_load_cycles
    if values.get("paired"):
        # Tiles come by the port of the blocks, between steps.
        return (vectors + load) * steps + cooling
    alone = max(vectors, load, config.acc_update_latency) * steps + cooling
    # Weights are read first where both are in one bank, and each read takes a vector's cycle.
    shared = _shared(values, steps * config.tile_bytes, config)
    return alone + round(((vectors + load) * steps + cooling - alone) * shared)


def exec_latency(config: Config) -> int:
    """Return the cycles from the last vector of an EXEC to its last sum in the accumulators."""
    if not config.has_float:
        return _EXEC_LATENCY
    return _EXEC_LATENCY + _FLOAT_LATENCY + _FLOAT_LEVEL * (config.float_rows.bit_length() - 1)


def _shared(values: dict[str, int], size: int, config: Config) -> float:
    """Return the share of the weights that lie in banks with the input."""
    first, bank = values.get("weight_addr", 0), config.bank_bytes
    start = values.get("input_addr", 0)
    rows = (values.get("input_rows", 1) - 1) * values.get("input_pitch", 0)
    end = start + rows + values.get("input_row_bytes", 1)
    low, high = start // bank * bank, -(-end // bank) * bank
    return max(0, min(first + size, high) - max(first, low)) / size


def post_cycles(values: dict[str, int], config: Config) -> int:
    """Return the cycles for which a POST makes results."""
    # Each write is of one byte for each column.
    writes = post_element_bytes(values)
    beats = max(config.columns // config.lanes, writes)
    vectors = values["width"] * values["height"] * beats
    # Parameters of the next block are fetched while this one streams.
    block = max(vectors + _POST_BLOCK, _POST_FETCH + _post_reads(values))
    return vectors + block * (values["oc_blocks"] - 1)


def _post_reads(values: dict[str, int]) -> int:
    """Return the reads of parameters that a block needs."""
    biases = _POST_BIAS * values.get("channel_bias", 0)
    return biases + _POST_SCALE * values.get("channel_scale", 0)


def _load_beats(values: dict[str, int], config: Config) -> int:
    """Return the beats of a LOAD, with one cycle a row where rows are no whole beats."""
    bus = config.bus_bytes
    places = values.get("dram_offset", 0) | values.get("dram_row_step", 0) | values["row_bytes"]
    return _beats(values, _BURST_LATENCY, int(places % bus > 0), config)


def _beats(values: dict[str, int], latency: int, setup: int, config: Config) -> int:
    """Return the beats of a LOAD or STORE, with cycles for each row's setup.

    Short rows take as long as the bursts that may be outstanding need to come back.
    """
    rows = values["rows"] * values["planes"]
    size, bus = values["row_bytes"] << values.get("spread", 0), config.bus_bytes
    if rows == 1:
        return -(-size // bus)
    # Rows begin anywhere in a beat; one after another they come back to where they began.
    start, step = values.get("dram_offset", 0), values.get("dram_row_step", 0)
    beats = [-(-((start + row * step) % bus + size) // bus) for row in range(bus)]
    return round(rows * max(sum(beats) / bus + setup, latency / config.outstanding))


def _duration(instruction: Instruction, config: Config) -> tuple[int, int]:
    """Return for how long an instruction keeps its unit, and what passes until it completes."""
    values = instruction.values
    if instruction.opcode is Opcode.EXEC:
        return exec_cycles(values, config), exec_latency(config)
    if instruction.opcode is Opcode.POST:
        cycles = post_cycles(values, config) + _POST_LATENCY + config.acc_update_latency
        cycles += _POST_LOOK_UP * (values.get("table", 0) == Table.LOOK_UP)
        cycles += _POST_FLOAT * (values.get("rounding") == Rounding.FLOAT)
        return cycles + _POST_SUMS * (values.get("destination", 0) != Destination.SPAD), 0
    if instruction.opcode is Opcode.LOAD:
        return _load_beats(values, config), 0
    writes = _beats(values, _WRITE_LATENCY, 0, config)
    return writes + _STORE_LATENCY - _STORE_RESPONSE, _STORE_RESPONSE


def _commands_ahead(instructions: list[Instruction], config: Config) -> tuple[int, list[float]]:
    """Return the beats of commands that come first, and behind each LOAD until the next one's.

    Each command that is taken makes room for as much of those behind what was read ahead.
    """
    sizes = [FORMATS[instruction.opcode].granules * GRANULE_BYTES for instruction in instructions]
    rest = max(0, sum(sizes) - _READ_AHEAD)
    first, behind = sum(sizes) - rest, [0.0]
    for instruction, size in zip(instructions, sizes, strict=True):
        if instruction.opcode is Opcode.LOAD:
            behind.append(0.0)
        behind[-1] += min(size, rest) / config.bus_bytes
        rest -= min(size, rest)
    return first // config.bus_bytes, behind[1:]


def predict(
    instructions: list[Instruction], config: Config, *, resident: bool = False
) -> Prediction:
    """Return the predicted cycles of a command buffer that ends with END.

    With `resident`, the LOADs of constants are left out, as if these were in the scratchpad.
    """
    done: dict[Opcode, list[int]] = {unit: [] for unit in UNITS}
    started: dict[Opcode, list[int]] = {unit: [] for unit in UNITS}
    free = dict.fromkeys(UNITS, 0)
    busy = dict.fromkeys(UNITS, 0)
    marks: dict[int, int] = {}
    ahead, behind = _commands_ahead(instructions, config)
    free[Opcode.LOAD], commands, waiting = _FIRST_COMMAND + ahead, iter(behind), 0.0
    dispatch, places = _START, max(config.queue_depth, _QUEUE_PLACES)
    for instruction in instructions:
        unit = instruction.opcode
        if unit is Opcode.END:
            break
        queue = started[unit]
        if resident and unit is Opcode.LOAD and instruction.values.get("region") == Region.PROGRAM:
            queue.append(0)
            done[unit].append(0)
            waiting += next(commands)
            continue
        dispatch += _DISPATCH[unit]
        if len(queue) >= places:
            dispatch = max(dispatch, queue[-places])
        ready = dispatch + _HANDOVER
        for field, other in zip(_WAITS, UNITS, strict=True):
            wait = instruction.values.get(field, 0)
            if wait:
                ready = max(ready, done[other][-wait] + _HANDOVER)
        reads = _post_reads(instruction.values) if unit is Opcode.POST else 0
        if reads:
            # Its first block is fetched as soon as the LOADs are there.
            wait = instruction.values.get("wait_load", 0)
            loaded = done[Opcode.LOAD][-wait] if wait else 0
            ready = max(ready, max(dispatch, loaded) + _HANDOVER + reads + _POST_LEAD)
        if unit is Opcode.LOAD:
            ready += _LOAD_LATENCY
        start = max(ready, free[unit])
        hold, more = _duration(instruction, config)
        if unit is Opcode.LOAD:
            # Commands come over the same bus; those that came while no LOAD did are no matter.
            waiting = max(0.0, waiting - max(0, ready - free[unit])) + next(commands)
            taken = min(round(waiting), _READ_AHEAD // 2 // config.bus_bytes + hold // 4)
            waiting, hold = waiting - taken, hold + taken
        queue.append(start)
        free[unit] = start + hold
        busy[unit] += hold
        done[unit].append(start + hold + more)
        mark = instruction.values.get("mark", 0)
        if mark:
            marks[mark] = done[unit][-1]
    cycles = max((times[-1] for times in done.values() if times), default=dispatch) + _HANDOVER
    return Prediction(
        cycles=cycles,
        marks=marks,
        busy={unit.name.lower(): count for unit, count in busy.items()},
    )
