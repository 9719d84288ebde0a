"""Scratchpad banks that an access touches, computed before its request is shown."""

from amaranth.hdl import C, Cat, Value

from matloom.arch.config import Config

__all__ = ["align_down", "bank_select_of", "crosses_bank"]


def align_down(address: Value, boundary: int) -> Value:
    """Return an address rounded down to a multiple of a power of two."""
    bits = (boundary - 1).bit_length()
    return Cat(C(0, bits), address[bits:])


def crosses_bank(address: Value, width: int, config: Config) -> Value:
    """Return whether `width` bytes at an address continue in the next bank.

    The test splits the address within a bank into high bits, which must all be set, and low bits,
    because `width` rounded up to a power of two divides the size of a bank.
    """
    bank_bits = (config.bank_bytes - 1).bit_length()
    span_bits = (width - 1).bit_length()
    at_end = address[span_bits:bank_bits].all()
    return at_end & (address[:span_bits] > (1 << span_bits) - width)


def bank_select_of(address: Value, width: int, config: Config) -> Value:
    """Return a bit for each bank, bank 0 lowest, set if `width` bytes at an address touch it.

    Addresses wrap at the width of `address`, so that negative ones are far beyond the end. An
    access outside all banks selects none.
    """
    bank_bits = (config.bank_bytes - 1).bit_length()
    bank = address[bank_bits:]
    crosses = crosses_bank(address, width, config)
    bank_select = []
    for number in range(config.spad_banks):
        before = (number - 1) % (1 << len(bank))
        bank_select.append((bank == number) | (crosses & (bank == before)))
    return Cat(bank_select)
