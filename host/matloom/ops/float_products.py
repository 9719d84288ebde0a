"""Matrix products of floating-point numbers: instructions, and a run of them on a device."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.arch.config import Config
from matloom.arch.floats import FLOAT_FORMATS, FP32, FloatFormat, narrow, widen
from matloom.arch.isa import Destination, Opcode, Region, Source, largest
from matloom.arch.modes import FP32_FORMAT, MAC_MODES, MODES
from matloom.arch.numerics import Rounding
from matloom.device.driver import Driver
from matloom.program.instruction_table import pack_all
from matloom.program.verify import verify_commands
from matloom.schedule.dependencies import DependencyTracker

__all__ = ["Epilogue", "float_product", "memory_bytes", "patterns_of"]

_Patterns = npt.NDArray[np.int64]

#: Names that NumPy and ml_dtypes give to the formats.
_DTYPES = {"float32": FP32} | {MODES[mode].weight: form for mode, form in FLOAT_FORMATS.items()}

#: Rows that EXEC and LOAD count, and taps of one EXEC.
_MAX_ROWS = largest(Opcode.EXEC, "height")
_MAX_TAPS = largest(Opcode.EXEC, "kernel_cols")

#: Rows of the left side that share a load of the weights at least, where it has so many.
_MIN_ROWS = 16

#: fp32 -0, which changes nothing where it is added.
_NOTHING = -(2**31)


@dataclass(frozen=True, kw_only=True)
class Epilogue:
    """What becomes of the sums: ``limit((sums + residual) + bias, low, high)``, then `output`.

    Members
    -------
    bias, residual:
        float32, (columns,) and of the result's format and shape; None for none.
    low, high:
        Numbers that float8_e5m2 holds.
    output:
        The dtype of the result.
    """

    bias: npt.NDArray[np.float32] | None = None
    residual: npt.NDArray[Any] | None = None
    low: float = -np.inf
    high: float = np.inf
    output: npt.DTypeLike = np.float32


def _format_of(dtype: npt.DTypeLike) -> FloatFormat:
    name = np.dtype(dtype).name
    if name not in _DTYPES:
        raise TypeError(f"a dtype must be one of {', '.join(_DTYPES)}, not {name}")
    return _DTYPES[name]


def patterns_of(array: npt.NDArray[Any], form: FloatFormat) -> _Patterns:
    """Return the patterns of float32 numbers rounded to a format, or of its own numbers."""
    own = _format_of(array.dtype)
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    raw = little.view(f"<u{own.bytes}").astype(np.int64)
    if own is form:
        return raw
    if own is not FP32:
        raise TypeError(f"numbers must be float32 or {form.name}, not {array.dtype}")
    return np.asarray(narrow(raw, form))


def _raw(patterns: _Patterns, form: FloatFormat) -> bytes:
    return patterns.astype(f"<u{form.bytes}").tobytes()


def _number(form: FloatFormat) -> int:
    return FP32_FORMAT if form is FP32 else MAC_MODES.index(form.name)


def _limit_pattern(value: float) -> int:
    """Return a limit as the signed byte of its float8_e5m2 pattern."""
    form = FLOAT_FORMATS["fp8_e5m2"]
    wide = int(np.float32(value).view(np.uint32))
    short = narrow(wide, form)
    if np.isnan(value) or widen(short, form) != wide:
        raise ValueError(f"a limit must be a number that float8_e5m2 holds, not {value}")
    return (int(short) + 128) % 256 - 128


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Sizes of a product, how it is cut, and where its parts lie in external memory."""

    config: Config
    form: FloatFormat
    out: FloatFormat
    rows: int
    inner: int
    columns: int
    has_residual: bool

    @property
    def taps(self) -> int:
        """Steps of a whole sum, of `float_rows` products each."""
        return -(-self.inner // self.config.float_rows)

    @property
    def pitch(self) -> int:
        return self.inner * self.form.bytes

    @property
    def blocks(self) -> int:
        return -(-self.columns // self.config.columns)

    @property
    def step_taps(self) -> int:
        """Taps of one EXEC: two buffers of their tiles take a quarter of the scratchpad."""
        return max(1, min(self.taps, _MAX_TAPS, self._quarter // 2 // self.config.tile_bytes))

    @property
    def _quarter(self) -> int:
        return self.config.spad_bytes // 4

    @property
    def step_bytes(self) -> int:
        return self.config.float_rows * self.form.bytes

    @property
    def panel_taps(self) -> int:
        """Taps of the left side in the scratchpad at once: all, unless few rows of it then fit."""
        rows = min(self.rows, _MIN_ROWS)
        if rows * self.pitch <= self._quarter:
            return self.taps
        return self._quarter // (rows * self.step_bytes)

    @property
    def panel_pitch(self) -> int:
        """Bytes from row to row of the left side in the scratchpad."""
        return min(self.pitch, self.panel_taps * self.step_bytes)

    @property
    def block_rows(self) -> int:
        """Rows of the left side at once: its bytes, and two results, a quarter each."""
        out_row = self.config.columns * self.out.bytes
        most = min(self._quarter // self.panel_pitch, self._quarter // 2 // out_row)
        return min(self.rows, _MAX_ROWS, self.config.acc_entries // 2, most)

    @property
    def offsets(self) -> dict[str, int]:
        """First bytes in the input region, and its end."""
        weights = self.rows * self.pitch
        biases = weights + self.blocks * self.taps * self.config.tile_bytes
        residual = biases + self.blocks * self.config.bias_block_bytes
        end = residual + self.has_residual * self.rows * self.columns * self.out.bytes
        return {"weights": weights, "biases": biases, "residual": residual, "end": end}


def _instructions(plan: _Plan, limits: tuple[int, int], has_bias: bool) -> bytes:
    """Return the command buffer."""
    config, quarter = plan.config, plan.config.spad_bytes // 4
    order = DependencyTracker(config, {Region.OUTPUT: plan.rows * plan.columns * plan.out.bytes})
    turn = 0
    for first in range(0, plan.rows, plan.block_rows):
        rows = min(plan.block_rows, plan.rows - first)
        for block in range(plan.blocks):
            turn ^= 1
            half = {
                "weights": quarter + turn * (quarter // 2),
                "out": 2 * quarter + turn * (quarter // 2),
                "residual": 3 * quarter + turn * (quarter // 4),
                "bias": config.spad_bytes - (turn + 1) * config.bias_block_bytes,
                "entry": turn * (config.acc_entries // 2),
            }
            _sums(order, plan, block, (first, rows), half)
            _results(order, plan, block, (first, rows), half, limits, has_bias)
    order.end()
    return pack_all(order.instructions)


def _sums(
    order: DependencyTracker, plan: _Plan, block: int, place: tuple[int, int], half: dict[str, int]
) -> None:
    """Load the left side, unless all of it is there since the first block, and multiply."""
    first, rows = place
    for panel in range(0, plan.taps, plan.panel_taps):
        begin = panel * plan.step_bytes
        row_bytes = min(plan.panel_pitch, plan.pitch - begin)
        if not block or plan.panel_taps < plan.taps:
            order.append(
                Opcode.LOAD,
                region=Region.INPUT,
                dram_offset=first * plan.pitch + begin,
                spad_addr=0,
                row_bytes=row_bytes,
                rows=rows,
                planes=1,
                dram_row_step=plan.pitch,
                spad_row_step=plan.panel_pitch,
            )
        _steps(order, plan, block, panel, (rows, row_bytes), half)


def _steps(
    order: DependencyTracker,
    plan: _Plan,
    block: int,
    panel: int,
    size: tuple[int, int],
    half: dict[str, int],
) -> None:
    """Load weights and multiply, as many taps of a split-K panel at a time as there is room for."""
    tile, (rows, row_bytes) = plan.config.tile_bytes, size
    end = min(plan.taps, panel + plan.panel_taps)
    for tap in range(panel, end, plan.step_taps):
        taps = min(plan.step_taps, end - tap)
        order.append(
            Opcode.LOAD,
            region=Region.INPUT,
            dram_offset=plan.offsets["weights"] + (block * plan.taps + tap) * tile,
            spad_addr=half["weights"],
            row_bytes=taps * tile,
            rows=1,
            planes=1,
        )
        order.append(
            Opcode.EXEC,
            mode=_number(plan.form),
            accumulate=int(tap > 0),
            input_addr=0,
            input_pitch=plan.panel_pitch,
            input_rows=rows,
            input_row_bytes=row_bytes,
            first_byte=(tap - panel) * plan.step_bytes,
            width=1,
            height=rows,
            y_step=1,
            kernel_rows=1,
            kernel_cols=taps,
            kernel_col_step=plan.step_bytes,
            blocks=1,
            oc_blocks=1,
            weight_addr=half["weights"],
            acc_addr=half["entry"],
        )


def _results(
    order: DependencyTracker,
    plan: _Plan,
    block: int,
    place: tuple[int, int],
    half: dict[str, int],
    limits: tuple[int, int],
    has_bias: bool,
) -> None:
    """Add residual and bias, limit, convert and store."""
    config, (first, rows) = plan.config, place
    columns = min(config.columns, plan.columns - block * config.columns)
    row_bytes = columns * plan.out.bytes
    at = (first * plan.columns + block * config.columns) * plan.out.bytes
    move = {
        "row_bytes": row_bytes,
        "rows": rows,
        "planes": 1,
        "dram_row_step": plan.columns * plan.out.bytes,
        "spad_row_step": row_bytes,
    }
    rule = {
        "rounding": Rounding.FLOAT,
        "pre_shift": _number(plan.out),
        "width": 1,
        "height": rows,
        "oc_blocks": 1,
        "tail": columns,
        "acc_addr": half["entry"],
    }
    if plan.has_residual:
        offset = plan.offsets["residual"] + at
        spad = half["out"]
        order.append(Opcode.LOAD, region=Region.INPUT, dram_offset=offset, spad_addr=spad, **move)
        order.append(
            Opcode.POST,
            source=Source.SPAD,
            destination=Destination.ACC_ADD,
            bias=_NOTHING,
            clamp_low=_limit_pattern(-np.inf),
            clamp_high=_limit_pattern(np.inf),
            source_addr=spad,
            source_pitch=row_bytes,
            **rule,
        )
    if has_bias:
        order.append(
            Opcode.LOAD,
            region=Region.INPUT,
            dram_offset=plan.offsets["biases"] + block * config.bias_block_bytes,
            spad_addr=half["bias"],
            row_bytes=config.bias_block_bytes,
            rows=1,
            planes=1,
        )
    order.append(
        Opcode.POST,
        source=Source.ACC,
        destination=Destination.SPAD,
        channel_bias=int(has_bias),
        bias=_NOTHING,
        param_addr=half["bias"] if has_bias else 0,
        clamp_low=limits[0],
        clamp_high=limits[1],
        dest_addr=half["out"],
        dest_pitch=row_bytes,
        **rule,
    )
    order.append(Opcode.STORE, region=Region.OUTPUT, dram_offset=at, spad_addr=half["out"], **move)


def _tiles(plan: _Plan, right: _Patterns) -> bytes:
    """Return the weight tiles, those of a block of columns one after the other.

    What is missing at the rim is zero.
    """
    config = plan.config
    elements, columns = config.float_rows, config.columns
    full = np.zeros((plan.taps * elements, plan.blocks * columns), np.int64)
    full[: plan.inner, : plan.columns] = right
    blocked = full.reshape(plan.taps, elements, plan.blocks, columns).transpose(2, 0, 1, 3)
    tiles = np.zeros((plan.blocks, plan.taps, config.rows, columns), np.uint8)
    tiles[:, :, 0 : 2 * elements : 2] = blocked & 255
    tiles[:, :, 1 : 2 * elements : 2] = blocked >> 8
    return tiles.tobytes()


def _input(plan: _Plan, left: _Patterns, right: _Patterns, epilogue: Epilogue) -> Iterator[bytes]:
    """Yield the parts of the input region, in the order of `_Plan.offsets`."""
    yield _raw(left, plan.form)
    yield _tiles(plan, right)
    biases = np.zeros(plan.blocks * plan.config.columns, np.float32)
    if epilogue.bias is not None:
        biases[: plan.columns] = epilogue.bias
    yield biases.astype("<f4").tobytes()
    if epilogue.residual is not None:
        yield _raw(patterns_of(epilogue.residual, plan.out), plan.out)


def memory_bytes(rows: int, inner: int, columns: int) -> int:
    """Return external memory that is enough for a product."""
    return 8 * (rows * inner + (inner + 64) * (columns + 64) + rows * columns + 4096)


def float_product(
    left: npt.NDArray[Any],
    right: npt.NDArray[Any],
    mode: str,
    epilogue: Epilogue,
    driver: Driver,
) -> npt.NDArray[Any]:
    """Return the product of (rows, inner) and (inner, columns) in a floating-point mode.

    Of each result, `float_rows` products at a time meet in a balanced tree, low indices first;
    such a sum is added to the sum of those before it. The inner size is filled up with +0.
    """
    form, out = FLOAT_FORMATS[mode], _format_of(epilogue.output)
    config = driver.config
    room = config.spad_bytes - config.spad_bytes * 3 // 8 - 2 * config.bias_block_bytes
    if config.tile_bytes > room:
        raise ValueError(
            f"a tile of weights must fit {room} bytes of the scratchpad, not have "
            f"{config.tile_bytes}"
        )
    if out is not FP32 and out.name not in config.mac_modes:
        raise TypeError(f"a result must be float32 or of a mode that is built, not {out.name}")
    plan = _Plan(
        config=config,
        form=form,
        out=out,
        rows=left.shape[0],
        inner=left.shape[1],
        columns=right.shape[1],
        has_residual=epilogue.residual is not None,
    )
    limits = _limit_pattern(epilogue.low), _limit_pattern(epilogue.high)
    commands = _instructions(plan, limits, epilogue.bias is not None)
    data = b"".join(_input(plan, patterns_of(left, form), patterns_of(right, form), epilogue))
    assert len(data) == plan.offsets["end"]
    out_bytes = plan.rows * plan.columns * out.bytes
    sizes = {Region.PROGRAM: len(commands), Region.INPUT: len(data), Region.OUTPUT: out_bytes}
    verify_commands(commands, config, sizes)
    with driver.lock:
        driver.allocate(sizes)
        driver.write_region(Region.PROGRAM, 0, commands)
        driver.write_region(Region.INPUT, 0, data)
        driver.run(0, len(commands))
        raw = driver.read_region(Region.OUTPUT, 0, out_bytes)
    return np.frombuffer(raw, np.dtype(epilogue.output)).reshape(plan.rows, plan.columns).copy()
