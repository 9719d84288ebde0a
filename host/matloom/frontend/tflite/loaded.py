"""TensorFlow Lite files as LiteRT holds them in memory: operators, their tensors, and checksums."""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tflite

from matloom.frontend.tflite.flatbuffer import numbers, operator_number, options, records

#: Numbers of types in the runtime's memory (TfLiteType), by types in files.
_TYPES = {
    tflite.TensorType.FLOAT32: 1,
    tflite.TensorType.INT32: 2,
    tflite.TensorType.UINT8: 3,
    tflite.TensorType.INT64: 4,
    tflite.TensorType.STRING: 5,
    tflite.TensorType.BOOL: 6,
    tflite.TensorType.INT16: 7,
    tflite.TensorType.COMPLEX64: 8,
    tflite.TensorType.INT8: 9,
    tflite.TensorType.FLOAT16: 10,
    tflite.TensorType.FLOAT64: 11,
    tflite.TensorType.UINT32: 16,
    tflite.TensorType.UINT16: 17,
    tflite.TensorType.INT4: 18,
}

_CODE = tflite.BuiltinOperator
_Reader = Callable[[Any], tuple[int, ...]]


def _padding_and_strides(table: Any) -> tuple[int, ...]:
    """Return padding and strides; LiteRT holds the padding as the file's number plus 1."""
    return (table.Padding() + 1, table.StrideW(), table.StrideH())


def _activation(table: Any) -> tuple[int, ...]:
    """Return the fused activation, as a tuple like the other settings."""
    return (table.FusedActivationFunction(),)


def _dilations(table: Any) -> tuple[int, ...]:
    """Return the dilations of width and height."""
    return (table.DilationWFactor(), table.DilationHFactor())


def _pool_settings(table: Any) -> tuple[int, ...]:
    """Return a pool's padding, window and activation."""
    return (
        *_padding_and_strides(table),
        table.FilterWidth(),
        table.FilterHeight(),
        *_activation(table),
    )


def _depthwise_settings(table: Any) -> tuple[int, ...]:
    """Return padding, strides, multiplier, activation and dilations of DEPTHWISE_CONV_2D."""
    multiplier = table.DepthMultiplier()
    return (*_padding_and_strides(table), multiplier, *_activation(table), *_dilations(table))


def _slice_masks(table: Any) -> tuple[int, ...]:
    """Return the masks among the options of STRIDED_SLICE."""
    masks = (table.BeginMask(), table.EndMask(), table.EllipsisMask())
    return (*masks, table.NewAxisMask(), table.ShrinkAxisMask())


#: For each operator, its options table, and a function that returns the first words of the
#: structure in which the runtime holds the operator's parameters.
_PARAMETERS: dict[int, tuple[type, _Reader]] = {
    _CODE.ADD: (tflite.AddOptions, _activation),
    _CODE.MUL: (tflite.MulOptions, _activation),
    _CODE.SUB: (tflite.SubOptions, _activation),
    _CODE.FULLY_CONNECTED: (tflite.FullyConnectedOptions, _activation),
    _CODE.LEAKY_RELU: (tflite.LeakyReluOptions, lambda table: (_float32_bits(table.Alpha()),)),
    _CODE.CONCATENATION: (
        tflite.ConcatenationOptions,
        lambda table: (table.Axis(), *_activation(table)),
    ),
    _CODE.TRANSPOSE_CONV: (tflite.TransposeConvOptions, _padding_and_strides),
    _CODE.STRIDED_SLICE: (tflite.StridedSliceOptions, _slice_masks),
    _CODE.AVERAGE_POOL_2D: (tflite.Pool2DOptions, _pool_settings),
    _CODE.MAX_POOL_2D: (tflite.Pool2DOptions, _pool_settings),
    _CODE.CONV_2D: (
        tflite.Conv2DOptions,
        lambda table: (*_padding_and_strides(table), *_activation(table), *_dilations(table)),
    ),
    _CODE.DEPTHWISE_CONV_2D: (tflite.DepthwiseConv2DOptions, _depthwise_settings),
}


