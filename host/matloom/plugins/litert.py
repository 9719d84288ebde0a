"""Bundles for LiteRT: parts of a TensorFlow Lite file, and their checksums."""

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tflite

from matloom.errors import UserError
from matloom.frontend.source import read_file
from matloom.frontend.tflite.flatbuffer import numbers, operator_number, options, records
from matloom.frontend.tflite.read import is_tflite
from matloom.plugins.bundle import Runtime, bundle
from matloom.plugins.parts import Model, Part, parts_of
from matloom.program import Program

__all__ = ["litert_bundle"]

#: Numbers of types in the runtime's memory (TfLiteType), by those of files.
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


def _padding(table: Any) -> tuple[int, ...]:
    """Return padding and strides; the runtime counts paddings from 1."""
    return (table.Padding() + 1, table.StrideW(), table.StrideH())


def _activation(table: Any) -> tuple[int, ...]:
    return (table.FusedActivationFunction(),)


def _dilations(table: Any) -> tuple[int, ...]:
    return (table.DilationWFactor(), table.DilationHFactor())


def _pool(table: Any) -> tuple[int, ...]:
    return (*_padding(table), table.FilterWidth(), table.FilterHeight(), *_activation(table))


def _depthwise(table: Any) -> tuple[int, ...]:
    multiplier = table.DepthMultiplier()
    return (*_padding(table), multiplier, *_activation(table), *_dilations(table))


def _masks(table: Any) -> tuple[int, ...]:
    masks = (table.BeginMask(), table.EndMask(), table.EllipsisMask())
    return (*masks, table.NewAxisMask(), table.ShrinkAxisMask())


#: The words with which the runtime's structure of an operator's parameters begins.
_PARAMETERS: dict[int, tuple[type, _Reader]] = {
    _CODE.ADD: (tflite.AddOptions, _activation),
    _CODE.MUL: (tflite.MulOptions, _activation),
    _CODE.SUB: (tflite.SubOptions, _activation),
    _CODE.FULLY_CONNECTED: (tflite.FullyConnectedOptions, _activation),
    _CODE.LEAKY_RELU: (tflite.LeakyReluOptions, lambda table: (_bits(table.Alpha()),)),
    _CODE.CONCATENATION: (
        tflite.ConcatenationOptions,
        lambda table: (table.Axis(), *_activation(table)),
    ),
    _CODE.TRANSPOSE_CONV: (tflite.TransposeConvOptions, _padding),
    _CODE.STRIDED_SLICE: (tflite.StridedSliceOptions, _masks),
    _CODE.AVERAGE_POOL_2D: (tflite.Pool2DOptions, _pool),
    _CODE.MAX_POOL_2D: (tflite.Pool2DOptions, _pool),
    _CODE.CONV_2D: (
        tflite.Conv2DOptions,
        lambda table: (*_padding(table), *_activation(table), *_dilations(table)),
    ),
    _CODE.DEPTHWISE_CONV_2D: (tflite.DepthwiseConv2DOptions, _depthwise),
}


def _bits(value: float) -> int:
    """Return the bits of a float32 number."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *(value & 0xFFFF_FFFF for value in values))


def _list(values: tuple[int, ...]) -> bytes:
    return _words(len(values), *values)


@dataclass(frozen=True, kw_only=True)
class _Operator:
    """An operator of the file."""

    code: int
    parameters: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class _File:
    """The first subgraph of a file, as the runtime will have it in memory."""

    def __init__(self, content: bytes):
        self._model = tflite.Model.GetRootAs(content)
        self._content = content
        graph = self._model.Subgraphs(0)
        self.tensors = list(records(graph, "Tensors"))
        codes = [operator_number(code) for code in records(self._model, "OperatorCodes")]
        self.operators = [_operator(each, codes) for each in records(graph, "Operators")]
        self.outputs = frozenset(numbers(graph, "Outputs").tolist())

    def constant(self, number: int) -> bytes:
        """Return the bytes of a constant; none of a tensor that is computed."""
        buffer = self._model.Buffers(self.tensors[number].Buffer())
        if buffer.DataLength() > 0:
            return bytes(buffer.DataAsNumpy().tobytes())
        start, size = buffer.Offset(), buffer.Size()
        return self._content[start : start + size] if start > 1 else b""

    def checksum(self, part: Part) -> int:
        """Return the checksum of a part, as `is_same` of firmware/plugins/litert.c has it."""
        return zlib.crc32(b"".join(self._described(part)))

    def _described(self, part: Part) -> Iterator[bytes]:
        for number in part.nodes:
            each = self.operators[number]
            yield _words(number, each.code, *each.parameters)
            for tensors in (each.inputs, each.outputs):
                yield _list(tensors)
                yield from (self._tensor(tensor) for tensor in tensors if tensor != -1)

    def _tensor(self, number: int) -> bytes:
        table, data = self.tensors[number], self.constant(number)
        shape = tuple(numbers(table, "Shape").tolist())
        kind = _TYPES.get(table.Type(), 0)
        scales = _quantisation(table)
        return _words(kind) + _list(shape) + scales + _words(len(data)) + data


def _quantisation(table: Any) -> bytes:
    """Return what the runtime keeps of a tensor's scales: their number, they, a zero point."""
    parameters = table.Quantization()
    scales = [] if parameters is None else numbers(parameters, "Scale").tolist()
    if not scales:
        return _words(0)
    zeros = numbers(parameters, "ZeroPoint").tolist()
    return _words(len(scales), *map(_bits, scales), zeros[0] if zeros else 0)


def _operator(table: Any, codes: list[int]) -> _Operator:
    code = codes[table.OpcodeIndex()]
    parameters: tuple[int, ...] = ()
    if code in _PARAMETERS:
        kind, read = _PARAMETERS[code]
        parameters = read(options(table, kind))
    ends = (tuple(numbers(table, field).tolist()) for field in ("Inputs", "Outputs"))
    inputs, outputs = ends
    return _Operator(code=code, parameters=parameters, inputs=inputs, outputs=outputs)


def litert_bundle(network: Path, program: Program) -> tuple[bytes, list[str]]:
    """Return the bundle of a TensorFlow Lite file and its program, and what to say of its parts.

    Errors
    ------
    UserError
        The file is none of TensorFlow Lite, keeps variables, or has no part for the engine.
    """
    content = read_file(network).content
    if not is_tflite(content) or program.origin is None:
        raise UserError(f"{network} must be a TensorFlow Lite file for a LiteRT delegate")
    if program.variables:
        raise UserError(f"{network} keeps variables between calls, which a delegate does not")
    file = _File(content)
    count = len(file.tensors)
    wiring = Model(
        operators=file.operators,
        constants=frozenset(number for number in range(count) if file.constant(number)),
        outputs=file.outputs,
        numbers={key: at for key, at in program.origin.numbers.items() if at < count},
    )
    found = list(parts_of(program, wiring))
    parts = [part for part in found if isinstance(part, Part)]
    said = [f"left to the runtime: {each}" for each in found if isinstance(each, str)]
    if not parts:
        raise UserError(
            f"{network} has no part for the engine" + "".join(f"; {each}" for each in said),
            hint=f"matloom explain {network} says why",
        )
    taken = sum(len(part.nodes) for part in parts)
    said.append(f"{taken} of {len(file.operators)} operators run on the engine")
    checked = [(part, file.checksum(part)) for part in parts]
    return bundle(program, Runtime.LITERT, len(file.operators), checked), said
