"""The delegate in LiteRT itself: outputs of the reference kernels, and the engine's cycles."""

import ctypes
import random
import re
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import matloom
from matloom import frontend
from matloom.cli import cli
from matloom.data.digits import NETWORK
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Activation, FullyConnected, Softmax
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.plugins.networks import litert_bundle
from support.oracles import micro

litert = pytest.importorskip("ai_edge_litert.interpreter")

slow = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]


def _interpreter(content, *delegates):
    """Return LiteRT's interpreter with its reference kernels, ready to run."""
    found = litert.Interpreter(
        model_content=content,
        experimental_delegates=list(delegates),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
    )
    found.allocate_tensors()
    return found


def _outputs(interpreter, inputs):
    for details, data in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], data)
    interpreter.invoke()
    return [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]


def _random_inputs(content, draw):
    found = []
    for item in _interpreter(content).get_input_details():
        limits = np.iinfo(item["dtype"])
        size = item["shape"]
        found.append(draw.integers(limits.min, limits.max + 1, size, item["dtype"]))
    return found


class Plugin:
    """The library, with functions that are not part of the delegate's interface."""

    def __init__(self, path):
        self.path = path
        self._library = ctypes.CDLL(str(path))

    def load(self, **options):
        return litert.load_delegate(str(self.path), options)

    def ask(self, delegate, what, kind=ctypes.c_uint64):
        function = getattr(self._library, f"matloom_litert_{what}")
        function.restype, function.argtypes = kind, [ctypes.c_void_p]
        return function(ctypes.cast(delegate._get_native_delegate_pointer(), ctypes.c_void_p))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder that `matloom plugin` writes for the digits at nano."""
    if shutil.which("gcc") is None:
        pytest.skip("a plug-in needs gcc, which is absent")
    found = tmp_path_factory.mktemp("work") / "plugin"
    words = ["plugin", "litert", "digits", "--config", "nano", "-o", str(found)]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.stdout.splitlines() == [
        "8 of 9 operators run on the engine",
        f"library: {found}/libmatloom_litert.so",
        f"bundle: {found}/digits.bundle",
        f"device: rtl:{found}/chip.so",
    ]
    return found


@pytest.fixture(scope="module")
def plugin(folder):
    return Plugin(folder / "libmatloom_litert.so")


@pytest.fixture(scope="module")
def chip(folder):
    return f"rtl:{folder / 'chip.so'}"


@pytest.fixture(scope="module")
def digits(folder):
    return folder / "digits.bundle"


@pytest.mark.slow
def test_digits(plugin, chip, digits):
    """Everything but SOFTMAX runs on the engine."""
    content = NETWORK.read_bytes()
    delegate = plugin.load(bundle=str(digits), device=chip)
    ours, plain = _interpreter(content, delegate), _interpreter(content)
    draw = np.random.default_rng(1)
    for _ in range(2):
        inputs = _random_inputs(content, draw)
        assert np.array_equal(_outputs(ours, inputs), _outputs(plain, inputs))
    assert plugin.ask(delegate, "cycles") > 0
    assert plugin.ask(delegate, "parts") == 1


@slow
def test_cycles_are_those_of_the_driver_in_python(plugin, chip, digits):
    delegate = plugin.load(bundle=str(digits), device=chip)
    ours, cycles = _interpreter(NETWORK.read_bytes(), delegate), 0
    draw = np.random.default_rng(8)
    with matloom.load(NETWORK, device="rtl", config="nano") as session:
        for _ in range(2):
            inputs = _random_inputs(NETWORK.read_bytes(), draw)
            _outputs(ours, inputs)
            session.run(*inputs)
            cycles += session.report().cycles
    assert plugin.ask(delegate, "cycles") == cycles


@slow
def test_page(folder, monkeypatch, capsys):
    """Run the script of docs/plug-ins.md after its command."""
    monkeypatch.chdir(folder.parent)
    text = (ROOT / "docs" / "plug-ins.md").read_text()
    script, _ = re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(compile(script, "script", "exec"), {})
    assert capsys.readouterr().out.strip().isdecimal()


def _divided():
    """Return a network with a SOFTMAX, which the engine lacks, between two dense layers."""
    draw = np.random.default_rng(2)
    builder = GraphBuilder("divided")
    dense = FullyConnected(activation=Activation.RELU)
    scale = Quantisation(scale=(0.05,), zero_point=(-128,))
    part = Quantisation(scale=(1 / 256,), zero_point=(-128,))
    weights = Quantisation(scale=(0.02,), zero_point=(0,))
    last = builder.input("x", (1, 16), "int8", Quantisation(scale=(0.03,), zero_point=(3,)))
    for output in (scale, part):
        values = builder.constant(draw.integers(-127, 128, (16, 16), np.int8), weights)
        last = builder.add(Op.FULLY_CONNECTED, [last, values], dense, quantisation=output)
        if output is scale:
            last = builder.add(Op.SOFTMAX, [last], Softmax(beta=1.0), quantisation=part)
    return write_tflite(builder.graph(last))


def test_unsupported_operator_between_two_parts(plugin, chip, tmp_path):
    content = _divided()
    network, path = tmp_path / "divided.tflite", tmp_path / "divided.bundle"
    network.write_bytes(content)
    path.write_bytes(litert_bundle(network, matloom.compile(network, "nano"))[0])
    delegate = plugin.load(bundle=str(path), device=chip)
    ours = _interpreter(content, delegate)
    assert plugin.ask(delegate, "parts") == 2
    draw = np.random.default_rng(3)
    for _ in range(3):
        inputs = _random_inputs(content, draw)
        # LiteRT's reference kernel of dense layers rounds once: docs/numerics.md.
        assert np.array_equal(_outputs(ours, inputs), micro(content, inputs, 1))
    assert plugin.ask(delegate, "cycles") > 0


def _changed(what):
    """Return the digits with one property changed that affects LiteRT's results."""
    content = bytearray(NETWORK.read_bytes())
    graph = frontend.load(NETWORK)
    tensors = {tensor.name: tensor for tensor in graph.tensors.values()}
    if what == "weight":
        content[content.index(tensors["inner/weights"].data.tobytes()) + 5] ^= 1
    elif what == "scale":
        scale = struct.pack("<f", tensors["wide"].scale)
        content[content.index(scale)] ^= 1
    else:
        import tflite

        operator = tflite.Model.GetRootAs(content).Subgraphs(0).Operators(1)
        options = tflite.Conv2DOptions()
        options.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
        activation = options._tab.Pos + options._tab.Offset(10)
        content[activation] = tflite.ActivationFunctionType.NONE
    return bytes(content)


