"""The reproducer of a compilation that failed its check."""

import json
from dataclasses import replace

import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import load_config
from matloom.compiler import CompileOptions
from matloom.ir.attributes import REGISTERED, Reference
from matloom.ir.graph import Op
from matloom.ir.text import to_text
from matloom.kernels.registered import options_tensor
from matloom.selfcheck import write_reproducer
from matloom.toolchain.cache import CacheWarning
from matloom.verification.random_layers import random_layer

OPTIONS = CompileOptions(tiling_seed=7, left_out=frozenset({"fuse_tables"}))


def test_contents(tmp_path, monkeypatch, branches, config):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    folder = write_reproducer(branches, config, OPTIONS, {"*": "i8xi4"}, "wrong", 5)
    assert folder.parent == tmp_path / "reproducers"
    kept = frontend.load(folder / "network.tflite")
    assert to_text(kept).splitlines()[1:] == to_text(branches).splitlines()[1:]
    assert all(
        np.array_equal(kept.tensors[number].data, tensor.data)
        for number, tensor in branches.tensors.items()
        if tensor.data is not None
    )
    assert load_config(folder / "config.json") == config
    kept = json.loads((folder / "failure.json").read_text())
    assert (kept["error"], kept["seed"], kept["precision"]) == ("wrong", 5, {"*": "i8xi4"})
    assert kept["options"]["tiling_seed"] == 7
    assert (kept["options"]["left_out"], kept["options"]["choices"]) == (["fuse_tables"], [])
    assert write_reproducer(branches, config, OPTIONS, {"*": "i8xi4"}, "wrong", 5) == folder


def test_where_the_cache_cannot_be_written(tmp_path, monkeypatch, branches, config):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "file"))
    monkeypatch.chdir(tmp_path)
    with pytest.warns(CacheWarning, match="MATLOOM_CACHE"):
        folder = write_reproducer(branches, config, OPTIONS, None, "wrong", 0)
    assert (folder / "network.tflite").is_file()


def test_graphs_that_the_format_cannot_hold(tmp_path, monkeypatch, config):
    """Padding other than SAME or VALID is stored as text and arrays."""
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    for seed in range(50):
        graph, _inputs = random_layer(seed, config)
        if graph.nodes[0].op is Op.CONV_2D:
            folder = write_reproducer(graph, config, OPTIONS, None, "wrong", 0)
            if (folder / "network.zip").exists():
                break
    archive = np.load(folder / "network.zip")
    assert np.array_equal(archive["1"], graph.tensors[1].data)


def test_an_opaque_network_is_its_file(tmp_path, monkeypatch, opaque, config):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    folder = write_reproducer(frontend.load(opaque), config, OPTIONS, None, "wrong", 0)
    assert (folder / "network.tflite").read_bytes() == opaque


def test_an_opaque_network_of_onnx_is_its_file(tmp_path, monkeypatch, config):
    control = pytest.importorskip("support.control_onnx")
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    piece, kind = control.Piece("sine"), (1, [1, 4])
    piece.add("Sin", ["x"], "y")
    content = control.whole(piece, {"x": kind}, {"y": kind})
    folder = write_reproducer(frontend.load(content), config, OPTIONS, None, "wrong", 0)
    assert (folder / "network.onnx").read_bytes() == content
    assert "compile network.onnx --" in (folder / "failure.json").read_text()


def test_a_registered_operator_is_stored_with_its_network(tmp_path, monkeypatch, branches, config):
    """Its node holds attributes, not a model file."""
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    swish = branches.nodes[2]
    attributes = Reference(operators=("Swish",), reasons=("no stages",), interpreters=REGISTERED)
    node = replace(swish, op=Op.REFERENCE, inputs=(*swish.inputs, 9), attributes=attributes)
    nodes = (*branches.nodes[:2], node, branches.nodes[3])
    tensors = {**branches.tensors, 9: options_tensor("Swish", {"beta": 2})}
    graph = replace(branches, nodes=nodes, tensors=tensors)
    folder = write_reproducer(graph, config, OPTIONS, None, "wrong", 0)
    archive = np.load(folder / "network.zip")
    assert archive["9"].tobytes() == b'{"beta": 2}'
