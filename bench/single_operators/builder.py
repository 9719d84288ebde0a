"""Tensors and arrays for random operators, with all scales that a file may have."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from single_operators.model_file import FileNetwork, FileOperator, FileTensor

#: Types of the first input, as often as networks have them.
_TYPES = (*["int8"] * 5, *["int16"] * 2, *["uint8"] * 2, *["float32"] * 2)
#: Ratios of scales: equal, powers of two, just beside one, and far apart.
_RATIOS = (
    *(1.0, 1 - 2**-24, 1 + 2**-23, 1 - 2**-12, 0.5, 2.0, 2**-7, 2**-8, 128.0, 256.0, 512.0, 1024.0),
    *(2**-16, 2.0**16, 2.0**-31, 2.0**30, 1e-9, 1e9, 0.999, 1.001, 1 / 3, 3.0),
)
_INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "int4", "bool")


class Builder:
    """Tensors of a random one-operator network under construction, and random choices."""

    def __init__(self, seed: int) -> None:
        self.random, self.noise = random.Random(seed), np.random.default_rng([seed, 1])
        self.tensors: list[FileTensor] = []
        self.inputs: list[int] = []
        self.dtype = self.random.choice(_TYPES)
        #: Whether scales and zero points are at their ends.
        self.extreme = self.chance(0.4)
        self.base = self.random.choice((0.5, 0.1, 0.0235, 2**-5, 2**-7, 1 / 256, 1e-3))
        if self.extreme:
            self.base = self.random.choice((self.base, 1e-6, 1e-12, 1e-30, 10.0, 1e4, 1e20))

    def chance(self, share: float) -> bool:
        """Return True with probability `share`."""
        return self.random.random() < share

    def scale(self) -> float:
        """Return a random scale, near the network's base scale unless the network is `extreme`."""
        if self.extreme and self.chance(0.7):
            ratio = self.random.choice(_RATIOS)
        else:
            ratio = self.random.choice((1.0, 0.5, 2.0, self.random.uniform(0.2, 5)))
        return float(np.float32(min(max(self.base * ratio, 1e-37), 1e37)))

    def zero(self, dtype: str) -> int:
        """Return a random zero point that a type allows."""
        if dtype == "int16":
            return 0
        low, high = (0, 255) if dtype == "uint8" else (-128, 127)
        ends = (low, high, (low + high + 1) // 2)
        return self.random.choice((*ends, self.random.randint(low, high)))

    def quantisation(self, dtype: str) -> dict[str, Any]:
        """Return a random scale and zero point as keyword arguments; none for plain types."""
        if dtype not in ("int8", "uint8", "int16"):
            return {}
        return {"scales": (self.scale(),), "zeros": (self.zero(dtype),)}

    def tensor(self, shape: Sequence[int], dtype: str | None = None, **more: Any) -> int:
        """Add a tensor, quantised as its type allows unless `more` has scales; return its index."""
        dtype = dtype or self.dtype
        given = {**self.quantisation(dtype), **more} if "scales" not in more else more
        name = f"t{len(self.tensors)}"
        self.tensors.append(FileTensor(name=name, shape=tuple(shape), dtype=dtype, **given))
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], dtype: str | None = None, **more: Any) -> int:
        """Add a network input; return its tensor number."""
        number = self.tensor(shape, dtype, **more)
        self.inputs.append(number)
        return number

    def like(self, number: int, shape: Sequence[int] | None = None, **more: Any) -> int:
        """Add a tensor with the type, quantisation and, by default, shape of another.

        Returns the number of the new tensor.
        """
        other = self.tensors[number]
        kept = {"scales": other.scales, "zeros": other.zeros, "axis": other.axis, **more}
        return self.tensor(other.shape if shape is None else shape, other.dtype, **kept)

    def values(self, shape: Sequence[int], dtype: str) -> NDArray[Any]:
        """Return an array of random values from the whole range of a type."""
        return _random(self.noise, tuple(shape), dtype, 10.0)

    def constant(self, shape: Sequence[int], dtype: str | None = None, **more: Any) -> int:
        """Add a constant, of random values unless `data` is given; return its tensor number."""
        dtype = dtype or self.dtype
        return self.tensor(shape, dtype, **{"data": self.values(shape, dtype), **more})

    def numbers(self, values: Any, dtype: str = "int32") -> int:
        """Add an integer constant, such as axes or a shape; return its tensor number."""
        data = np.array(values, dtype)
        return self.tensor(data.shape, dtype, data=data)

    def shape(self, rank: int | None = None, most: int = 6) -> tuple[int, ...]:
        """Return a random shape of sizes up to `most`; the first axis is mostly 1."""
        rank = self.random.choice((1, 2, 3, 4, 4)) if rank is None else rank
        shape = [self.random.randint(1, most) for _ in range(rank)]
        if rank and self.chance(0.7):
            shape[0] = 1
        return tuple(shape)

    def network(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: tuple[str, dict[str, Any]] | None = None,
        version: int = 1,
    ) -> FileNetwork:
        """Return a network file of one operator with these inputs, outputs and options."""
        operator = FileOperator(
            name=name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            options=options,
            version=version,
        )
        return FileNetwork(
            tensors=tuple(self.tensors),
            operators=(operator,),
            inputs=tuple(self.inputs),
            outputs=tuple(outputs),
        )


def _random(
    noise: np.random.Generator, shape: tuple[int, ...], dtype: str, limit: float
) -> NDArray[Any]:
    """Return random numbers of a type; floats are between `-limit` and `limit`."""
    if dtype not in _INTEGERS:
        return noise.uniform(-limit, limit, shape).astype(dtype)
    if dtype == "bool":
        return noise.integers(0, 2, shape).astype(bool)
    if dtype in ("int32", "int64"):
        return noise.integers(-100, 100, shape).astype(dtype)
    if dtype == "int4":
        return noise.integers(-7, 8, shape).astype(np.int8)
    limits = np.iinfo(dtype)
    return noise.integers(limits.min, limits.max + 1, shape).astype(dtype)


def input_arrays(network: FileNetwork, seed: int, calls: int = 3) -> list[list[NDArray[Any]]]:
    """Return random inputs of a network: a list of arrays for each call, in the file's order.

    In the second call, most values are the type's limits or the zero point.
    """
    noise = np.random.default_rng([seed, 2])
    found = []
    for call in range(calls):
        arrays = []
        for number in network.inputs:
            tensor = network.tensors[number]
            if tensor.given is not None:
                arrays.append(tensor.given)
                continue
            array = _random(noise, tensor.shape, tensor.dtype, (3.0, 8.0, 100.0)[call % 3])
            if call == 1 and tensor.dtype in ("int8", "uint8", "int16") and array.size:
                limits = np.iinfo(tensor.dtype)
                zero = int(np.clip((*tensor.zeros, 0)[0], limits.min, limits.max))
                ends = np.array([limits.min, limits.max, zero, zero], tensor.dtype)
                array = np.where(
                    noise.random(array.shape) < 0.8, noise.choice(ends, array.shape), array
                )
            arrays.append(array.astype(tensor.dtype))
        found.append(arrays)
    return found
