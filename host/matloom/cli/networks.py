"""Verbs of a network: run, compile, disasm, explain, precision, profile, compare."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from matloom.cli.group import cli
from matloom.cli.options import (
    DEVICE,
    NETWORK,
    Compilation,
    Target,
    compilation,
    console,
    require_place,
    target,
)


@cli.command()
@NETWORK
@click.option("--input", "source", type=click.Path(path_type=Path), required=True)
@click.option("--output", type=click.Path(path_type=Path), required=True)
@target
@compilation()
@click.option("--report", type=click.Path(path_type=Path), help="Write cycles and layers as JSON.")
def run(
    network: Path,
    source: Path,
    output: Path,
    target: Target,
    how: Compilation,
    report: Path | None,
) -> None:
    """Run NET (.tflite or .mloom) on the arrays of an .npz file, named like its inputs."""
    import numpy as np

    from matloom.program.samples import require_inputs
    from matloom.runtime import load
    from matloom.tools.arrays import read_arrays

    for option, path in (("--output", output), ("--report", report), ("--waves", target.waves)):
        require_place(option, path)
    inputs = read_arrays("--input", source)
    options = _device_options(target, how.memory)
    program = _program(network, _for_device(network, how, target.device))
    # Before the device is opened: the first time, building the simulator takes minutes.
    require_inputs(program, inputs)
    with load(program, device=target.device, **options) as session:
        outputs = session.run(inputs)
        made = session.report()
    with output.open("wb") as stream:
        np.savez(stream, **outputs)
    if report is not None:
        report.write_text(made.to_json())
    click.echo(f"{made.cycles:,} cycles ({made.cycles_source}), utilisation {made.utilisation:.3f}")
    if made.ran_on not in ("", made.memory):
        click.echo(f"predicted for memory {made.memory}, ran on {made.ran_on}")


def _for_device(network: Path, how: Compilation, device: str) -> Compilation:
    """Return how to compile a network: for the memory of the board where nobody names one."""
    from matloom.device.open import device_memory

    if how.memory is not None or network.suffix == ".mloom" or not device.startswith("uart:"):
        return how
    return replace(how, memory=device_memory(device))


def _device_options(target: Target, memory: Any) -> dict[str, Any]:
    """Return what a device is opened with; raise `ValueError` for what the model has not."""
    from matloom.device.open import SIMULATED

    for option, given in (("--waves", target.waves), ("--check-bus", target.check_bus)):
        if given and target.device not in SIMULATED:
            raise ValueError(f"{option} must go with device rtl, not {target.device!r}")
    options: dict[str, Any] = {} if target.waves is None else {"waves": target.waves}
    if target.check_bus:
        options["check_bus"] = True
    if memory is not None and target.device in SIMULATED:
        options["memory"] = memory
    return options


def _is_default(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.DEFAULT


def _modes(network: Path, how: Compilation) -> dict[str, str] | None:
    """Return the table of modes by layer; None where none is given."""
    if how.precision and network.suffix == ".mloom":
        raise ValueError(f"--precision must go with a network, not the program {str(network)!r}")
    for item in how.precision:
        if item.startswith("="):
            raise ValueError(f"--precision must be [LAYER=]MODE, not {item!r}")
    pairs = (item.rpartition("=") for item in how.precision)
    return {layer or "*": mode for layer, _, mode in pairs} or None


@cli.command("compile")
@NETWORK
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The program file.")
@click.option(
    "--stop-after",
    "stop",
    metavar="PHASE",
    help="Print what a phase makes, and write no program: read, formats, passes, select, rewrite, "
    "bind, search, tile, order, allocate, emit or assemble.",
)
@click.option(
    "--emit",
    type=click.Choice(["c", "soc"]),
    help="Instead of a program file: c, a .c file and its header for a firmware to link; soc, an "
    "image for a system on chip, which then runs the network alone (docs/firmware.md).",
)
@compilation()
def compile_verb(
    network: Path, output: Path | None, stop: str | None, emit: str | None, how: Compilation
) -> None:
    """Compile NET into a program file (.mloom), or print what a phase makes of it."""
    from matloom.tools.emit_c import write_c
    from matloom.tools.soc_app import network_image

    if (output is None) == (stop is None):
        raise click.UsageError("either --output or --stop-after must be given")
    if output is None:
        if how.check is not None:
            raise ValueError("--check must go with --output, not with --stop-after")
        click.echo(_described(network, how, str(stop), "--stop-after"))
        return
    require_place("--output", output)
    program = _compiled(network, how)
    if emit == "c":
        write_c(program, output)
    elif emit == "soc":
        output.write_bytes(network_image(program))
    else:
        program.save(output)
    click.echo(f"{output}: {program.predicted_cycles:,} cycles predicted")


def _described(network: Path, how: Compilation, stop: str, option: str) -> str:
    """Return what the phases up to one make of a network; nothing of it is checked.

    Raises `ValueError` with the option that asks for it where there is no network.
    """
    from matloom.arch.config import load_config
    from matloom.arch.memory import load_memory
    from matloom.compiler import CompileOptions, Job
    from matloom.compiler.describe import describe
    from matloom.terminal.progress import progress

    if network.suffix == ".mloom":
        raise ValueError(f"{option} must go with a network, not the program {str(network)!r}")
    options = CompileOptions(effort=how.effort, memory=load_memory(how.memory))
    config = load_config(how.config)
    job = Job(config=config, options=options, precision=_modes(network, how))
    with progress(f"compiling {network.name} for {how.config}"):
        return describe(network, job, stop)


def _compiled(network: Path, how: Compilation) -> Any:
    """Compile a network, saying so where it takes long."""
    from matloom.compiler import CompileOptions
    from matloom.runtime import compile
    from matloom.terminal.progress import progress

    options, modes = CompileOptions(effort=how.effort), _modes(network, how)
    with progress(f"compiling {network.name} for {how.config}"):
        return compile(network, how.config, options, modes, how.check, how.memory)


def _program(network: Path, how: Compilation) -> Any:
    """Return a program that is loaded, or a network's."""
    from matloom.arch.config import load_config
    from matloom.program import Program

    if network.suffix != ".mloom":
        return _compiled(network, how)
    _modes(network, how)
    if how.check is not None:
        raise ValueError(f"--check must go with a network, not the program {str(network)!r}")
    program = Program.load(network)
    if not _is_default("config"):
        program.require(load_config(how.config))
    return program


