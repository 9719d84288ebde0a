"""Recognises files that no reader can read by their content, and says how to convert them."""

import bz2
import io
import json
import lzma
import re
import shlex
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from matloom.frontend.onnx.recognise import is_onnx
from matloom.frontend.protobuf import decode_message

#: Bytes of a flatbuffer that hold its identifier.
_IDENTIFIER = slice(4, 8)
_TFLITE = b"TFL3"

#: Number of bytes at the start of a compressed file's content that are enough to recognise it.
_PEEK_BYTES = 1 << 16
#: Minimum length of a file, in bytes, whose format can be recognised.
_LEAST_BYTES = 8
#: The opcode that begins a pickle of protocol 2 and up.
_PICKLE_OPCODE = 0x80
#: The first printable ASCII character, and the only unprintable one after it.
_SPACE, _DELETE = 0x20, 0x7F


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """A recognised format: its name with an article, and a hint on how to run such a file."""

    name: str
    hint: str


_CONVERT = "convert it to a quantised .tflite file"
_CONVERT_AGAIN = f"{_CONVERT} once more"
_KERAS = f"{_CONVERT} with tf.lite.TFLiteConverter.from_keras_model (docs/pytorch.md)"
_SAVED_MODEL = f"{_CONVERT} with tf.lite.TFLiteConverter.from_saved_model (docs/networks.md)"
_TORCH = f"export it with torch.onnx.export, or {_CONVERT} with litert-torch (docs/pytorch.md)"
_ORT = "give the .onnx file that it was made from"
_UNPACK_ONNX = "unpack it, and give the .onnx file in it"
_ORIGINAL = "give the .tflite file of the network that it was made from"
_COPY_AGAIN = "download or copy it again"
_UNPACK = "unpack it, and give the .tflite file in it"

#: Formats recognised by the first bytes of a file.
_BEGINNINGS = (
    (b"\x89HDF\r\n\x1a\n", FileKind(name="an HDF5 file, as Keras writes its models", hint=_KERAS)),
    (b"GGUF", FileKind(name="a language model in GGUF", hint=_ORIGINAL)),
    (b"RKNN", FileKind(name="a model compiled for a Rockchip NPU", hint=_ORIGINAL)),
    (b"LITERTLM", FileKind(name="a language model in the format of LiteRT-LM", hint=_ORIGINAL)),
    (b"ML\xefR", FileKind(name="MLIR bytecode", hint=_ORIGINAL)),
    (b"\x7fELF", FileKind(name="a compiled program (ELF)", hint=_ORIGINAL)),
    (
        b"\x93NUMPY",
        FileKind(name="a NumPy array", hint="give it to --input, and a .tflite file as NET"),
    ),
    (b"\x89PNG", FileKind(name="a picture", hint="give a .tflite file")),
    (b"\xff\xd8\xff", FileKind(name="a picture", hint="give a .tflite file")),
    (b"7767517", FileKind(name="a model of ncnn", hint=_ORIGINAL)),
    (b"version https://git-lfs", FileKind(name="a pointer of Git LFS", hint="run: git lfs pull")),
)

#: Flatbuffer formats other than TensorFlow Lite's, by identifier.
_IDENTIFIERS = {
    b"ORTM": FileKind(name="a model of ONNX Runtime (.ort)", hint=_ORT),
    b"ET12": FileKind(name="a program of ExecuTorch", hint=_TORCH),
    b"TFL1": FileKind(name="a TensorFlow Lite file of 2017, version 1", hint=_CONVERT_AGAIN),
    b"TFL2": FileKind(name="a TensorFlow Lite file of 2017, version 2", hint=_CONVERT_AGAIN),
}

#: Argument of `zlib.decompressobj` for gzip: the largest window, and a gzip header.
_GZIP_WINDOW = 31

