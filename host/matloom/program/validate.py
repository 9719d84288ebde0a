"""Rules on how the records of a Program fit together."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from matloom.arch.isa import INSTRUCTION_WORD_BYTES, Region
from matloom.arch.program_file import (
    ALIGNMENT,
    CHECKS,
    CONSTANT_ALIGNMENT,
    DTYPES,
    PLACES,
    REGION_LIMIT,
    TENSOR_LIMIT,
    TENSORS_LIMIT,
)
from matloom.ir.graph import Graph, Tensor
from matloom.program.contents import Contents
from matloom.program.errors import ProgramError
from matloom.program.host_steps import check_host_step
from matloom.program.node import require_valid, tensors_by_name
from matloom.program.preprocessing import check_preprocessing
from matloom.program.records import (
    Binding,
    EngineStep,
    HostConstant,
    LayerInfo,
    Repeat,
    TensorInfo,
)
from matloom.program.variables import check_variables

_BYTES = {dtype: int("".join(filter(str.isdigit, dtype)) or 8) // 8 for dtype in DTYPES}


def validate(program: Contents) -> None:
    """Check everything except the instructions, which `verify_program` checks.

    Raises
    ------
    ProgramError
        A rule is broken; the message names the part, the rule and the value.
    """
    _check_names("tensor", (info.key for info in program.tensors))
    _check_names("constant", (constant.name for constant in program.constants))
    _check_sizes(program)
    _check_regions(program)
    check_variables(program)
    _check_order(program)
    tensors = _checked_tensors(program)
    for number, step in enumerate(program.steps):
        if isinstance(step, EngineStep):
            _check_engine_step(number, step, program)
        else:
            check_host_step(number, step, tensors)
    for layer in program.layers:
        _check_layer(layer, program)
    check_preprocessing(program)
    verdict = program.verdict
    if verdict is not None and verdict.mode not in CHECKS:
        raise ProgramError(f"a verdict must be of {', '.join(CHECKS)}, not {verdict.mode!r}")


def _check_names(subject: str, names: Iterable[str]) -> None:
    """Raise `ProgramError` if a name occurs twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise ProgramError(f"{subject} names must differ, but {name!r} occurs twice")
        seen.add(name)


def _checked_size(subject: str, item: TensorInfo | HostConstant) -> int:
    """Return the size in bytes of a tensor or constant; raise `ProgramError` if it is illegal."""
    if item.dtype not in DTYPES:
        raise ProgramError(f"{subject} {item.name!r} must be of a known type, not {item.dtype!r}")
    if any(length < 0 for length in item.shape):
        raise ProgramError(
            f"{subject} {item.name!r} must have dimensions of at least 0, not {item.shape}"
        )
    size = math.prod(item.shape) * _BYTES[item.dtype]
    if size > TENSOR_LIMIT:
        raise ProgramError(
            f"{subject} {item.name!r} must have at most {TENSOR_LIMIT} bytes, not {size}"
        )
    return size


def _check_sizes(program: Contents) -> None:
    """Check the sizes of tensors and constants, and the alignment of constants."""
    total = sum(_checked_size("tensor", info) for info in program.tensors)
    if total > TENSORS_LIMIT:
        raise ProgramError(f"all tensors must have at most {TENSORS_LIMIT} bytes, not {total}")
    for constant in program.constants:
        _checked_size("constant", constant)
        if constant.offset % CONSTANT_ALIGNMENT:
            raise ProgramError(
                f"constant {constant.name!r} must begin at a multiple of {CONSTANT_ALIGNMENT}, "
                f"not {constant.offset}"
            )
        if not constant.scales and (constant.zero_points or constant.axis is not None):
            raise ProgramError(f"constant {constant.name!r} must have scales for its zero points")


