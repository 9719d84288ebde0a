"""Operators that one interpreter runs without computing them; the other one decides."""

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.builder import Builder, input_arrays
from single_operators.campaign import draw_case, judge
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file
from single_operators.operators import draw_operator
from single_operators.reference import References

from matloom import frontend
from matloom.frontend.errors import ModelError
from matloom.kernels.interpreters import Cut
from matloom.kernels.probe import refusals


@pytest.fixture(scope="module")
def references():
    with References() as found:
        yield found


def comparison(name, scales=(0.05, 0.02), shape=(3, 7)):
    """Return a comparison of two int16 tensors."""
    given = [
        FileTensor(name=f"t{at}", shape=shape, dtype="int16", scales=(scale,), zeros=(0,))
        for at, scale in enumerate(scales)
    ]
    options = f"{name.title().replace('_', '')}Options"
    return FileNetwork(
        tensors=(*given, FileTensor(name="y", shape=shape, dtype="bool")),
        operators=(FileOperator(name=name, inputs=(0, 1), outputs=(2,), options=(options, {})),),
        inputs=(0, 1),
        outputs=(2,),
    )


def joined():
    """Return a PACK without options, which concatenates nothing."""
    given = [FileTensor(name=f"t{at}", shape=(2, 3), scales=(0.1,), zeros=(0,)) for at in (0, 1)]
    made = FileTensor(name="y", shape=(2, 2, 3), scales=(0.1,), zeros=(0,))
    return FileNetwork(
        tensors=(*given, made),
        operators=(FileOperator(name="PACK", inputs=(0, 1), outputs=(2,)),),
        inputs=(0, 1),
        outputs=(2,),
    )


@pytest.mark.parametrize("name", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS"])
def test_comparisons_of_int16(name, references):
    network = comparison(name)
    calls = input_arrays(network, 1)
    content = write_file(network)
    wanted = references.ask("litert", content, calls)
    found = references.ask("matloom:nano", content, calls)
    assert wanted.ran, wanted.refusal
    assert found.ran, found.refusal
    for (mine,), (other,) in zip(found.calls, wanted.calls, strict=True):
        assert 0 < other.sum() < other.size or name in ("EQUAL", "NOT_EQUAL")
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("package", ["tflite-micro", "ai-edge-litert"])
def test_outputs_that_depend_on_old_memory_are_no_result(package):
    cut = Cut(content=write_file(joined()), arena=2**20, inputs=2, outputs=1)
    (reason,) = refusals(package, [cut])
    wanted = {"tflite-micro": "it does not write all of its outputs", "ai-edge-litert": "pack.cc"}
    assert wanted[package] in reason


def test_unwritten_outputs_of_litert_are_ignored():
    """LiteRT's SUM of int16 writes nothing."""
    x, y = (
        FileTensor(name=name, shape=shape, dtype="int16", scales=(0.1,), zeros=(0,))
        for name, shape in (("x", (4, 300)), ("y", (300,)))
    )
    axis = FileTensor(name="axis", shape=(1,), dtype="int32", data=np.zeros(1, np.int32))
    options = ("ReducerOptions", {"keepDims": False})
    operator = FileOperator(name="SUM", inputs=(0, 1), outputs=(2,), options=options, version=2)
    network = FileNetwork(tensors=(x, axis, y), operators=(operator,), inputs=(0,), outputs=(2,))
    cut = Cut(content=write_file(network), arena=2**20, inputs=1, outputs=1)
    assert refusals("ai-edge-litert", [cut]) == ["it does not write all of its outputs"]
    assert refusals("tflite-micro", [cut]) == [""]


@pytest.mark.parametrize(("declared", "made"), [((2, 6), [1, 2]), ((12,), [1]), ((1, 12), [1, 2])])
def test_lengths_written_over_fewer_are_no_result(declared, made):
    """DEPTH_TO_SPACE writes four lengths, however many the file declares."""
    given = FileTensor(name="x", shape=(1, 1, 3, 4), scales=(0.1,), zeros=(0,))
    options = ("DepthToSpaceOptions", {"blockSize": 2})
    operator = FileOperator(name="DEPTH_TO_SPACE", inputs=(0,), outputs=(1,), options=options)
    network = FileNetwork(
        tensors=(given, replace(given, name="y", shape=declared)),
        operators=(operator,),
        inputs=(0,),
        outputs=(1,),
    )
    cut = Cut(content=write_file(network), arena=2**20, inputs=1, outputs=1)
    assert refusals("tflite-micro", [cut]) == [
        f"it makes {made} of an output of shape {list(declared)}"
    ]
    assert refusals("ai-edge-litert", [cut]) == [""]


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("L2_NORMALIZATION", 4),
        ("L2_NORMALIZATION", 5),
        ("MIRROR_PAD", 2),
        ("DEPTH_TO_SPACE", 5),
        ("LOGICAL_AND", 11),
        ("LOGICAL_AND", 17),
    ],
)
def test_axes_declared_otherwise_are_those_of_litert(name, seed, references):
    builder = Builder(seed)
    _, network = draw_operator(builder, name)
    (number,) = network.outputs
    tensors = list(network.tensors)
    total = math.prod(tensors[number].shape)
    tensors[number] = replace(tensors[number], shape=(total,))
    network = replace(network, tensors=tuple(tensors))
    content, calls = write_file(network), input_arrays(network, seed)
    wanted = references.ask("litert", content, calls)
    found = references.ask("matloom:nano", content, calls)
    assert wanted.ran, wanted.refusal
    assert found.ran, found.refusal
    for (mine,), (other,) in zip(found.calls, wanted.calls, strict=True):
        assert mine.shape == (total,)
        np.testing.assert_array_equal(mine, other.reshape(-1))