_COMPRESSED: dict[bytes, tuple[str, Callable[[], Any] | None]] = {
    b"\x1f\x8b": ("a file compressed by gzip", lambda: zlib.decompressobj(_GZIP_WINDOW)),
    b"BZh": ("a file compressed by bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ": ("a file compressed by xz", lzma.LZMADecompressor),
    b"\x28\xb5\x2f\xfd": ("a file compressed by Zstandard", None),
    b"7z\xbc\xaf\x27\x1c": ("an archive of 7-Zip", None),
    b"Rar!": ("an archive of RAR", None),
}

#: `name[] = {0x1c, 0x00,` with any attributes before the equals sign.
_C_ARRAY = re.compile(rb"\w\[\w*\][^;={}]{0,200}=\s*\{\s*(?:0[xX][0-9a-fA-F]{1,2}|\d{1,3})\s*,")
_C_ARRAY_HINT = (
    "turn it back into a file: grep -oE '0x[0-9a-fA-F]{2}' FILE | cut -c3- | xxd -r -p > net.tflite"
)


def folder_kind(names: set[str]) -> FileKind:
    """Return the kind of a folder whose entries have these names."""
    if {"saved_model.pb", "saved_model.pbtxt"} & names:
        return FileKind(name="a TensorFlow SavedModel", hint=_SAVED_MODEL)
    if "keras_metadata.pb" in names:
        return FileKind(name="a Keras model", hint=_KERAS)
    found = sorted(name for name in names if name.endswith((".tflite", ".mloom")))
    return FileKind(
        name="a folder", hint=f"give the file {found[0]} in it" if found else "give a file"
    )


def kind_of(content: bytes, name: str) -> FileKind:
    """Return the kind of a file that no reader can read, by its content, else by its suffix."""
    kind = _recognise(content, name)
    return replace(kind, hint=kind.hint.replace("FILE", shlex.quote(name) if name else "FILE"))


def _recognise(content: bytes, name: str) -> FileKind:
    """Return the kind of a file by its content, else by the suffix of its name."""
    if len(content) < _LEAST_BYTES:
        return FileKind(name="too short" if content else "empty", hint=_COPY_AGAIN)
    for beginning, kind in _BEGINNINGS:
        if content.startswith(beginning):
            return kind
    if content[_IDENTIFIER] in _IDENTIFIERS:
        return _IDENTIFIERS[content[_IDENTIFIER]]
    for look in (
        _compressed_kind,
        _archive_kind,
        _safetensors_kind,
        _pickle_kind,
        _text_kind,
        _protobuf_kind,
    ):
        found = look(content)
        if found is not None:
            return found
    return _kind_by_suffix(PurePath(name).suffix.lower())


def _kind_by_suffix(suffix: str) -> FileKind:
    """Return the kind that a lower-case suffix suggests, for content that is not recognised."""
    if suffix in (".onnx", ".ort"):
        return FileKind(name="a damaged ONNX model", hint=_COPY_AGAIN)
    if suffix in (".pt", ".pth", ".pt2", ".ckpt", ".bin"):
        return FileKind(name="a file of weights, as PyTorch writes them", hint=_TORCH)
    if suffix in (".h5", ".keras", ".hdf5"):
        return FileKind(name="a damaged Keras model", hint=_COPY_AGAIN)
    if suffix in (".pb", ".pbtxt"):
        return FileKind(name="a TensorFlow graph", hint=_SAVED_MODEL)
    if suffix == ".mloom":
        return FileKind(name="a damaged Matloom program", hint="compile the network again")
    return FileKind(name="a file of another kind", hint="give a .tflite, .onnx or .mloom file")


def _compressed_kind(content: bytes) -> FileKind | None:
    """Return the kind of a compressed file, including that of its content; None for other files."""
    for beginning, (name, decompressor) in _COMPRESSED.items():
        if not content.startswith(beginning):
            continue
        inside = b""
        if decompressor is not None:
            # Damaged files raise almost anything; a truncated file still has a beginning.
            with suppress(Exception):
                inside = decompressor().decompress(content, _PEEK_BYTES)
        if inside[_IDENTIFIER] == _TFLITE:
            return FileKind(name=f"{name}, which holds a .tflite file", hint="decompress it first")
        if len(inside) >= _LEAST_BYTES and inside[257:262] != b"ustar":
            return FileKind(
                name=f"{name}: {kind_of(inside, '').name}", hint=kind_of(inside, "").hint
            )
        return FileKind(name=name, hint=_UNPACK)
    return None


def _archive_kind(content: bytes) -> FileKind | None:
    """Return the kind of a tar or ZIP archive by the names of its members; None for other files."""
    if content[257:262] == b"ustar":
        return _kind_of_members(_tar_names(content), "a tar archive")
    if content[:2] != b"PK":
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    # Damaged archives raise almost anything.
    except Exception:
        return FileKind(name="a damaged ZIP archive", hint=_COPY_AGAIN)
    return _kind_of_members(names, "a ZIP archive")


def _tar_names(content: bytes) -> list[str]:
    """Return the names of a tar archive's members; none if it is damaged."""
    with suppress(Exception), tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return archive.getnames()
    return []


def _kind_of_members(names: list[str], archive: str) -> FileKind:
    """Return the kind of an archive with these members; `archive` names its format."""
    last = {PurePath(name).name for name in names}
    models = [name for name in names if name.endswith(".tflite")]
    if models:
        return FileKind(
            name=f"{archive} that holds {models[0]}",
            hint=f"unpack it, and give the file {models[0]}",
        )
    if {"data.pkl", "constants.pkl"} & last or "archive_format" in last:
        return FileKind(name="a PyTorch file", hint=_TORCH)
    if "config.json" in last and any(name.endswith(".h5") for name in last):
        return FileKind(name="a Keras model (.keras)", hint=_KERAS)
    if last & {"saved_model.pb", "saved_model.pbtxt"}:
        return FileKind(name=f"{archive} of a TensorFlow SavedModel", hint=_SAVED_MODEL)
    if any(name.endswith(".mlmodel") for name in last):
        return FileKind(name="a Core ML model", hint=_ORIGINAL)
    if any(name.endswith(".onnx") for name in last):
        return FileKind(name=f"{archive} of an ONNX model", hint=_UNPACK_ONNX)
    if names and all(name.endswith(".npy") for name in names):
        return FileKind(
            name="an .npz file of arrays", hint="give it to --input, and a .tflite as NET"
        )
    return FileKind(name=archive, hint=_UNPACK)


def _safetensors_kind(content: bytes) -> FileKind | None:
    """Return the kind of a safetensors file (a length, then a JSON object); None for others."""
    if content[8:9] == b"{" and int.from_bytes(content[:8], "little") < 1 << 32:
        kind_text = "a safetensors file, which holds weights without a network"
        return FileKind(name=kind_text, hint=f"load it into its network, and {_TORCH}")
    return None


def _pickle_kind(content: bytes) -> FileKind | None:
    """Return the kind of a pickle of protocol 2 to 5; None for other files."""
    if content[0] == _PICKLE_OPCODE and content[1] in range(2, 6):
        return FileKind(name="a Python pickle, as older PyTorch wrote its files", hint=_TORCH)
    return None


def _text_kind(content: bytes) -> FileKind | None:
    """Return the kind of a text file: a C array, JSON, a web page, XML, other text; else None."""
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    lowered = start[:512].lower()
    if lowered.startswith((b"<!doctype html", b"<html")):
        return FileKind(
            name="a web page", hint="download the file itself (its page has a raw link)"
        )
    if b"\0" in start:
        return None
    if lowered.startswith((b"<?xml", b"<net")):
        return FileKind(name="an XML file", hint=_ORIGINAL)
    if _C_ARRAY.search(content[: 1 << 20]):
        return FileKind(name="C source that holds a model as an array", hint=_C_ARRAY_HINT)
    if start[:1] == b"{" and (what := _json_kind(content)):
        return FileKind(name=what, hint=_ORIGINAL)
    printed = (byte in b"\t\r\n" or _SPACE <= byte != _DELETE for byte in start[:512])
    if all(printed) and _is_utf8(start):
        return FileKind(name="a text", hint="give a .tflite, .onnx or .mloom file")
    return None


def _is_utf8(start: bytes) -> bool:
    """Return whether the first bytes of a file are UTF-8; the last character may be cut off."""
    return "\ufffd" not in start.decode(errors="replace")[:-1]


def _json_kind(content: bytes) -> str:
    """Return a phrase that names the kind of a JSON object; empty if the text is not one."""
    with suppress(ValueError, RecursionError):
        value = json.loads(content)
        if "modelTopology" in value or "weightsManifest" in value:
            return "a model of TensorFlow.js"
        if {"rows", "columns"} & set(value):
            return "a configuration, which --config takes"
        if "class_name" in value:
            return "a Keras model without its weights"
        return "a JSON file"
    return ""


def _protobuf_kind(content: bytes) -> FileKind | None:
    """Return the kind of an ONNX model, SavedModel or frozen graph; None for other files."""
    if is_onnx(content):
        return FileKind(name="an ONNX model", hint=_UNPACK_ONNX)
    found = decode_message(content)
    if found is None:
        return None
    if set(found) == {1, 2} and found[1] == [1]:
        return FileKind(
            name="the file saved_model.pb of a SavedModel", hint=f"{_SAVED_MODEL}, folder"
        )
    if any(_is_node(node) for node in found.get(1, [])[:1]):
        return FileKind(name="a frozen TensorFlow graph (GraphDef)", hint=_SAVED_MODEL)
    return None


def _is_node(value: object) -> bool:
    """Return whether a value may be a NodeDef: a message whose first two fields are ASCII texts."""
    node = decode_message(value) if isinstance(value, bytes) else None
    texts: Iterator[object] = iter(()) if node is None else (node.get(at, [0])[0] for at in (1, 2))
    return node is not None and all(isinstance(text, bytes) and text.isascii() for text in texts)
