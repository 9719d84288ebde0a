"""The command plugin: a library for another runtime, and a bundle of a network for it."""

from pathlib import Path

import click

from matloom.cli.group import cli
from matloom.cli.network_argument import NetworkFile
from matloom.cli.options import CONFIG, OUTPUT_FOLDER, Compilation
from matloom.cli.places import require_folder, write_file
from matloom.cli.programs import program_of, require_network
from matloom.cli.say import say


@cli.command(
    examples=(
        "matloom plugin litert digits --config nano -o plugin",
        "matloom plugin litert kws.tflite --device uio:uio0,udmabuf0 -o plugin",
        "matloom plugin onnxruntime net.onnx --config nano -o plugin",
    ),
)
@click.argument("runtime", type=click.Choice(["litert", "onnxruntime"]))
@click.argument("network", metavar="NET", type=NetworkFile())
@OUTPUT_FOLDER
@click.option(
    "--device",
    default="rtl",
    show_default=True,
    metavar="DEVICE",
    help="rtl (the simulated chip), or uio:UIO,DMABUF.",
)
@CONFIG
def plugin(runtime: str, network: Path, output: Path, device: str, config: str) -> None:
    """Write a plug-in that runs NET in another runtime.

    The runtime then runs parts of NET on the engine.

    The folder gets the library for RUNTIME, a bundle of NET and, with --device rtl, the simulated
    chip. One folder serves all networks of one configuration. docs/plug-ins.md shows how a script
    loads them.
    """
    from matloom.arch.config import load_config
    from matloom.errors import UserError
    from matloom.plugins.library import compile_plugin, copy_chip
    from matloom.plugins.networks import network_bundle

    if device != "rtl" and not device.startswith("uio:"):
        raise UserError(
            f"--device must be rtl or uio:UIO,DMABUF, not {device!r}",
            hint="rtl is the simulated chip, uio:uio0,udmabuf0 an engine on Linux",
        )
    load_config(config)
    require_network(network)
    require_folder("--output", output)
    program = program_of(network, Compilation(config=config))
    content, lines = network_bundle(runtime, network, program)
    path = output / f"{network.stem}.bundle"
    write_file(path, content)
    library = compile_plugin(runtime, output)
    if device == "rtl":
        device = f"rtl:{copy_chip(program.config, output)}"
    for line in lines:
        say(line)
    say(f"library: {library}")
    say(f"bundle: {path}")
    say(f"device: {device}")
