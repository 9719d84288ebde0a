"""Cost of running a network: cycles, utilisation, layers, stalls, host steps."""

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from matloom.arch.csr import EXEC_CAUSES
from matloom.arch.memory import Memory
from matloom.device.driver import Counters
from matloom.device.line_cost import LineCost
from matloom.ir.graph import short_name
from matloom.program import EngineStep, HostStep, Program
from matloom.program.describe_state import variable_bytes
from matloom.program.verdict import describe_equality
from matloom.report.layers import LayerReport, LoopReport
from matloom.terminal.tables import as_text, count_text, layer_table

_BUSY_COUNTERS = ("load_busy", "post_busy", "store_busy")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Cost of one run of a network on one sample: cycles, layers, stalls and traffic.

    Members
    -------
    cycles:
        Cycles from doorbell to done, summed over all engine steps and all iterations of `loops`.
        `cycles_source` says whether they come from the engine's counters or, on a device without a
        clock, from the compiler's prediction.
    utilisation:
        MACs on the engine / (MACs per cycle that the array can do in their mode x cycles).
    stalls:
        Stalled cycles of the execute unit by cause; together with `exec_stream` they add up to
        `cycles`.
    bytes_read, bytes_written:
        Bytes transferred on the bus, in whole beats, including the commands.
    memory, ran_on:
        Names of the memory that the cycles were predicted for, and of the memory that the device
        simulates; the latter is empty if it simulates none.
    resident:
        Whether the weights were still on chip from the previous call.
    state:
        Size in bytes of each variable of the network, by name.
    computed_by:
        ``"program"``, or ``"kernels"`` on device fast, where the operators' kernels compute the
        outputs. `equality` then explains in a sentence why the program gives the same outputs.
    shared_slots:
        Sentence on layers whose cycles are only known together; empty if there are none.
    stored:
        Names of the intermediate tensors that were requested, which the program stores in addition
        to the outputs.
    loops:
        Loops whose number of iterations is known only when they run; the other members include
        their iterations.
    link, upload:
        Cost of the last sample, and of sending the program, on the device's serial line; None if it
        has no line.
    """

    network: str
    device: str
    config_digest: str
    cycles: int
    cycles_source: str
    predicted_cycles: int
    macs: int
    utilisation: float
    layers: tuple[LayerReport, ...]
    stalls: dict[str, int]
    counters: dict[str, int]
    bytes_read: int
    bytes_written: int
    host_steps: tuple[str, ...]
    memory: str = "reference"
    ran_on: str = ""
    resident: bool = False
    state: dict[str, int] = field(default_factory=dict)
    computed_by: str = "program"
    equality: str = ""
    shared_slots: str = ""
    stored: tuple[str, ...] = ()
    loops: tuple[LoopReport, ...] = ()
    link: LineCost | None = None
    upload: LineCost | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dictionary of JSON types."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Return the report as a JSON text."""
        return json.dumps(self.as_dict(), indent=2) + "\n"

    def table(self) -> Table:
        """Return a table of the layers, and below each loop the layers of its body."""
        title = (
            f"{self.network} on {self.device}: {self.cycles:,} cycles ({self.cycles_source}), "
            f"utilisation {self.utilisation:.3f}{', weights resident' if self.resident else ''}"
        )
        rate = "MACs per\ncycle"
        table = layer_table(
            title,
            ("layer", "operator", "where"),
            ("MACs", "cycles", "predicted", rate),
            spare=(rate, "MACs", "predicted", "where"),
        )
        iterations = {loop.name: loop.layers for loop in self.loops}
        for layer in self.layers:
            table.add_row(short_name(layer.name), *layer.cells())
            for inner in iterations.get(layer.name, ()):
                table.add_row(f"  {short_name(inner.name)}", *inner.cells())
        return table

    def lines(self) -> list[str]:
        """Return indented lines on the whole run: stalls, units, bus, loops, memory, state, link.

        A line is left out if it does not apply.
        """
        counted = self.cycles_source == "counters"
        at_work = {"exec_stream": self.counters.get("exec_stream", 0)} if counted else {}
        spent = {**at_work, **self.stalls}
        lines = [
            f"  {cause}: {count:,} ({count / self.cycles:.1%})"
            for cause, count in spent.items()
            if count
        ]
        if counted:
            lines += [f"  {unit}: {self.counters[unit]:,}" for unit in _BUSY_COUNTERS]
            for direction, size in (("read", self.bytes_read), ("write", self.bytes_written)):
                bursts = self.counters[f"{direction}_bursts"]
                lines.append(f"  bus {direction}s: {size:,} bytes in {count_text(bursts, 'burst')}")
        else:
            lines += self.provenance()
        lines += [f"  {loop}" for loop in self.loops]
        if self.shared_slots:
            lines.append(f"  {self.shared_slots}")
        if self.stored:
            names = ", ".join(map(short_name, self.stored))
            lines.append(f"  cycles are of a program that also stores {names}")
        if self.ran_on not in ("", self.memory):
            lines.append(f"  predicted for memory {self.memory}, ran on {self.ran_on}")
        if self.state:
            total = sum(self.state.values())
            each = ", ".join(f"{name} {size:,}" for name, size in self.state.items())
            lines.append(f"  state: {total:,} bytes ({each})")
        lines += [
            f"  {what}: {cost}"
            for what, cost in (("link", self.link), ("link, program once", self.upload))
            if cost is not None
        ]
        return lines

    def provenance(self) -> list[str]:
        """Return lines on the sources of cycles and outputs, for a device without a clock."""
        if self.computed_by == "program":
            return ["  cycles are predicted, not counted: this device has no clock"]
        return [
            "  cycles are predicted, not counted; outputs are those of the operators' kernels",
            f"  {self.equality}",
        ]

    def __str__(self) -> str:
        return as_text((self.table(), *self.lines()))


