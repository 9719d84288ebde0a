"""Simulation of a unit with testbenches and a cycle limit, once or repeatedly."""

import functools
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

from amaranth.hdl import ClockDomain, Module, ResetInserter, Signal
from amaranth.sim import Simulator

__all__ = ["cached_unit", "simulate", "with_reset"]

#: Clock period of `sync`, in seconds.
_PERIOD_SECONDS = 1e-6


#: Name of the attribute that caches a unit's simulators.
_KEPT = "_matloom_runs"

#: Name of the attribute that caches a unit with a reset.
_RESET = "_matloom_reset"


@functools.lru_cache(maxsize=8)
def cached_unit(unit, *arguments, **options):
    """Return `unit(*arguments, **options)`, cached by class and arguments.

    This is for tests that run one unit many times. Only the last few are kept, to save memory.
    """
    return unit(*arguments, **options)


def with_reset(dut):
    """Return `dut` with a reset, and the reset signal: the same pair in each call."""
    if _RESET not in vars(dut):
        reset = Signal()
        vars(dut)[_RESET] = ResetInserter(reset)(dut), reset
    return vars(dut)[_RESET]


class _UnitSimulator:
    """Simulator of a unit for any number of runs, each starting from power-up.

    Setting up a simulator takes far longer than most runs. Testbenches cannot be added after the
    start of a simulation, so those added here call the benches of the current run.
    """

    def __init__(self, dut, benches: int, background: int, clocks: dict):
        top = Module()
        for name in ("sync", *clocks):
            top.domains += ClockDomain(name)
        top.submodules.dut = dut
        self._simulator, self._begun = Simulator(top), False
        self._simulator.add_clock(_PERIOD_SECONDS)
        for name, period in clocks.items():
            self._simulator.add_clock(_PERIOD_SECONDS * period, domain=name)
        self._benches: list = []
        for place in range(benches + background):
            self._simulator.add_testbench(self._caller(place), background=place >= benches)

    def _caller(self, place: int):
        """Return a coroutine function that runs the bench at index `place` of the current run."""

        async def call(ctx):
            """Run the bench that has this index in the current run."""
            await self._benches[place](ctx)

        return call

    def run(self, benches: list) -> None:
        """Simulate the testbenches `benches` together, from power-up until all have returned."""
        self._benches = benches
        if self._begun:
            self._simulator.reset()
        self._begun = True
        with _waves(self._simulator):
            self._simulator.run()


def _cached_simulator(dut, *shape) -> _UnitSimulator:
    """Return the unit's cached simulator for `shape`, the arguments of `_UnitSimulator`.

    It is created if there is none, or if the waveform is to be written.
    """
    kept = vars(dut).setdefault(_KEPT, {})
    # A waveform file needs a simulator of its own.
    if repr(shape) not in kept or os.environ.get("WAVES") == "1":
        kept[repr(shape)] = _UnitSimulator(dut, *shape)
    return kept[repr(shape)]


def simulate(dut, *benches, cycles: int, background=(), clocks=None) -> int:
    """Run async testbenches against `dut` until all have returned; return the elapsed cycles.

    Each call starts from power-up. Further calls with the same `dut`, number of benches and clocks
    are much faster: see `cached_unit`.

    `WAVES=1` in the environment writes a VCD into a new temporary folder and prints its name. For a
    reset midway, pass the first of `with_reset(dut)` and set the second one from a bench.

    Parameters
    ----------
    dut:
        Any elaboratable. The `sync` domain is added, so a combinational one will do.
    benches:
        Functions ``async def bench(ctx)``.
    cycles:
        Limit, after which an AssertionError names the benches that are still waiting, and where.
    background:
        Benches that nobody waits for, such as monitors in an endless loop.
    clocks:
        Other domains by name, each with its period in cycles of `sync`; the first edge comes after
        half a period, as for `sync`.
    """
    running = {}
    elapsed = 0

    def watch(bench):
        """Return `bench` wrapped so that it is listed in `running` until it returns."""

        async def run(ctx):
            """Run the bench; `running` maps it to its coroutine meanwhile."""
            running[bench] = bench(ctx)
            await running[bench]
            del running[bench]

        return run

    async def clock(ctx):
        """Count cycles in `elapsed`; raise AssertionError if benches run for more than `cycles`."""
        nonlocal elapsed
        while elapsed < cycles:
            await ctx.tick()
            elapsed += 1
        if running:
            waiting = "; ".join(_whereabouts(bench, running[bench]) for bench in running)
            raise AssertionError(f"benches must return within {cycles} cycles; waiting: {waiting}")

    # The clock is last, so that it sees which benches returned in the same cycle.
    called = [*map(watch, benches), *background, clock]
    try:
        _cached_simulator(dut, len(benches), len(background) + 1, clocks or {}).run(called)
    except BaseException:
        # Discard the simulator of an interrupted run: its state must not reach the next one.
        del vars(dut)[_KEPT]
        raise
    return elapsed


def _whereabouts(bench, coroutine) -> str:
    """Return a bench's name and the line at which it waits."""
    name = getattr(bench, "__qualname__", repr(bench))
    return f"{name} at line {coroutine.cr_frame.f_lineno}"


def _waves(simulator: Simulator):
    """Return a context that writes waves to a new file if the variable WAVES is 1."""
    if os.environ.get("WAVES") != "1":
        return nullcontext()
    path = Path(tempfile.mkdtemp(prefix="matloom-waves-")) / "waves.vcd"
    print(f"waves: {path}")
    return simulator.write_vcd(str(path))
