"""Log-mel and MFCC, compared with LiteRT's operators and a double-precision definition."""

import numpy as np
import pytest

from matloom.pre import LogMel, Mfcc
from matloom.pre.float_transform import logarithm, magnitudes

SAMPLES = 4000


def sounds():
    generator, time = np.random.default_rng(0), np.arange(SAMPLES)
    yield "silence", np.zeros(SAMPLES)
    yield "one step", generator.integers(-1, 2, SAMPLES)
    yield "noise", generator.normal(0, 3000, SAMPLES)
    yield "full scale noise", generator.integers(-(2**15), 2**15, SAMPLES)
    yield "square", np.where(time % 50 < 25, -(2**15), 2**15 - 1)
    yield "sweep", 20000 * np.sin(time * time * 1e-4)


CASES = [
    pytest.param(samples.clip(-(2**15), 2**15 - 1).astype(np.int16), id=name)
    for name, samples in sounds()
]


def litert_mfcc(stage, real):
    """Return a waveform's MFCC from LiteRT's operators AudioSpectrogram and Mfcc."""
    interpreters = pytest.importorskip("ai_edge_litert.interpreter")
    content = model_of_operators(stage)
    interpreter = interpreters.Interpreter(model_content=bytes(content))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], real[:, np.newaxis])
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0]


def model_of_operators(stage):
    import flatbuffers
    from ai_edge_litert import schema_py_generated as tflite
    from flatbuffers import flexbuffers

    def options(**fields):
        builder = flexbuffers.Builder()
        with builder.Map():
            for name, value in fields.items():
                (builder.Bool if isinstance(value, bool) else _number(builder, value))(name, value)
        return builder.Finish()

    def _number(builder, value):
        return builder.Float if isinstance(value, float) else builder.Int

    model = tflite.ModelT()
    model.version = 3
    for name in (b"AudioSpectrogram", b"Mfcc"):
        code = tflite.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = tflite.BuiltinOperator.CUSTOM
        code.customCode = name
        model.operatorCodes = [*(model.operatorCodes or []), code]
    model.buffers = [tflite.BufferT(), tflite.BufferT()]
    model.buffers[1].data = list(np.array([stage.rate], np.int32).tobytes())
    graph = tflite.SubGraphT()
    shapes = ([SAMPLES, 1], [1, stage.frames, stage.bins], [1], [1, *stage.shape])
    for number, shape in enumerate(shapes):
        tensor = tflite.TensorT()
        tensor.shape, tensor.name = shape, f"t{number}".encode()
        tensor.type = tflite.TensorType.INT32 if number == 2 else tflite.TensorType.FLOAT32
        tensor.buffer = int(number == 2)
        graph.tensors = [*(graph.tensors or []), tensor]
    spectrum, coefficients = tflite.OperatorT(), tflite.OperatorT()
    spectrum.opcodeIndex, spectrum.inputs, spectrum.outputs = 0, [0], [1]
    spectrum.customOptions = list(
        options(window_size=stage.window, stride=stage.step, magnitude_squared=True)
    )
    coefficients.opcodeIndex, coefficients.inputs, coefficients.outputs = 1, [1, 2], [3]
    coefficients.customOptions = list(
        options(
            upper_frequency_limit=float(stage.high),
            lower_frequency_limit=float(stage.low),
            filterbank_channel_count=stage.mels,
            dct_coefficient_count=stage.coefficients,
        )
    )
    graph.operators, graph.inputs, graph.outputs = [spectrum, coefficients], [0], [3]
    model.subgraphs = [graph]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return builder.Output()


@pytest.mark.parametrize("samples", CASES)
@pytest.mark.parametrize(
    "fields",
    [{}, {"window": 640, "coefficients": 10}, {"window": 400, "step": 161, "mels": 23}],
    ids=["default", "arm", "odd"],
)
def test_mfcc_is_litert_s(fields, samples):
    stage = Mfcc(samples=SAMPLES, **fields)
    real = samples.astype(np.float32) / 32768
    expected = litert_mfcc(stage, real)
    made = stage.apply(samples)
    assert made.shape == expected.shape == stage.shape
    # Bands of nothing but rounding noise have logarithms of it.
    assert np.abs(made - expected).max() <= 5e-3
    assert np.array_equal(stage.apply(real), made)


