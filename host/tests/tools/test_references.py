"""The interpreter that `compare` chooses, for files that one of them misreads or refuses."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from matloom.errors import UserError
from matloom.tools.compare import compare

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.builder import Builder
from single_operators.campaign import draw_case
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file
from single_operators.oddities import ODDITIES

MICRO, LITERT = "TensorFlow Lite Micro", "LiteRT's reference kernels"


def quantised(name, shape, scales=(0.05,), **more):
    return FileTensor(name=name, shape=shape, scales=scales, zeros=(0,) * len(scales), **more)


WEIGHTS = np.arange(-16, 16, dtype=np.int8).reshape(4, 8)
DENSE = FileNetwork(
    tensors=(
        quantised("x", (1, 8)),
        quantised("w", (4, 8), data=WEIGHTS),
        quantised("y", (1, 4), (0.5,)),
    ),
    operators=(
        FileOperator(
            name="FULLY_CONNECTED",
            inputs=(0, 1, -1),
            outputs=(2,),
            options=("FullyConnectedOptions", {}),
        ),
    ),
    inputs=(0,),
    outputs=(2,),
)
DEQUANTIZE = FileNetwork(
    tensors=(
        quantised("x", (1, 4), (0.1, 0.2, 0.3, 0.4), axis=1),
        FileTensor(name="y", shape=(1, 4), dtype="float32"),
    ),
    operators=(
        FileOperator(
            name="DEQUANTIZE", inputs=(0,), outputs=(1,), options=("DequantizeOptions", {})
        ),
    ),
    inputs=(0,),
    outputs=(1,),
)


@pytest.mark.parametrize(
    ("network", "name"),
    [
        (DENSE, MICRO),
        (replace(DENSE, outside=True), MICRO),
        (replace(DENSE, outputs=(2, 2)), MICRO),
        (replace(DENSE, outputs=(2, 0, 1, 2)), MICRO),
        (DEQUANTIZE, LITERT),
    ],
    ids=["plain", "outside", "twice", "input and constant", "misread"],
)
def test_files_that_one_interpreter_misreads(network, name):
    outcome = compare(write_file(network), samples=2)
    assert (outcome.equal, outcome.reference) == (True, name), outcome
    assert all(layer.elements for layer in outcome.layers)


def test_an_operator_that_fails_in_its_run():
    """TensorFlow Lite Micro loads TRANSPOSE of int32, and refuses it when it runs."""
    tensors = (
        FileTensor(name="x", shape=(2, 3), dtype="int32"),
        FileTensor(name="axes", shape=(2,), dtype="int32", data=np.array([1, 0], np.int32)),
        FileTensor(name="y", shape=(3, 2), dtype="int32"),
    )
    operator = FileOperator(
        name="TRANSPOSE", inputs=(0, 1), outputs=(2,), options=("TransposeOptions", {})
    )
    network = FileNetwork(tensors=tensors, operators=(operator,), inputs=(0,), outputs=(2,))
    outcome = compare(write_file(network))
    assert (outcome.equal, outcome.reference) == (True, LITERT)


@pytest.mark.parametrize("oddity", ODDITIES)
@pytest.mark.parametrize("operator", ["CONV_2D", "ADD", "CONCATENATION"])
def test_oddities(oddity, operator):
    """Whatever a tool writes, nothing differs, or a sentence says why nothing runs."""
    for seed in range(3):
        plain = draw_case(seed, operator, odd=False)
        network = ODDITIES[oddity](plain.network, Builder(seed).random)
        with suppress(UserError):
            outcome = compare(write_file(network))
            assert outcome.equal, outcome
