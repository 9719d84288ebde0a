"""Instructions in the form in which `predict` dispatches them: costs, units, sizes and waits."""

from collections.abc import Iterable, Iterator

from matloom.arch.instruction import Instruction
from matloom.arch.isa import FORMATS, INSTRUCTION_WORD_BYTES, UNITS, Opcode, Region
from matloom.arch.machine import Machine
from matloom.cost.timing import Timing, shared_timings

#: Wait fields, in the order of `UNITS`: n waits for the nth-last instruction of the unit, counting
#: from the last one dispatched; 0 does not wait.
WAIT_FIELDS = ("wait_load", "wait_exec", "wait_post", "wait_store")

#: Waits for units: index in `UNITS`, and the value of the wait field or, once dispatched, the index
#: of the instruction among those of its unit.
Waits = tuple[tuple[int, int], ...]

#: An instruction before it enters its queue: cost (None if it is skipped), index of its unit, size
#: in bytes, waits, and timestamp (0 if it has none). A plain tuple for speed.
Command = tuple[Timing | None, int, int, Waits, int]

#: Instruction sizes in bytes, by opcode.
SIZES = {
    opcode: each.instruction_words * INSTRUCTION_WORD_BYTES for opcode, each in FORMATS.items()
}

_UNITS = {unit: number for number, unit in enumerate(UNITS)}


def commands(
    instructions: list[Instruction],
    machine: Machine,
    costs: Iterable[Timing] | None,
    *,
    resident: bool,
) -> Iterator[Command]:
    """Yield each instruction except END with its cost, unit, size, waits and timestamp.

    Parameters
    ----------
    costs:
        Cost of each instruction except END; None computes them.
    resident:
        Whether LOADs of constants are skipped.
    """
    dispatched = [each for each in instructions if each.opcode is not Opcode.END]
    costs = map(shared_timings(machine).of, dispatched) if costs is None else costs
    known: dict[tuple[int | None, ...], Waits] = {}
    for instruction, cost in zip(dispatched, costs, strict=True):
        opcode, get = instruction.opcode, instruction.values.get
        counts = tuple(map(get, WAIT_FIELDS))
        waits = known.get(counts)
        if waits is None:
            waits = tuple([(unit, count) for unit, count in enumerate(counts) if count])
            known[counts] = waits
        skips = resident and opcode is Opcode.LOAD and get("region") == Region.PROGRAM
        timing = None if skips else cost
        yield timing, _UNITS[opcode], SIZES[opcode], waits, get("timestamp", 0)
