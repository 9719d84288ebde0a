"""Encoders of tokens with masks in ONNX, as exporters write those of Hugging Face."""

from collections.abc import Callable
from typing import Any

import numpy as np

from matloom.ir.graph import Array
from support.masked_file import FLOAT, HEADS, LEAST, LENGTH, WIDTH, MaskedFile

__all__ = ["LEAST_LENGTH", "MASKS", "TOKENS", "encoder", "texts"]

#: Rows of the table of tokens.
TOKENS = 30
#: Smallest number of tokens of a text that are not padding.
LEAST_LENGTH = 3
#: Type in `onnx.TensorProto.DataType`.
_BOOL = 9
_LATER = np.triu(np.ones((LENGTH, LENGTH), bool), 1)


def _scaled(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as BERT does: (1 - mask) times the least float."""
    mask = file.padding(LEAST)
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _chosen(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as `AttentionMaskConverter` does: Expand, Cast to bool, and Where."""
    mask = file.add("Cast", file.expanded(file.keys("attention_mask")), to=FLOAT)
    mask = file.add("Sub", file.number(1), mask)
    where = file.add("Cast", mask, to=_BOOL)
    mask = file.add("Where", where, file.number(LEAST), mask)
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _filled(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as DistilBERT does: scores are replaced."""
    zero = file.constant(np.array(0, file.dtype))

    def attend(scores: str) -> str:
        padding = file.add("Equal", "attention_mask", zero)
        padding = file.add("Reshape", padding, file.integers(file.batch, 1, 1, LENGTH))
        padding = file.add("Expand", padding, file.add("Shape", scores))
        padding = file.add("Cast", padding, to=_BOOL)
        return file.add("Softmax", file.add("Where", padding, file.number(LEAST), scores), axis=-1)

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
    mask = file.padding(LEAST)
    earlier = file.constant(~_LATER[np.newaxis, np.newaxis])

    def attend(scores: str) -> str:
        scores = file.add("Where", earlier, scores, file.number(LEAST))
        return file.add("Softmax", file.add("Add", scores, mask), axis=-1)

    return attend


def _combined(file: MaskedFile) -> Callable[[str], str]:
    """Exclude later tokens and padding as Llama does: one mask of both."""
    later = file.constant(
        np.where(_LATER, np.float32(LEAST), np.float32(0))[np.newaxis, np.newaxis]
    )
    padding = file.add("Cast", file.keys("attention_mask"), to=FLOAT)
    padding = file.add("Equal", file.add("Add", later, padding), file.number(0))
    mask = file.add("Where", padding, file.number(LEAST), later)
    ends = file.integers(0), file.integers(LENGTH), file.integers(3), file.integers(1)
    mask = file.add("Slice", mask, *ends)
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _indexed(file: MaskedFile) -> Callable[[str], str]:
    """Exclude later tokens and padding as `create_causal_mask` does: GatherND, And, Where."""
    indices = np.indices((file.batch, 1, LENGTH, LENGTH))[[0, 3]]
    places = file.constant(np.moveaxis(indices, 0, -1).astype(np.int64))
    mask = file.add("GatherND", file.add("Cast", "attention_mask", to=_BOOL), places)
    mask = file.add("And", file.constant(~_LATER[np.newaxis, np.newaxis]), mask)
    mask = file.add("Where", mask, file.number(0), file.number(LEAST))
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _summed(file: MaskedFile) -> Callable[[str], str]:
    """Exclude later tokens and padding as OPT does: a sum of both masks, which may overflow."""
    later = file.constant(
        np.where(_LATER, np.float32(LEAST), np.float32(0))[np.newaxis, np.newaxis]
    )
    mask = file.add("Cast", file.expanded(file.keys("attention_mask")), to=FLOAT)
    mask = file.add("Sub", file.number(1), mask)
    where = file.add("Cast", mask, to=_BOOL)
    mask = file.add("Add", file.add("Where", where, file.number(LEAST), mask), later)

    def attend(scores: str) -> str:
        return file.add(
            "Softmax", file.add("Max", file.add("Add", scores, mask), file.number(LEAST)), axis=-1
        )

    return attend


def _biased(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as T5 does: one sum of the mask and of biases by distance, for all layers."""
    biases = file.random.normal(0, 1, (1, HEADS, LENGTH, LENGTH)).astype(np.float32)
    mask = file.padding(LEAST)
    mask = file.add("Add", file.constant(biases), mask)
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


def _sloped(file: MaskedFile) -> Callable[[str], str]:
    """Exclude later tokens, in a constant with biases by distance, and padding."""
    distances = np.arange(LENGTH) - np.arange(LENGTH)[:, np.newaxis]
    biases = np.where(_LATER, LEAST, distances * 0.5)[np.newaxis, np.newaxis]
    constant = file.constant(biases.astype(np.float32))
    mask = file.padding(-1e4)

    def attend(scores: str) -> str:
        scores = file.add("Add", file.add("Add", scores, constant), mask)
        return file.add("Softmax", scores, axis=-1)

    return attend


def _paired(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding as DeBERTa does: queries of padding, too, by a product of integers."""
    keys = file.keys("attention_mask")
    mask = file.add("Mul", keys, file.add("Transpose", keys, perm=[0, 1, 3, 2]))
    padding = file.add("Not", file.add("Cast", mask, to=_BOOL))

    def attend(scores: str) -> str:
        return file.add("Softmax", file.add("Where", padding, file.number(LEAST), scores), axis=-1)

    return attend


def _both(file: MaskedFile) -> Callable[[str], str]:
    """Exclude padding by a mask and by tokens, and later tokens."""
    zero = file.constant(np.array(0, file.dtype))
    used = file.add("Not", file.add("Equal", file.keys("input_ids"), zero))
    mask = file.add("And", file.keys(file.add("Cast", "attention_mask", to=_BOOL)), used)
    mask = file.add("And", mask, file.constant(~_LATER[np.newaxis, np.newaxis]))
    mask = file.add("Where", mask, file.number(0), file.number(LEAST))
    return lambda scores: file.add("Softmax", file.add("Add", scores, mask), axis=-1)


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
    "paired": _paired,
    "both": _both,
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
