"""Changes of the schedule search, the memory or the engine that may make a network faster."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom.arch.memory import Memory
from matloom.profile.timeline import Timeline
from matloom.program import Program

#: The highest effort of a compilation.
_LONGEST_SEARCH = 2

#: Causes that are waits for the bus, in both directions.
_BUS = ("constants", "input", "store")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change that may reduce the cycles of some causes.

    Members
    -------
    title:
        Description, as the beginning of a sentence.
    needs:
        Requirement: ``"nothing"``, another ``"memory"`` or another ``"engine"``.
    causes:
        Names of the causes of cycles that the change may reduce.
    fields:
        New values of fields of the configuration.
    memory, effort:
        New memory, new effort of compilation; None if unchanged.
    timing_only:
        Whether the same instructions remain legal and suitable, so that the gain can be predicted
        without a compilation.
    """

    title: str
    needs: str
    causes: tuple[str, ...]
    fields: Mapping[str, int] = field(default_factory=dict)
    memory: Memory | None = None
    effort: int | None = None
    timing_only: bool = False

    def apply(self, config: Config) -> Config:
        """Return a configuration with the change; raise `ConfigError` if it is not valid."""
        fields: dict[str, Any] = dict(self.fields)
        return replace(config, **fields)


def changes(program: Program, timelines: tuple[Timeline, ...], effort: int) -> Iterator[Change]:
    """Yield the changes to consider for this program and its engine; some may be impossible."""
    config, memory = program.config, program.memory
    if effort < _LONGEST_SEARCH:
        yield Change(
            title="A longer search for a schedule",
            needs="nothing",
            causes=("stream", "weights", *_BUS, "post", "command", "bank"),
            effort=_LONGEST_SEARCH,
        )
    yield from _memory_changes(memory, config)
    yield from _bus_changes(config)
    yield from _unit_changes(config)
    yield from _array_changes(config, timelines)


def _memory_changes(memory: Memory, config: Config) -> Iterator[Change]:
    """Yield faster memories to consider: shorter latencies, more bytes per cycle."""
    near = replace(memory, read_latency=4, write_latency=3)
    if memory.read_latency > near.read_latency:
        yield Change(
            title=f"Memory that answers after {near.read_latency} cycles, not "
            f"{memory.read_latency}",
            needs="memory",
            causes=(*_BUS, "command"),
            memory=near,
            timing_only=True,
        )
    if memory.rate < config.bus_bytes:
        rate = min(2 * memory.rate, memory.rate + config.bus_bytes)
        yield Change(
            title=f"Memory of {float(rate):.3g} bytes per cycle, not {float(memory.rate):.3g}",
            needs="memory",
            causes=(*_BUS, "command"),
            memory=replace(memory, bytes_per_cycle=rate),
            timing_only=True,
        )


def _bus_changes(config: Config) -> Iterator[Change]:
    """Yield changes that need fewer or faster transfers: a wider bus, a larger scratchpad."""
    wider = 2 * config.bus_bits
    yield Change(
        title=f"A bus of {wider} bits, not {config.bus_bits}",
        needs="engine",
        causes=(*_BUS, "command"),
        fields={"bus_bits": wider},
        timing_only=True,
    )
    for times in (2, 4):
        more = times * config.spad_bytes
        yield Change(
            title=f"A scratchpad of {more // 1024} KiB, not {config.spad_bytes // 1024}",
            needs="engine",
            causes=_BUS,
            fields={"spad_bytes": more},
        )


def _unit_changes(config: Config) -> Iterator[Change]:
    """Yield changes of units other than the array: lanes, weight loading, queues, banks, sums."""
    for name, cause, title in (
        ("lanes", "post", "{} lanes of post-processing, not {}"),
        ("weight_rows", "weights", "Weight tiles loaded {} rows a cycle, not {}"),
        ("queue_depth", "command", "Queues of {} instructions, not {}"),
    ):
        now = getattr(config, name)
        yield Change(
            title=title.format(2 * now, now),
            needs="engine",
            causes=(cause,),
            fields={name: 2 * now},
            timing_only=True,
        )
    yield Change(
        title=f"{config.spad_banks + 1} banks of the scratchpad, not {config.spad_banks}",
        needs="engine",
        causes=("bank",),
        fields={
            "spad_banks": config.spad_banks + 1,
            "spad_bytes": config.spad_bytes // config.spad_banks * (config.spad_banks + 1),
        },
    )
    yield Change(
        title=f"Accumulators of {config.acc_bytes // 512} KiB, not {config.acc_bytes // 1024}",
        needs="engine",
        causes=("command", "weights", *_BUS),
        fields={"acc_bytes": 2 * config.acc_bytes},
    )


def _array_changes(config: Config, timelines: tuple[Timeline, ...]) -> Iterator[Change]:
    """Yield changes of the array and of the operations that the engine supports."""
    for name, others in (("rows", ()), ("columns", ("lanes", "acc_bytes"))):
        now = getattr(config, name)
        yield Change(
            title=f"{2 * now} {name} of the array, not {now}",
            needs="engine",
            causes=("stream", "weights"),
            fields={name: 2 * now, **{each: 2 * getattr(config, each) for each in others}},
        )
    missing = {"windows": "Sliding windows", "paired_windows": "Windows at stride 2 in pairs"}
    for name, title in missing.items():
        if not getattr(config, name) and _has_windows(timelines):
            fields = {name: 1}
            yield Change(title=title, needs="engine", causes=("stream",), fields=fields)
    for name, title in (("products", "Products of tensors"), ("tables", "Tables of functions")):
        now = getattr(config, name)
        if not now:
            yield Change(
                title=f"{title} in post-processing, which this engine leaves to the host",
                needs="engine",
                causes=("post", "stream", *_BUS),
                fields={name: 1},
            )


def _has_windows(timelines: tuple[Timeline, ...]) -> bool:
    """Return whether any EXEC has a kernel of more than one tap."""
    return any(
        each.opcode is Opcode.EXEC and each.values["kernel_rows"] * each.values["kernel_cols"] > 1
        for timeline in timelines
        for each in timeline.instructions
    )
