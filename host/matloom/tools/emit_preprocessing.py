"""Preprocessing as C: tables, and a function for each input that takes raw data."""

import math
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from matloom.errors import UserError
from matloom.ir.graph import Array
from matloom.pre import Image, LogMel, Mfcc, MicroFrontend, preprocessing_of
from matloom.pre.fixed_transform import half_twiddles, sample_order, twiddles
from matloom.pre.float_transform import twiddles as float_twiddles
from matloom.pre.mel import MelSound
from matloom.pre.micro_frontend import log_table
from matloom.pre.preprocessing import Preprocessing
from matloom.pre.resampling import taps
from matloom.program import Program, TensorInfo

_TYPES = {np.dtype(kind): f"{np.dtype(kind).name}_t" for kind in (np.int16, np.uint16, np.uint8)}
_NUMBERS_PER_LINE = 12

#: C lines of tables, and of a function's body.
_Made = tuple[list[str], list[str]]


def preprocessing_declarations(program: Program, buffers: dict[str, str]) -> list[str]:
    """Return the C declarations of the functions that turn raw data into inputs, with comments.

    Raises
    ------
    UserError
        An image has no `source`, the size for which tables are made.
    """
    infos = {info.name: info for info in program.inputs}
    found = []
    for name, stage in preprocessing_of(program).items():
        buffer = buffers[infos[name].key]
        if isinstance(stage, Image):
            if stage.source is None:
                raise UserError(
                    f"preprocessing of input {name!r} must have a source for C, the size of images",
                    hint='add "source": [HEIGHT, WIDTH]',
                )
            height, width = stage.source
            what = f"pixels, {height} x {width}, of `depth` bytes: 3, or 1 where the image is grey"
        else:
            what = f"samples, {stage.random(np.random.default_rng()).size}"
        found.append(f"/* Makes {buffer} of {what}. */\n{_function_head(buffer, stage)};")
    return found


def preprocessing_source(program: Program, buffers: dict[str, str]) -> list[str]:
    """Return the C lines of the functions that turn raw data into inputs, and of their tables."""
    infos = {info.name: info for info in program.inputs}
    lines = []
    for name, stage in preprocessing_of(program).items():
        info = infos[name]
        buffer = buffers[info.key]
        tables, body = _KINDS[type(stage)](stage, info, buffer)
        lines += tables
        if not isinstance(stage, Image):
            lines.append(f"static float {buffer}_reals[{math.prod(stage.shape)}];")
        lines += [f"{_function_head(buffer, stage)} {{", *(f"  {line}" for line in body), "}", ""]
    return lines


def _function_head(buffer: str, stage: Preprocessing) -> str:
    """Return the head of the C function that turns raw data into an input."""
    image = "const uint8_t* pixels, uint32_t depth"
    return f"void {buffer}_from({image if isinstance(stage, Image) else 'const int16_t* samples'})"


def _quantise_statement(info: TensorInfo, buffer: str) -> list[str]:
    """Return the statement that converts real numbers to an input, as a list of one line."""
    count = math.prod(info.shape)
    if info.quantised is None:
        return [f"matloom_copy({buffer}, {buffer}_reals, {4 * count}u);"]
    scale, zero = float(np.float32(info.quantised.scale)).hex(), info.quantised.zero_point
    kind = f"MATLOOM_DTYPE_{info.dtype.upper()}"
    return [
        f"matloom_quantize({buffer}, {buffer}_reals, {kind}, {count}u, (float){scale}, {zero});"
    ]


def _table(name: str, numbers: Array) -> list[str]:
    """Return the C lines of a table; float32 numbers are exact, in hexadecimal."""
    flat = numbers.reshape(-1)
    real = flat.dtype == np.float32
    texts = [f"{float(x).hex()}f" if real else str(x) for x in flat.tolist()]
    rows = [texts[at : at + _NUMBERS_PER_LINE] for at in range(0, len(texts), _NUMBERS_PER_LINE)]
    kind = "float" if real else _TYPES[flat.dtype]
    head = f"static _Alignas(8) const {kind} {name}[{len(texts)}] = {{"
    return [head, *(f"    {', '.join(row)}," for row in rows), "};"]


def _taps(name: str, spans: Iterable[tuple[int, Array]], start: int = 0) -> list[str]:
    """Return the C lines of a table of spans, each a first position and its weights.

    A row has the first position, the number of weights, and the index of the first weight in the
    table of weights, in which the first span begins at `start`.
    """
    listed = list(spans)
    places = accumulate((len(weights) for _, weights in listed), initial=start)
    rows = [
        f"    {{{first}u, {len(weights)}u, {place}u}},"
        for (first, weights), place in zip(listed, places, strict=False)
    ]
    return [f"static const struct matloom_taps {name}[{len(rows)}] = {{", *rows, "};"]


def _structure(kind: str, buffer: str, **fields: Any) -> list[str]:
    """Return the C lines of a ``struct matloom_<kind>``, whose `fields` are C expressions."""
    lines = [f"    .{name} = {value}," for name, value in fields.items()]
    return [f"static const struct matloom_{kind} {buffer}_how = {{", *lines, "};"]


def _c_flag(value: bool) -> str:
    """Return a truth value as in C."""
    return "true" if value else "false"


