"""Simulated chips that record functional coverage of their runs."""

import atexit
import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matloom.arch.config import Config
from matloom.arch.csr import EXEC_CAUSES, register
from matloom.arch.instruction import Instruction, IsaError, unpack
from matloom.arch.isa import Opcode, Region
from matloom.coverage.coverage import Coverage
from matloom.coverage.flight import Event
from matloom.device.rtl import MemoryTiming, RtlTransport
from matloom.device.simulator import Probe, build, load_probes

#: Environment variable with the path of a file to which the coverage of all runs on simulated chips
#: is added.
COVERAGE_VARIABLE = "MATLOOM_COVERAGE"

_CAUSES = {register(name.upper()).offset: name for name, _doc in EXEC_CAUSES}


def chip_class() -> type[RtlTransport]:
    """Return `CoveredTransport` if the variable `MATLOOM_COVERAGE` is set, else `RtlTransport`."""
    return CoveredTransport if os.environ.get(COVERAGE_VARIABLE) else RtlTransport


def stall_kind(timing: MemoryTiming, bus_bytes: int) -> str:
    """Return the entry of `coverage.model.STALLS` that describes a memory timing."""
    if timing.stall_per_1024:
        return "withheld"
    slow = timing.memory.beat_cycles(bus_bytes) > 1 or timing.memory.row_miss_cycles > 0
    return "slow" if slow else "steady"


class CoveredTransport(RtlTransport):
    """Transport like `RtlTransport` that also records the coverage of its runs.

    Command buffers are read from external memory when they are started. Probes in the simulation
    report which instructions were issued and completed, also in runs that fail.

    Members
    -------
    coverage:
        Coverage since the chip was opened.
    """

    #: Probes of the simulator, one of `simulator.PROBES`.
    probed = "events"

    def __init__(self, config: Config, *arguments: Any, **options: Any) -> None:
        self.coverage = Coverage(config)
        self._config, self._stall = config, "steady"
        self._registers: dict[int, int] = {}
        self._instructions: list[Instruction] | None = None
        super().__init__(config, *arguments, **options)
        self._take_events()
        # Sessions do not close their device.
        atexit.register(self.close)

    def _load(
        self, config: Config, trace: str, on_line: Callable[[str], None] | None
    ) -> ctypes.CDLL:
        """Load a simulator library that was built with probes."""
        library = build(config, trace=trace, on_line=on_line, probed=self.probed)
        #: The simulated Verilog.
        self.verilog = library.with_name("matloom_simulated.v")
        return load_probes(library)

    def set_timing(self, timing: MemoryTiming) -> None:
        """Change the timing of the external memory from the next cycle on."""
        self._stall = stall_kind(timing, self._config.bus_bytes)
        super().set_timing(timing)

    def write32(self, address: int, value: int) -> None:
        """Write a register, after recording the previous run."""
        self.count()
        self._registers[address] = value
        if address == register("CONTROL").offset and value & 1:
            self._instructions = self._instructions_to_run()
            self._take_events()
        super().write32(address, value)

    def read32(self, address: int) -> int:
        """Return the value of a register."""
        value = super().read32(address)
        if value and address in _CAUSES:
            self.coverage.add([f"cause {_CAUSES[address]}"])
        return value

    def reset(self) -> None:
        """Assert the chip's reset for some cycles; external memory keeps its contents."""
        self.count()
        super().reset()

    def close(self) -> None:
        """End the simulation, and add its coverage to the file that `MATLOOM_COVERAGE` names."""
        atexit.unregister(self.close)
        if not self._simulation:
            return
        self.count()
        path_text = os.environ.get(COVERAGE_VARIABLE)
        if path_text:
            _merge_into(Path(path_text), self.coverage)
        super().close()

    def _written_value(self, name: str) -> int:
        """Return the value that was last written to a register, or 0."""
        return self._registers.get(register(name).offset, 0)

    def _instructions_to_run(self) -> list[Instruction]:
        """Return the instructions of the command buffer, up to END or to the first invalid one."""
        start = (
            self._written_value("PROGRAM_BASE")
            + self._written_value("COMMAND_OFFSET")
            - self.memory_base
        )
        commands = self.memory[max(start, 0) : max(start, 0) + self._written_value("COMMAND_BYTES")]
        data, offset = commands.tobytes(), 0
        found: list[Instruction] = []
        while offset < len(data) and (not found or found[-1].opcode is not Opcode.END):
            try:
                instruction, offset = unpack(data, offset)
            except IsaError:
                break
            found.append(instruction)
        return found

    def _take_events(self) -> list[Event]:
        """Return the issue and completion events since the previous call."""
        probes = (Probe * self._library.matloom_events())()
        self._library.matloom_take_events(ctypes.addressof(probes))
        return [
            Event(cycle=each.cycle, **{("issued", "done")[each.kind]: each.units})
            for each in probes
        ]

    def count(self) -> None:
        """Add the coverage of the last run, as far as it went, to `coverage`.

        Each run is added once: the next register write, reset or close also calls this method.
        """
        instructions, self._instructions = self._instructions, None
        if instructions is None:
            return
        windows = {
            region: (
                self._written_value(f"{region.name}_BASE"),
                self._written_value(f"{region.name}_BYTES"),
            )
            for region in Region
        }
        self.coverage.add_run(instructions, self._take_events(), windows, self._stall)


class LinesTransport(CoveredTransport):
    """Transport like `CoveredTransport` that also counts executed lines and signal toggles.

    Verilator counts per thread, so only one such simulation may be open at a time.
    """

    probed = "lines"

    def write_lines(self, path: Path) -> None:
        """Write Verilator's counts since opening to a file that `matloom.coverage.lines` reads."""
        self._library.matloom_write_coverage(str(path).encode())


def _merge_into(path: Path, coverage: Coverage) -> None:
    """Merge coverage into a file; create the file if it does not exist."""
    if path.is_file():
        before = Coverage.load(path)
        before.merge(coverage)
        coverage = before
    coverage.save(path)
