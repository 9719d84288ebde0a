"""Loads a network, compiles it, and runs it on a device."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from matloom import frontend
from matloom.arch.config import Config, load_config
from matloom.arch.memory import REFERENCE_MEMORY, Memory, load_memory
from matloom.compiler import CompileOptions, compile_network
from matloom.device.driver import Driver
from matloom.device.open import SIMULATED, device_memory, memory_size_for, open_device
from matloom.errors import UserTypeError, did_you_mean
from matloom.frontend.readers import Source
from matloom.frontend.source import bytes_of, is_program
from matloom.ir.graph import Graph
from matloom.passes.choose_modes import Precision
from matloom.pre import Preprocessing, attach
from matloom.program import Program
from matloom.session import Session

__all__ = ["Session", "compile", "load"]

#: Shapes that replace those of the model file, by the name of the input.
Shapes = Mapping[str, Sequence[int]]
#: Sizes of an ONNX file's named dimensions, by name.
Dims = Mapping[str, int]
#: Preprocessing for the only input, or a mapping from the names of inputs to their preprocessing.
Preprocess = Preprocessing | Mapping[str, Preprocessing]


def compile(
    model: Source | Graph,
    config: Config | str | Path = "reference",
    options: CompileOptions | None = None,
    precision: Precision | None = None,
    check: str | None = None,
    memory: Memory | str | Path | None = None,
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    *,
    exact: bool = False,
    preprocess: Preprocess | None = None,
) -> Program:
    """Return a network compiled for a configuration and a memory.

    `model` is a model file (its path, bytes or name), a program from torch.export, or a graph.

    `memory` is the memory on the bus, whose speed the predicted cycles and the schedule depend on:
    a name in `matloom.arch.memory.MEMORIES`, the name of a board, a JSON file or a Memory. None
    means the memory in `options`, or else the reference memory.

    `precision` applies to all convolutions and dense layers that support it, or maps the names of
    their outputs to precisions, with ``*`` for all others. ``"bf16"`` and ``"fp16"`` apply to
    float32 layers: inputs and weights are rounded, sums stay fp32. ``"i8xi4"`` applies to int8
    layers, whose weights are reduced to four bits; `matloom.precision_report` measures the effect.

    Before it is returned, the program runs on the functional model and its results are compared
    with the operators' definitions. `check` selects how much is compared: ``"full"``, ``"sample"``
    (all of a network of up to 20 million multiply-accumulates, a part of a larger one) or
    ``"none"``; by default it is the environment variable `MATLOOM_CHECK`, or else ``"sample"``.

    `shapes` overrides the shapes of inputs by name, for networks of unknown height and width:
    ``{"image": (1, 96, 96, 3)}``. `dims` gives sizes to the named dimensions of an ONNX file:
    ``{"batch": 1}``.

    `exact` keeps a layer of an ONNX file in ONNX Runtime if the engine's results could differ;
    otherwise it runs on the engine, and `Program.layers` says how many results can differ. Programs
    of TensorFlow Lite files are always exact.

    `preprocess`, from `matloom.pre`, turns raw data into the only input; a mapping by name does so
    for several inputs. `Session.run` then takes images or waveforms. The program file stores it.

    Raises
    ------
    ModelError
        The file is not a model, is damaged, or its inputs cannot have these `shapes`.
    InterpreterError
        Neither the engine, the host nor a reference interpreter can run an operator.
    CompileError
        The operators of one command buffer fit the scratchpad individually, but not in sequence.
    """
    if isinstance(model, Graph) and (shapes or dims):
        argument = "shapes" if shapes else "dims"
        raise UserTypeError(
            f"{argument} must go with a file, not the graph {model.name!r}",
            hint="give the graph its sizes when it is read: matloom.frontend.load",
        )
    _memory_of(options)  # Which checks them.
    graph = model if isinstance(model, Graph) else frontend.load(model, shapes, dims, exact=exact)
    if memory is not None:
        options = replace(options or CompileOptions(), memory=load_memory(memory))
    program = compile_network(graph, load_config(config), options, precision, check)
    return attach(program, preprocess)


def load(
    model: Source | Graph | Program,
    device: str | Driver = "rtl",
    config: Config | str | Path | None = None,
    options: CompileOptions | None = None,
    precision: Precision | None = None,
    check: str | None = None,
    memory: Memory | str | Path | None = None,
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    exact: bool = False,
    preprocess: Preprocess | None = None,
    **device_options: Any,
) -> "Session":
    """Compile a network, open a device, and return a session on it.

    Parameters
    ----------
    model:
        A ``.tflite``, ``.onnx`` or ``.mloom`` file, its bytes, ``"digits"`` (comes with Matloom), a
        program from torch.export, a graph or a compiled program.
    device:
        The name of a device, as for `open_device`, or an open driver.
    config:
        A preset, a JSON file or a Config. None means the configuration of a compiled program, and
        ``"reference"`` for a network.
    options, precision, check, shapes, dims, exact:
        Passed to `compile`; not allowed with a compiled program.
    memory:
        Memory to compile for, as for `compile`, and to simulate. With a compiled program it only
        applies to the simulated device; None means the memory the program was compiled for. For a
        network, None means the memory of the board or of the open driver.
    preprocess:
        Passed to `compile`; with a compiled program it replaces the program's own.
    device_options:
        Passed to `open_device`. By default, the memory is as large as the network needs.
    """
    _require_known(device_options)
    model = bytes_of(model)
    if isinstance(model, str | Path | bytes) and is_program(model):
        model = Program.from_bytes(model) if isinstance(model, bytes) else Program.load(model)
    if isinstance(model, Program):
        program = model
        compiling: dict[str, Any] = {"options": options, "precision": precision, "check": check}
        compiling |= {"shapes": shapes, "dims": dims, "exact": exact or None}
        _require_none(compiling, program)
        if config is not None:
            program.require(load_config(config))
    else:
        chosen = "reference" if config is None else config
        if memory is None and _memory_of(options) == REFERENCE_MEMORY:
            memory = device_memory(device)
        program = compile(
            model, chosen, options, precision, check, memory, shapes, dims, exact=exact
        )
    program = attach(program, preprocess)
    if isinstance(device, Driver):
        _require_no_options(device_options)
        return Session(program, device, type(device.transport).__name__)
    needed = memory_size_for(program.memory_bytes)
    if device in SIMULATED and "timing" not in device_options:
        device_options["memory"] = program.memory if memory is None else memory
    return _open(program, device, **{"memory_bytes": needed, **device_options})


def _require_no_options(options: Mapping[str, Any]) -> None:
    """Raise `UserTypeError` if options of a device were given with a driver that is open."""
    if options:
        raise UserTypeError(
            f"{', '.join(options)} must not be given with an open driver",
            hint="pass them to open_device, or name a device instead",
        )


def _require_none(compiling: Mapping[str, Any], program: Program) -> None:
    """Raise `UserTypeError` if an argument of `compile` was given with a compiled program."""
    for name, value in compiling.items():
        if value is not None:
            raise UserTypeError(
                f"{name} must go with a network, not the program {program.name!r}",
                hint="leave it out, or pass the network that the program was compiled from",
            )


def _memory_of(options: CompileOptions | None) -> Memory:
    """Return the memory that options ask for; raise `UserTypeError` for other objects."""
    chosen = CompileOptions() if options is None else options
    if not isinstance(chosen, CompileOptions):
        raise UserTypeError(
            f"options must be a CompileOptions, not {type(options).__name__}",
            hint="write options=matloom.schedule.CompileOptions(effort=2)",
        )
    return chosen.memory


def _require_known(options: Mapping[str, Any]) -> None:
    """Raise `UserTypeError` for arguments that neither `load` nor `open_device` accepts."""
    known = [*signature(load).parameters][:-1] + [*signature(open_device).parameters][2:]
    for name in options:
        if name not in known:
            raise UserTypeError(f"load has no argument {name!r}", hint=did_you_mean(name, known))


def _open(program: Program, device: str, **options: Any) -> Session:
    """Open a device and return a session on it; close the device again if that fails."""
    driver = open_device(device, program.config, **options)
    try:
        return Session(program, driver, device, owns_device=True)
    except BaseException:
        driver.close()
        raise
