"""The command line: one verb a function, each importing what it needs when it is called."""

import os
import sys
from pathlib import Path
from typing import Any

import click

import matloom

#: Errors of the user's making; anything else is a defect and keeps its traceback.
USER_ERRORS = (ValueError, TypeError, OSError, ModuleNotFoundError)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(matloom.__version__, prog_name="matloom")
def cli() -> None:
    """Generate a matrix engine for FPGAs and run quantised networks on it."""


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def doctor(as_json: bool) -> None:
    """Report the state of each tool, with the remedy."""
    from matloom.tools import doctor as clinic

    findings = clinic.examine()
    click.echo(clinic.to_json(findings) if as_json else clinic.to_table(findings), nl=as_json)
    sys.exit(0 if clinic.healthy(findings) else 1)


_config = click.option(
    "--config",
    default="reference",
    show_default=True,
    metavar="PRESET[+CHANGE...]|FILE",
    help="The engine.",
)
_device = click.option(
    "--device", default="rtl", show_default=True, help="rtl, model or uart:PORT[@BAUD]."
)
_precision = click.option(
    "--precision",
    multiple=True,
    metavar="[LAYER=]MODE",
    help="bf16 or fp16 for layers of float32, i8xi4 for those of int8; float32 or i8xi8 leaves "
    "one as it is. All others where no LAYER is named.",
)
_check = click.option(
    "--check",
    type=click.Choice(["full", "sample", "none"]),
    help="How much of the program is run against the operators' definitions (sample, or "
    "MATLOOM_CHECK).",
)
_effort = click.option(
    "--effort",
    type=click.IntRange(0, 2),
    default=1,
    show_default=True,
    help="How long to look for a fast program: 0 takes the first, 2 compares whole programs.",
)
_memory = click.option(
    "--memory",
    metavar="NAME|FILE.json",
    help="What the bus leads to (reference, on-chip, sdram-16); the program's own for a .mloom.",
)
_network = click.argument("network", metavar="NET", type=click.Path(path_type=Path))


def _console(*, markup: bool = False) -> Any:
    """Return what prints; `markup` for texts without names, which come from files."""
    from rich.console import Console

    return Console(highlight=False, markup=markup, emoji=markup)


@cli.command()
@_network
@click.option("--input", "source", type=click.Path(path_type=Path), required=True)
@click.option("--output", "target", type=click.Path(path_type=Path), required=True)
@_device
@_config
@_precision
@_check
@_effort
@_memory
@click.option("--report", type=click.Path(path_type=Path), help="Write cycles and layers as JSON.")
@click.option("--waves", type=click.Path(path_type=Path), help="Write a VCD (device rtl).")
@click.option("--check-bus", is_flag=True, help="Hold every cycle against AXI (device rtl).")
def run(
    network: Path,
    source: Path,
    target: Path,
    device: str,
    config: str,
    precision: tuple[str, ...],
    check: str | None,
    effort: int,
    memory: str | None,
    report: Path | None,
    waves: Path | None,
    check_bus: bool,
) -> None:
    """Run NET (.tflite or .mloom) on the arrays of an .npz file, named like its inputs."""
    import numpy as np

    from matloom.program.samples import require_inputs
    from matloom.runtime import load
    from matloom.tools.arrays import read_arrays

    _require_place("--output", target)
    _require_place("--report", report)
    inputs = read_arrays("--input", source)
    options: dict[str, Any] = {} if waves is None else {"waves": waves}
    if check_bus:
        options["check_bus"] = True
    _require_place("--waves", waves)
    for option, given in (("--waves", waves), ("--check-bus", check_bus)):
        if given and device != "rtl":
            raise ValueError(f"{option} must go with device rtl, not {device!r}")
    if memory is not None and device == "rtl":
        options["memory"] = memory
    program = _program(network, config, precision, check, effort, memory)
    # Before the device is opened: the first time, building the simulator takes minutes.
    require_inputs(program, inputs)
    with load(program, device=device, **options) as session:
        outputs = session.run(inputs)
        made = session.report()
    with target.open("wb") as stream:
        np.savez(stream, **outputs)
    if report is not None:
        report.write_text(made.to_json())
    click.echo(f"{made.cycles:,} cycles ({made.cycles_source}), utilisation {made.utilisation:.3f}")
    if made.ran_on not in ("", made.memory):
        click.echo(f"predicted for memory {made.memory}, ran on {made.ran_on}")


def _require_place(option: str, path: Path | None) -> None:
    """Raise `ValueError` where no file can be written; before the work, not after it."""
    if path is None:
        return
    written = path if path.exists() else path.absolute().parent
    if path.is_dir() or not os.access(written, os.W_OK):
        raise ValueError(f"{option} must be a file that can be written, not {str(path)!r}")


