"""Context of instruction selection: an operator, its tensors, and the names of its buffers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from matloom.arch.config import Config
from matloom.arch.machine import Machine
from matloom.arch.numerics import Rounding, short_multiplier
from matloom.ir.attributes import Activation
from matloom.ir.graph import Array, Graph, Node, Op, Tensor
from matloom.ir.names import derived_name
from matloom.ir.scales import (
    activation_range,
    channel_multipliers,
    layer_rounding,
    sums_are_wide,
)
from matloom.ir.shapes import BIAS, IMAGE_RANK
from matloom.select.requantisation import Requantisation

#: Operators whose stages read constants broadcast to the shape of the result.
BROADCASTING = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.PRELU, Op.SQUARED_DIFFERENCE})

#: Multiplier and shift of a scale of 1.
SAME = (2**30, 1)

#: Requantisation that changes no byte.
SAME_SCALE = Requantisation(multiplier=SAME[0], shift=SAME[1], zero=0, low=-128, high=127)


def source_name(graph: Graph, node: Node, number: int, names: Mapping[int, str]) -> str:
    """Return the name of the buffer of an input, the tensor `number`.

    A constant that the operator broadcasts has a separate buffer for each shape.
    """
    tensor, shape = graph.tensors[number], graph.tensors[node.outputs[0]].shape
    if node.op in BROADCASTING and tensor.data is not None and tensor.shape != shape:
        return derived_name(names[number], f"as {shape}")
    return names[number]


class NotOnEngine(ValueError):
    """An operator that the engine cannot run; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """A node to turn into stages (work for the engine), its graph, and its tensors' buffers.

    Members
    -------
    sources, results:
        Names of the buffers of its inputs and of its outputs.
    machine:
        The engine and its memory.
    external:
        Whether the first input starts in external memory: it enters the network, or the host
        quantises it.
    """

    node: Node
    graph: Graph
    sources: tuple[str, ...]
    results: tuple[str, ...]
    machine: Machine
    external: bool

    @property
    def config(self) -> Config:
        """The engine's configuration."""
        return self.machine.config

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that the node reads."""
        return tuple(self.graph.tensors[number] for number in self.node.inputs)

    @property
    def output(self) -> Tensor:
        """The first tensor that the node writes."""
        return self.graph.tensors[self.node.outputs[0]]

    @property
    def name(self) -> str:
        """Name of the node's stages: operator, and index in the model file."""
        return f"{self.node.op}_{self.node.index}"

    @property
    def nodes(self) -> tuple[int, ...]:
        """Index of the node in the model file, in a tuple."""
        return (self.node.index,)

    @property
    def input_and_output(self) -> tuple[str, str]:
        """Names of the buffers of the first input and the first output."""
        return self.sources[0], self.results[0]

    @property
    def mode(self) -> str:
        """Mode of the array for the first input: i16xi8 if it is int16, else i8xi8."""
        return "i16xi8" if self.inputs[0].dtype == "int16" else "i8xi8"

    @property
    def tile_unit(self) -> int:
        """Size in bytes of a row of the output if that is an image, else of the whole output."""
        return tile_unit(self.output)

    def buffer_name(self, suffix: str) -> str:
        """Return the name of a buffer between two stages (parts) of the node."""
        return derived_name(self.results[0], suffix)

    def constant(self, index: int) -> Array:
        """Return the data of input `index`; raise `NotOnEngine` if it is computed."""
        data = self.inputs[index].data
        if data is None:
            raise NotOnEngine(f"its input {index} is not constant")
        return data

    @property
    def filters(self) -> Array:
        """Filters of a layer, its second input, as int8, or int16 if they have nine bits.

        The zero point of uint8 filters is subtracted.

        Raises
        ------
        NotOnEngine
            They are computed, or are not the sums of two int8 numbers.
        """
        filters, tensor = self.constant(1), self.inputs[1]
        if tensor.dtype != "uint8" or tensor.quantisation is None:
            # Without a scale, uint8 has bit patterns of floating-point numbers.
            return filters
        centred: Array = filters.astype(np.int16) - np.int16(tensor.zero_point)
        if centred.max() > 2 * np.iinfo(np.int8).max:
            raise NotOnEngine("a weight is more than 254 above its zero point")
        narrow: Array = centred.astype(np.int8)
        return narrow if (narrow == centred).all() else centred

    def check_words(self) -> None:
        """Raise `NotOnEngine` unless all tensors are int8, or int16 and the engine supports that.

        Tensors of int16 must have zero points of 0.
        """
        tensors = (*self.inputs, self.output)
        if all(tensor.dtype == "int8" for tensor in tensors):
            return
        self.require_words()
        zeros = [tensor.quantisation.zero_point for tensor in tensors if tensor.quantisation]
        if any(tensor.dtype != "int16" for tensor in tensors) or any(map(any, zeros)):
            raise NotOnEngine(
                "the engine takes numbers of two bytes to such, and without zero points"
            )

    def require_words(self) -> None:
        """Raise `NotOnEngine` if the engine does not support int16."""
        if not self.config.has_words:
            built = ", ".join(self.config.mac_modes)
            raise NotOnEngine(f"the engine is built with {built}, not i16xi8")

    def bias(self, channels: int) -> Array:
        """Return the biases of a layer, an array (channels,); zeros if it has none."""
        if len(self.inputs) <= BIAS:
            return np.zeros(channels, int)
        return self.constant(BIAS).reshape(-1)

    def result(
        self, multiplier: Array | int, shift: Array | int, activation: Activation
    ) -> Requantisation:
        """Return the requantisation of sums to the output's integers."""
        low, high = activation_range(activation, self.output)
        return Requantisation(
            multiplier=multiplier,
            shift=shift,
            zero=self.output.zero_point,
            low=low,
            high=high,
            element_bytes=self.output.element_bytes,
        )

    def result_by_channel(self, activation: Activation) -> Requantisation:
        """Return the per-channel requantisation of a layer's sums to the output's integers."""
        multipliers, shifts = channel_multipliers(self.graph, self.node)
        if not sums_are_wide(self.graph, self.node):
            scale = self.result(multipliers, shifts, activation)
            return replace(scale, rounding=layer_rounding(self.node))
        # The part of `numerics.requantize_wide` that a lane computes.
        shortened = short_multiplier(multipliers) << 16
        return replace(self.result(shortened, shifts, activation), rounding=Rounding.SINGLE)


def bias_post(bias: int = 0) -> dict[str, int]:
    """Return the fields of a POST instruction that only add `bias`."""
    return {"bias": bias, **SAME_SCALE.post()}


def constant_post(value: int) -> dict[str, int]:
    """Return the fields of a POST instruction whose result is always the byte `value`."""
    return {**bias_post(), "clamp_low": value, "clamp_high": value}


def tile_unit(tensor: Tensor) -> int:
    """Return the size in bytes of a row of an image, or of a whole tensor that is not an image."""
    shape, size = tensor.shape, tensor.size_bytes
    return size // (shape[0] * shape[1]) if len(shape) == IMAGE_RANK else size
