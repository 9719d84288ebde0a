"""Networks with elements of every type of the schema: as LiteRT runs them, or one sentence."""

import re

import numpy as np
import pytest

import matloom
from matloom.frontend.errors import ModelError
from matloom.program import Program
from matloom.tools.compare import compare
from matloom.tools.interface import random_arrays
from support.oracles import litert

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file

SHAPE = (4, 8)


def tensor(dtype, shape=SHAPE, **more):
    return FileTensor(name=f"{dtype} {shape}", shape=shape, dtype=dtype, **more)


def numbers(values):
    return tensor("int32", (len(values),), data=np.array(values, np.int32))


def file_of(name, inputs, output, options=None, also=()):
    """Return a file of an operator; computed inputs and `also` are outputs, too."""
    tensors, count = (*inputs, output), len(inputs)
    operator = FileOperator(
        name=name, inputs=tuple(range(count)), outputs=(count,), options=options
    )
    network = FileNetwork(
        tensors=tensors,
        operators=(operator,),
        inputs=tuple(at for at in range(count) if inputs[at].data is None),
        outputs=(count, *also),
    )
    return write_file(network)


HALF = (4, 5)
COMPLEX = {
    "RFFT2D": ((tensor("float32"), numbers(SHAPE)), tensor("complex64", HALF), "Rfft2dOptions"),
    "REAL": ((tensor("complex64"),), tensor("float32"), None),
    "IMAG": ((tensor("complex64"),), tensor("float32"), None),
    "COMPLEX_ABS": ((tensor("complex64"),), tensor("float32"), None),
    "RESHAPE": ((tensor("complex64"), numbers((8, 4))), tensor("complex64", (8, 4)), None),
    "TRANSPOSE": ((tensor("complex64"), numbers((1, 0))), tensor("complex64", (8, 4)), None),
    "MUL": ((tensor("complex64"), tensor("complex64")), tensor("complex64"), "MulOptions"),
    "CAST": ((tensor("int8"),), tensor("complex64"), "CastOptions"),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name):
    """They are inputs and outputs, of programs from files as well."""
    inputs, output, kind = COMPLEX[name]
    content = file_of(name, inputs, output, kind and (kind, {}), also=(0,))
    program = matloom.compile(content, "nano")
    given = random_arrays(program)
    expected = litert(content, list(given.values()))
    for each in (program, Program.from_bytes(program.to_bytes())):
        with matloom.load(each, device="model") as session:
            found = session.run(given)
        for made, golden in zip(found.values(), expected, strict=True):
            assert made.dtype == golden.dtype
            np.testing.assert_allclose(made, golden, rtol=1e-5)
    assert compare(content).equal


@pytest.mark.parametrize("dtype", ["string", "resource", "variant", "bfloat16", "int4"])
@pytest.mark.parametrize("side", ["input", "output"])
def test_types_without_arrays(dtype, side):
    ends = [tensor("int8"), tensor(dtype)]
    given, made = ends if side == "output" else reversed(ends)
    with pytest.raises(ModelError) as caught:
        matloom.compile(file_of("CAST", (given,), made, ("CastOptions", {})), "nano")
    assert re.search(
        f"has the type {dtype.upper()}, which no array here can hold$", str(caught.value)
    )
    assert caught.value.hint.startswith("take the operators that use it out of the network")
