"""Saves everything needed to reproduce a compilation that failed its check."""

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from matloom import frontend
from matloom.arch.config import Config
from matloom.ir.attributes import ONNX_INTERPRETERS, REGISTERED, Reference
from matloom.ir.graph import Graph
from matloom.ir.text import to_text
from matloom.schedule import CompileOptions
from matloom.schedule.choices.record import to_json
from matloom.toolchain.cache import cache_folder


def write_reproducer(
    graph: Graph,
    config: Config,
    options: CompileOptions,
    precision: str | Mapping[str, str] | None,
    error: str,
    seed: int,
) -> Path:
    """Write network, configuration, options and error to a folder; return its path.

    The folder is in the user's cache (`MATLOOM_CACHE`), or in the current folder if the cache is
    not writable. Its name consists of the network's name and a digest of the contents. Raises
    OSError if neither is writable.
    """
    name, network = _network_file(graph)
    table = {**precision} if isinstance(precision, Mapping) else precision
    saved = {
        "error": error,
        "seed": seed,
        "options": _as_dict(options),
        "precision": table,
        "repeat": f"matloom compile {name} --config config.json --memory memory.json "
        "--check full -o again.mloom",
    }
    description = json.dumps(saved, indent=2).encode() + b"\n"
    files = {name: network, "config.json": config.to_json().encode(), "failure.json": description}
    files["memory.json"] = options.memory.to_json().encode()
    digest = hashlib.sha256(b"\0".join(files.values())).hexdigest()[:12]
    stem = "".join(letter if letter.isalnum() else "_" for letter in graph.name)[:40]
    label = f"matloom-{stem or 'network'}-{digest}"
    for parent in (cache_folder() / "reproducers", Path.cwd()):
        try:
            return _write_files(parent / label, files)
        except OSError as problem:
            refusal = problem
    raise refusal


def _write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files, by name, to a folder; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def _network_file(graph: Graph) -> tuple[str, bytes]:
    """Return the name and the contents of a file that holds the network.

    A network with operators that an interpreter runs is returned as the model file that it was read
    from, which their nodes hold. A graph that no model file can express becomes a zip of text and
    arrays (`_archive`).
    """
    for node in graph.nodes:
        attributes = node.attributes
        if isinstance(attributes, Reference) and attributes.interpreters != REGISTERED:
            file = graph.tensors[node.inputs[-1]].data
            assert file is not None
            onnx = set(attributes.interpreters) <= set(ONNX_INTERPRETERS)
            return f"network.{'onnx' if onnx else 'tflite'}", file.tobytes()
    try:
        suffix, content = frontend.write(graph)
        return f"network{suffix}", content
    except (ValueError, KeyError, AttributeError):
        return "network.zip", _archive(graph)


def _archive(graph: Graph) -> bytes:
    """Return a zip with the graph as text, and its constants as ``NUMBER.npy``."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("graph.txt", to_text(graph))
        for number, tensor in graph.tensors.items():
            if tensor.data is not None:
                raw = io.BytesIO()
                np.save(raw, tensor.data)
                archive.writestr(f"{number}.npy", raw.getvalue())
    return stream.getvalue()


def _as_dict(options: CompileOptions) -> dict[str, Any]:
    """Return options as a dictionary of JSON types."""
    plain = dataclasses.asdict(dataclasses.replace(options, choices=()))
    choices = [None if each is None else to_json(each) for each in options.choices]
    left_out = sorted(options.left_out)
    memory = options.memory.as_dict()
    return {**plain, "memory": memory, "choices": choices, "left_out": left_out}
