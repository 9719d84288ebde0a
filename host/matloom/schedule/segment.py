"""Stages that the engine executes without the host, and where their tensors come from and go."""

from dataclasses import dataclass, field

from matloom.arch.isa import Region
from matloom.arch.machine import Machine
from matloom.schedule.tiling import Tilings
from matloom.select.stage import Stage

__all__ = ["Place", "Segment"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a tensor lies in external memory."""

    region: Region
    offset: int


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Stages in order, sizes of their tensors in bytes, and the tensors that outlive it.

    Members
    -------
    machine:
        The engine and the memory in which its tensors and constants lie.
    sources:
        Tensors that are in external memory before the segment starts.
    results:
        Tensors that must be there when it ends.
    timestamps:
        For each stage its slot of the completion-time table, 0 for none.
    on_chip:
        Tensors that must not be kept in external memory.
    views:
        Results of which only some bytes (half open) are stored; they have a home on chip.
    tilings:
        What is known of stages that were cut, shared with segments of the same stages.
    plans, failures:
        The last plans, by their choices, and for which choices there are none, with the reasons.
    placements:
        Where groups of buffers lie in the last plan (`placing`).
    """

    stages: tuple[Stage, ...]
    machine: Machine
    sizes: dict[str, int] = field(repr=False)
    sources: dict[str, Place]
    results: dict[str, Place]
    timestamps: tuple[int, ...]
    on_chip: frozenset[str] = frozenset()
    views: dict[str, tuple[int, int]] = field(default_factory=dict)
    tilings: Tilings = field(default_factory=Tilings, repr=False, compare=False)
    plans: dict[object, object] = field(default_factory=dict, init=False, repr=False, compare=False)
    failures: dict[object, object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    placements: dict[object, object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