def test_parts_declared_otherwise_are_those_of_litert(references):
    x = FileTensor(name="x", shape=(5, 1, 6, 5), dtype="int16")
    sizes, axis = (
        FileTensor(shape=(len(given),), dtype="int32", data=np.array(given, np.int32))
        for given in ([1, 2, 2], [-4])
    )
    parts = [
        FileTensor(shape=shape, dtype="int16") for shape in ((30,), (2, 1, 6, 5), (2, 1, 6, 5))
    ]
    network = FileNetwork(
        tensors=(x, sizes, axis, *parts),
        operators=(
            FileOperator(
                name="SPLIT_V",
                inputs=(0, 1, 2),
                outputs=(3, 4, 5),
                options=("SplitVOptions", {"numSplits": 3}),
            ),
        ),
        inputs=(0,),
        outputs=(3, 4, 5),
    )
    content, calls = write_file(network), input_arrays(network, 0)
    wanted = references.ask("litert", content, calls)
    found = references.ask("matloom:nano", content, calls)
    assert wanted.ran, wanted.refusal
    assert found.ran, found.refusal
    for mine, other in zip(found.calls[0], wanted.calls[0], strict=True):
        np.testing.assert_array_equal(mine.reshape(-1), other.reshape(-1))


def limited_pool(name, scale, activation):
    """Return a file with a pool; its output has no scale if `scale` is None."""
    given, made = (
        FileTensor(name=name, shape=(1, 2, 2, 3), scales=(scale or 0.1,), zeros=(0,))
        for name in "xy"
    )
    if scale is None:
        made = replace(made, scales=(), zeros=())
    pool = {"filterWidth": 1, "filterHeight": 1, "strideW": 1, "strideH": 1}
    options = ("Pool2DOptions", {**pool, "fusedActivationFunction": activation, "padding": 1})
    operator = FileOperator(name=name, inputs=(0,), outputs=(1,), options=options)
    return write_file(
        FileNetwork(tensors=(given, made), operators=(operator,), inputs=(0,), outputs=(1,))
    )


@pytest.mark.parametrize("scale", [1e-12, 2.0**-30])
@pytest.mark.parametrize("name", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_a_pool_whose_limits_overflow_is_refused(name, scale):
    """Both interpreters continue with uninitialised limits."""
    with pytest.raises(ModelError, match=rf"operator 0 \({name}\) does not fit its scales: .*6\.0"):
        frontend.load(limited_pool(name, scale, activation=3))


@pytest.mark.parametrize("activation", [1, 2, 3])
@pytest.mark.parametrize("name", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_a_limited_pool_without_a_scale_is_refused(name, activation):
    """Limits are then divided by zero, with the same result."""
    with pytest.raises(ModelError, match=rf"operator 0 \({name}\) must have a scale"):
        frontend.load(limited_pool(name, None, activation))


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize(
    "seed",
    [
        *(124, 197, 230, 380, 412, 442, 486, 510, 530, 1361, 1398, 1628, 1898, 1934),
        *(39_000_334, 39_000_560),
    ],
)
def test_files_that_once_failed(seed, references):
    """Replay seeds, by cause.

    124, 412: read beyond a tensor. 197, 1361: no elements. 442, 1398, 39000334: uninitialised
    limits. 510, 1628, 1898, 1934: shapes declared differently. 486, 530: LiteRT's SUM ignores
    scales, or does nothing. 39000560: a product of scales beyond float32.
    """
    verdict = judge(draw_case(seed), references)
    assert not verdict.failed, str(verdict)
