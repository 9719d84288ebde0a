"""Files in other formats: each is recognised, with a hint that works."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import matloom
from matloom import frontend, runtime
from matloom.data.digits import NETWORK
from matloom.errors import UserError, UserTypeError
from matloom.frontend.errors import ModelError
from matloom.frontend.formats import folder_kind, kind_of
from matloom.frontend.protobuf import decode_message
from matloom.frontend.source import is_program, network_path, packaged_networks, read_file

MODEL = NETWORK.read_bytes()


def zipped(*names):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, MODEL if name.endswith(".tflite") else b"content")
    return stream.getvalue()


def tarred(*names):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return stream.getvalue()


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number, value):
    """Encode a field of a protobuf message, as the format's guide defines it."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def npz():
    stream = io.BytesIO()
    np.savez(stream, image=np.zeros(4, np.int8))
    return stream.getvalue()


def npy():
    stream = io.BytesIO()
    np.save(stream, np.zeros(4, np.int8))
    return stream.getvalue()


def array(data, *, name="model", attributes="", unit="0x{:02x}"):
    body = ", ".join(unit.format(byte) for byte in data)
    return f'#include "m.h"\n// {name}\n{attributes} = {{\n  {body}}};\n'.encode()


NODE = field(1, b"conv1") + field(2, b"Conv2D")
ONNX = (
    field(1, 8)
    + field(2, b"pytorch")
    + field(3, b"2.1")
    + field(7, b"\x0a\x00")
    + field(8, field(2, 17))
)
SAFE = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
TORCH = zipped("net/data.pkl", "net/byteorder", "net/data/0", "net/version")

