"""Feeds numbers to a unit: some in Amaranth's simulator, a million in Verilator."""

import ctypes

import numpy as np
import pytest
from amaranth.back import verilog
from amaranth.hdl import Value

from matloom.arch.floats import FLOAT_FORMATS, narrow
from matloom.toolchain.verilator import build_library
from matloom_rtl.testing import simulate

#: Zeros, subnormals, ones and neighbours, extremes, infinities, NaN: fp32 magnitudes.
_CORNERS = (
    *(0, 1, 2, 3, 0x7FFFFE, 0x7FFFFF, 0x800000, 0x800001, 0x1000000, 0x33800000, 0x33800001),
    *(0x34000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3F800003, 0x40000000, 0x4B800000),
    *(0x7F000000, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF),
)

_HARNESS = """
#include "Vunit.h"
#include <cstdint>
extern "C" void stream(const uint64_t *in, uint64_t *out, int64_t count, int64_t latency) {{
  Vunit unit;
  for (int64_t cycle = 0; cycle < count + latency; cycle++) {{
    const uint64_t *now = in + (cycle < count ? cycle : count - 1) * {ports};
    {assign}
    unit.clk = 0;
    unit.eval();
    if (cycle >= latency) out[cycle - latency] = unit.o;
    unit.clk = 1;
    unit.eval();
  }}
}}
"""


class Numbers:
    """Source of fp32 test patterns: corner cases and random bit patterns."""

    def __init__(self, seed: int):
        self._generator = np.random.default_rng(seed)
        self.corners = np.array([*_CORNERS, *(1 << 31 | each for each in _CORNERS)])

    def some(self, count):
        """Return random fp32 patterns after the corners."""
        return np.concatenate([self.corners, self._generator.integers(0, 2**32, count)])

    def pairs(self, count):
        """Return pairs of fp32 patterns: all pairs of corner cases, then random pairs.

        Among the random ones are pairs that cancel, and pairs whose sums are nearly halfway.
        """
        generator = self._generator
        a, b = generator.integers(0, 2**32, (2, count))
        near = (a ^ 1 << 31) & (511 << 23) | b & 0x7FFFFF
        nearer = (a ^ 1 << 31) + generator.integers(-3, 4, count) & 2**32 - 1
        exponents = np.clip((a >> 23 & 255) - generator.integers(0, 30, count), 0, 255)
        below = b & (1 << 31 | 0x7C0000) | exponents << 23
        b = np.choose(generator.integers(0, 4, count), [b, near, nearer, below])
        return self._with_corners(self.corners, a, b)

    def operands(self, count, name):
        """Return all pairs of a format's corners, or of its 8 bits, then random ones.

        Half of those of bf16 have a product among fp32's subnormals, or near its largest.
        """
        form, generator = FLOAT_FORMATS[name], self._generator
        if form.bits == 8:
            return self._with_corners(np.arange(256), *generator.integers(0, 256, (2, count)))
        corners = np.unique(narrow(self.corners, form))
        a, b = generator.integers(0, 2**16, (2, count))
        below = 127 - generator.integers(0, 30, count)
        edge = np.where(generator.integers(0, 2, count), below, 383)
        opposite = np.clip(edge - (a >> 7 & 255), 0, 255) << 7 | b & 0x807F
        chosen = generator.integers(0, 2, count) & (name == "bf16")
        return self._with_corners(corners, a, np.where(chosen, opposite, b))

    @staticmethod
    def _with_corners(corners, a, b):
        first, second = (each.ravel() for each in np.meshgrid(corners, corners))
        return np.concatenate([first, a]), np.concatenate([second, b])


@pytest.fixture
def numbers(seed):
    """Return the source of test patterns for this seed."""
    return Numbers(seed)


@pytest.fixture
def check():
    """Return ``check(unit, latency, wanted, **inputs)``, which simulates and compares `o`."""

    def run(unit, latency, wanted, **inputs):
        rows = list(zip(*inputs.values(), strict=True))
        found = []

        async def bench(ctx):
            for cycle in range(len(rows) + latency):
                for name, value in zip(inputs, rows[min(cycle, len(rows) - 1)], strict=True):
                    ctx.set(Value.cast(getattr(unit, name)), int(value))
                if cycle >= latency:
                    found.append(ctx.get(Value.cast(unit.o)))
                await ctx.tick()

        simulate(unit, bench, cycles=len(rows) + latency + 1)
        compare(np.array(found), wanted, inputs)

    return run


def compare(found, wanted, inputs):
    """Fail with the first difference and what caused it."""
    wrong = np.flatnonzero(found != wanted)
    if len(wrong):
        first = wrong[0]
        shown = {name: hex(int(each[first])) for name, each in inputs.items()}
        raise AssertionError(f"{shown}: {found[first]:#x}, not {wanted[first]:#x}")


@pytest.fixture(scope="session")
def check_all(tmp_path_factory):
    """Return `check` for a million rows: Verilator runs the unit."""
    libraries = {}

    def run(unit, latency, wanted, **inputs):
        text = verilog.convert(unit, name="unit", emit_src=False)
        if text not in libraries:
            libraries[text] = _build(text, inputs, tmp_path_factory.mktemp("unit"))
        columns = np.stack([np.asarray(each).astype(np.uint64) for each in inputs.values()], 1)
        columns = np.ascontiguousarray(columns)
        out = np.zeros(len(columns), np.uint64)
        pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (columns, out)]
        count, cycles = ctypes.c_int64(len(columns)), ctypes.c_int64(latency)
        libraries[text].stream(*pointers, count, cycles)
        compare(out.astype(np.int64), wanted, inputs)

    return run


def _build(text, inputs, folder):
    assign = " ".join(f"unit.{name} = now[{index}];" for index, name in enumerate(inputs))
    (folder / "unit.v").write_text(text)
    (folder / "harness.cpp").write_text(_HARNESS.format(ports=len(inputs), assign=assign))
    library = build_library(
        [folder / "unit.v"], "unit", [folder / "harness.cpp"], folder / "unit.so"
    )
    return ctypes.CDLL(str(library))
