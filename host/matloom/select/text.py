"""Stages as text, for people."""

from collections.abc import Iterable, Mapping

from matloom.select.partition import EngineRun, HostRun
from matloom.select.stage import ArrayStage, Stage

__all__ = ["run_lines", "stage_line"]


def stage_line(stage: Stage) -> str:
    """Return a line on a stage: what it reads and makes, and how."""
    flow = f"{stage.name}: {stage.output} = {', '.join(stage.inputs)}"
    if isinstance(stage, ArrayStage):
        return f"{flow}; {_array(stage)}"
    posts = f"{len(stage.posts)} POSTs over {stage.size} bytes"
    return f"{flow}; {posts}{_table(stage)}"


def _array(stage: ArrayStage) -> str:
    """Return how a stage uses the array."""
    kind = type(stage.loop_nest).__name__
    grid = stage.grid
    shape = f"{grid.images} x {grid.rows} x {grid.width} x {grid.position_bytes} bytes"
    text = (
        f"{kind} of {stage.loop_nest.steps} steps, {grid.blocks} output blocks, "
        f"{shape}, {stage.mode}, {stage.weights.nbytes} bytes of weights"
    )
    for verb, layout in (("makes", stage.output_layout), ("reads", stage.input_layout)):
        text += f", {verb} {layout.text}" if layout.text else ""
    return text + _table(stage)


def _table(stage: Stage) -> str:
    return "" if stage.table is None else ", looked up in a table"


def run_lines(run: EngineRun | HostRun, names: Mapping[int, str]) -> Iterable[str]:
    """Yield lines on a run: what enters and leaves it, its operators, and the stages of each."""
    if isinstance(run, HostRun):
        yield f"host: {names[run.node.outputs[0]]} = {run.node.op}; {run.reason}"
        return
    entering, leaving = (
        ", ".join(names[number] for number in numbers) for numbers in (run.consumed, run.produced)
    )
    yield f"engine: {leaving} from {entering}"
    for node, stages in zip(run.nodes, run.stages, strict=True):
        yield f"  {node.index} {node.op} {names[node.outputs[0]]}" + ("" if stages else ": nothing")
        for stage in stages:
            yield f"    {stage_line(stage)}"