@pytest.mark.parametrize(
    "what", ["weight", *(pytest.param(each, marks=slow) for each in ("scale", "activation"))]
)
def test_another_model_stays_with_the_runtime(plugin, chip, digits, what):
    content = _changed(what)
    delegate = plugin.load(bundle=str(digits), device=chip)
    ours, plain = _interpreter(content, delegate), _interpreter(content)
    inputs = _random_inputs(content, np.random.default_rng(4))
    assert np.array_equal(_outputs(ours, inputs), _outputs(plain, inputs))
    assert (plugin.ask(delegate, "parts"), plugin.ask(delegate, "cycles")) == (0, 0)
    said = plugin.ask(delegate, "problem", ctypes.c_char_p).decode()
    assert said.startswith("the model is not the one that the bundle was made from")


@slow
def test_another_model_is_an_error_where_no_fallback_is_wanted(plugin, chip, digits):
    delegate = plugin.load(bundle=str(digits), device=chip, fallback="0")
    with pytest.raises(RuntimeError, match="the model is not the one that the bundle was made"):
        _interpreter(_divided(), delegate)


def _damaged(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _sealed(content):
    """Return a bundle with a valid checksum."""
    return content[:8] + struct.pack("<I", zlib.crc32(content[12:])) + content[12:]


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda content: content[:30], "is not a bundle: its size is 30 bytes"),
        (lambda content: b"x" + content[1:], "is not a bundle: matloom plugin writes one"),
        (lambda content: _damaged(content, 300), "is damaged"),
        (lambda content: content + b"\0", "is damaged"),
        (lambda content: _sealed(_damaged(content, 12)), "must have version 2, not 3"),
        (lambda content: _sealed(_damaged(content, 21)), "must be one for LiteRT"),
        (lambda content: _sealed(_damaged(content, 31)), "has too many parts"),
        (lambda content: _sealed(_damaged(content, 50)), "part 0 of bundle"),
        (lambda content: _sealed(_damaged(content, 128)), "the program of"),
        (lambda content: _sealed(_damaged(content, 34)), "has its program outside the file"),
    ],
)
def test_files_that_are_not_bundles(plugin, digits, tmp_path, edit, sentence):
    path = tmp_path / "edited.bundle"
    path.write_bytes(edit(digits.read_bytes()))
    with pytest.raises(ValueError, match=sentence):
        plugin.load(bundle=str(path), device="rtl:none.so")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "option bundle must be given"),
        ({"bundle": "digits"}, "option device must be given"),
        ({"colour": "red"}, "options must be bundle, device and fallback, not colour"),
        ({"bundle": "none.bundle", "device": "rtl:x"}, "cannot be read: No such file"),
        ({"device": "gpu"}, "device must be rtl:LIBRARY or uio:REGISTERS,MEMORY, not gpu"),
        ({"device": "rtl:none.so"}, "the simulated chip cannot be loaded: none.so"),
        ({"device": "rtl:libm.so.6"}, "libm.so.6 is not the library of a simulated chip"),
        ({"device": "uio:uio0"}, "device uio must be uio:REGISTERS,MEMORY"),
        ({"device": "uio:uio77,udmabuf77"}, "device uio:uio77,udmabuf77 cannot be opened"),
    ],
)
def test_files_that_cannot_be_opened(plugin, digits, options, sentence):
    options = {"bundle": str(digits), **options} if "device" in options else options
    with pytest.raises(ValueError, match=sentence):
        plugin.load(**options)