def _emit_image(stage: Image, info: TensorInfo, buffer: str) -> _Made:
    """Return the C tables, and the statements, that turn a picture into an input."""
    assert stage.source is not None
    top, left, height, width = stage.box(*stage.source)
    rows = [(top + at, w) for at, w in taps(stage.resize, height, stage.size[0])]
    columns = [(left + at, w) for at, w in taps(stage.resize, width, stage.size[1])]
    weights = np.concatenate([w for _, w in (*rows, *columns)])
    table = stage.table(info)
    lines = [
        *_table(f"{buffer}_weights", weights),
        *_taps(f"{buffer}_rows", rows),
        *_taps(f"{buffer}_columns", columns, sum(len(w) for _, w in rows)),
        *_table(f"{buffer}_table", np.frombuffer(table.tobytes(), np.uint8)),
        *_structure(
            "image",
            buffer,
            source_width=f"{stage.source[1]}u",
            height=f"{stage.size[0]}u",
            width=f"{stage.size[1]}u",
            channels=f"{stage.depth}u",
            reversed=_c_flag(stage.channels == "bgr"),
            planes=_c_flag(stage.layout == "chw"),
            rows=f"{buffer}_rows",
            columns=f"{buffer}_columns",
            weights=f"{buffer}_weights",
            table=f"{buffer}_table",
            element_bytes=f"{table.itemsize}u",
        ),
    ]
    return lines, [f"matloom_image({buffer}, pixels, depth, &{buffer}_how);"]


def _emit_mel(stage: MelSound, info: TensorInfo, buffer: str) -> _Made:
    """Return the C tables, and the statements, that turn sound into mel bands in floating point."""
    cosines, sines = float_twiddles(stage.points)
    bands, dct, limits = stage.bands(), stage.cosines(), stage.floor_and_offset
    tables = {"hann": stage.hann(), "cosines": cosines, "sines": sines}
    tables["weights"] = np.concatenate([weights for _, weights in bands])
    if dct is not None:
        tables["dct"] = dct
    numbers = {name: getattr(stage, name) for name in ("samples", "window", "step", "frames")}
    lines = [
        *(line for name, table in tables.items() for line in _table(f"{buffer}_{name}", table)),
        *_taps(f"{buffer}_bands", bands),
        f"static float {buffer}_work[{2 * stage.points + stage.mels}];",
        *_structure(
            "mel",
            buffer,
            **{name: f"{value}u" for name, value in numbers.items()},
            points=f"{stage.points}u",
            mels=f"{stage.mels}u",
            coefficients=f"{0 if dct is None else len(dct)}u",
            peak=_c_flag(stage.peak),
            floor=f"{float(np.float32(limits[0])).hex()}f",
            offset=f"{float(np.float32(limits[1])).hex()}f",
            bands=f"{buffer}_bands",
            **{name: f"{buffer}_{name}" for name in tables},
        ),
    ]
    call = f"matloom_mel({buffer}_reals, samples, {buffer}_work, &{buffer}_how);"
    return lines, [call, *_quantise_statement(info, buffer)]


def _emit_micro(stage: MicroFrontend, info: TensorInfo, buffer: str) -> _Made:
    """Return the C tables, and the statements, that turn sound into features in fixed point."""
    factors, halves = (np.stack(part, axis=1) for part in _twiddles(stage.points))
    bands, (even, odd, least) = stage.bands(), stage.smoothing
    tables = {"hann": stage.hann(), "order": sample_order(stage.points // 2).astype(np.uint16)}
    tables |= {"twiddles": factors.astype(np.int16), "halves": halves.astype(np.int16)}
    tables["weights"] = np.concatenate([weights for _, weights in bands]).astype(np.int16)
    tables["logarithms"] = log_table().astype(np.uint16)
    if stage.pcan:
        tables["gains"] = stage.gains()
    numbers = {name: getattr(stage, name) for name in ("window", "step", "frames", "points")}
    lines = [
        *(line for name, table in tables.items() for line in _table(f"{buffer}_{name}", table)),
        *_taps(f"{buffer}_bands", bands),
        f"static uint16_t {buffer}_features[{math.prod(stage.shape)}];",
        f"static int16_t {buffer}_transform[{stage.points}];",
        f"static int32_t {buffer}_energy[{stage.bins}];",
        f"static uint32_t {buffer}_noise[{stage.mels}];",
        *_structure(
            "micro",
            buffer,
            **{name: f"{value}u" for name, value in numbers.items()},
            mels=f"{stage.mels}u",
            bands=f"{buffer}_bands",
            smoothing_bits=f"{stage.smoothing_bits}u",
            smoothing=f"{{{even}u, {odd}u}}",
            least=f"{least}u",
            gain_shift=f"{stage.gain_shift if stage.pcan else 0}u",
            correction=str(stage.correction),
            log_shift=f"{stage.log_shift}u",
            **{name: f"{buffer}_{name}" for name in tables},
        ),
    ]
    return lines, [*_emit_micro_body(stage, buffer), *_quantise_statement(info, buffer)]


def _twiddles(points: int) -> tuple[Any, Any]:
    """Return the factors of the Fourier transform of half the points, and of its last step."""
    return twiddles(points // 2), half_twiddles(points)


def _emit_micro_body(stage: MicroFrontend, buffer: str) -> list[str]:
    """Return the statements that compute the features and scale them to real numbers."""
    count, scale = math.prod(stage.shape), float(np.float32(stage.scale)).hex()
    return [
        f"matloom_micro_frontend({buffer}_features, samples, {buffer}_transform, {buffer}_energy,",
        f"                       {buffer}_noise, &{buffer}_how);",
        f"for (uint32_t i = 0; i < {count}u; ++i) {{",
        f"  {buffer}_reals[i] = (float){buffer}_features[i] * {scale}f;",
        "}",
    ]


#: Function that emits the tables and the function's body, by kind of preprocessing.
_KINDS: dict[type[Preprocessing], Callable[[Any, TensorInfo, str], _Made]] = {
    Image: _emit_image,
    LogMel: _emit_mel,
    Mfcc: _emit_mel,
    MicroFrontend: _emit_micro,
}
