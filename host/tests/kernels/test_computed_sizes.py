"""Operators whose sizes, axes or indices are computed: as an interpreter runs them, or refused."""

from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.builder import input_arrays
from single_operators.campaign import draw_case, judge
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file
from single_operators.reference import References

import matloom
from matloom import frontend
from matloom.kernels.reference import InterpreterError
from matloom.kernels.run_time_shapes import SIZES
from matloom.tools.explain import explain

#: Operators with other parameters of integers, which leave their shapes as they are.
OTHERS = ("CUMSUM", "DYNAMIC_UPDATE_SLICE", "EXPAND_DIMS", "GATHER", "GATHER_ND", "RESHAPE")
#: Operators that are not drawn: their results are random, or no interpreter has them.
NOT_DRAWN = {"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "SEGMENT_SUM"}
NOT_DRAWN |= {"SPARSE_TO_DENSE"}


@pytest.fixture(scope="module")
def references():
    with References() as found:
        yield found


def variants(case):
    """Yield a case with each set of its integer constants as inputs, which hold their values."""
    tensors = case.network.tensors
    constants = [
        at
        for at, tensor in enumerate(tensors)
        if tensor.data is not None and tensor.dtype in ("int32", "int64")
    ]
    counts = range(1, len(constants) + 1)
    for chosen in chain.from_iterable(combinations(constants, count) for count in counts):
        made = list(tensors)
        for at in chosen:
            made[at] = replace(made[at], data=None, given=made[at].data)
        inputs = (*case.network.inputs, *chosen)
        network = replace(case.network, tensors=tuple(made), inputs=inputs)
        calls = input_arrays(network, case.seed)
        yield replace(case, network=network, content=write_file(network), calls=calls)


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("name", sorted({*SIZES, *OTHERS} - NOT_DRAWN))
def test_all_sets_of_computed_parameters(name, references, seed):
    for at in range(2):
        for case in variants(draw_case(1000 * seed + at, name, odd=False)):
            verdict = judge(case, references)
            assert not verdict.failed, f"inputs {case.network.inputs}: {verdict}"


def part(declared):
    """Return a SLICE of a computed size, with an output that the file declares."""
    x, y = (
        FileTensor(name=name, shape=shape, scales=(0.1,), zeros=(0,))
        for name, shape in (("x", (8,)), ("y", (declared,)))
    )
    begin = FileTensor(name="begin", shape=(1,), dtype="int32", data=np.ones(1, np.int32))
    size = FileTensor(name="size", shape=(1,), dtype="int32")
    operator = FileOperator(
        name="SLICE", inputs=(0, 1, 2), outputs=(3,), options=("SliceOptions", {})
    )
    network = FileNetwork(
        tensors=(x, begin, size, y), operators=(operator,), inputs=(0, 2), outputs=(3,)
    )
    return frontend.load(write_file(network))


def test_a_computed_size_that_fits():
    x = np.arange(8, dtype=np.int8)
    with matloom.load(part(5), device="model") as session:
        made = session.run({"x": x, "size": np.array([5], np.int32)})
    np.testing.assert_array_equal(made["y"], x[1:6])


def test_a_computed_size_beyond_the_output_is_refused():
    """TensorFlow Lite Micro writes beyond the output."""
    x = np.arange(8, dtype=np.int8)
    with (
        matloom.load(part(1), device="model") as session,
        pytest.raises(InterpreterError, match=r"SLICE failed in ai-edge-litert: .*\(5 != 1\)"),
    ):
        session.run({"x": x, "size": np.array([5], np.int32)})


def test_explain_says_who_runs_it():
    text = "\n".join(filter(lambda line: isinstance(line, str), explain(matloom.compile(part(5)))))
    assert "SLICE has a variable size" in text
    assert "LiteRT's reference kernels" in text