#: Content, name, what it is, and a part of the way out.
FILES = {
    "torch zip": (TORCH, "net.pt", "a PyTorch file", "litert-torch"),
    "torch script": (
        zipped("net/constants.pkl", "net/code/x.py"),
        "",
        "a PyTorch file",
        "torch.onnx.export",
    ),
    "torch export": (
        zipped("net/archive_format"),
        "net.pt2",
        "a PyTorch file",
        "torch.onnx.export",
    ),
    "torch old": (pickle.dumps({"a": 1}, 2), "net.pth", "a Python pickle", "torch.onnx.export"),
    "pickle 5": (pickle.dumps([0] * 9, 5), "net.pkl", "a Python pickle", "torch.onnx.export"),
    "onnx cut": (ONNX[:-3], "net.onnx", "a damaged ONNX model", "again"),
    "ort": (
        bytes(4) + b"ORTM" + bytes(20),
        "net.ort",
        "a model of ONNX Runtime",
        "give the .onnx file",
    ),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(60), "net.h5", "an HDF5 file", "from_keras_model"),
    "keras": (
        zipped("metadata.json", "config.json", "model.weights.h5"),
        "net.keras",
        "a Keras model",
        "from_keras_model",
    ),
    "saved model": (
        field(1, 1) + field(2, b"\x0a\x00" * 40),
        "saved_model.pb",
        "the file saved_model.pb",
        "from_saved_model",
    ),
    "saved model zip": (zipped("m/saved_model.pb"), "m.zip", "a ZIP archive of", "from_saved"),
    "saved model tar": (tarred("m/saved_model.pb"), "m.tar", "a tar archive of", "from_saved"),
    "graph": (field(1, NODE) * 3, "frozen.pb", "a frozen TensorFlow graph", "from_saved_model"),
    "gzip": (gzip.compress(MODEL), "net.tflite.gz", "which holds a .tflite", "decompress it"),
    "bzip2": (bz2.compress(MODEL), "net.bz2", "which holds a .tflite file", "decompress it"),
    "xz": (lzma.compress(MODEL), "net.xz", "which holds a .tflite file", "decompress it"),
    "gzip cut": (gzip.compress(MODEL)[:3000], "net.gz", "which holds a .tflite", "decompress it"),
    "gzip of onnx": (gzip.compress(ONNX), "n.gz", "by gzip: an ONNX model", "unpack it"),
    "tar gz": (gzip.compress(tarred("a/b.tflite")), "a.tgz", "by gzip", "unpack it"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(20), "net.zst", "by Zstandard", "unpack it"),
    "zip": (zipped("labels.txt", "m/net.tflite"), "", "that holds m/net.tflite", "m/net.tflite"),
    "task": (zipped("net.tflite"), "net.task", "a ZIP archive that holds", "unpack it"),
    "zip of text": (zipped("readme"), "a.zip", "a ZIP archive", "unpack it"),
    "zip cut": (zipped("a.tflite")[:400], "a.zip", "a damaged ZIP archive", "download"),
    "onnx zip": (zipped("net.onnx"), "net.zip", "of an ONNX model", "unpack it"),
    "tar": (tarred("net.tflite"), "a.tar", "a tar archive that holds net.tflite", "unpack it"),
    "c array": (
        array(MODEL[:64], attributes="alignas(16) const unsigned char g_model[]"),
        "model.cc",
        "C source that holds a model",
        "xxd -r -p",
    ),
    "c attribute": (
        array(MODEL[:64], attributes="const uint8_t m[2600] __attribute__((aligned(4)))"),
        "model.h",
        "C source that holds a model",
        "0x",
    ),
    "c decimal": (
        array(MODEL[:64], attributes="unsigned char m_tflite[]", unit="{}"),
        "m.c",
        "C source that holds a model",
        "turn it back",
    ),
    "safetensors": (len(SAFE).to_bytes(8, "little") + SAFE + bytes(4), "", "a safetensors", "load"),
    "gguf": (b"GGUF\3\0\0\0" + bytes(9), "llm.gguf", "a language model in GGUF", "give the"),
    "executorch": (bytes(4) + b"ET12" + bytes(9), "net.pte", "a program of ExecuTorch", "litert"),
    "toco": (bytes(4) + b"TFL2" + bytes(9), "old.lite", "TensorFlow Lite file of 2017", "convert"),
    "npz": (npz(), "in.npz", "an .npz file of arrays", "--input"),
    "npy": (npy(), "in.npy", "a NumPy array", "--input"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid", "n.tflite", "Git LFS", "lfs pull"),
    "page": (b"\n<!DOCTYPE html><html>" + "é".encode(), "net.tflite", "a web page", "raw"),
    "tfjs": (b'{"format": "layers-model", "modelTopology": {}}', "model.json", "TensorFlow.js", ""),
    "config": (b'{"rows": 4, "columns": 4}', "mine.json", "a configuration", ""),
    "text": (b"not a network", "net.tflite", "a text", "give a .tflite"),
    "empty": (b"", "net.tflite", "empty", "copy it again"),
    "short": (b"TFL3", "net.tflite", "too short", "copy it again"),
    "noise": (bytes(range(200, 256)) * 4, "net.dat", "a file of another kind", "give a .tflite"),
    "by name": (bytes(range(200, 256)), "net.pt", "as PyTorch writes them", "torch.onnx.export"),
}


@pytest.mark.parametrize("case", FILES)
def test_each_file_is_named_with_a_way_out(case):
    content, name, what, hint = FILES[case]
    kind = kind_of(content, name)
    assert what in kind.name
    assert hint in kind.hint
    assert kind.hint
    with pytest.raises(ModelError, match="not a TensorFlow Lite or ONNX file") as caught:
        frontend.load(content)
    assert caught.value.hint


def test_no_content_is_worse_than_a_sentence():
    """Any prefix of these files, and any changed byte, gives a message."""
    rng = np.random.default_rng(0)
    for content, name, _what, _hint in FILES.values():
        for _ in range(20):
            changed = bytearray(content[: rng.integers(len(content) + 1)])
            if changed:
                changed[rng.integers(len(changed))] = rng.integers(256)
            assert kind_of(bytes(changed), name).name


def test_the_command_for_c_arrays_works(tmp_path):
    source = tmp_path / "my model.cc"
    source.write_bytes(array(MODEL, attributes="const unsigned char g_model[]"))
    command = kind_of(source.read_bytes(), str(source)).hint.partition(": ")[2]
    subprocess.run(
        command.replace("xxd -r -p", "python3 -c 'import sys; sys.stdout.buffer.write("
        "bytes.fromhex(sys.stdin.read()))'"),
        shell=True, cwd=tmp_path, check=True,
    )  # fmt: skip
    assert (tmp_path / "net.tflite").read_bytes() == MODEL


