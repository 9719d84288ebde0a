"""Encoders of tokens with masks in ONNX, as exporters write those of Hugging Face."""

from collections.abc import Callable
from typing import Any

import numpy as np

from matloom.ir.graph import Array
from support.float_onnx import FloatFile

__all__ = ["LEAST_LENGTH", "LENGTH", "MASKS", "TOKENS", "WIDTH", "MaskedFile", "encoder", "texts"]

#: Rows of the table of tokens, tokens of a text, width of a token, heads.
TOKENS, LENGTH, WIDTH, HEADS = 30, 8, 16, 2
#: Smallest number of tokens of a text that are not padding.
LEAST_LENGTH = 3
#: Types in `onnx.TensorProto.DataType`.
_INTEGERS, _FLOAT, _BOOL = {"int32": 6, "int64": 7}, 1, 9
_LEAST = float(np.finfo(np.float32).min)
_LATER = np.triu(np.ones((LENGTH, LENGTH), bool), 1)


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
            [info(output, _FLOAT, None)],
            initializer=self.constants,
        )
        imports = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
        content: bytes = model.SerializeToString()
        return content


def _scaled(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as BERT does: (1 - mask) times the least float."""
    mask = file.add("Cast", file.keys("attention_mask"), to=_FLOAT)
    mask = file.add("Mul", file.add("Sub", file.number(1), mask), file.number(_LEAST))
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _chosen(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as `AttentionMaskConverter` does: Expand, Cast to bool, and Where."""
    mask = file.add("Cast", file.expanded(file.keys("attention_mask")), to=_FLOAT)
    mask = file.add("Sub", file.number(1), mask)
    where = file.add("Cast", mask, to=_BOOL)
    mask = file.add("Where", where, file.number(_LEAST), mask)
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _filled(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as DistilBERT does: scores are replaced."""
    zero = file.constant(np.array(0, file.dtype))

    def attend(scores: str) -> str:
        padding = file.add("Equal", "attention_mask", zero)
        padding = file.add("Reshape", padding, file.integers(file.batch, 1, 1, LENGTH))
        padding = file.add("Expand", padding, file.add("Shape", scores))
        padding = file.add("Cast", padding, to=_BOOL)
        return file.add("Softmax", file.add("Where", padding, file.number(_LEAST), scores), axis=-1)

    return attend


def _flags(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as exported programs with SDPA do: bool masks, no NaN after Softmax."""
    mask = file.expanded(file.keys(file.add("Cast", "attention_mask", to=_BOOL)))
    mask = file.add("And", mask, file.constant(np.ones((1, 1, 1, 1), bool)))
    mask = file.add("Where", mask, file.number(0), file.number(-np.inf))

    def attend(scores: str) -> str:
        shares = file.add("Softmax", file.add("Add", scores, mask), axis=-1)
        return file.add("Where", file.add("IsNaN", shares), file.number(0), shares)

    return attend


def _causal(file: MaskedFile) -> Callable[[str], str]:
    """Exclude later tokens and padding as GPT-2 does: a constant Where, and a sum."""
    mask = file.add("Cast", file.keys("attention_mask"), to=_FLOAT)
    mask = file.add("Mul", file.add("Sub", file.number(1), mask), file.number(_LEAST))
    earlier = file.constant(~_LATER[np.newaxis, np.newaxis])

    def attend(scores: str) -> str:
        scores = file.add("Where", earlier, scores, file.number(_LEAST))
        return file.add("Softmax", file.add("Add", scores, mask), axis=-1)

    return attend


def _combined(file: MaskedFile) -> Callable[[str], str]:
    """Exclude later tokens and padding as Llama does: one mask of both."""
    later = file.constant(
        np.where(_LATER, np.float32(_LEAST), np.float32(0))[np.newaxis, np.newaxis]
    )
    padding = file.add("Cast", file.keys("attention_mask"), to=_FLOAT)
    padding = file.add("Equal", file.add("Add", later, padding), file.number(0))
    mask = file.add("Where", padding, file.number(_LEAST), later)
    ends = file.integers(0), file.integers(LENGTH), file.integers(3), file.integers(1)
    mask = file.add("Slice", mask, *ends)
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _indexed(file: MaskedFile) -> Callable[[str], str]:
    """Exclude later tokens and padding as `create_causal_mask` does: GatherND, And, Where."""
    indices = np.indices((file.batch, 1, LENGTH, LENGTH))[[0, 3]]
    places = file.constant(np.moveaxis(indices, 0, -1).astype(np.int64))
    mask = file.add("GatherND", file.add("Cast", "attention_mask", to=_BOOL), places)
    mask = file.add("And", file.constant(~_LATER[np.newaxis, np.newaxis]), mask)
    mask = file.add("Where", mask, file.number(0), file.number(_LEAST))
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _summed(file: MaskedFile) -> Callable[[str], str]:
    """Exclude later tokens and padding as OPT does: a sum of both masks, which may overflow."""
    later = file.constant(
        np.where(_LATER, np.float32(_LEAST), np.float32(0))[np.newaxis, np.newaxis]
    )
    mask = file.add("Cast", file.expanded(file.keys("attention_mask")), to=_FLOAT)
    mask = file.add("Sub", file.number(1), mask)
    where = file.add("Cast", mask, to=_BOOL)
    mask = file.add("Add", file.add("Where", where, file.number(_LEAST), mask), later)

    def attend(scores: str) -> str:
        return file.add(
            "Softmax", file.add("Max", file.add("Add", scores, mask), file.number(_LEAST)), axis=-1
        )

    return attend


def _biased(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as T5 does: one sum of the mask and of biases by distance, for all layers."""
    biases = file.random.normal(0, 1, (1, HEADS, LENGTH, LENGTH)).astype(np.float32)
    mask = file.add("Cast", file.keys("attention_mask"), to=_FLOAT)
    mask = file.add("Mul", file.add("Sub", file.number(1), mask), file.number(_LEAST))
    mask = file.add("Add", file.constant(biases), mask)
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _sloped(file: MaskedFile) -> Callable[[str], str]:
    """Exclude later tokens, in a constant with biases by distance, and padding."""
    distances = np.arange(LENGTH) - np.arange(LENGTH)[:, np.newaxis]
    biases = np.where(_LATER, _LEAST, distances * 0.5)[np.newaxis, np.newaxis]
    constant = file.constant(biases.astype(np.float32))
    mask = file.add("Cast", file.keys("attention_mask"), to=_FLOAT)
    mask = file.add("Mul", file.add("Sub", file.number(1), mask), file.number(-1e4))

    def attend(scores: str) -> str:
        scores = file.add("Add", file.add("Add", scores, constant), mask)
        return file.add("Softmax", scores, axis=-1)

    return attend


#: Functions that add a mask to a file, and return one that adds SOFTMAX of masked scores.
MASKS: dict[str, Callable[[MaskedFile], Callable[[str], str]]] = {
    "scaled": _scaled,
    "chosen": _chosen,
    "filled": _filled,
    "flags": _flags,
    "causal": _causal,
    "combined": _combined,
    "indexed": _indexed,
    "summed": _summed,
    "biased": _biased,
    "sloped": _sloped,
}


def encoder(
    kind: str, *, batch: int = 1, blocks: int = 1, dtype: str = "int64", seed: int = 0
) -> bytes:
    """Return an encoder whose output is made from the last token that is never padding.

    Inputs are input_ids, attention_mask and token_type_ids.
    """
    file = MaskedFile(seed, batch, dtype)
    tables: list[Any] = [
        file.random.normal(0, 1, (rows, WIDTH)).astype(np.float32) for rows in (TOKENS, 2)
    ]
    state = file.add("Gather", file.constant(tables[0]), "input_ids")
    state = file.add("Add", state, file.add("Gather", file.constant(tables[1]), "token_type_ids"))
    places = file.random.normal(0, 0.5, (1, LENGTH, WIDTH)).astype(np.float32)
    state = file.normalise(file.add("Add", state, file.constant(places)))
    attend = MASKS[kind](file)
    for _block in range(blocks):
        mixed = file.mix(state, attend(file.scores(state)))
        state = file.normalise(file.add("Add", state, mixed))
        hidden = file.add("Relu", file.dense(state, WIDTH, 2 * WIDTH))
        state = file.normalise(file.add("Add", state, file.dense(hidden, 2 * WIDTH, WIDTH)))
    chosen = file.add("Gather", state, file.constant(np.array(LEAST_LENGTH - 1)), axis=1)
    names = "input_ids", "attention_mask", "token_type_ids"
    return file.network(file.dense(chosen, WIDTH, 5), *names)


def texts(count: int, *, batch: int = 1, dtype: str = "int64", seed: int = 1) -> dict[str, Array]:
    """Return inputs of an encoder: texts of different lengths, padded with tokens 0."""
    random = np.random.default_rng(seed)
    lengths = random.integers(LEAST_LENGTH, LENGTH + 1, (count, batch, 1))
    mask = np.arange(LENGTH) < lengths
    second = (np.arange(LENGTH) >= lengths // 2) & mask
    tokens = random.integers(1, TOKENS, (count, batch, LENGTH)) * mask
    return {
        "input_ids": tokens.astype(dtype),
        "attention_mask": mask.astype(dtype),
        "token_type_ids": second.astype(dtype),
    }
