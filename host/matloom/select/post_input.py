"""Tensors that POST combines with a layer's sums or results, and sums that several layers share."""

from dataclasses import dataclass
from enum import Flag, auto


@dataclass(frozen=True, kw_only=True)
class PostInput:
    """A tensor that POST reads in addition to the sums of a layer, and its use.

    The tensor is the second input of the layer, or its only one.

    Members
    -------
    post:
        Fields of a POST that writes the accumulators of a tile before its results are made; only
        for outputs of one limb. With the destination `ACC_ADD` it adds the tensor to the sums. With
        `ACC_SET` it sets the accumulators to the tensor, and EXEC keeps the larger of them and its
        sums; a parameter block then has the parameters of results, followed by those of this POST.
        None if the POST of results reads a byte of the tensor with each sum.
    multiplies:
        Without `post`, whether POST multiplies the sums by these bytes. Otherwise, it adds the
        bytes to the results by means of the layer's table.
    position_bytes, missing:
        If the tensor has another layout than the output, bytes of its dense positions; 0 otherwise.
        If it has fewer blocks of channels, the bytes that POST adds in the other blocks.
    """

    post: dict[str, int] | None = None
    multiplies: bool = False
    position_bytes: int = 0
    missing: bytes = b""

    @property
    def adds_results(self) -> bool:
        """Whether POST, which turns sums into bytes, adds the tensor to these bytes."""
        return self.post is None and not self.multiplies


class SharedSums(Flag):
    """Flags of a layer that adds to sums of an earlier stage, or leaves its sums to a later one."""

    NONE = 0
    #: The layer adds to the sums that an earlier one left in the accumulators.
    CONTINUES = auto()
    #: The layer leaves its sums in the accumulators for a later one, and makes no results.
    UNFINISHED = auto()