@pytest.mark.parametrize(
    ("names", "what", "hint"),
    [
        ({"saved_model.pb", "variables"}, "a TensorFlow SavedModel", "from_saved_model"),
        ({"a.tflite", "x"}, "a folder", "give the file a.tflite in it"),
        ({"x"}, "a folder", "give a file"),
        (set(), "a folder", "give a file"),
    ],
)
def test_folders(names, what, hint):
    kind = folder_kind(names)
    assert kind.name == what
    assert hint in kind.hint


def test_a_program_where_a_network_is_wanted():
    program = runtime.compile(MODEL, "nano", check="none").to_bytes()
    with pytest.raises(ModelError, match="a compiled Matloom program, not a network"):
        frontend.load(program)


def test_networks_are_found_by_name_unless_a_file_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert packaged_networks()["digits"] == NETWORK
    assert network_path("digits") == NETWORK
    (tmp_path / "digits").write_bytes(b"mine")
    assert network_path("digits").read_bytes() == b"mine"
    with pytest.raises(ModelError, match="digits is too short"):
        frontend.load("digits")


def test_missing_files_have_their_neighbours_named(tmp_path):
    (tmp_path / "kws.tflite").touch()
    with pytest.raises(ModelError, match=r"cannot read .*kvs.tflite: no such file") as caught:
        read_file(tmp_path / "kvs.tflite")
    assert caught.value.hint == "did you mean 'kws.tflite'?"
    with pytest.raises(ModelError, match="no such file") as caught:
        read_file(tmp_path / "none" / "kws.tflite")
    assert "no folder" in caught.value.hint


def test_networks_and_programs_load_from_bytes_and_by_any_name(tmp_path):
    program = runtime.compile("digits", "nano", check="none")
    data = program.to_bytes()
    renamed = tmp_path / "net.bin"
    renamed.write_bytes(data)
    image = np.full((1, 8, 8, 1), 7, np.int8)
    results = []
    mutable = (bytearray(MODEL), memoryview(MODEL), bytearray(data), memoryview(data))
    named = ("digits", NETWORK, str(NETWORK), MODEL, data, renamed, str(renamed), program)
    for source in (*named, *mutable):
        with matloom.load(source, "model", "nano") as session:
            results.append(session.run(image))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    assert is_program(renamed)
    assert not is_program(NETWORK)
    assert is_program(tmp_path / "none.mloom")


def test_protobuf_fields():
    data = field(1, 300) + field(2, b"ab") + field(1, 5) + b"\x1d\1\2\3\4"
    assert decode_message(data) == {1: [300, 5], 2: [b"ab"], 3: [b"\1\2\3\4"]}
    for wrong in (b"\x80", b"\x00\x01", field(2, b"ab")[:-1], b"\x0b", b"\xff" * 12):
        assert decode_message(wrong) is None


def test_pipes_and_devices_are_refused(tmp_path):
    """A pipe without a writer would hang, and /dev/zero never ends."""
    os.mkfifo(tmp_path / "pipe.tflite")
    for path in (tmp_path / "pipe.tflite", Path("/dev/zero")):
        with pytest.raises(ModelError, match="is a device or a pipe, not a file") as raised:
            frontend.load(path)
        assert not is_program(path)
        assert raised.value.hint == "save it to a file first"


@pytest.mark.parametrize("source", [None, 3, io.BytesIO(MODEL), [MODEL]])
def test_sources_that_are_neither_path_nor_bytes(source):
    for call in (frontend.load, lambda given: matloom.load(given, "model", "nano")):
        with pytest.raises(
            UserTypeError, match="a network must be a path, bytes, a graph"
        ) as raised:
            call(source)
        assert ("stream.read()" in raised.value.hint) == isinstance(source, io.BytesIO)


def test_a_path_that_is_too_long():
    with pytest.raises(ModelError, match=r"cannot read x+: file name too long"):
        matloom.load("x" * 5000, "model", "nano")


def test_an_input_of_lists_of_several_lengths():
    with (
        matloom.load("digits", "model", "nano", check="none") as session,
        pytest.raises(UserError, match=r"input 'image' must be an array: .* inhomogeneous shape"),
    ):
        session.run([[1, 2], [3]])
