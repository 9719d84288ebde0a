"""Addresses of 32-bit registers in the memory of the register block."""

from amaranth.hdl import Cat, Mux

from matloom.arch.csr import ALL_REGISTERS, Access

__all__ = ["PLACE_BITS", "STORED", "place_of"]

#: Registers that are written and read as a whole. They are read from a memory, because a
#: multiplexer of so many words would take several tables per bit.
STORED = [item for item in ALL_REGISTERS if item.access is Access.RW and item.width == 32]

#: Width of a register's index in that memory.
PLACE_BITS = 4


def place_of(address):
    """Return the index of a stored register in memory; registers of regions are in the upper half.

    Parameters
    ----------
    address
        Offset of the register, as an int or as an Amaranth value; the result is of the same kind.
    """
    if isinstance(address, int):
        upper = address >> 6 & 1
        return upper << 3 | (address >> 3 & 7 if upper else address >> 2 & 7)
    return Cat(Mux(address[6], address[3:6], address[2:5]), address[6])


assert len({place_of(item.offset) for item in STORED}) == len(STORED)
