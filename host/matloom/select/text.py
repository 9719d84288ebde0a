"""Descriptions of stages as text, for people."""

from collections.abc import Iterable, Mapping

from matloom.select.partition import EngineRun, HostRun
from matloom.select.stage import Stage


def stage_line(stage: Stage) -> str:
    """Return a line that describes a stage: inputs, output, and how it runs."""
    flow = f"{stage.name}: {stage.output} = {', '.join(stage.inputs)}"
    looks_up = "" if stage.table is None or stage.is_softmax else ", looked up in a table"
    return f"{flow}; {stage.text}{looks_up}"


def run_lines(run: EngineRun | HostRun, names: Mapping[int, str]) -> Iterable[str]:
    """Yield lines of text on a run: tensors that enter and leave, operators, and their stages."""
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
