"""Preprocessing of images, compared with ONNX Runtime, Pillow and a definition by repetition."""

import numpy as np
import pytest

from matloom.pre import Image
from matloom.program import Quantised, TensorInfo

#: Sources and sizes: 1, odd, up, down, both at once.
SIZES = [
    ((1, 1), (4, 3)),
    ((9, 5), (1, 1)),
    ((7, 5), (7, 5)),
    ((5, 7), (13, 33)),
    ((37, 53), (16, 24)),
    ((6, 40), (24, 7)),
]
#: Half a step of rounding to bytes, and what twelve bits of weights leave.
WITHIN = 0.7


def pixels(size, depth=3, seed=0):
    generator = np.random.default_rng([seed, *size])
    return generator.integers(0, 256, (*size, depth), np.uint8)


def info(dtype, scale=None, zero_point=0, shape=(1, 8, 8, 3)):
    kept = None if scale is None else Quantised(scale=scale, zero_point=zero_point)
    return TensorInfo(name="x", shape=shape, dtype=dtype, quantised=kept)


def resized_by_onnx(image, size):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    sizes = onnx.numpy_helper.from_array(np.array([1, image.shape[2], *size]), "sizes")
    ends = [helper.make_tensor_value_info(name, kind, [None] * 4) for name in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    session = runtime.InferenceSession(model.SerializeToString())
    given = image.transpose(2, 0, 1)[np.newaxis].astype(np.float32)
    return session.run(None, {"x": given})[0][0].transpose(1, 2, 0)


@pytest.mark.parametrize(("source", "size"), SIZES)
def test_bilinear_is_onnx_runtimes(source, size):
    image = pixels(source)
    expected = resized_by_onnx(image, size)
    made = Image(size=size).to_pixels(image)
    assert np.abs(made - expected).max() <= WITHIN


@pytest.mark.parametrize(("source", "size"), SIZES)
def test_antialias_is_pillows(source, size):
    pillow = pytest.importorskip("PIL.Image")
    image = pixels(source)
    expected = np.asarray(pillow.fromarray(image).resize(size[::-1], pillow.Resampling.BILINEAR))
    made = Image(size=size, resize="antialias").to_pixels(image)
    assert np.abs(made.astype(int) - expected).max() <= 1  # Pillow rounds after each axis


@pytest.mark.parametrize(("source", "size"), SIZES)
def test_area_is_the_mean_of_repeated_pixels(source, size):
    """Repeat each pixel as often as the new size has pixels, then average blocks."""
    image = pixels(source)
    large = image.astype(float).repeat(size[0], 0).repeat(size[1], 1)
    expected = large.reshape(size[0], source[0], size[1], source[1], 3).mean((1, 3))
    made = Image(size=size, resize="area").to_pixels(image)
    assert np.abs(made - expected).max() <= WITHIN


@pytest.mark.parametrize("resize", ["bilinear", "antialias", "area"])
@pytest.mark.parametrize("level", [0, 1, 255])
def test_flat_images_stay_flat(resize, level):
    image = np.full((211, 97, 3), level, np.uint8)
    assert (Image(size=(13, 300), resize=resize).to_pixels(image) == level).all()


def test_grey_is_pillows():
    pillow = pytest.importorskip("PIL.Image")
    image = pixels((64, 64))
    made = Image(size=(64, 64), channels="grey").to_pixels(image)
    assert np.array_equal(made[..., 0], np.asarray(pillow.fromarray(image).convert("L")))


def test_order_of_channels_layout_and_crop():
    image = pixels((6, 8))
    assert np.array_equal(Image(size=(6, 8), channels="bgr").to_pixels(image), image[..., ::-1])
    chw = Image(size=(6, 8), layout="chw").to_pixels(image)
    assert np.array_equal(chw, image.transpose(2, 0, 1))
    box = Image(size=(2, 3), crop=(1, 4, 2, 3)).to_pixels(image)
    assert np.array_equal(box, image[1:3, 4:7])
    centre = Image(size=(6, 6), crop="centre").to_pixels(image)
    assert np.array_equal(centre, image[:, 1:7])
    assert Image(size=(1, 9), crop="centre").box(4, 5) == (1, 0, 1, 5)


def test_arrays_in_any_order_of_memory():
    image = pixels((20, 18))
    stage = Image(size=(7, 9))
    other = np.asfortranarray(image.repeat(2, 1))[:, ::2]
    assert np.array_equal(stage.to_pixels(other), stage.to_pixels(image))
    assert np.array_equal(stage.to_pixels(image[:, ::-1]), stage.to_pixels(image[:, ::-1].copy()))


def test_numbers_are_mean_and_scale():
    image = pixels((8, 8))
    mean, scale = (123.675, 116.28, 103.53), (0.017, 0.0175, 0.0174)
    made = Image(size=(8, 8), mean=mean, scale=scale).apply(image)
    assert made.dtype == np.float32
    expected = (image - np.array(mean)) * np.array(scale)
    assert np.allclose(made, expected, rtol=1e-6, atol=1e-7)
    assert np.array_equal(Image(size=(8, 8)).apply(image), (image / 255).astype(np.float32))


@pytest.mark.parametrize(
    ("dtype", "zero_point", "expected"),
    [
        ("int8", -128, lambda b: b - 128.0),
        ("uint8", 0, lambda b: b),
        ("int8", 0, lambda b: np.minimum(b, 127)),
        ("int16", 5, lambda b: b + 5.0),
    ],
)
def test_matching_scales_are_a_shift_of_bytes(dtype, zero_point, expected):
    stage, to = Image(size=(8, 8)), info(dtype, 1 / 255, zero_point)
    assert np.array_equal(stage.table(to), np.tile(expected(np.arange(256)), (3, 1)))
    image = pixels((8, 8))
    assert np.array_equal(stage.prepare(image, to), stage.table(to)[0][image])


@pytest.mark.parametrize(
    ("to", "fields", "words"),
    [
        (info("int8", 1 / 255, -128), {}, "byte - 128, exactly"),
        (info("uint8", 1 / 255), {}, "as they are"),
        (info("uint8"), {"scale": 1}, None),
        (info("int8", 0.02, 3), {"mean": 127.5, "scale": 0.01}, "one table of 256 int8"),
        (info("float32"), {"mean": (1, 2, 3)}, "3 tables of 256 float32"),
    ],
)
def test_descriptions_name_exact_parts(to, fields, words):
    stage = Image(size=(8, 8), crop="centre", **fields)
    if words is None:
        with pytest.raises(ValueError, match="no scale"):
            stage.require(to)
    else:
        assert stage.describe(to).startswith("crop to the centre, resize (bilinear) to 8 x 8; ")
        assert words in stage.describe(to)


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (np.zeros((4, 4, 3), np.float32), TypeError, "an image must be uint8, not float32"),
        (np.zeros((4, 4, 3), np.int8), TypeError, "an image must be uint8, not int8"),
        (np.zeros((4, 4, 4), np.uint8), ValueError, r"height x width x 3, not \(4, 4, 4\)"),
        (np.zeros((4, 4), np.uint8), ValueError, r"height x width x 3, not \(4, 4\)"),
        (np.zeros((0, 4, 3), np.uint8), ValueError, r"height x width x 3, not \(0, 4, 3\)"),
        (np.zeros(7, np.uint8), ValueError, r"height x width x 3, not \(7,\)"),
        (np.zeros((5, 4, 3), np.uint8), ValueError, r"the size \(4, 4\), not \(5, 4\)"),
    ],
)
def test_files_that_are_not_images_are_refused(image, error, message):
    with pytest.raises(error, match=message):
        Image(size=(2, 2), source=(4, 4)).apply(image)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": (0, 4)}, r"size must be height and width of 1 to 16384, not \(0, 4\)"),
        ({"size": 96}, "size must be height and width"),
        ({"size": (2.0, 2)}, "size must be height and width"),
        ({"resize": "bicubic"}, "resize must be one of bilinear, antialias, area"),
        ({"channels": "gray"}, "channels must be one of rgb, bgr, grey"),
        ({"layout": "nchw"}, "layout must be one of hwc, chw"),
        ({"crop": "center"}, "crop must be 'centre', a box or None"),
        ({"crop": (0, 0, 0, 4), "source": (4, 4)}, "crop must be top, left, height and width"),
        ({"crop": (1, 0, 4, 4), "source": (4, 4)}, "must lie within the image, 4 x 4"),
        ({"mean": (1, 2)}, "mean must be one number or 3, not 2"),
        ({"scale": float("nan")}, "scale must be finite numbers"),
        ({"scale": "1"}, "scale must be finite numbers"),
    ],
)
def test_fields_are_checked(fields, message):
    with pytest.raises(ValueError, match=message):
        Image(**{"size": (2, 2), **fields})
