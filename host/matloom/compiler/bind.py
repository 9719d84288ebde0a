"""Gives the inputs and outputs of each engine run addresses in external memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from matloom.arch.isa import Region
from matloom.arch.program_file import ALIGNMENT
from matloom.compiler.values import Bound, BoundRun, Job, Rewritten
from matloom.program import Binding
from matloom.schedule import Place, Segment
from matloom.select.context import BROADCASTING, source_name
from matloom.select.partition import HostRun
from matloom.select.rewrites.staged_run import StagedRun, View


def bind(rewritten: Rewritten, job: Job) -> Bound:
    """Give the inputs and outputs of all runs addresses, so that the runs can be scheduled."""
    binder = _Binder(rewritten, job)
    runs = tuple(
        run if isinstance(run, HostRun) else binder.bind_run(run) for run in rewritten.runs
    )
    return Bound(
        rewritten=rewritten,
        runs=runs,
        input_bytes=binder.region_bytes[Region.INPUT],
        output_bytes=binder.region_bytes[Region.OUTPUT],
    )


def binding(rewritten: Rewritten, number: int, place: Place) -> Binding:
    """Return the `Binding` of a tensor to an address in external memory."""
    prepared = rewritten.selected.prepared
    return Binding(
        name=prepared.names[number],
        region=place.region,
        offset=place.offset,
        shape=prepared.graph.tensors[number].shape,
        dtype=prepared.graph.tensors[number].dtype,
    )


@dataclass
class _Binder:
    """Assigns addresses and timestamps to the engine's runs, one after another.

    Members
    -------
    region_bytes:
        Number of bytes that the runs so far need in regions INPUT and OUTPUT.
    operators:
        Number of operators so far that need a timestamp.
    """

    rewritten: Rewritten
    job: Job
    region_bytes: dict[Region, int] = field(
        default_factory=lambda: {Region.INPUT: 0, Region.OUTPUT: 0}
    )
    operators: int = 0

    def bind_run(self, staged: StagedRun) -> BoundRun:
        """Return a run with the addresses of its inputs and outputs."""
        inputs = self._bindings(staged, Region.INPUT, staged.run.consumed)
        outputs = self._bindings(staged, Region.OUTPUT, staged.run.produced)
        timestamps = tuple(self._next_timestamp() if stages else 0 for stages in staged.stages)
        constants = _tensor_constants(staged, self.rewritten.selected.prepared.names)
        sources = _places_by_name(staged, inputs, staged.run.consumed)
        results = _places_by_name(staged, outputs, staged.run.produced)
        return BoundRun(
            staged=staged,
            inputs=inputs,
            outputs=outputs,
            segment=self._segment(staged, sources, results, constants, timestamps),
            constants=constants,
            timestamps=timestamps,
        )

    def _next_timestamp(self) -> int:
        """Return the next operator's timestamp slot; once all are taken, the last is shared.

        Not called for operators without stages, whose work the stages of other operators do.
        """
        self.operators += 1
        return min(self.operators, self.job.config.last_timestamp)

    def _bindings(
        self, staged: StagedRun, region: Region, numbers: tuple[int, ...]
    ) -> tuple[Binding, ...]:
        """Return the bindings of tensors to addresses in a region, which is enlarged if necessary.

        Tensors that share bytes share an address. Variables that stay in external memory keep the
        addresses that they have there.
        """
        state = self.rewritten.state
        offsets: dict[str, int] = {}
        end = 0
        for number in numbers:
            name = staged.names[number]
            if number not in state and name not in offsets:
                offsets[name] = end
                end += -(-staged.graph.tensors[number].size_bytes // ALIGNMENT) * ALIGNMENT
        self.region_bytes[region] = max(self.region_bytes[region], end)
        places = (
            state[number]
            if number in state
            else Place(region=region, offset=offsets[staged.names[number]])
            for number in numbers
        )
        return tuple(
            binding(self.rewritten, number, place)
            for number, place in zip(numbers, places, strict=True)
        )

    def _segment(
        self,
        staged: StagedRun,
        sources: dict[str, Place],
        results: dict[str, Place],
        constants: Mapping[str, bytes],
        timestamps: tuple[int, ...],
    ) -> Segment:
        """Return the segment to schedule for a run; its constants have no addresses yet."""
        sizes = _tensor_sizes(staged)
        sizes.update({name: len(values) for name, values in constants.items()})
        stages = tuple(stage for stages in staged.stages for stage in stages)
        between: dict[str, int] = {}
        for stage in stages:
            layout = stage.input_layout
            if layout.source is not None:
                assert stage.inputs[0] not in sizes
                sizes[stage.inputs[0]] = layout.rows * layout.row_bytes
                sources[stage.inputs[0]] = sources[layout.source]
            if stage.output not in sizes:
                # Between an operator's stages; several may write parts of it.
                end = max(stage.size, stage.output_layout.end)
                between[stage.output] = max(between.get(stage.output, 0), end)
        computed = [stage.computed for stage in stages if stage.computed is not None]
        between.update((weights.tensor, weights.nbytes) for weights in computed)
        sizes.update(between)
        used = {name for stage in stages for name in (*stage.inputs, stage.output)}
        return Segment(
            stages=stages,
            machine=self.job.machine,
            sizes={name: size for name, size in sizes.items() if name in used},
            sources=sources,
            results=_with_views(results, staged.views),
            views={name: (start, end) for name, (_output, start, end) in staged.views.items()},
            timestamps=_stage_timestamps(staged, timestamps),
            on_chip=frozenset(weights.tensor for weights in computed),
        )


def _places_by_name(
    staged: StagedRun, bindings: tuple[Binding, ...], numbers: tuple[int, ...]
) -> dict[str, Place]:
    """Return the place (region and offset) of each tensor in `numbers`, by its name in the run."""
    return {
        staged.names[number]: Place(region=binding.region, offset=binding.offset)
        for number, binding in zip(numbers, bindings, strict=True)
    }


def _tensor_constants(staged: StagedRun, names: Mapping[int, str]) -> dict[str, bytes]:
    """Return the bytes of constants that stages read as tensors, not as weights, by name.

    Constants of operators that broadcast are repeated to the shape of the result.
    """
    found: dict[str, bytes] = {}
    read = {name for stages in staged.stages for stage in stages for name in stage.inputs}
    for node in staged.run.nodes:
        for number in node.inputs:
            data = staged.graph.tensors[number].data
            name = source_name(staged.graph, node, number, names)
            if name in read and data is not None:
                wide = node.op in BROADCASTING
                shape = staged.graph.tensors[node.outputs[0]].shape if wide else data.shape
                found[name] = np.broadcast_to(data, shape).tobytes()
    return found


def _tensor_sizes(staged: StagedRun) -> dict[str, int]:
    """Return the size in bytes of each tensor of a run that is not constant.

    The key is the name of the tensor's root, which all tensors with the same bytes share.
    """
    sizes = {}
    for node in staged.run.nodes:
        for number in (*node.inputs, *node.outputs):
            tensor = staged.graph.tensors[number]
            if tensor.data is None:
                sizes[staged.names[number]] = tensor.size_bytes
    return sizes


def _stage_timestamps(staged: StagedRun, timestamps: tuple[int, ...]) -> tuple[int, ...]:
    """Return each stage's timestamp slot: its operator's for the last stage, else 0 (none)."""
    by_stage: list[int] = []
    for timestamp, stages in zip(timestamps, staged.stages, strict=True):
        by_stage.extend([0] * (len(stages) - 1) + [timestamp] * bool(stages))
    return tuple(by_stage)


def _with_views(results: dict[str, Place], views: Mapping[str, View]) -> dict[str, Place]:
    """Return places with larger tensors instead of the outputs that are part of them.

    `views` has these larger tensors, each with the output and its range of bytes. The engine stores
    only this range, at the output's address, so the larger tensor is placed where its first byte
    would be.
    """
    places = dict(results)
    for name, (output, start, _end) in views.items():
        place = places.pop(output)
        places[name] = replace(place, offset=place.offset - start)
    return places
