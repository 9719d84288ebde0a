"""Input and output of stage passes: the stages of an engine run, and the names of its tensors."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from matloom.arch.config import Config
from matloom.ir.graph import Graph
from matloom.select.partition import EngineRun
from matloom.select.stage import Stage

#: Name of a view, and the range of bytes (half open) of the larger tensor that it consists of.
View = tuple[str, int, int]


@dataclass(frozen=True, kw_only=True)
class StagedRun:
    """Stages of a run of the engine, and the names of its tensors, between two stage passes.

    Members
    -------
    names:
        Names by tensor number; tensors that share bytes share a name.
    placed:
        Tensor numbers of outputs of the run that get addresses of their own.
    views:
        By name of each tensor of which only a part is stored: the name of that part, and its range
        of bytes.
    """

    graph: Graph = field(repr=False)
    config: Config = field(repr=False)
    run: EngineRun
    names: Mapping[int, str] = field(repr=False)
    placed: Collection[int] = frozenset()
    views: Mapping[str, View] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages of each operator, in order."""
        return self.run.stages

    @cached_property
    def kept(self) -> frozenset[str]:
        """Names of the tensors that must not change: those that enter or leave the run."""
        return frozenset(self.names[at] for at in (*self.run.consumed, *self.run.produced))

    def with_stages(self, groups: Iterable[Iterable[Stage]]) -> "StagedRun":
        """Return the run with other stages for its operators."""
        return replace(self, run=replace(self.run, stages=tuple(map(tuple, groups))))
