"""Model of the engine on probes: instructions process numbers that stand for unknown bytes."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction, IsaError
from matloom.arch.isa import FORMATS, WRITABLE_REGIONS, AddressSpace, Opcode, Region
from matloom.arch.softmax import EXPONENTIAL_BYTES, EXPONENTIALS
from matloom.meaning.errors import MeaningError
from matloom.meaning.hashing import hash_values
from matloom.meaning.post import Post
from matloom.meaning.products import prepare_exec
from matloom.meaning.result_sums import ResultSums
from matloom.meaning.state import State, strided_view
from matloom.meaning.terms import FREE
from matloom.program.extent_table import beyond_memory
from matloom.program.instruction_table import InstructionTable

#: Fields that do not affect an instruction's work on chip.
_OFF_CHIP_FIELDS = {"wait_load", "wait_exec", "wait_post", "wait_store", "timestamp", "dram_offset"}


def unwritten(count: int, *keys: int) -> NDArray[np.float64]:
    """Return probes (numbers for unknown values) for `count` bytes that nothing has written.

    They differ from the numbers (probes) for unknown bytes of tensors; `keys` identify the memory.
    """
    bits = hash_values(np.arange(count), 8, *keys) >> np.uint64(40)
    return bits.astype(np.float64) + FREE


def new_state(
    config: Config,
    regions: Mapping[Region, NDArray[np.float64]],
    sums: ResultSums,
    call: int = 0,
) -> State:
    """Return the state of an engine that has not run yet; `regions` hold bytes or probes.

    Probes are numbers for unknown bytes. Those for unwritten memory depend on `call`: 0 for a first
    call, 1 for a repeated one.
    """
    accumulators = unwritten(config.acc_entries * config.columns, 1, call).astype(np.int64)
    return State(
        config=config,
        spad=unwritten(config.spad_bytes, 2, call),
        accumulators=accumulators.reshape(config.acc_entries, config.columns),
        table=_unwritten_tables(config, call),
        exponentials=unwritten(EXPONENTIALS * EXPONENTIAL_BYTES, 4, call).astype(np.int64),
        regions=dict(regions),
        sums=sums,
    )


def _unwritten_tables(config: Config, call: int) -> NDArray[np.int64]:
    """Return POST's byte tables (tables, 256) before any is filled."""
    count = config.byte_tables
    return unwritten(count * 256, 3, call).astype(np.int64).reshape(count, 256)


def run(state: State, commands: bytes) -> None:
    """Run the instructions of a command buffer on `state`, until END.

    Raises
    ------
    MeaningError
        There is no END, an instruction accesses addresses outside its memory, or weights or
        parameters are not constants.
    """
    try:
        table = InstructionTable.unpack(commands)
    except IsaError as error:
        raise MeaningError(str(error)) from None
    sizes = {region: len(held) for region, held in state.regions.items()}
    beyond = set(beyond_memory(table, state.config, sizes).tolist())
    if state.observe is not None:
        state.watch = state.observe(state, table)
    engine = _Engine(state, table)
    # The last one is END.
    for number in range(len(table) - 1):
        try:
            if number in beyond:
                _check_extents(state, table[number])
            alike = engine.run(number)
        except MeaningError as error:
            raise MeaningError(f"{error}, by {instruction_name(number, table[number])}") from None
        if state.watch is not None:
            state.watch(number, alike)


def instruction_name(number: int, instruction: Instruction) -> str:
    """Return how messages name an instruction: by its index and opcode."""
    return f"instruction {number} ({instruction.opcode.name})"


def _check_extents(state: State, instruction: Instruction) -> None:
    """Raise `MeaningError` if an instruction accesses addresses beyond the end of a memory."""
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


class _Engine:
    """Runs the instructions of a command buffer, and prepares equal ones only once.

    Instructions are equal if they differ only in `_OFF_CHIP_FIELDS`; preparing one creates views of
    the memories. Tiles alternate between few places, so of the hundred thousand instructions of a
    large network, one in twenty must be prepared.
    """

    def __init__(self, state: State, table: InstructionTable) -> None:
        self._state, self._table = state, table
        self._keys, self._offsets = _grouping_keys(table), table.column("dram_offset")
        #: For each key, the first instruction with it, the function that runs instructions with it,
        #: and whether this function takes an offset in external memory.
        self._alike: dict[bytes, tuple[Instruction, Callable[..., None], bool]] = {}

    def run(self, number: int) -> Instruction:
        """Run instruction `number`, whose addresses are in bounds.

        Return the first one equal to it.
        """
        key = self._keys[number]
        found = self._alike.get(key)
        if found is None:
            found = self._alike[key] = self._prepare(self._table[number])
        alike, work, moves = found
        if moves:
            work(self._offsets[number])
        else:
            work()
        return alike

    def _prepare(self, instruction: Instruction) -> tuple[Instruction, Callable[..., None], bool]:
        """Return an instruction, a function that runs it, and whether that needs an offset."""
        opcode, fields = instruction.opcode, instruction.values
        if opcode is Opcode.LOAD or opcode is Opcode.STORE:
            return instruction, _prepare_transfer(self._state, opcode, fields), True
        made = prepare_exec if opcode is Opcode.EXEC else Post
        return instruction, made(self._state, fields), False


def _grouping_keys(table: InstructionTable) -> list[bytes]:
    """Return a key for each instruction, equal if they do the same work on chip."""
    keys = [b""] * len(table)
    for opcode, numbers, columns in table.columns():
        fields = [column for name, column in columns.items() if name not in _OFF_CHIP_FIELDS]
        if not fields:
            continue
        rows = np.stack([np.full(len(numbers), int(opcode)), *fields], axis=1)
        packed, size = rows.tobytes(), rows[0].nbytes
        for place, number in enumerate(numbers.tolist()):
            keys[number] = packed[place * size : (place + 1) * size]
    return keys


def _prepare_transfer(
    state: State, opcode: Opcode, fields: Mapping[str, int]
) -> Callable[[int], None]:
    """Return a function that runs a LOAD or STORE, given its offset in the region.

    It copies planes of rows between the region and the scratchpad, where bytes may lie apart. If
    the instruction fills the scratchpad with a constant, the offset is ignored.
    """
    shape = (fields["planes"], fields["rows"], fields["row_bytes"])
    steps = (fields["spad_plane_step"], fields["spad_row_step"], 1 << fields["spread"])
    on_chip = strided_view(state.spad, fields["spad_addr"], shape, steps)
    if fields["fill"]:
        value = (fields["fill_value"] ^ 128) - 128
        return lambda _offset: on_chip.fill(value)
    if opcode is Opcode.STORE and fields["region"] not in WRITABLE_REGIONS:
        raise MeaningError(f"region {fields['region']} must only be read")
    region = state.regions[Region(fields["region"])]
    apart = (fields["dram_plane_step"], fields["dram_row_step"], 1)

    def load(offset: int) -> None:
        """Copy rows from an offset in the region to the scratchpad."""
        on_chip[...] = strided_view(region, offset, shape, apart)

    def store(offset: int) -> None:
        """Copy rows from the scratchpad to an offset in the region."""
        strided_view(region, offset, shape, apart)[...] = on_chip

    return load if opcode is Opcode.LOAD else store
