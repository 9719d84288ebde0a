"""Finds tiles that can never fit, to avoid making plans that must fail."""

from matloom.schedule.plan import OutOfScratchpad, Plan
from matloom.schedule.segment import Segment


def oversized_stages(segment: Segment, plan: Plan) -> list[OutOfScratchpad]:
    """Return a failure for each stage with a tile that cannot fit next to the tensors on chip."""
    spans, kinds = plan.order.spans, ("weights", "input tile", "output tile")
    tensor_buffers = list({id(item): item for item in plan.tensor_buffers.values()}.values())
    failures = []
    for index, (stage, (begin, end)) in enumerate(zip(segment.stages, spans, strict=True)):
        # The addend of an array stage is as large as its results, which are counted already.
        streamed = set(stage.streamed_inputs) - stage.repeated_inputs
        tiled_inputs = len(streamed - plan.tensor_buffers.keys())
        staged = stage.output in plan.params.spilled
        others = sum(
            tensor_buffer.size
            for tensor_buffer in tensor_buffers
            if tensor_buffer.first <= begin and end <= tensor_buffer.last
        )
        needs = plan.tilings[index].max_tile_bytes(tiled_inputs, staged=staged)
        for kind, size in zip(kinds, needs, strict=True):
            if others + size > segment.config.spad_bytes:
                failures.append(OutOfScratchpad(slot=begin, stage=index, kind=kind, size=size))
                break
    return failures
