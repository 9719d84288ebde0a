"""The command firmware: driver, kernels and networks in C, in a folder for build systems."""

from dataclasses import replace
from pathlib import Path

import click

from matloom.cli.group import cli
from matloom.cli.network_argument import NetworkFile
from matloom.cli.options import CONFIG, MEMORY, OUTPUT_FOLDER, PREPROCESS, Compilation
from matloom.cli.places import require_folder
from matloom.cli.programs import program_of
from matloom.cli.say import say


@cli.command(
    "firmware",
    examples=(
        "matloom firmware digits --config nano -o firmware",
        "matloom firmware kws.tflite --board ulx3s-85f -o firmware",
        "matloom firmware -o driver",
    ),
)
@click.argument("network", metavar="[NET]", type=NetworkFile(), required=False)
@OUTPUT_FOLDER
@click.option("--name", help="Name of the network in C, instead of the file's.")
@click.option("--board", help="The engine of a board of `matloom build`, instead of --config.")
@CONFIG
@MEMORY
@PREPROCESS
def firmware(
    network: Path | None,
    output: Path,
    name: str | None,
    board: str | None,
    config: str,
    memory: str | None,
    preprocess: str | None,
) -> None:
    """Write the driver in C, and NET in C, as a folder to build.

    The folder is a library for CMake, ESP-IDF, the Pico SDK, Arduino, PlatformIO and Zephyr; its
    README says how. With NET it also contains a host test and a sketch. Call it again for another
    network in the same folder. Without NET it contains only the driver. NET is a .tflite file, a
    .mloom file, or digits, the network that comes with Matloom.
    """
    from matloom.tools.c_names import network_name, require_network_name
    from matloom.tools.firmware_project import network_files, project_files, write_files

    files, linked = project_files(), []
    if network is not None:
        options = replace(_compilation(board, config, memory), preprocess=preprocess)
        word = require_network_name(name) if name else network_name(network)
        files |= network_files(program_of(network, options), word)
        linked.append(f"src/{word}.c")
    elif name or board or preprocess:
        raise click.UsageError("--name, --board and --preprocess must go with a network")
    require_folder("--output", output)
    write_files(output, files)
    parts = ("src/driver/", "src/kernels/")
    linked += [path for path in files if path.startswith(parts) and path.endswith(".c")]
    say(f"{output}: {len(files)} files; README.md says how to build them")
    say(f"link: {' '.join(linked)}")
    say("headers: src")


def _compilation(board: str | None, config: str, memory: str | None) -> Compilation:
    """Return the options of a compilation, for the engine of `board` if it is given."""
    if board is None:
        return Compilation(config=config, memory=memory)
    from matloom_rtl.board.definition import load_board

    source = click.get_current_context().get_parameter_source("config")
    if source is not click.core.ParameterSource.DEFAULT or memory is not None:
        raise click.UsageError("--board must go without --config and --memory, which it implies")
    target = load_board(board)
    engine = target.with_processor() if target.soc else target
    return Compilation(config=engine.config, memory=target.name)
