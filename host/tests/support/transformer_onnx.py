"""Transformers of floats in ONNX, as PyTorch exports vision transformers."""

import numpy as np

from support.float_onnx import FloatFile

__all__ = ["transformer_onnx"]

#: Numbers of a token of the input, and classes.
_PATCH, _CLASSES = 48, 10


class _Transformer(FloatFile):
    """A transformer under construction: tokens (1, tokens, width)."""

    def __init__(self, tokens: int, width: int, heads: int, seed: int) -> None:
        super().__init__(seed)
        self.tokens, self.width, self.heads = tokens, width, heads

    def integers(self, *values: int) -> str:
        """Add a constant vector of int64."""
        return self.constant(np.array(values, np.int64))

    def dense(self, source: str, inputs: int, outputs: int) -> str:
        """Add a linear layer: a product and its bias."""
        spread = inputs**-0.5
        weights = self.random.normal(0, spread, (inputs, outputs)).astype(np.float32)
        product = self.add("MatMul", source, self.constant(weights))
        return self.add("Add", product, self.bias(outputs))

    def normalise(self, source: str) -> str:
        """Add a layer normalisation."""
        gain = self.random.uniform(0.5, 1.5, self.width).astype(np.float32)
        inputs = source, self.constant(gain), self.bias(self.width)
        return self.add("LayerNormalization", *inputs, axis=-1, epsilon=1e-5)

    def attend(self, source: str) -> str:
        """Add attention, with queries, keys and values of all heads from one layer."""
        tokens, width, heads = self.tokens, self.width, self.heads
        depth = width // heads
        given = self.dense(source, width, 3 * width)
        given = self.add("Reshape", given, self.integers(1, tokens, 3, heads, depth))
        given = self.add("Transpose", given, perm=[2, 0, 3, 1, 4])
        query, key, value = (
            self.add("Gather", given, self.constant(np.array(place)), axis=0) for place in range(3)
        )
        key = self.add("Transpose", key, perm=[0, 1, 3, 2])
        scores = self.add("MatMul", query, key)
        scores = self.add("Mul", scores, self.constant(np.array(depth**-0.5, np.float32)))
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), value)
        mixed = self.add("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = self.add("Reshape", mixed, self.integers(1, tokens, width))
        return self.dense(mixed, width, width)

    def feed_forward(self, source: str, ratio: int) -> str:
        """Add two layers with GELU between them."""
        hidden = self.add("Gelu", self.dense(source, self.width, ratio * self.width))
        return self.dense(hidden, ratio * self.width, self.width)


def transformer_onnx(
    tokens: int, width: int, heads: int, *, blocks: int = 4, ratio: int = 4, seed: int = 0
) -> bytes:
    """Return a file of a transformer whose input `image` is (1, tokens, 48); output (1, 10).

    Each block normalises before attention and before its two layers, of `ratio` times the width.
    """
    file = _Transformer(tokens, width, heads, seed)
    state = file.dense("image", _PATCH, width)
    places = file.random.normal(0, 0.5, (1, tokens, width)).astype(np.float32)
    state = file.add("Add", state, file.constant(places))
    for _block in range(blocks):
        state = file.add("Add", state, file.attend(file.normalise(state)))
        state = file.add("Add", state, file.feed_forward(file.normalise(state), ratio))
    mean = file.add("ReduceMean", file.normalise(state), file.integers(1), keepdims=0)
    return file.content((1, tokens, _PATCH), file.dense(mean, width, _CLASSES), opset=20)
