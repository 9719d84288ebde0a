"""Chooses the variables that stay in external memory, where the engine updates them in place."""

from collections.abc import Collection, Iterable

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import AddressSpace, Opcode, Region
from matloom.arch.program_file import ALIGNMENT
from matloom.ir.graph import Graph
from matloom.program.accesses import accesses
from matloom.schedule.segment import Place
from matloom.select.partition import EngineRun, Partition


def state_places(
    graph: Graph, parts: Partition, refused: Collection[int]
) -> tuple[dict[int, Place], int]:
    """Return addresses in region ARENA for tensors of variables, by number, and the total size.

    The initial and the final tensor of a variable share an address. Variables get none if the host
    needs them, if another engine run reads them after they are assigned, or if their initial tensor
    is in `refused`.
    """
    places: dict[int, Place] = {}
    end = 0
    for variable in graph.variables:
        pair = variable.before, variable.after
        if variable.before in refused or not _is_updated_in_place(graph, parts, *pair):
            continue
        places.update(dict.fromkeys(pair, Place(region=Region.ARENA, offset=end)))
        size = graph.tensors[variable.before].size_bytes
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return places, end


def _is_updated_in_place(graph: Graph, parts: Partition, before: int, after: int) -> bool:
    """Return whether the engine can write the final value, tensor `after`, over tensor `before`.

    The final value must be made by an engine run, and both values must be read neither by the host
    nor by a later run.
    """
    old, new = before, parts.roots[after]
    # Sums of 32 bits lie in memory as planes of bytes.
    if old == new or graph.tensors[after].dtype == "int32" or graph.tensors[new].data is not None:
        return False
    wanted = [*graph.outputs, *(each.after for each in graph.variables)]
    if [parts.roots[number] for number in wanted].count(new) != 1 or old in _roots_of(
        parts, wanted
    ):
        return False
    last_write = -1
    for at, run in enumerate(parts.runs):
        if not isinstance(run, EngineRun):
            if {old, new} & _roots_of(parts, run.node.inputs):
                return False
        elif new in run.consumed or (old in run.consumed and last_write >= 0):
            return False
        elif new in _roots_of(parts, run.produced):
            if [parts.roots[number] for number in run.produced].count(new) != 1:
                return False
            last_write = at
    return last_write >= 0


def _roots_of(parts: Partition, numbers: Iterable[int]) -> set[int]:
    """Return the tensors of which RESHAPEs make tensors `numbers`, or themselves."""
    return {parts.roots[number] for number in numbers}


def overwritten_addresses(
    instructions: Iterable[Instruction], places: Iterable[tuple[int, int]], config: Config
) -> set[int]:
    """Return the start of each range in `places` that is read after it has been written.

    A LOAD of a variable that is updated in place must see the initial bytes. The rare LOAD that is
    meant to see the new bytes is reported as well.

    Parameters
    ----------
    places:
        Ranges of bytes in region ARENA (half open).
    """
    written = dict.fromkeys(places, False)
    found: set[int] = set()
    if not written:
        return found
    for instruction in instructions:
        if instruction.opcode not in (Opcode.LOAD, Opcode.STORE):
            continue
        for access in accesses(instruction, config):
            if access.space != (AddressSpace.DRAM, Region.ARENA):
                continue
            for start, end in written:
                if access.start < end and start < access.end:
                    if access.write:
                        written[start, end] = True
                    elif written[start, end]:
                        found.add(start)
    return found
