"""Finds the scratchpad banks that an instruction reads and writes, and how often."""

from typing import NamedTuple

from matloom.arch.instruction import Instruction
from matloom.arch.isa import FILLS, Destination, Opcode, RowFunction, Source, post_element_bytes
from matloom.arch.machine import Machine
from matloom.arch.softmax_cycles import PASSES

#: Banks that a transfer touches, in ascending order: index of the bank, and its share of the bytes.
Parts = tuple[tuple[int, float], ...]


class AccessStream(NamedTuple):
    """Accesses of an instruction to a range of addresses, in the order of the banks.

    Members
    -------
    parts:
        Banks in the order of the accesses, each with its share of them.
    rate:
        Accesses per cycle if none has to wait.
    """

    parts: Parts = ()
    rate: float = 0.0

    def by_bank(self) -> dict[int, float]:
        """Return the average number of accesses per cycle, by index of bank."""
        return {bank: share * self.rate for bank, share in self.parts}


#: Stream without accesses to the scratchpad.
NOTHING = AccessStream()


class BankUse(NamedTuple):
    """Reads and writes of an instruction at the banks of the scratchpad.

    Members
    -------
    reads:
        Reads of EXEC's inputs, of POST's vectors, or of the bytes that STORE moves.
    writes:
        Writes of POST's results, or of the bytes that LOAD moves.
    weights:
        Reads of EXEC's weights.
    params:
        Bank of POST's parameters; -1 if it has none.
    """

    reads: AccessStream = NOTHING
    writes: AccessStream = NOTHING
    weights: AccessStream = NOTHING
    params: int = -1


def _bank_shares(start: int, end: int, bank_bytes: int) -> Parts:
    """Return the banks of a range of bytes, each with its fraction of the range.

    The bytes are those from `start` to `end` (exclusive).
    """
    first, last = start // bank_bytes, (end - 1) // bank_bytes
    if first >= last:
        return ((first, 1.0),)
    size, found = end - start, []
    for bank in range(first, last + 1):
        low, high = max(start, bank * bank_bytes), min(end, (bank + 1) * bank_bytes)
        found.append((bank, (high - low) / size))
    return tuple(found)


def bank_use(instruction: Instruction, machine: Machine, cycles: int) -> BankUse:
    """Return the accesses of an instruction, which takes `cycles` cycles, to scratchpad banks.

    `cycles` is how long an EXEC or POST streams.
    """
    values = instruction.values
    if instruction.opcode is Opcode.EXEC:
        return _exec_use(values, machine, cycles)
    if instruction.opcode is Opcode.POST:
        return _post_use(values, machine, cycles)
    moved = _transfer_stream(values, machine)
    return BankUse(writes=moved) if instruction.opcode is Opcode.LOAD else BankUse(reads=moved)


def _exec_use(values: dict[str, int], machine: Machine, cycles: int) -> BankUse:
    """Return the accesses of an EXEC, with these field values, that takes `cycles` cycles."""
    get, bank_bytes = values.get, machine.bank_bytes
    steps = values["kernel_rows"] * values["kernel_cols"] * values["blocks"] * values["oc_blocks"]
    start = get("input_addr", 0)
    end = start + (get("input_rows", 1) - 1) * get("input_pitch", 0) + get("input_row_bytes", 1)
    rate = values["width"] * values["height"] * steps / cycles
    reads = AccessStream(_bank_shares(start, max(end, start + 1), bank_bytes), rate)
    if get("weights_fixed"):
        return BankUse(reads=reads)
    first = get("weight_addr", 0)
    weights = _bank_shares(first, first + steps * machine.tile_bytes, bank_bytes)
    return BankUse(
        reads=reads, weights=AccessStream(weights, steps * machine.tile_load_cycles / cycles)
    )


def _post_use(values: dict[str, int], machine: Machine, cycles: int) -> BankUse:
    """Return the accesses of a POST, with these field values, that takes `cycles` cycles."""
    get = values.get
    vectors = values["width"] * values["height"] * values["oc_blocks"]
    rate = vectors * post_element_bytes(values) / cycles
    row_function = get("softmax", 0)

    def operand_accesses(name: str, rate: float) -> AccessStream:
        """Return the accesses to an operand; its fields begin with `name`, source or dest."""
        start = get(f"{name}_addr", 0)
        rows = (values["height"] - 1) * get(f"{name}_pitch", 0)
        end = start + rows + max(1, values["width"] * get("x_step", 0))
        return AccessStream(_bank_shares(start, end, machine.bank_bytes), rate)

    passes = PASSES if row_function == RowFunction.SOFTMAX else 1
    reads = (
        operand_accesses("source", passes * rate) if get("source", 0) == Source.SPAD else NOTHING
    )
    fills = get("table", 0) in FILLS or row_function == RowFunction.FILL
    written = get("destination", 0) == Destination.SPAD and not fills
    params = get("param_addr", 0) // machine.bank_bytes if machine.post_reads(values) else -1
    return BankUse(
        reads=reads, writes=operand_accesses("dest", rate) if written else NOTHING, params=params
    )


def _transfer_stream(values: dict[str, int], machine: Machine) -> AccessStream:
    """Return the accesses of a LOAD or STORE, with these field values, to the scratchpad."""
    get = values.get
    start = get("spad_addr", 0)
    planes = (values["planes"] - 1) * get("spad_plane_step", 0)
    rows = (values["rows"] - 1) * get("spad_row_step", 0)
    end = start + planes + rows + values["row_bytes"]
    return AccessStream(_bank_shares(start, end, machine.bank_bytes), 1 / machine.beat_cycles)
