"""Checks that stages are legal after instruction selection and after each stage pass."""

from collections.abc import Iterable

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.arch.modes import MODES
from matloom.arch.softmax import EXPONENTIAL_BYTES, EXPONENTIALS
from matloom.ir.names import DERIVED
from matloom.select.constant import ConstantWeights
from matloom.select.errors import PhaseError
from matloom.select.loop_nest import MAX_TAPS
from matloom.select.operand import SharedTailWeights
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import ArrayStage, Stage, VectorStage
from matloom.select.two_parts import TwoPartWeights

#: Fields of EXEC that hold the loops and the steps of a loop nest.
_LOOPS = ("kernel_rows", "kernel_row_step", "kernel_cols", "kernel_col_step", "blocks")
_STEPS = ("x_step", "y_step", "oc_step")


def check_staged(staged: StagedRun, config: Config, phase: str) -> None:
    """Check a run between two passes; `phase` names the pass that ran last.

    Raises
    ------
    PhaseError
        A rule is broken; the message names the rule and the stage.
    """
    constants = (
        name
        for node in staged.run.nodes
        for number in node.inputs
        if staged.graph.tensors[number].data is not None
        for name in (staged.names[number],)
    )
    outside = {*constants, *(staged.names[number] for number in staged.run.consumed)}
    stages = [stage for group in staged.stages for stage in group]
    check_stages(stages, outside, config, phase)
    names = {*outside, *(stage.output for stage in stages)}
    views = {output for output, _start, _end in staged.views.values()}
    for number in staged.run.produced:
        name = staged.names[number]
        _require(name in names or name in views, phase, "the run", "make every result", name)
    for name, (_output, start, end) in staged.views.items():
        _require(name in names, phase, f"the view of {name}", "be of a tensor that is made", name)
        _require(0 <= start < end, phase, f"the view of {name}", "have bytes", (start, end))


def check_stages(
    stages: Iterable[Stage], outside: Iterable[str], config: Config, phase: str
) -> None:
    """Check stages in order; each may read the tensors in `outside` and those of earlier stages.

    Raises
    ------
    PhaseError
        A rule is broken; the message names the rule and the stage.
    """
    known, complete = set(outside), set[str]()
    for stage in stages:
        for name in stage.inputs:
            loaded = stage.input_layout.source is not None
            # A constant that is broadcast has a name of its own, derived from the tensor's.
            there = name in known or loaded or name.partition(DERIVED)[0] in known
            _require(there, phase, stage.name, "read a tensor that is made before", name)
        again = stage.output in complete
        _require(not again, phase, stage.name, "write no tensor that is complete", stage.output)
        if not stage.output_layout.shared:
            complete.add(stage.output)
        known.add(stage.output)
        _check_table(stage, config, phase)
        if isinstance(stage, ArrayStage):
            _check_array(stage, config, phase)
        else:
            _check_vector(stage, phase)


def _require(holds: bool, phase: str, thing: str, rule: str, value: object) -> None:
    """Raise `PhaseError` unless `holds`: in `phase`, `thing` must obey `rule`, but has `value`."""
    if not holds:
        raise PhaseError(f"{phase}: {thing} must {rule}, not {value}")


def _check_table(stage: Stage, config: Config, phase: str) -> None:
    """Check that the configuration supports a stage's lookup table, and that its size is right."""
    if stage.table is not None:
        shape = stage.table.shape
        built = config.softmax if stage.is_softmax else config.tables
        _require(built > 0, phase, stage.name, "have no table in this configuration", shape)
        if len(shape) > 1:
            tables = (shape[0], config.columns * config.has_channel_tables, 256)
            _require(shape == tables, phase, stage.name, f"have tables of shape {tables}", shape)
            return
        size = EXPONENTIALS * EXPONENTIAL_BYTES if stage.is_softmax else 256
        _require(shape == (size,), phase, stage.name, f"have a table of {size} bytes", shape)


def _check_array(stage: ArrayStage, config: Config, phase: str) -> None:
    """Check that shapes agree, each position is in one region, and fields can hold the loops."""
    name, nest = stage.name, stage.loop_nest
    _require(stage.mode in config.mac_modes, phase, name, "have a mode of the engine", stage.mode)
    steps = 1 if nest.weights_fixed else nest.steps
    tile_bytes = MODES[stage.mode].weight_tile_bytes(config)
    constant = stage.weights
    if isinstance(constant, SharedTailWeights):
        constant, steps = constant.whole, steps - 1
    if isinstance(constant, TwoPartWeights):
        constant = constant.first
    if isinstance(constant, ConstantWeights):
        shape = constant.tiles.shape
        # A step has one tile, or one for each row of a group (`select.grouped_rows`).
        expected = (stage.grid.blocks, steps, max(shape[-1] // tile_bytes, 1) * tile_bytes)
        _require(shape == expected, phase, name, f"have weights of shape {expected}", shape)
    blocks = stage.params.shape[0]
    _require(blocks == stage.grid.blocks, phase, name, "have parameters for each block", blocks)
    covered = np.zeros((stage.grid.rows, stage.grid.width), np.uint8)
    for region in stage.regions:
        covered[region.first_row : region.end_row, region.first_x : region.end_x] += 1
    once = bool((covered == 1).all())
    _require(once, phase, name, "have each output in one region", stage.regions)
    fields = nest.fields((0, 1), (0, 1), 0)
    if stage.loop_nest.is_long:
        fields["kernel_cols"] = MAX_TAPS
    for field in (*_LOOPS, *_STEPS):
        limit, value = largest(Opcode.EXEC, field), fields.get(field, 0)
        _require(0 <= value <= limit, phase, name, f"have {field} up to {limit}", value)


def _check_vector(stage: VectorStage, phase: str) -> None:
    """Check that an element-wise stage makes whole elements and reads only its own inputs."""
    rest = stage.size % stage.element_bytes
    _require(stage.size > 0 and not rest, phase, stage.name, "make whole elements", stage.size)
    period = stage.period
    repeats = not period or stage.size % period == 0
    _require(repeats, phase, stage.name, "have a period that divides its bytes", period)
    read = {at for at, _fields in stage.posts if at is not None} | set(stage.repeated)
    known = read <= set(range(len(stage.inputs)))
    _require(known, phase, stage.name, "have POSTs that read its inputs", sorted(read))