def _check_regions(program: Contents) -> None:
    """Check the sizes of the regions of external memory against image, inputs and outputs."""
    sizes = {region: program.region_bytes.get(region, 0) for region in Region}
    total = sum(sizes.values())
    if total > REGION_LIMIT:
        raise ProgramError(f"all regions must have at most {REGION_LIMIT} bytes, not {total}")
    if sizes[Region.PROGRAM] != len(program.image):
        raise ProgramError(
            f"region PROGRAM must have the image's {len(program.image)} bytes, "
            f"not {sizes[Region.PROGRAM]}"
        )
    ends = {Region.INPUT: 0, Region.OUTPUT: 0}
    for step in program.steps:
        if isinstance(step, EngineStep):
            for region, side in ((Region.INPUT, step.inputs), (Region.OUTPUT, step.outputs)):
                found = (
                    _binding_end(item, region) for item in side if item.region is not Region.ARENA
                )
                ends[region] = max(ends[region], *found, 0)
    for region, end in ends.items():
        most = -(-end // ALIGNMENT) * ALIGNMENT
        if not end <= sizes[region] <= most:
            raise ProgramError(
                f"region {region.name} must have {end} to {most} bytes for its tensors, "
                f"not {sizes[region]}"
            )


def _binding_end(binding: Binding, region: Region) -> int:
    """Return the end of a tensor in its region; raise `ProgramError` for a bad region or offset."""
    name = f"the binding of {binding.name!r}"
    if binding.region is not region:
        raise ProgramError(f"{name} must be in region {region.name}, not {binding.region.name}")
    if binding.offset < 0 or binding.offset % ALIGNMENT:
        raise ProgramError(
            f"{name} must have an offset that is a multiple of {ALIGNMENT}, not {binding.offset}"
        )
    return binding.offset + math.prod(binding.shape) * _BYTES[binding.dtype]


def _checked_tensors(program: Contents) -> dict[str, Tensor]:
    """Return tensors and constants by key or name, after checking each."""
    infos = {info.key: info for info in program.tensors}
    for constant in program.constants:
        info = infos.get(constant.name, constant)
        if (info.shape, info.dtype) != (constant.shape, constant.dtype):
            raise ProgramError(f"constant {constant.name!r} must be as the tensor of its name")
    tensors = tensors_by_name(program)
    numbered = dict(enumerate(tensors.values()))
    require_valid("a program", Graph(name="", inputs=(), outputs=(), tensors=numbered, nodes=()))
    return tensors


def _check_order(program: Contents) -> None:
    """Check that steps read only what exists, and that no tensor is made or provided twice.

    The outputs of the program must exist, too.
    """
    infos = {info.key: info for info in program.tensors}
    for what, side in (("input", program.inputs), ("output", program.outputs)):
        _check_names(what, (info.name for info in side))
        for info in side:
            if infos.get(info.key) != info:
                raise ProgramError(f"{what} {info.name!r} must be one of the program's tensors")
    known = {constant.name for constant in program.constants}
    _add_provided("an input", (info.key for info in program.inputs), known)
    _add_provided("a variable", (variable.before for variable in program.variables), known)
    for number, step in enumerate(program.steps):
        for item in step.inputs:
            name = item.name if isinstance(item, Binding) else item
            if name not in known:
                raise ProgramError(
                    f"step {number} must read an input or an earlier result, not {name!r}"
                )
        written = (item.name if isinstance(item, Binding) else item for item in step.outputs)
        _add_provided(f"step {number}", written, known)
    ends = [("output", info.key) for info in program.outputs]
    ends += [("variable", variable.after) for variable in program.variables]
    for what, name in ends:
        if name not in known:
            raise ProgramError(f"{what} {name!r} must be made by a step")


def _add_provided(subject: str, names: Iterable[str], provided: set[str]) -> None:
    """Add names to `provided`, those of earlier steps; raise `ProgramError` if one is there."""
    for name in names:
        if name in provided:
            raise ProgramError(f"{subject} must not provide {name!r} again")
        provided.add(name)


def _check_engine_step(number: int, step: EngineStep, program: Contents) -> None:
    """Check engine step `number`: its tensors, its commands, and its repetition, if any."""
    name = f"step {number} (engine)"
    infos = {info.key: info for info in program.tensors}
    for side in (step.inputs, step.outputs):
        for item in side:
            info = infos.get(item.name)
            if info is None or (info.shape, info.dtype) != (item.shape, item.dtype):
                raise ProgramError(f"{name} must bind one of the program's tensors: {item.name!r}")
        _check_overlaps(name, side)
    _check_commands(name, step, program)
    if step.repeat is not None:
        _check_commands(f"{name}: the repetition", step.repeat, program)
        end = 0
        for first, last in step.repeat.kept:
            if not end <= first < last <= program.config.spad_bytes:
                raise ProgramError(
                    f"{name}: kept bytes must lie in {end} .. {program.config.spad_bytes}, "
                    f"not {first} .. {last}"
                )
            end = last


def _check_overlaps(name: str, side: Sequence[Binding]) -> None:
    """Check that tensors on one side of a step, inputs or outputs, share all their bytes or none.

    A tensor and its reshape share bytes. Variables are checked separately.
    """
    spans = sorted(
        (item.offset, _binding_end(item, item.region), item.name)
        for item in side
        if item.region is not Region.ARENA
    )
    for (start, end, first), (begin, last, second) in pairwise(spans):
        if begin < end and (start, end) != (begin, last):
            raise ProgramError(
                f"{name}: bindings must share all bytes or none, unlike {first!r} and {second!r}"
            )


def _check_commands(name: str, buffer: EngineStep | Repeat, program: Contents) -> None:
    """Check that commands lie within the image, at whole instruction words."""
    for field in ("command_offset", "command_bytes"):
        value = getattr(buffer, field)
        if value % INSTRUCTION_WORD_BYTES:
            raise ProgramError(
                f"{name}: {field} must be a multiple of {INSTRUCTION_WORD_BYTES}, not {value}"
            )
    end = buffer.command_offset + buffer.command_bytes
    if buffer.command_bytes < INSTRUCTION_WORD_BYTES or not 0 <= buffer.command_offset < end:
        raise ProgramError(f"{name} must have commands, not {buffer.command_bytes} bytes")
    if end > len(program.image):
        raise ProgramError(
            f"{name}: commands must end within the image's {len(program.image)} bytes, not at {end}"
        )


def _check_layer(layer: LayerInfo, program: Contents) -> None:
    """Check where an operator runs, its timestamp slot and its modes."""
    name = f"layer {layer.name!r}"
    if layer.where not in PLACES:
        raise ProgramError(f"{name} must run at one of {', '.join(PLACES)}, not {layer.where!r}")
    if not 0 <= layer.timestamp <= program.config.last_timestamp:
        raise ProgramError(
            f"{name} must have a timestamp slot of 0 to {program.config.last_timestamp}, "
            f"not {layer.timestamp}"
        )
    for mode in layer.mode.split(", ") if layer.mode else ():
        if mode not in program.config.mac_modes:
            raise ProgramError(
                f"{name} must have modes of {', '.join(program.config.mac_modes)}, not {mode!r}"
            )
