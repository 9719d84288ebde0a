"""The engine on probes: instructions move, sum and requantise the numbers that represent bytes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction, IsaError
from matloom.arch.isa import FORMATS, WRITABLE_REGIONS, AddressSpace, Opcode, Region
from matloom.meaning.errors import MeaningError
from matloom.meaning.post import post
from matloom.meaning.products import accumulate
from matloom.meaning.state import State, view
from matloom.meaning.terms import FREE, mixed
from matloom.program.extent_table import beyond_memory
from matloom.program.instruction_table import InstructionTable

__all__ = ["name_of", "new_state", "run", "unwritten"]


def unwritten(count: int, *keys: int) -> NDArray[np.float64]:
    """Return numbers for memory that nothing wrote, different from those of any tensor."""
    bits = mixed(np.arange(count), 8, *keys) >> np.uint64(40)
    return bits.astype(np.float64) + FREE


def new_state(
    config: Config, regions: Mapping[Region, NDArray[np.float64]], call: int = 0
) -> State:
    """Return an engine that has not run yet; `regions` hold bytes or probes.

    Unwritten memory differs from call to call.
    """
    accumulators = unwritten(config.acc_entries * config.columns, 1, call).astype(np.int64)
    return State(
        config=config,
        spad=unwritten(config.spad_bytes, 2, call),
        accumulators=accumulators.reshape(config.acc_entries, config.columns),
        table=unwritten(256, 3, call).astype(np.int64),
        regions=dict(regions),
    )


def run(state: State, commands: bytes) -> None:
    """Run a command buffer until END.

    Raises
    ------
    MeaningError
        There is no END, an instruction accesses addresses outside its memory, or weights or
        parameters are not constants.
    """
    try:
        table = InstructionTable.unpacked(commands)
    except IsaError as error:
        raise MeaningError(str(error)) from None
    sizes = {region: len(held) for region, held in state.regions.items()}
    beyond = set(beyond_memory(table, state.config, sizes).tolist())
    if state.observe is not None:
        state.watch = state.observe(state, list(table.instructions))
    for number, instruction in enumerate(table.instructions):
        if instruction.opcode is Opcode.END:
            return
        try:
            if number in beyond:
                _check_extents(state, instruction)
            _execute(state, instruction)
        except MeaningError as error:
            raise MeaningError(f"{error}, by {name_of(number, instruction)}") from None
        if state.watch is not None:
            state.watch(number, instruction)


def name_of(number: int, instruction: Instruction) -> str:
    """Return the name of an instruction in messages."""
    return f"instruction {number} ({instruction.opcode.name})"


def _check_extents(state: State, instruction: Instruction) -> None:
    get, config = instruction.values.get, state.config
    for extent in FORMATS[instruction.opcode].extents:
        end = extent.end(get, config)
        if end is None:
            continue
        if extent.memory is AddressSpace.DRAM:
            region = Region(instruction.values["region"])
            size = len(state.regions.get(region, ()))
        elif extent.memory is AddressSpace.ACC:
            size = config.acc_entries
        else:
            size = config.spad_bytes
        if end > size:
            raise MeaningError(f"an extent must end by {size}, not {end}")


def _execute(state: State, instruction: Instruction) -> None:
    if instruction.opcode is Opcode.EXEC:
        accumulate(state, instruction.values)
    elif instruction.opcode is Opcode.POST:
        post(state, instruction.values)
    else:
        _transfer(state, instruction.opcode, instruction.values)


def _transfer(state: State, opcode: Opcode, fields: Mapping[str, int]) -> None:
    """Copy planes of rows between a region and the scratchpad, where bytes may lie apart."""
    shape = (fields["planes"], fields["rows"], fields["row_bytes"])
    on_chip = view(
        state.spad,
        fields["spad_addr"],
        shape,
        (fields["spad_plane_step"], fields["spad_row_step"], 1 << fields["spread"]),
    )
    if fields["fill"]:
        on_chip[...] = (fields["fill_value"] ^ 128) - 128
        return
    if opcode is Opcode.STORE and fields["region"] not in WRITABLE_REGIONS:
        raise MeaningError(f"region {fields['region']} must only be read")
    outside = view(
        state.regions[Region(fields["region"])],
        fields["dram_offset"],
        shape,
        (fields["dram_plane_step"], fields["dram_row_step"], 1),
    )
    if opcode is Opcode.LOAD:
        on_chip[...] = outside
    else:
        outside[...] = on_chip
