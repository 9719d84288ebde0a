"""An encoder of tokens in ONNX, under construction."""

import numpy as np

from support.float_onnx import FloatFile

__all__ = ["FLOAT", "HEADS", "LEAST", "LENGTH", "WIDTH", "MaskedFile"]

#: Tokens of a text, width of a token, heads.
LENGTH, WIDTH, HEADS = 8, 16, 2
#: Types in `onnx.TensorProto.DataType`.
FLOAT, _INTEGERS = 1, {"int32": 6, "int64": 7}
#: Number by which exporters exclude a score.
LEAST = float(np.finfo(np.float32).min)


class MaskedFile(FloatFile):
    """An encoder under construction."""

    def __init__(self, seed: int, batch: int, dtype: str) -> None:
        super().__init__(seed)
        self.batch, self.dtype = batch, dtype

    def integers(self, *values: int) -> str:
        """Add a constant vector of int64."""
        return self.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        """Add a constant float without axes."""
        return self.constant(np.array(value, np.float32))

    def keys(self, source: str) -> str:
        """Give a mask of texts (batch, length) axes for heads and queries."""
        return self.add(
            "Unsqueeze", self.add("Unsqueeze", source, self.integers(1)), self.integers(2)
        )

    def expanded(self, source: str) -> str:
        """Expand a mask to (batch, 1, length, length), with sizes from the shape of the input."""
        batch, length = (
            self.add("Gather", self.add("Shape", "attention_mask"), self.integers(axis), axis=0)
            for axis in range(2)
        )
        sizes = self.add("Concat", batch, self.integers(1), length, length, axis=0)
        return self.add("Expand", source, sizes)

    def padding(self, least: float) -> str:
        """Add the mask as a number for each key: 0, or `least` for padding."""
        mask = self.add("Cast", self.keys("attention_mask"), to=FLOAT)
        return self.add("Mul", self.add("Sub", self.number(1), mask), self.number(least))

    def dense(self, source: str, inputs: int, outputs: int) -> str:
        """Add a linear layer."""
        weights = self.random.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32)
        return self.add(
            "Add", self.add("MatMul", source, self.constant(weights)), self.bias(outputs)
        )

    def normalise(self, source: str) -> str:
        """Add a layer normalisation."""
        gain = self.random.uniform(0.5, 1.5, WIDTH).astype(np.float32)
        inputs = source, self.constant(gain), self.bias(WIDTH)
        return self.add("LayerNormalization", *inputs, axis=-1, epsilon=1e-5)

    def heads(self, source: str, *order: int) -> str:
        """Divide tokens into heads."""
        sizes = self.integers(self.batch, LENGTH, HEADS, WIDTH // HEADS)
        return self.add("Transpose", self.add("Reshape", source, sizes), perm=list(order))

    def scores(self, source: str) -> str:
        """Add products of queries and keys."""
        query = self.heads(self.dense(source, WIDTH, WIDTH), 0, 2, 1, 3)
        key = self.heads(self.dense(source, WIDTH, WIDTH), 0, 2, 3, 1)
        return self.add(
            "Mul", self.add("MatMul", query, key), self.number((WIDTH // HEADS) ** -0.5)
        )

    def mix(self, source: str, shares: str) -> str:
        """Add the mixture of values, and a linear layer."""
        value = self.heads(self.dense(source, WIDTH, WIDTH), 0, 2, 1, 3)
        mixed = self.add("Transpose", self.add("MatMul", shares, value), perm=[0, 2, 1, 3])
        sizes = self.integers(self.batch, LENGTH, WIDTH)
        return self.dense(self.add("Reshape", mixed, sizes), WIDTH, WIDTH)

    def network(self, output: str, *names: str, opset: int = 17) -> bytes:
        """Return the file; its inputs `names` are integers (batch, length)."""
        import onnx

        info = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            self.nodes,
            "encoder",
            [info(name, _INTEGERS[self.dtype], (self.batch, LENGTH)) for name in names],
            [info(output, FLOAT, None)],
            initializer=self.constants,
        )
        imports = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
        content: bytes = model.SerializeToString()
        return content
