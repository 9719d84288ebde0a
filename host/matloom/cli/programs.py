"""Commands for programs: compile, disasm; and compilation of the network of a command line."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from matloom.cli.group import cli
from matloom.cli.network_argument import NETWORK, is_program
from matloom.cli.options import Compilation, compilation
from matloom.cli.places import name_in_errors, require_writable
from matloom.cli.say import say, say_text
from matloom.errors import UserError

if TYPE_CHECKING:
    from matloom.program import Program

#: Hint if a compiled program would have to be changed.
SOURCE = "give the model file that it was compiled from"


def _is_default(name: str) -> bool:
    """Return whether an option of the current command has its default value."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.DEFAULT


def modes_by_layer(network: Path, options: Compilation) -> dict[str, str] | None:
    """Return the modes of --precision by layer name, ``*`` for all others; None if not given.

    Raises `UserError` if `network` is a compiled program, or an option has no layer before ``=``.
    """
    if options.precision and is_program(network):
        raise UserError(
            f"--precision must go with a network, not the program {str(network)!r}", hint=SOURCE
        )
    for item in options.precision:
        if item.startswith("="):
            raise UserError(
                f"--precision must be [LAYER=]MODE, not {item!r}",
                hint="name a layer before =, or write the mode alone for all of them",
            )
    pairs = (item.rpartition("=") for item in options.precision)
    return {layer or "*": mode for layer, _, mode in pairs} or None


@cli.command(
    "compile",
    examples=(
        "matloom compile net.tflite -o net.mloom --config small",
        "matloom compile net.tflite -o net.mloom --memory ulx3s-85f --effort 2",
        "matloom compile net.tflite -o net.c --emit c",
        "matloom compile digits --stop-after search",
    ),
)
@NETWORK
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The program file.")
@click.option(
    "--stop-after",
    "stop",
    metavar="PHASE",
    help="Print the result of a compiler phase, and write no program: read, formats, passes, "
    "select, rewrite, bind, search, tile, order, assign_buffers, prefetch, allocate, emit or "
    "assemble.",
)
@click.option(
    "--emit",
    type=click.Choice(["c", "soc"]),
    help="Instead of a program file: c, a .c file and its header for a firmware to link; soc, an "
    "image for a system on chip, which then runs the network alone (docs/firmware.md).",
)
@compilation()
def compile_command(
    network: Path, output: Path | None, stop: str | None, emit: str | None, options: Compilation
) -> None:
    """Compile NET into a program file (.mloom) or C source.

    With --stop-after it prints the result of a compiler phase instead.
    """
    from matloom.toolchain.firmware import linked_sources

    if (output is None) == (stop is None):
        both = "" if output is None else ", not both"
        raise click.UsageError(f"either --output or --stop-after must be given{both}")
    if output is None:
        if options.check is not None:
            raise UserError(
                "--check must go with --output, not with --stop-after",
                hint="leave --check out: only programs that are written are checked",
            )
        if emit is not None:
            raise UserError(
                "--emit must go with --output, not with --stop-after",
                hint="leave --stop-after out to write files",
            )
        say_text(describe_phases(network, options, str(stop), "--stop-after"))
        return
    require_writable("--output", output)
    if output.suffix == ".c" and emit is None:
        raise UserError(
            f"--output must be a program file (.mloom) without --emit c, not {output.name!r}",
            hint="add --emit c to write C source",
        )
    program = _compile(network, options)
    _write(program, output, emit)
    say(f"{output}: {program.predicted_cycles:,} cycles predicted")
    if emit == "c":
        say(f"link: {output.name} {' '.join(linked_sources())}")
        say("matloom firmware writes these files, too")


def _write(program: "Program", output: Path, emit: str | None) -> None:
    """Write a program to `output`: as a file, as C (`emit` is "c"), or for an SoC ("soc")."""
    from matloom.tools.emit_c import write_c
    from matloom.tools.soc_app import network_image

    with name_in_errors(output):
        if emit == "c":
            write_c(program, output)
        elif emit == "soc":
            output.write_bytes(network_image(program))
        else:
            program.save(output)


def describe_phases(network: Path, options: Compilation, stop: str, option: str) -> str:
    """Run the compiler up to the phase `stop`, and return a text that describes its result.

    The result is not verified. Raises `UserError`, which names `option`, if `network` is a compiled
    program.
    """
    from matloom.arch.config import load_config
    from matloom.arch.memory import load_memory
    from matloom.compiler import CompileOptions, Job
    from matloom.compiler.describe import describe
    from matloom.terminal.progress import progress

    if is_program(network):
        raise UserError(
            f"{option} must go with a network, not the program {str(network)!r}", hint=SOURCE
        )
    compile_options = CompileOptions(effort=options.effort, memory=load_memory(options.memory))
    config = load_config(options.config)
    job = Job(config=config, options=compile_options, precision=modes_by_layer(network, options))
    with progress(f"compiling {network.name} for {options.config}"):
        return describe(network, job, stop)


def _compile(network: Path, options: Compilation) -> "Program":
    """Compile a network, with a message if it takes long."""
    from matloom.compiler import CompileOptions
    from matloom.pre import attach
    from matloom.runtime import compile
    from matloom.terminal.progress import progress

    modes = modes_by_layer(network, options)
    search = CompileOptions(effort=options.effort)
    # Read first, because the compilation may take long.
    stage = options.preprocessing()
    with progress(f"compiling {network.name} for {options.config}"):
        program = compile(network, options.config, search, modes, options.check, options.memory)
    return attach(program, stage)


def require_network(network: Path) -> None:
    """Raise `UserError` if a network or program cannot be read; called before long work."""
    from matloom import frontend
    from matloom.program import Program

    (Program.load if is_program(network) else frontend.load)(network)


def program_of(network: Path, options: Compilation) -> "Program":
    """Return the program of a .mloom file, or of a network, which is compiled."""
    from matloom.arch.config import load_config
    from matloom.pre import attach
    from matloom.program import Program

    if not is_program(network):
        return _compile(network, options)
    modes_by_layer(network, options)
    if options.check is not None:
        raise UserError(
            f"--check must go with a network, not the program {str(network)!r}", hint=SOURCE
        )
    program = Program.load(network)
    if not _is_default("config"):
        program.require(load_config(options.config))
    return attach(program, options.preprocessing())


@cli.command(
    examples=(
        "matloom disasm digits --config nano",
        "matloom disasm net.mloom",
    ),
)
@NETWORK
@compilation("config", "check")
def disasm(network: Path, options: Compilation) -> None:
    """List the instructions of NET."""
    from matloom.program.disassemble import disassemble

    say_text(disassemble(program_of(network, options)))
