"""Base class of preprocessing, which turns raw data into an input of a network."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from matloom.ir.graph import Array
from matloom.kernels.real import quantise_array
from matloom.pre.errors import RawDataError
from matloom.program import TensorInfo


@dataclass(frozen=True, kw_only=True)
class Preprocessing(ABC):
    """Converts raw data to the numbers that a network was trained on.

    Definitions are immutable, and equal if all of their fields are.
    """

    #: Maximum number of axes of a raw sample; an array with one more has several samples.
    axes: ClassVar[int]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of a prepared sample, without the batch axis."""

    @abstractmethod
    def apply(self, raw: Array) -> Array:
        """Return one raw sample as real numbers, float32 of `shape`."""

    @abstractmethod
    def random(self, generator: np.random.Generator) -> Array:
        """Return a random raw sample."""

    @abstractmethod
    def describe(self, info: TensorInfo) -> str:
        """Return a phrase on what is computed for an input."""

    def prepare(self, raw: Array, info: TensorInfo) -> Array:
        """Return one raw sample as a sample of an input, quantised as by QUANTIZE."""
        return quantise_array(info, self.apply(raw))

    def require(self, info: TensorInfo) -> None:
        """Check that an input of a network has the shape that this preprocessing makes.

        Raises `RawDataError` if it does not, and `UserError` if it has integers without a scale.
        """
        given, made = (_without_unit_axes(shape) for shape in (info.shape[1:], self.shape))
        if given not in (made, [math.prod(self.shape)]):
            raise RawDataError(
                f"preprocessing must make the shape of input {info.name!r}, {info.shape}, "
                f"not {(1, *self.shape)}"
            )
        quantise_array(info, np.zeros(1, np.float32))

    def batch(self, raw: Array | Sequence[Array], info: TensorInfo) -> Array:
        """Return raw samples as an input, joined along its first axis.

        One sample is an array of at most `axes` axes; several are a list, or an array with more
        axes. Raises `RawDataError` for an empty list.
        """
        many = isinstance(raw, list | tuple) or np.ndim(raw) > self.axes
        samples = [self.prepare(np.asarray(sample), info) for sample in (raw if many else [raw])]
        if not samples:
            raise RawDataError(
                f"input {info.name!r} must have at least one sample, not an empty list"
            )
        return np.stack(samples).reshape(len(samples), *info.shape[1:])


def _without_unit_axes(shape: Sequence[int]) -> list[int]:
    """Return a shape without its axes of size 1."""
    return [length for length in shape if length != 1]


def as_tuples(value: Any) -> Any:
    """Return a value with lists replaced by tuples, so that it can be hashed and compared."""
    return tuple(map(as_tuples, value)) if isinstance(value, list | tuple) else value