@slow
def test_engine_of_another_configuration(plugin, chip, tmp_path):
    path = tmp_path / "mini.bundle"
    path.write_bytes(litert_bundle(NETWORK, matloom.compile(NETWORK, "mini"))[0])
    with pytest.raises(ValueError, match="another configuration than the engine's"):
        plugin.load(bundle=str(path), device=chip)


@slow
def test_a_device_that_stops_answering(plugin, chip, digits, tmp_path, monkeypatch):
    """A failed run gives one message, as LiteRT's own error."""
    library = tmp_path / "failing.so"
    source = ROOT / "firmware" / "tests" / "failing_chip.c"
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", source, "-o", library]
    subprocess.run([str(word) for word in command], check=True)
    monkeypatch.setenv("MATLOOM_SIMULATOR", chip.removeprefix("rtl:"))
    monkeypatch.setenv("MATLOOM_ACCESSES", "30")
    delegate = plugin.load(bundle=str(digits), device=f"rtl:{library}")
    ours = _interpreter(NETWORK.read_bytes(), delegate)
    inputs = _random_inputs(NETWORK.read_bytes(), np.random.default_rng(5))
    with pytest.raises(RuntimeError, match="matloom: the engine's run failed: a register access"):
        _outputs(ours, inputs)


@slow
def test_edited_bundles_never_crash(plugin, digits, tmp_path):
    """Each edit of header or records gives a message, or leaves the outputs right."""
    draw, content = random.Random(6), digits.read_bytes()
    script = tmp_path / "load.py"
    script.write_text(
        "import sys\n"
        "from ai_edge_litert.interpreter import load_delegate\n"
        "for path in sys.argv[2:]:\n"
        "    try:\n"
        "        load_delegate(sys.argv[1], {'bundle': path, 'device': 'rtl:none.so'})\n"
        "    except ValueError as error:\n"
        "        print(str(error).splitlines()[-1])\n"
    )
    paths = []
    for number in range(500):
        edited = bytearray(content)
        place = 4 * draw.randrange(3, 40)
        edited[place : place + 4] = struct.pack("<I", draw.choice((0, 1, 64, 2**31, 2**32 - 1)))
        paths.append(tmp_path / f"{number}.bundle")
        paths[-1].write_bytes(_sealed(bytes(edited)))
    command = [sys.executable, script, plugin.path, *paths]
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.splitlines()) == len(paths)


@slow
@pytest.mark.parametrize(
    "name",
    [
        "mlperf_tiny/ad01_int8",
        "mlperf_tiny/kws_ref_model",
        "mlperf_tiny/pretrainedResnet_quant",
        "tflm/person_detect_qdimfix",
    ],
)
def test_collection(plugin, chip, tmp_path, models, name):
    network = models / "models" / f"{name}.tflite"
    content = network.read_bytes()
    path = tmp_path / "net.bundle"
    path.write_bytes(litert_bundle(network, matloom.compile(network, "nano"))[0])
    delegate = plugin.load(bundle=str(path), device=chip)
    ours = _interpreter(content, delegate)
    inputs = _random_inputs(content, np.random.default_rng(7))
    assert np.array_equal(_outputs(ours, inputs), micro(content, inputs, 1))
    assert plugin.ask(delegate, "cycles") > 0
