"""Random SVDF of int8 in files as converters write them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file


@dataclass(frozen=True, kw_only=True)
class SvdfFile:
    """One SVDF, with a memory of `state` whose weights have `bits` bits."""

    batch: int = 1
    depth: int = 5
    units: int = 7
    rank: int = 2
    memory: int = 6
    state: str = "int16"
    bits: int = 10
    zero: int = 0
    biased: bool = True

    def content(self, seed: int) -> bytes:
        """Return the bytes of the file, with random weights, biases and scales."""
        random = np.random.default_rng(seed)
        filters, most = self.units * self.rank, 2 ** (self.bits - 1)
        features = random.integers(-127, 128, (filters, self.depth)).astype(np.int8)
        time = random.integers(-most, most, (filters, self.memory)).astype(self.state)
        data, feature, weight = (float(random.uniform(0.005, 0.02)) for _ in range(3))
        # A third of the range of the state and of the output is about their deviation.
        third = 10000 if self.state == "int16" else 40
        state = data * feature * 74**2 * self.depth**0.5 / third
        output = state * weight * third * most * (self.memory * self.rank / 3) ** 0.5 / 40
        tensors = [
            _tensor("x", (self.batch, self.depth), data, _zero(random)),
            _tensor("features", features.shape, feature, data=features),
            _tensor("time", time.shape, weight, data=time, dtype=self.state),
        ]
        if self.biased:
            bias = random.integers(-9000, 9000, self.units).astype(np.int32)
            product = state * weight
            tensors.append(_tensor("bias", bias.shape, product, data=bias, dtype="int32"))
        kept = (self.batch, self.memory * filters)
        tensors += [
            _tensor("state", kept, state, self.zero, dtype=self.state, variable=True),
            _tensor("y", (self.batch, self.units), output, _zero(random)),
        ]
        last = len(tensors) - 1
        operator = FileOperator(
            name="SVDF",
            inputs=(0, 1, 2, 3 if self.biased else -1, last - 1),
            outputs=(last,),
            options=("SVDFOptions", {"rank": self.rank, "fusedActivationFunction": 1}),
            version=3,
        )
        network = FileNetwork(
            tensors=tuple(tensors), operators=(operator,), inputs=(0,), outputs=(last,)
        )
        return write_file(network)


def _zero(random: np.random.Generator) -> int:
    """Return a random int8 zero point."""
    return int(random.integers(-128, 128))


def _tensor(
    name: str, shape: tuple[int, ...], scale: float, zero: int = 0, **others: Any
) -> FileTensor:
    """Return a tensor quantised with one scale."""
    return FileTensor(name=name, shape=shape, scales=(scale,), zeros=(zero,), **others)
