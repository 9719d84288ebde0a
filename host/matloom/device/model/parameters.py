"""Bias, multiplier and shift of a POST, per channel or for all channels."""

import numpy as np
from numpy.typing import NDArray

#: One value for all channels, or an array with a value per channel.
_Parameter = int | NDArray[np.int64]


def parameters_of(
    fields: dict[str, int], spad: NDArray[np.uint8], columns: int
) -> tuple[_Parameter, _Parameter, _Parameter]:
    """Return bias, multiplier and shift, each broadcastable to (blocks, height, width, columns)."""
    bias: _Parameter = fields["bias"]
    multiplier: _Parameter = fields["multiplier"]
    shift: _Parameter = fields["shift"]
    bias_bytes = 4 * columns * fields["channel_bias"]
    size = bias_bytes + 5 * columns * fields["channel_scale"]
    if not size:
        return bias, multiplier, shift
    blocks, start = fields["oc_blocks"], fields["param_addr"]
    raw = spad[start : start + blocks * size].reshape(blocks, size)

    def channelwise(first: int, dtype: str, count: int) -> NDArray[np.int64]:
        """Return `count` bytes from each channel's parameters as numbers of a dtype."""
        picked = np.ascontiguousarray(raw[:, first : first + count]).view(dtype)
        return picked.astype(np.int64).reshape(blocks, 1, 1, columns)

    if fields["channel_bias"]:
        bias = channelwise(0, "<i4", 4 * columns)
    if fields["channel_scale"]:
        multiplier = channelwise(bias_bytes, "<i4", 4 * columns)
        shift = channelwise(bias_bytes + 4 * columns, "i1", columns)
    return bias, multiplier, shift
