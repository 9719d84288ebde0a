"""A block of a decoder like Llama's in ONNX, as exporters write it."""

import numpy as np

from support.masked_file import LENGTH, WIDTH, MaskedFile
from support.masked_onnx import MASKS, TOKENS

__all__ = ["llama"]

_HIDDEN = 32


class _LlamaFile(MaskedFile):
    """A decoder under construction, with some heads of keys and values, and more of queries."""

    def __init__(self, seed: int, heads: int, keys: int) -> None:
        super().__init__(seed, 1, "int32")
        self.heads_of, self.depth = {"query": heads, "key": keys, "value": keys}, WIDTH // heads

    def product(self, source: str, inputs: int, outputs: int) -> str:
        """Add a linear layer without bias."""
        weights = self.random.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32)
        return self.add("MatMul", source, self.constant(weights))

    def scale(self, source: str) -> str:
        """Add a normalisation by the root of the mean square."""
        squares = self.add("Pow", source, self.number(2))
        mean = self.add("ReduceMean", squares, axes=[-1], keepdims=1)
        root = self.add("Sqrt", self.add("Add", mean, self.number(1e-6)))
        gain = self.constant(self.random.uniform(0.5, 1.5, WIDTH).astype(np.float32))
        return self.add("Mul", gain, self.add("Mul", source, self.add("Reciprocal", root)))

    def part(self, source: str, name: str) -> str:
        """Add queries, keys or values: (1, heads, tokens, depth)."""
        count = self.heads_of[name]
        sizes = self.integers(1, LENGTH, count, self.depth)
        heads = self.add("Reshape", self.product(source, WIDTH, count * self.depth), sizes)
        return self.add("Transpose", heads, perm=[0, 2, 1, 3])

    def rotate(self, source: str) -> str:
        """Add rotary positions: each pair of numbers is turned by an angle that grows with both."""
        half = self.depth // 2
        angles = np.arange(LENGTH)[:, np.newaxis] * 10000.0 ** -(np.arange(half) / half)
        angles = np.tile(angles, 2)[np.newaxis, np.newaxis]
        cosines, sines = (self.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
        last, step = self.integers(3), self.integers(1)
        first = self.add("Slice", source, self.integers(0), self.integers(half), last, step)
        ends = self.integers(half), self.integers(np.iinfo(np.int64).max)
        second = self.add("Slice", source, *ends, last, step)
        turned = self.add("Concat", self.add("Neg", second), first, axis=-1)
        return self.add("Add", self.add("Mul", source, cosines), self.add("Mul", turned, sines))

    def repeat(self, source: str) -> str:
        """Repeat each head of keys or values for all its queries."""
        heads, keys = self.heads_of["query"], self.heads_of["key"]
        sizes = self.integers(1, keys, heads // keys, LENGTH, self.depth)
        repeated = self.add("Expand", self.add("Unsqueeze", source, self.integers(2)), sizes)
        return self.add("Reshape", repeated, self.integers(1, heads, LENGTH, self.depth))


def llama(heads: int, keys: int, mask: str, seed: int = 3) -> bytes:
    """Return a decoder of one block; inputs are input_ids and attention_mask, of int32.

    Its output has numbers for the token after each token.
    """
    file = _LlamaFile(seed, heads, keys)
    table = file.random.normal(0, 1, (TOKENS, WIDTH)).astype(np.float32)
    state = file.add("Gather", file.constant(table), "input_ids")
    attend, given = MASKS[mask](file), file.scale(state)
    query, key = (file.rotate(file.part(given, name)) for name in ("query", "key"))
    key, value = file.repeat(key), file.repeat(file.part(given, "value"))
    scores = file.add("MatMul", query, file.add("Transpose", key, perm=[0, 1, 3, 2]))
    shares = attend(file.add("Mul", scores, file.number(file.depth**-0.5)))
    mixed = file.add("Transpose", file.add("MatMul", shares, value), perm=[0, 2, 1, 3])
    mixed = file.add("Reshape", mixed, file.integers(1, LENGTH, WIDTH))
    state = file.add("Add", state, file.product(mixed, WIDTH, WIDTH))
    given = file.scale(state)
    gate, other = (file.product(given, WIDTH, _HIDDEN) for _part in range(2))
    gate = file.add("Mul", file.add("Mul", gate, file.add("Sigmoid", gate)), other)
    state = file.add("Add", state, file.product(gate, _HIDDEN, WIDTH))
    output = file.product(file.scale(state), WIDTH, TOKENS)
    return file.network(output, "input_ids", "attention_mask")
