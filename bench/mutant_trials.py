"""Runs streams on one mutant of the netlist, in a process of its own with a time limit."""

import ctypes
import multiprocessing
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matloom.arch.config import Config
from matloom.device.errors import DeviceError
from matloom.device.rtl import RtlTransport
from matloom.device.simulator import load
from matloom.verification.checks import check_corrupted_streams, check_streams
from matloom.verification.pair import MEMORY_BYTES, Pair
from matloom.verification.refusals import check_refusals

#: Seconds of processor time, and by the clock, that a trial may take: what takes longer hangs.
_PROCESSOR_SECONDS, _SECONDS = 240, 900

#: Seconds of a run: all others take far less than one.
_RUN_SECONDS = 6.0

#: More than there are: all.
_REFUSALS = 1_000_000

#: Cycles without progress that make a fault of what hangs, and those of the longest run.
_WATCHDOG, _RUN_CYCLES = 20_000, 1 << 19


class MutantTransport(RtlTransport):
    """Transport to one mutant of the chip, in a simulator `library` that contains all mutants."""

    def __init__(self, config: Config, library: Path, number: int) -> None:
        self._of = library, number
        super().__init__(config, MEMORY_BYTES, check_bus=True)

    def _load(
        self, config: Config, trace: bool, on_line: Callable[[str], None] | None
    ) -> ctypes.CDLL:
        """Return the library of all mutants, with this transport's mutant selected."""
        path, number = self._of
        library = load(path)
        library.matloom_choose(number)
        return library

    def wait_interrupt(self, cycles: int) -> int:
        """Run the mutant until its interrupt rises; return the cycles, or raise without one."""
        count = super().wait_interrupt(min(cycles, _RUN_CYCLES))
        if count >= _RUN_CYCLES:
            raise DeviceError(f"no interrupt in {count} cycles")
        return count


def trial(config: Config, library: Path, number: int, streams: tuple[int, int]) -> None:
    """Run random instruction streams on mutant `number`; raise an error if it is noticed."""
    limit = _PROCESSOR_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    chip = MutantTransport(config, library, number)
    pair = Pair.start(chip, config, timeout=_RUN_SECONDS)
    pair.rtl.write("TIMEOUT", _WATCHDOG)
    check_streams(pair, number, streams[0])
    check_corrupted_streams(pair, number, streams[1])
    check_refusals(pair, number, _REFUSALS)
    if chip.stray_accesses:
        raise DeviceError("an access outside external memory")


def _child(config: Config, library: Path, number: int, streams: tuple[int, int], to: Any) -> None:
    """Run a trial in a child process; send the error message, or an empty text, to a pipe."""
    # The simulator's output on a mutant is useless.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        trial(config, library, number, streams)
    except Exception as error:
        to.send(f"{type(error).__name__}: {error}"[:200])
    else:
        to.send("")


def what_noticed(config: Config, library: Path, number: int, streams: tuple[int, int]) -> str:
    """Run `trial` in a process; return the name of the check that noticed, or ""."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=_child, args=(config, library, number, streams, there))
    child.start()
    there.close()
    try:
        said = str(here.recv()) if here.poll(_SECONDS) else "takes too long"
    except EOFError:
        said = "the simulator ends"
    child.kill()
    child.join()
    return said
