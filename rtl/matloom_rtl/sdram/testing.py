"""C++ model of an SDRAM at the controller's pins, for tests."""

import ctypes
import functools
import subprocess
import tempfile
from collections import deque
from pathlib import Path

import matloom.arch
from matloom.arch.sdram import SdramPart
from matloom.arch.sdram_timing import SdramTiming

__all__ = ["HARNESS", "RULES", "Sdram", "SdramPins", "shape_of"]

#: Rules in the order of `SdramRule` in sdram.h.
RULES = (
    *("none", "power-up", "initialise", "mode", "tRCD", "tRP", "tRAS", "tRC", "tRFC", "tWR"),
    *("tRRD", "tMRD", "refresh", "closed", "open", "address", "cut", "contention", "undriven"),
    *("unwritten", "command", "mask"),
)

#: The folder of sdram.h.
HARNESS = Path(matloom.arch.__file__).parents[1] / "device" / "harness"
_WORD = ctypes.c_uint32


class _Shape(ctypes.Structure):
    """Size, timing and options of an SDRAM: `SdramShape` of sdram.h."""

    _fields_ = tuple(
        (name, _WORD)
        for name in (
            *("data_bytes", "banks", "rows", "columns"),
            *("cas_latency", "rcd", "rp", "ras", "rc", "rfc", "wr", "rrd", "mrd"),
            *("refresh", "power_up", "initial_refreshes", "refuse_unwritten", "maskless"),
        )
    )


def shape_of(part: SdramPart, timing: SdramTiming, **options: bool):
    """Return the `SdramShape` of sdram.h for a part; `options` are as in `Sdram`."""
    shape = _Shape(data_bytes=part.data_bits // 8, **options)
    for name in ("banks", "rows", "columns"):
        setattr(shape, name, getattr(part, name))
    for name, _ in _Shape._fields_[4:-2]:
        setattr(shape, name, getattr(timing, name))
    return shape


class SdramPins(ctypes.Structure):
    """Values at the pins at a clock edge, as in sdram.h; `drive` is set if `dq` is driven."""

    _fields_ = tuple(
        (name, _WORD)
        for name in ("clk_en", "cs", "ras", "cas", "we", "ba", "a", "dqm", "drive", "dq")
    )


@functools.cache
def _library():
    """Compile the model, once per process, and return it as a library."""
    folder = tempfile.mkdtemp(prefix="matloom-sdram-")
    path = Path(folder) / "sdram.so"
    source = str(HARNESS / "sdram.cpp")
    command = ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(path), source], check=True)
    library = ctypes.CDLL(str(path))
    library.sdram_create.restype = ctypes.c_void_p
    library.sdram_step.restype = _WORD
    library.sdram_breach.restype = _WORD
    for name in ("breach_edge", "refreshes", "columns", "activations"):
        getattr(library, f"sdram_{name}").restype = ctypes.c_uint64
    return library


class Sdram:
    """Model of an SDRAM (`host/matloom/device/harness/sdram.h`) that checks its timing rules.

    `attach` connects it to the pins of a simulated controller; `step` simulates a single edge.

    Parameters
    ----------
    part, timing:
        The SDRAM, and the timing to check, in SDRAM cycles.
    refuse_unwritten:
        Reading a byte that was never written breaks a rule; otherwise it returns noise.
    maskless:
        The board ties the masks low: all bytes are written, and masking one breaks a rule.
    """

    def __init__(self, part: SdramPart, timing: SdramTiming, **options: bool):
        self._library = _library()
        shape = shape_of(part, timing, **options)
        self._model = ctypes.c_void_p(self._library.sdram_create(ctypes.byref(shape)))

    def __del__(self):
        self._library.sdram_destroy(self._model)

    def step(self, pins: SdramPins) -> int:
        """Simulate one clock edge; return the value of the data pins until the next edge."""
        return self._library.sdram_step(self._model, ctypes.byref(pins))

    def allow_auto_precharge(self) -> None:
        """Allow a READ or WRITE to close its row (A10), which otherwise breaks a rule."""
        self._library.sdram_allow_auto_precharge(self._model)

    def power_up(self) -> None:
        """Cycle the power: contents, state and the recorded breach are lost."""
        self._library.sdram_power_up(self._model)

    def write(self, address: int, contents: bytes) -> None:
        """Store bytes from a byte address on: row, bank and column, from the highest bit down."""
        size = ctypes.c_uint64(len(contents))
        self._library.sdram_write(self._model, ctypes.c_uint64(address), contents, size)

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes from a byte address on: row, bank and column, as in `write`."""
        found = ctypes.create_string_buffer(size)
        self._library.sdram_read(
            self._model, ctypes.c_uint64(address), found, ctypes.c_uint64(size)
        )
        return found.raw

    @property
    def breach(self) -> str:
        """Name of the first rule that was broken, one of `RULES`; "none" if all were kept."""
        return RULES[self._library.sdram_breach(self._model)]

    @property
    def breach_edge(self) -> int:
        """Index of the clock edge at which the first rule was broken; 0 if all were kept."""
        return self._library.sdram_breach_edge(self._model)

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of refreshes since the mode was set, of columns accessed, and of activations."""
        names = ("refreshes", "columns", "activations")
        return {name: getattr(self._library, f"sdram_{name}")(self._model) for name in names}

    def _cycle(self, values: list[int], gear: int, bits: int) -> int:
        """Simulate the `gear` edges of a controller cycle; return their words, the first lowest."""
        clk_en, *command, dqm, drive, dq = values
        found = 0
        for index in range(gear):
            words = ((dqm, bits // 8), (dq, bits))
            mask, word = (value >> index * width & (1 << width) - 1 for value, width in words)
            given = command if index == 0 else [0] * len(command)
            found |= self.step(SdramPins(clk_en, *given, mask, drive, word)) << index * bits
        return found

    def attach(self, pins, *, outward: int = 0, inward: int = 0):
        """Return a background bench that connects the SDRAM to pins.

        The controller's outputs pass through `outward` registers, and the data read through
        `inward`. With a gear of two, the bench simulates two edges per cycle, and gives the command
        at the first of them.
        """
        names = ("clk_en", "cs", "ras", "cas", "we", "ba", "a", "dqm")
        signals = [*(getattr(pins, name) for name in names), pins.dq.oe, pins.dq.o]
        bits = len(pins.dq.o) // pins.signature.gear

        async def bench(ctx):
            """Exchange the pins' values with the model in each cycle, with the given delays."""
            out, back = deque([[1] + [0] * 9] * outward), deque([0] * inward)
            while True:
                _clk, _rst, *values = await ctx.tick().sample(*signals)
                out.append(values)
                back.append(self._cycle(out.popleft(), pins.signature.gear, bits))
                ctx.set(pins.dq.i, back.popleft())

        return bench