def make_report(
    program: Program,
    device: str,
    runs: list[Counters],
    *,
    resident: bool = False,
    ran_on: Memory | None = None,
    kernels: bool = False,
) -> Report:
    """Return the report of a program's last run.

    `runs` has the counters of each engine step; if all cycles are zero, the device has no clock,
    and the report uses predicted cycles and says so. `resident` is set if the program's `repeat`
    ran, `ran_on` is the memory that the device simulates, and `kernels` is set if the operators'
    kernels computed the outputs instead of the program.
    """
    counted = sum(run.cycles for run in runs)
    predicted = program.predicted_cycles
    if resident and program.repeat is not None:
        predicted = program.repeat.predicted_cycles
    cycles = counted or predicted
    totals: Counter[str] = Counter()
    for run in runs:
        totals.update(run.values)
    return Report(
        network=program.name,
        device=device,
        config_digest=f"{program.config.digest:08x}",
        cycles=cycles,
        cycles_source="counters" if counted else "predicted",
        predicted_cycles=predicted,
        macs=program.macs,
        utilisation=program.utilisation(cycles),
        layers=_layers(program, runs, resident),
        stalls={name: totals.get(name, 0) for name, _doc in EXEC_CAUSES if name != "exec_stream"},
        counters=dict(totals),
        bytes_read=totals.get("read_beats", 0) * program.config.bus_bytes,
        bytes_written=totals.get("write_beats", 0) * program.config.bus_bytes,
        host_steps=tuple(step.operator for step in program.steps if isinstance(step, HostStep)),
        memory=program.memory.name,
        ran_on="" if ran_on is None else ran_on.name,
        resident=resident,
        state=variable_bytes(program),
        computed_by="kernels" if kernels else "program",
        equality=describe_equality(program.verdict) if kernels else "",
        shared_slots=program.shared_slots,
    )


def _layers(program: Program, runs: list[Counters], resident: bool) -> tuple[LayerReport, ...]:
    """Return the program's operators with their cycles, from the completion times of each step.

    The last operator of a step also gets the cycles between its completion and the end of the step.
    """
    spent: dict[int, int] = {}
    for run in runs:
        before, last = 0, 0
        for timestamp, cycle in sorted(run.timestamps.items(), key=lambda item: item[1]):
            spent[timestamp] = spent.get(timestamp, 0) + cycle - before
            before, last = cycle, timestamp
        if last:
            spent[last] += run.cycles - before
    assert len(runs) in (0, sum(isinstance(step, EngineStep) for step in program.steps))
    predicted: dict[int, int] = {}
    for layer in program.layers:
        cycles = layer.repeat_cycles if resident else layer.predicted_cycles
        predicted[layer.timestamp] = predicted.get(layer.timestamp, 0) + cycles
    shared = program.shared_timestamps
    # The first operator of a shared slot gets the cycles of all.
    return tuple(
        LayerReport(
            name=layer.name,
            operator=layer.operator,
            where=layer.where,
            macs=layer.macs,
            cycles=spent.pop(layer.timestamp, None) if layer.timestamp else None,
            predicted_cycles=predicted.pop(layer.timestamp, 0) if layer.timestamp else 0,
            reason=layer.reason,
            mode=layer.mode,
            together=layer.timestamp in shared,
        )
        for layer in program.layers
    )
