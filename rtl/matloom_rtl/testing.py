"""Runs a unit under amaranth.sim with testbenches and a limit of cycles."""

import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

__all__ = ["simulate"]

#: Of `sync`, in seconds.
_PERIOD = 1e-6


def simulate(dut, *benches, cycles: int, background=(), clocks=None) -> int:
    """Run async testbenches against `dut` until all have returned; return the cycles that took.

    `WAVES=1` in the environment writes a VCD into a new temporary folder and prints its name. For
    a reset midway, pass ``ResetInserter(reset)(dut)`` and set the signal `reset` from a bench.

    Parameters
    ----------
    dut:
        Any elaboratable. The `sync` domain is added, so a combinational one will do.
    benches:
        Functions ``async def bench(ctx)``.
    cycles:
        Limit. An AssertionError then names the benches that were still waiting, and where.
    background:
        Benches that nobody waits for, such as monitors in an endless loop.
    clocks:
        Other domains by name, each with its period in cycles of `sync`; its first edge is half of
        that after the beginning, as that of `sync` is.
    """
    running = {}
    elapsed = 0

    def watched(bench):
        async def run(ctx):
            running[bench] = bench(ctx)
            await running[bench]
            del running[bench]

        return run

    async def clock(ctx):
        nonlocal elapsed
        while elapsed < cycles:
            await ctx.tick()
            elapsed += 1
        if running:
            waiting = "; ".join(_whereabouts(bench, running[bench]) for bench in running)
            raise AssertionError(f"benches must return within {cycles} cycles; waiting: {waiting}")

    top = Module()
    for name in ("sync", *(clocks or {})):
        top.domains += ClockDomain(name)
    top.submodules.dut = dut
    simulator = Simulator(top)
    simulator.add_clock(_PERIOD)
    for name, period in (clocks or {}).items():
        simulator.add_clock(_PERIOD * period, domain=name)
    for bench in benches:
        simulator.add_testbench(watched(bench))
    for bench in background:
        simulator.add_testbench(bench, background=True)
    # Last, so that it sees who returned in the same cycle.
    simulator.add_testbench(clock, background=True)
    with _waves(simulator):
        simulator.run()
    return elapsed


def _whereabouts(bench, coroutine) -> str:
    """Return the bench's name and the line at which it waits."""
    name = getattr(bench, "__qualname__", repr(bench))
    return f"{name} at line {coroutine.cr_frame.f_lineno}"


def _waves(simulator: Simulator):
    if os.environ.get("WAVES") != "1":
        return nullcontext()
    path = Path(tempfile.mkdtemp(prefix="matloom-waves-")) / "waves.vcd"
    print(f"waves: {path}")
    return simulator.write_vcd(str(path))