@cli.command()
@NETWORK
@compilation("config", "check")
def disasm(network: Path, how: Compilation) -> None:
    """List the instructions of a program file, or of NET compiled."""
    from matloom.program.disassemble import disassemble

    click.echo(disassemble(_program(network, how)))


@cli.command()
@NETWORK
@click.option(
    "--candidates",
    is_flag=True,
    help="Also list every schedule that was tried, its predicted cycles, and why it was dropped.",
)
@compilation()
def explain(network: Path, how: Compilation, candidates: bool) -> None:
    """Say for each operator where it runs, why, and what it costs."""
    from matloom.tools.explain import explain as sentences

    tried = _described(network, how, "search", "--candidates") if candidates else None
    if how.memory is not None and network.suffix == ".mloom":
        raise ValueError(f"--memory must go with a network, not the program {str(network)!r}")
    for item in sentences(_program(network, how)):
        console().print(item)
    if tried is not None:
        click.echo(tried)


@cli.command("precision")
@NETWORK
@click.option("--input", "source", type=click.Path(path_type=Path), help="An .npz as for run.")
@click.option("--labels", metavar="NAME", help="The array of the .npz that holds labels.")
@click.option("--by-layer", is_flag=True, help="Also run with each layer alone in its mode.")
@click.option("--report", type=click.Path(path_type=Path), help="Write it as JSON.")
@compilation("config", "precision")
def precision_verb(
    network: Path,
    source: Path | None,
    labels: str | None,
    by_layer: bool,
    report: Path | None,
    how: Compilation,
) -> None:
    """Say what --precision changes in NET: weights, cycles, and what it makes of inputs."""
    from matloom.tools.arrays import read_arrays
    from matloom.tools.precision import precision_report

    require_place("--report", report)
    modes = _modes(network, how)
    if modes is None:
        raise ValueError("--precision must be given")
    if source is None and (labels is not None or by_layer):
        raise ValueError("--labels and --by-layer must go with an --input")
    arrays = {} if source is None else read_arrays("--input", source)
    if labels is not None and labels not in arrays:
        raise ValueError(f"--labels must be one of {', '.join(arrays)}, not {labels!r}")
    wanted = None if labels is None else arrays.pop(labels)
    made = precision_report(network, modes, arrays or None, wanted, how.config, by_layer=by_layer)
    if report is not None:
        report.write_text(made.to_json())
    for item in (made.table(), *made.sentences()):
        console().print(item)


@cli.command()
@NETWORK
@DEVICE
@compilation("config", "precision", "check", "effort")
def profile(network: Path, device: str, how: Compilation) -> None:
    """Run NET once on random inputs and show cycles by layer and by cause."""
    import numpy as np

    from matloom.runtime import load

    with load(_program(network, _for_device(network, how, device)), device=device) as session:
        noise = np.random.default_rng(0)
        inputs = {}
        for info in session.program.inputs:
            dtype = np.dtype(info.dtype)
            values = noise.integers(-128, 128, info.shape)
            inputs[info.name] = values.astype(dtype)
        session.run(inputs)
        made = session.report()
    for item in (made.table(), *made.lines()):
        console().print(item)


@cli.command()
@NETWORK
def compare(network: Path) -> None:
    """Compare NET with TensorFlow Lite Micro, tensor by tensor; exit status 1 where they differ."""
    from matloom.tools.compare import compare as compare_with_tflm

    comparison = compare_with_tflm(network)
    click.echo(str(comparison))
    sys.exit(0 if comparison.equal else 1)
