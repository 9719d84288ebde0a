"""Checks the completion-time table of a run against its instructions and their waits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import UNITS, Destination, Opcode, Region, Source
from matloom.device.driver import Counters

#: Bytes moved by an instruction of `regular_instructions`, and number of instructions in a round.
_BYTES, _ROUND = 64, len(UNITS)

#: Number of vectors that an EXEC of `regular_instructions` streams.
_STEPS = 16

#: Number of rounds at the start that may be irregular, because instructions are still fetched.
_UNEVEN_ROUNDS = 2

#: Maximum cycles from the last completion to the end of a run of `regular_instructions`.
_END_CYCLES = 64


def _opcodes_and_slots(instructions: Sequence[Instruction]) -> list[tuple[Opcode, int]]:
    """Return opcode and timestamp slot of each instruction that has a slot, except for END."""
    return [
        (each.opcode, each.values.get("timestamp", 0))
        for each in instructions
        if each.opcode in UNITS and each.values.get("timestamp", 0)
    ]


def wrong_timestamps(
    instructions: Sequence[Instruction], timestamps: Mapping[int, int], cycles: int
) -> str:
    """Return what is wrong with completion times after a run of `cycles`; empty if nothing is.

    Slots that no instruction names must be empty. The last slot that each unit writes must be
    filled; others may be lost if another is written within four cycles. An instruction must
    complete after the one before it in its unit and after all that it waits for, and not after the
    end of the run; this is checked for slots that only one instruction names.
    """
    marks = _opcodes_and_slots(instructions)
    uses = Counter(slot for _opcode, slot in marks)
    unused = sorted(set(timestamps) - set(uses))
    if unused:
        return f"slot {unused[0]} holds {timestamps[unused[0]]}, and no instruction names it"
    for opcode, slot in dict(marks).items():
        if slot not in timestamps:
            return f"slot {slot}, the last of {opcode.name}, is empty"
    known = {slot: timestamps[slot] for slot in timestamps if uses[slot] == 1}
    # For each unit, the earliest completion of each of its instructions.
    earliest: dict[Opcode, list[int]] = {unit: [] for unit in UNITS}
    for number, instruction in enumerate(instructions):
        bound = 1 + _predecessors_end(instruction, earliest)
        if instruction.opcode not in UNITS:
            continue
        done = known.get(instruction.values.get("timestamp", 0), bound)
        if not bound <= done <= cycles:
            return f"instruction {number} completes in cycle {done}, not in {bound} to {cycles}"
        earliest[instruction.opcode].append(done)
    return ""


def _predecessors_end(instruction: Instruction, earliest: Mapping[Opcode, Sequence[int]]) -> int:
    """Return the earliest cycle by which all that an instruction must wait for has completed.

    `earliest` has the earliest completion of each instruction so far, by unit.
    """
    latest = 0
    for unit in UNITS:
        back = instruction.values.get(f"wait_{unit.name.lower()}", 0)
        back = 1 if instruction.opcode is unit else back
        if 0 < back <= len(earliest[unit]):
            latest = max(latest, earliest[unit][-back])
    return latest


def regular_instructions(config: Config, slots: Sequence[int]) -> list[Instruction]:
    """Return an instruction for each slot, and END: equal rounds of LOAD, EXEC, POST and STORE.

    Each instruction waits for the one before it. Only STORE accesses external memory.
    """
    row = {"row_bytes": _BYTES, "rows": 1, "planes": 1}
    one = dict.fromkeys(("kernel_rows", "kernel_cols", "blocks", "oc_blocks", "input_rows"), 1)
    fields: dict[Opcode, dict[str, int]] = {
        Opcode.LOAD: {"fill": 1, **row},
        Opcode.EXEC: {
            **one,
            "mode": config.mode_numbers[0],
            "weights_fixed": 1,
            "input_row_bytes": _BYTES,
            "width": _STEPS,
            "height": 1,
        },
        Opcode.POST: {
            "source": Source.SPAD,
            "destination": Destination.SPAD,
            "multiplier": 2**30,
            "shift": 1,
            "clamp_low": -128,
            "clamp_high": 127,
            "width": 16,
            "height": 1,
            "oc_blocks": 1,
            "tail": config.columns,
            "x_step": config.columns,
        },
        Opcode.STORE: {"region": Region.OUTPUT, **row},
    }
    instructions = []
    for number, slot in enumerate(slots):
        opcode, before = UNITS[number % _ROUND], UNITS[(number - 1) % _ROUND]
        wait = {f"wait_{before.name.lower()}": 1} if number else {}
        instructions.append(Instruction(opcode, {"timestamp": slot, **wait, **fields[opcode]}))
    waits = {f"wait_{unit.name.lower()}": 1 for unit in UNITS[: len(slots)]}
    return [*instructions, Instruction(Opcode.END, waits)]


def wrong_regular_timestamps(
    slots: Sequence[int], timestamps: Mapping[int, int], cycles: int
) -> str:
    """Return what is wrong with completion times after `regular_instructions`; empty if nothing.

    Without stalls of memory, from the third round on, each instruction completes as many cycles
    after the one before it as in other rounds.
    """
    if sorted(timestamps) != sorted(slots):
        return f"the table must have the slots {sorted(slots)}, not {sorted(timestamps)}"
    done = [timestamps[slot] for slot in slots]
    steps = [after - before for before, after in pairwise(done)]
    regular = steps[_UNEVEN_ROUNDS * _ROUND :]
    for number, step in enumerate(regular):
        expected = regular[number % _ROUND]
        if step <= 0 or step != expected:
            place = number + 1 + _UNEVEN_ROUNDS * _ROUND
            return f"instruction {place} takes {step} cycles, others of its kind {expected}"
    if not done[-1] < cycles <= done[-1] + _END_CYCLES:
        return f"the last instruction completes in cycle {done[-1]} of {cycles}"
    return ""


def wrong_regular_counters(
    config: Config, slots: Sequence[int], counters: Counters, command_bytes: int
) -> str:
    """Return what is wrong with the counters after `regular_instructions`; empty if nothing.

    A unit may be busy at most from the previous completion to its own, and at least one cycle for
    each beat or vector. The other counters have known values.
    """
    counted = counters.values
    done = [0, *(counters.timestamps[slot] for slot in slots)]
    ran = Counter(UNITS[number % _ROUND] for number in range(len(slots)))
    for place, unit in enumerate(UNITS):
        name = f"{unit.name.lower()}_busy"
        spans = list(pairwise(done))[place::_ROUND]
        longest = sum(after - before for before, after in spans)
        shortest = ran[unit] * (_STEPS if unit is Opcode.POST else _BYTES // config.bus_bytes)
        if name in counted and not shortest <= counted[name] <= longest:
            return f"{name} is {counted[name]}, not {shortest} to {longest}"
    expected = {
        "instructions": len(slots) + 1,
        "exec_stream": ran[Opcode.EXEC] * _STEPS,
        "read_beats": command_bytes // config.bus_bytes,
        "write_beats": ran[Opcode.STORE] * _BYTES // config.bus_bytes,
    }
    wrong = [name for name, value in expected.items() if counted[name] != value]
    return f"{wrong[0]} is {counted[wrong[0]]}, not {expected[wrong[0]]}" if wrong else ""