def _float32_bits(value: float) -> int:
    """Return the bit pattern of a number as float32."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _pack_words(*values: int) -> bytes:
    """Return integers as little-endian words of 32 bits."""
    return struct.pack(f"<{len(values)}I", *(value & 0xFFFF_FFFF for value in values))


def _pack_list(values: tuple[int, ...]) -> bytes:
    """Return a count of integers and the integers, as words of 32 bits."""
    return _pack_words(len(values), *values)


@dataclass(frozen=True, kw_only=True)
class LoadedOperator:
    """An operator of a file.

    Members
    -------
    code:
        Number of the kind of operator in LiteRT.
    settings:
        The first words of the structure in which the runtime holds the operator's parameters; empty
        for operators that the other members describe completely.
    inputs, outputs:
        Numbers of tensors; -1 if an optional input is absent.
    """

    code: int
    settings: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class LoadedFile:
    """The first subgraph of a file as LiteRT holds it in memory.

    Members
    -------
    tensors:
        Tables of the file's tensors, by number.
    operators:
        Operators in order of execution; the runtime identifies them by their indices in this list.
    outputs:
        Numbers of the network's outputs.
    """

    def __init__(self, content: bytes):
        self._model = tflite.Model.GetRootAs(content)
        self._content = content
        graph = self._model.Subgraphs(0)
        self.tensors = list(records(graph, "Tensors"))
        codes = [operator_number(code) for code in records(self._model, "OperatorCodes")]
        self.operators = [_loaded_operator(each, codes) for each in records(graph, "Operators")]
        self.outputs = frozenset(numbers(graph, "Outputs").tolist())

    def constant(self, number: int) -> bytes:
        """Return the bytes of a constant; empty for a computed tensor."""
        buffer = self._model.Buffers(self.tensors[number].Buffer())
        if buffer.DataLength() > 0:
            return bytes(buffer.DataAsNumpy().tobytes())
        start, size = buffer.Offset(), buffer.Size()
        return self._content[start : start + size] if start > 1 else b""

    def checksum(self, nodes: Iterable[int]) -> int:
        """Return the checksum of the operators with these indices.

        The function `is_same` in firmware/plugins/litert.c computes the same checksum.
        """
        return zlib.crc32(b"".join(self._describe(nodes)))

    def _describe(self, nodes: Iterable[int]) -> Iterator[bytes]:
        """Yield the bytes that describe operators: settings, inputs and outputs."""
        for number in nodes:
            each = self.operators[number]
            yield _pack_words(number, each.code, *each.settings)
            for tensors in (each.inputs, each.outputs):
                yield _pack_list(tensors)
                yield from (self._tensor(tensor) for tensor in tensors if tensor != -1)

    def _tensor(self, number: int) -> bytes:
        """Return the bytes that describe a tensor: type, shape, quantisation, data."""
        table, data = self.tensors[number], self.constant(number)
        shape = tuple(numbers(table, "Shape").tolist())
        kind = _TYPES.get(table.Type(), 0)
        scales = _quantisation(table)
        return _pack_words(kind) + _pack_list(shape) + scales + _pack_words(len(data)) + data


def _quantisation(table: Any) -> bytes:
    """Return a tensor's quantisation as bytes: number of scales, scales, first zero point."""
    parameters = table.Quantization()
    scales = [] if parameters is None else numbers(parameters, "Scale").tolist()
    if not scales:
        return _pack_words(0)
    zeros = numbers(parameters, "ZeroPoint").tolist()
    return _pack_words(len(scales), *map(_float32_bits, scales), zeros[0] if zeros else 0)


def _loaded_operator(table: Any, codes: list[int]) -> LoadedOperator:
    """Return an operator as LiteRT loads it; `codes` are the numbers of the file's operators."""
    code = codes[table.OpcodeIndex()]
    settings: tuple[int, ...] = ()
    if code in _PARAMETERS:
        kind, read = _PARAMETERS[code]
        settings = read(options(table, kind))
    ends = (tuple(numbers(table, field).tolist()) for field in ("Inputs", "Outputs"))
    inputs, outputs = ends
    return LoadedOperator(code=code, settings=settings, inputs=inputs, outputs=outputs)