def _is_default(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.DEFAULT


def _precision_of(network: Path, given: tuple[str, ...]) -> dict[str, str] | None:
    """Return the table of modes by layer; None where none is given."""
    if given and network.suffix == ".mloom":
        raise ValueError(f"--precision must go with a network, not the program {str(network)!r}")
    for item in given:
        if item.startswith("="):
            raise ValueError(f"--precision must be [LAYER=]MODE, not {item!r}")
    pairs = (item.rpartition("=") for item in given)
    return {layer or "*": mode for layer, _, mode in pairs} or None


@cli.command("compile")
@_network
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@_config
@_precision
@_check
@_effort
@_memory
def compile_verb(
    network: Path,
    output: Path,
    config: str,
    precision: tuple[str, ...],
    check: str | None,
    effort: int,
    memory: str | None,
) -> None:
    """Compile NET into a program file (.mloom)."""
    _require_place("--output", output)
    modes = _precision_of(network, precision)
    program = _compiled(network, config, modes, check, effort, memory)
    program.save(output)
    click.echo(f"{output}: {program.predicted_cycles:,} cycles predicted")


def _check_of(network: Path, check: str | None) -> str | None:
    """Return how much is checked; refuse that for a program, which was checked when compiled."""
    if check is not None and network.suffix == ".mloom":
        raise ValueError(f"--check must go with a network, not the program {str(network)!r}")
    return check


def _compiled(
    network: Path,
    config: str,
    modes: dict[str, str] | None,
    check: str | None,
    effort: int,
    memory: str | None,
) -> Any:
    """Compile a network, saying so where it takes long."""
    from matloom.compiler import CompileOptions
    from matloom.runtime import compile
    from matloom.terminal.progress import progress

    with progress(f"compiling {network.name} for {config}"):
        return compile(network, config, CompileOptions(effort=effort), modes, check, memory)


def _program(
    network: Path,
    config: str,
    precision: tuple[str, ...] = (),
    check: str | None = None,
    effort: int = 1,
    memory: str | None = None,
) -> Any:
    from matloom.arch.config import load_config
    from matloom.program import Program

    modes, check = _precision_of(network, precision), _check_of(network, check)
    if network.suffix != ".mloom":
        return _compiled(network, config, modes, check, effort, memory)
    program = Program.load(network)
    if not _is_default("config"):
        program.require(load_config(config))
    return program


@cli.command()
@_network
@_config
@_check
def disasm(network: Path, config: str, check: str | None) -> None:
    """List the instructions of a program file, or of NET compiled."""
    from matloom.program.disassemble import disassemble

    click.echo(disassemble(_program(network, config, check=check)))


@cli.command()
@_network
@_config
@_precision
@_check
@_effort
@_memory
def explain(
    network: Path,
    config: str,
    precision: tuple[str, ...],
    check: str | None,
    effort: int,
    memory: str | None,
) -> None:
    """Say for each operator where it runs, why, and what it costs."""
    from matloom.tools.explain import explain as sentences

    if memory is not None and network.suffix == ".mloom":
        raise ValueError(f"--memory must go with a network, not the program {str(network)!r}")
    for item in sentences(_program(network, config, precision, check, effort, memory)):
        _console().print(item)


@cli.command("precision")
@_network
@click.option("--input", "source", type=click.Path(path_type=Path), help="An .npz as for run.")
@click.option("--labels", metavar="NAME", help="The array of the .npz that holds labels.")
@click.option("--by-layer", is_flag=True, help="Also run with each layer alone in its mode.")
@click.option("--report", type=click.Path(path_type=Path), help="Write it as JSON.")
@_config
@_precision
def precision_verb(
    network: Path,
    source: Path | None,
    labels: str | None,
    by_layer: bool,
    report: Path | None,
    config: str,
    precision: tuple[str, ...],
) -> None:
    """Say what --precision changes in NET: weights, cycles, and what it makes of inputs."""
    from matloom.tools.arrays import read_arrays
    from matloom.tools.precision import precision_report

    _require_place("--report", report)
    modes = _precision_of(network, precision)
    if modes is None:
        raise ValueError("--precision must be given")
    if source is None and (labels is not None or by_layer):
        raise ValueError("--labels and --by-layer must go with an --input")
    arrays = {} if source is None else read_arrays("--input", source)
    if labels is not None and labels not in arrays:
        raise ValueError(f"--labels must be one of {', '.join(arrays)}, not {labels!r}")
    wanted = None if labels is None else arrays.pop(labels)
    made = precision_report(network, modes, arrays or None, wanted, config, by_layer=by_layer)
    if report is not None:
        report.write_text(made.to_json())
    for item in (made.table(), *made.sentences()):
        _console().print(item)


@cli.command()
@_network
@_device
@_config
@_precision
@_check
@_effort
def profile(
    network: Path,
    device: str,
    config: str,
    precision: tuple[str, ...],
    check: str | None,
    effort: int,
) -> None:
    """Run NET once on random inputs and show cycles by layer and by cause."""
    import numpy as np

    from matloom.runtime import load

    program = _program(network, config, precision, check, effort)
    with load(program, device=device) as session:
        noise = np.random.default_rng(0)
        inputs = {}
        for info in session.program.inputs:
            dtype = np.dtype(info.dtype)
            values = noise.integers(-128, 128, info.shape)
            inputs[info.name] = values.astype(dtype)
        session.run(inputs)
        made = session.report()
    for item in (made.table(), *made.lines()):
        _console().print(item)


@cli.command()
@_network
def compare(network: Path) -> None:
    """Compare NET with TensorFlow Lite Micro, tensor by tensor; exit status 1 where they differ."""
    from matloom.tools.compare import compare as compare_with_tflm

    comparison = compare_with_tflm(network)
    click.echo(str(comparison))
    sys.exit(0 if comparison.equal else 1)


@cli.command()
@_config
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--fpga-report", "fpga", metavar="DEVICE", help="Also synthesise, place and route.")
@click.option("--seed", type=int, default=4, show_default=True, help="First of the placement.")
@click.option("--seeds", type=click.IntRange(1), default=1, help="How many, from --seed upward.")
@click.option("--jobs", type=click.IntRange(1), help="Processes at a time; else one a core.")
def generate(
    config: str, output: Path, fpga: str | None, seed: int, seeds: int, jobs: int | None
) -> None:
    """Write the chip as Verilog with a JSON description, and the C header of its registers.

    With --fpga-report also its area and clock on a device, the fastest of the seeds and the
    median. Netlist, placements and routings stay in the folder `fpga` of the output: the same
    call goes on where it was ended, and another seed begins at the netlist.
    """
    from matloom.arch.config import load_config
    from matloom_rtl.fpga.devices import DEVICES
    from matloom_rtl.generate import generate as make_chip

    if fpga is not None and fpga not in DEVICES:
        raise ValueError(f"--fpga-report must be one of {', '.join(DEVICES)}, not {fpga!r}")
    chip = make_chip(load_config(config))
    written = chip.write(output)
    header = output / "matloom_regs.h"
    header.write_text(_header())
    for path in (*written, header):
        click.echo(path)
    if fpga is not None:
        from matloom_rtl.fpga.flow import Effort, cores

        effort = Effort(
            seeds=tuple(range(seed, seed + seeds)), jobs=jobs or cores(), folder=output / "fpga"
        )
        _fpga_report(chip, fpga, output, Path(config).stem, effort)


def _header() -> str:
    from matloom.arch.generate.header import header

    return header()


def _fpga_report(chip: Any, device: str, output: Path, name: str, effort: Any) -> None:
    import json

    from matloom_rtl.fpga.flow import DEVICES, build_report

    report, units = build_report(chip, DEVICES[device], click.echo, effort)
    path = output / f"{device}_{name}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    breakdown = output / f"{device}_{name}_units.json"
    breakdown.write_text(json.dumps(units, indent=2) + "\n")
    click.echo(breakdown)
    if report["fmax_mhz"] is None:
        click.echo(path)
        raise ValueError(f"a seed must be routed for a clock: none of {len(effort.seeds)} was")
    clocks = f"{report['fmax_mhz']} MHz by seed {report['seed']}"
    if len(effort.seeds) > 1:
        clocks += f", median {report['median_mhz']}"
    click.echo(f"{path}: {clocks}")


@cli.command()
@_device
@_config
def demo(device: str, config: str) -> None:
    """Classify 360 handwritten digits with a trained network on the chip."""
    from matloom.tools.demo import run_demo

    sys.exit(0 if run_demo(_console(markup=True), device, config) else 1)


@cli.command()
@_config
@click.option("--check", is_flag=True, help="Compare with the kept report; exit 1 where worse.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="Where the report is kept; docs/results/bench_CONFIG.json here.",
)
@_memory
def bench(config: str, check: bool, output: Path | None, memory: str | None) -> None:
    """Measure cycles on the chip, compare them with the targets, and keep or check the report."""
    from matloom.arch.config import load_config
    from matloom.arch.memory import load_memory
    from matloom.tools import bench as benchmark

    chosen, behind = load_config(config), load_memory(memory)
    name = Path(config).stem if memory is None else f"{Path(config).stem}_{Path(memory).stem}"
    path = output or Path("docs/results") / f"bench_{name}.json"
    kept = path.read_text() if check else ""
    results, skipped = benchmark.run_bench(
        chosen, name, say=lambda line: click.echo(line, err=True), memory=behind
    )
    console = _console()
    console.width = console.width if console.is_terminal else 160
    console.print(benchmark.table(results, name))
    for line in skipped:
        click.echo(line)
    if check:
        problems = benchmark.check(results, kept)
        for line in problems:
            click.echo(line, err=True)
        sys.exit(1 if problems else 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(benchmark.to_json(results, chosen, name))
    click.echo(path)


def main() -> None:
    """Run the command line; a mistake of the user's is one line on stderr and exit status 2."""
    try:
        cli(prog_name="matloom")
    except USER_ERRORS as error:
        # python -X dev shows where it was raised.
        if sys.flags.dev_mode:
            raise
        sentence = " ".join(str(error).split()) or type(error).__name__
        click.echo(f"matloom: {sentence}", err=True)
        sys.exit(2)
