"""Transfers of weights that are not all in the program's image."""

from matloom.select.layout.base import Transfer


def block_transfers(whole: Transfer, blocks: int, size: int, unused: int) -> list[Transfer]:
    """Return the transfers of a chunk: weights by output block, and parameters, if any.

    Parameters
    ----------
    whole:
        The transfer of all bytes of the chunk.
    blocks, size:
        Output blocks, and bytes of the weights of each on chip.
    unused:
        Bytes at the end of each block that the image leaves out.
    """
    used, rest = size - unused, whole.size - blocks * size
    weights = whole._replace(size=used, runs=blocks, step=used, pitch=size)
    params = whole._replace(
        start=whole.start + blocks * used, size=rest, address=whole.address + blocks * size
    )
    return [weights, params] if rest else [weights]