def in_double(stage, samples):
    """Return log-mel features in double precision, with NumPy's FFT."""
    real = samples / (max(1, samples.max()) if stage.peak else 32768)
    starts = range(0, SAMPLES - stage.window + 1, stage.step)
    frames = np.stack([real[at : at + stage.window] for at in starts])
    window = np.hanning(stage.window + 1)[:-1]
    spectrum = np.abs(np.fft.rfft(frames * window, stage.points))
    hertz = np.fft.rfftfreq(stage.points, 1 / stage.rate)

    def mel(frequency):
        return 2595 * np.log10(1 + np.asarray(frequency) / 700)

    edges = np.linspace(*mel([stage.low, stage.high]), stage.mels + 2)
    bands = [np.interp(mel(hertz), edges[at : at + 3], [0, 1, 0]) for at in range(stage.mels)]
    for band in bands:
        band[0] = 0
    found = np.log(spectrum @ np.array(bands).T + stage.offset)
    if stage.coefficients is None:
        return found
    fft = pytest.importorskip("scipy.fft")
    return fft.dct(found, 2, norm="ortho")[:, : stage.coefficients] * np.array(
        [np.sqrt(2), *[1] * (stage.coefficients - 1)]
    )


@pytest.mark.parametrize("samples", CASES)
@pytest.mark.parametrize(
    "fields",
    [{}, {"coefficients": 10, "peak": True}, {"window": 513, "high": 8000.0, "rate": 16000}],
    ids=["default", "mlperf", "odd"],
)
def test_log_mel_is_its_definition(fields, samples):
    stage = LogMel(samples=SAMPLES, **fields)
    made, expected = stage.apply(samples), in_double(stage, samples)
    assert made.dtype == np.float32
    assert made.shape == expected.shape == stage.shape
    assert np.abs(made - expected).max() <= (1e-2 if stage.coefficients else 5e-3)


def test_transform_and_logarithm_are_single_precision():
    generator = np.random.default_rng(0)
    frames = generator.normal(size=(3, 256)).astype(np.float32)
    assert np.allclose(magnitudes(frames), np.abs(np.fft.rfft(frames)), rtol=1e-5, atol=1e-5)
    numbers = np.exp(generator.uniform(-60, 60, 10000)).astype(np.float32)
    numbers[:3] = 1, np.nextafter(np.float32(1), np.float32(0)), 1e-30
    exact = np.log(numbers.astype(float))
    spacing = np.spacing(np.abs(exact).astype(np.float32))
    assert np.abs((logarithm(numbers) - exact) / spacing).max() <= 2


@pytest.mark.parametrize(
    ("stage", "fields", "message"),
    [
        (LogMel, {"low": -1.0}, "low must be 0 to 4000.0"),
        (LogMel, {"high": 8001.0}, "high must be at most 8000.0"),
        (LogMel, {"offset": 0.0}, "offset must be 1e-30 or more"),
        (LogMel, {"coefficients": 41}, "coefficients must be 1 to 40, not 41"),
        (Mfcc, {"coefficients": 0}, "coefficients must be 1 to 40, not 0"),
    ],
)
def test_fields_are_checked(stage, fields, message):
    with pytest.raises(ValueError, match=message):
        stage(**fields)


def test_invalid_numbers_are_refused():
    raw = np.zeros(SAMPLES, np.float32)
    raw[7] = np.nan
    with pytest.raises(ValueError, match="samples of a waveform must be finite"):
        LogMel(samples=SAMPLES).apply(raw)
    with pytest.raises(TypeError, match="a waveform must be int16 or float32, not float64"):
        LogMel(samples=SAMPLES).apply(raw.astype(float))
