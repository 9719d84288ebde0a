"""ONNX files as ONNX Runtime holds them in memory: nodes, their values, and checksums of both."""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from matloom.frontend.onnx.model import open_model
from matloom.frontend.source import ModelFile
from matloom.kernels.onnx_sessions import optimise_onnx


@dataclass(frozen=True, kw_only=True)
class NamedNode:
    """Node of an ONNX graph; `inputs` and `outputs` are numbers from `LoadedNodes.places`.

    An absent input has -1; an absent output has the number of the absent value.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class LoadedNodes:
    """A graph as ONNX Runtime holds it in memory.

    Members
    -------
    places:
        Value numbers by name; 0 stands for an absent optional value. Graphs of one file share this
        dictionary, so that equal names have equal numbers.
    operators:
        Nodes in the order of the graph.
    constants, outputs:
        Value numbers of the constants and of the outputs.
    """

    def __init__(self, graph: Any, places: dict[str, int]):
        self._graph, self.places = graph, places
        self._values = {item.name: item for item in self._graph.initializer}
        for node in self._graph.node:
            for name in (*node.input, *node.output):
                places.setdefault(name, len(places))
        for item in self._graph.output:
            places.setdefault(item.name, len(places))
        self.operators = [
            NamedNode(
                inputs=tuple(places[name] if name else -1 for name in node.input),
                outputs=tuple(places[name] for name in node.output),
            )
            for node in self._graph.node
        ]
        self.constants = frozenset(places[name] for name in self._values if name in places)
        self.outputs = frozenset(places[item.name] for item in self._graph.output)

    def checksum(self, nodes: Iterable[int]) -> int:
        """Return the checksum of the nodes with these indices.

        The function `find_part` in firmware/plugins/ort.c computes the same checksum.
        """
        return zlib.crc32(b"".join(self._describe(nodes)))

    def _describe(self, nodes: Iterable[int]) -> Iterator[bytes]:
        """Yield the bytes that describe nodes: operators, attributes, inputs and outputs."""
        for number in nodes:
            node = self._graph.node[number]
            yield _encode_text(node.op_type)
            yield _pack_words(sum(map(_attribute_checksum, node.attribute)))
            yield _pack_words(len(node.input))
            for name in node.input:
                yield self._constant(name) if name in self._values else _encode_text(name)
            yield _pack_words(len(node.output)) + b"".join(map(_encode_text, node.output))

    def _constant(self, name: str) -> bytes:
        """Return the type, shape and bytes of a constant, as the runtime hashes them."""
        from onnx import numpy_helper

        tensor = self._values[name]
        data = numpy_helper.to_array(tensor).tobytes()
        # Names are left out: the runtime gives equal constants one name.
        head = _pack_words(tensor.data_type, len(tensor.dims), *tensor.dims)
        return _encode_text("") + head + _pack_words(len(data)) + data


def load_nodes(file: ModelFile) -> list[LoadedNodes]:
    """Return the graphs that an execution provider of ONNX Runtime may get, the usual one first.

    With optimisations, ONNX Runtime removes activations that QuantizeLinear makes superfluous, and
    gives each reader a DequantizeLinear of its own, before it asks providers. Without
    optimisations, the graph is the file's; it is the only one if ONNX Runtime is not installed
    here.
    """
    import onnx

    model, places = open_model(file), {"": 0}
    graphs = [model.graph]
    try:
        basic = onnx.ModelProto.FromString(optimise_onnx(model.SerializeToString(), "basic"))
        graphs.insert(0, basic.graph)
    # ONNX Runtime is not installed here; the file's own graph does not need it.
    except ImportError:
        pass
    return [LoadedNodes(graph, places) for graph in graphs]


def _pack_words(*values: int) -> bytes:
    """Return integers as little-endian words of 32 bits."""
    return struct.pack(f"<{len(values)}I", *(value & 0xFFFF_FFFF for value in values))


def _encode_text(text: str) -> bytes:
    """Return a text as UTF-8, ended by a zero byte."""
    return text.encode() + b"\0"


def _attribute_checksum(attribute: Any) -> int:
    """Return the checksum of an attribute.

    It is 0 if the attribute has its default, or is neither an integer, a list of integers nor a
    text.
    """
    from onnx import AttributeProto

    default = 1 if attribute.name == "group" else 0
    if attribute.type == AttributeProto.INT and attribute.i != default:
        return zlib.crc32(_encode_text(attribute.name) + _pack_words(attribute.i))
    if attribute.type == AttributeProto.INTS:
        return zlib.crc32(_encode_text(attribute.name) + _pack_words(*attribute.ints))
    if attribute.type == AttributeProto.STRING and attribute.s not in (b"", b"NOTSET"):
        return zlib.crc32(_encode_text(attribute.name) + attribute.s + b"\0")
    return 0
