"""User mistakes on the command line: one message on stderr, exit status 2, no traceback."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matloom import frontend
from matloom.data.digits import NETWORK
from matloom.device.open import DEVICES
from matloom.runtime import compile
from support.file_edits import FileParts

MATLOOM = Path(sys.executable).with_name("matloom")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "net.tflite").write_bytes(NETWORK.read_bytes())
    (tmp_path / "short.tflite").write_bytes(NETWORK.read_bytes()[:3000])
    (tmp_path / "text.tflite").write_text("not a network")
    (tmp_path / "bad.json").write_text('{"rows": 3}')
    program = compile(frontend.load(NETWORK), "small")
    program.save(tmp_path / "net.mloom")
    data = bytearray(program.to_bytes())
    data[-5] ^= 64
    (tmp_path / "broken.mloom").write_bytes(data)
    np.savez(tmp_path / "in.npz", image=np.zeros((1, 8, 8, 1), np.int8))
    np.savez(tmp_path / "shape.npz", image=np.zeros((1, 9, 8, 1), np.int8))
    np.savez(tmp_path / "dtype.npz", image=np.zeros((1, 8, 8, 1), np.float32))
    (tmp_path / "short.npz").write_bytes((tmp_path / "in.npz").read_bytes()[:100])
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, np.zeros((1, 8, 8, 1), np.int8))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    edited = FileParts.of(program.to_bytes()).with_word("bindings", 0, "region", 0)
    (tmp_path / "edited.mloom").write_bytes(edited.to_bytes())
    (tmp_path / "old.mloom").write_bytes(b"MLOOMPRG\4\0\0\0" + bytes(16))
    np.savez(tmp_path / "name.npz", picture=np.zeros((1, 8, 8, 1), np.int8))
    return tmp_path


RUN = ["run", "net.tflite", "--output", "out.npz", "--device", "model", "--input"]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["explain", "missing.tflite"], "missing.tflite"),
        (["explain", "short.tflite"], "short"),
        (["explain", "text.tflite"], "text.tflite is a text, not a TensorFlow Lite or ONNX file"),
        (["explain", "net.tflite", "--config", "huge"], "config must be one of nano"),
        (["explain", "net.tflite", "--config", "bad.json"], "rows must be 4 to 64, not 3"),
        (["disasm", "broken.mloom"], "checksum must be"),
        (["disasm", "old.mloom"], "has format 4, from an older Matloom; this one reads 5"),
        (["disasm", "edited.mloom"], "must be in region INPUT, not PROGRAM"),
        (["explain", "net.tflite", "--config", "deep.json"], "a configuration must be JSON"),
        ([*RUN, "shape.npz"], "must have shape (1, 8, 8, 1)"),
        ([*RUN, "dtype.npz"], "must be int8, not float32"),
        ([*RUN, "name.npz"], "inputs must be named ['image'], not ['picture']"),
        ([*RUN, "text.tflite"], "--input must be an .npz file"),
        ([*RUN, "short.npz"], "--input must be an .npz file"),
        ([*RUN, "one.npz"], "--input must be an .npz file, not 'one.npz': it holds one array"),
        ([*RUN, "in.npz", "--output", "."], "--output must be a file, and . is a folder"),
        (
            [*RUN, "in.npz", "--report", "no/r.json"],
            "cannot be written: there is no folder",
        ),
        ([*RUN, "in.npz", "--precision", "=i8xi4"], "must be [LAYER=]MODE, not '=i8xi4'"),
        ([*RUN, "in.npz", "--config", "binary.json"], "config must be a JSON file in UTF-8"),
        (
            [*RUN, "in.npz", "--device", "gpu"],
            f"a device must be one of {', '.join(DEVICES)}, not 'gpu'",
        ),
        ([*RUN, "in.npz", "--waves", "w.vcd"], "--waves must go with device rtl"),
        ([*RUN, "in.npz", "--check-bus"], "--check-bus must go with device rtl"),
        (
            ["run", "net.mloom", *RUN[2:], "in.npz", "--config", "nano"],
            "the program is for configuration small (",
        ),
        (["explain", "net.mloom", "--config", "nano"], "the program is for configuration small ("),
        (["generate", "--config", "nano", "-o", "chip", "--fpga-report", "x"], "must be one of"),
        (["frobnicate"], "matloom has no command 'frobnicate'"),
    ],
)
def test_mistakes(folder, words, sentence):
    done = subprocess.run([MATLOOM, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout + done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "chip").exists()
    error, *hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert len(hint) <= 1
    assert all(line.startswith("hint: ") for line in hint)
