"""Commands of the chip and of this installation."""

import sys
from pathlib import Path
from typing import Any

import click

from matloom.cli.group import cli
from matloom.cli.options import CONFIG, DEVICE, MEMORY, OUTPUT_FOLDER, Routing, routing
from matloom.cli.places import name_in_errors, require_folder, require_writable, write_file
from matloom.cli.say import say, show
from matloom.cli.worker_options import Workers, worker_options
from matloom.errors import UserError, unknown_name_error

#: Device for the predicted area, without --fpga-report.
_DEVICE = "ecp5-85k"


@cli.command(examples=("matloom doctor", "matloom doctor --json"))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def doctor(as_json: bool) -> None:
    """List installed and missing tools, and how to get them."""
    from matloom.tools import doctor as clinic

    findings = clinic.examine()
    # Written unescaped, because the table contains colours for a terminal.
    sys.stdout.write(f"{clinic.to_json(findings)}\n" if as_json else clinic.to_table(findings))
    sys.exit(0 if clinic.healthy(findings) else 1)


@cli.command(
    examples=(
        "matloom generate --config nano -o chip",
        "matloom generate --config small+lanes=4 -o chip --fpga-report ecp5-85k",
    ),
)
@CONFIG
@OUTPUT_FOLDER
@click.option(
    "--fpga-report", "fpga", metavar="DEVICE", help="Also place and route the chip on this device."
)
@routing
@worker_options
def generate(
    config: str, output: Path, fpga: str | None, routing: Routing, workers: Workers
) -> None:
    """Write the chip as Verilog, with files for other flows.

    A JSON file describes the chip, and a C header names its registers. A LiteX module, a FuseSoC
    core with a testbench, and a component for Platform Designer integrate it into designs
    (docs/integration.md).

    Prints the predicted area on an ecp5-85k. With --fpga-report it places and routes the chip
    instead, and prints area and clock on that device, for the fastest seed and the median. The
    folder `fpga` of the output keeps the netlist, each routing and, with --checkpoints, each
    placement: the same command continues where it stopped, and further seeds need no new synthesis.
    Each worker routes one seed at a time.
    """
    from matloom.arch.config import load_config
    from matloom.terminal.progress import progress
    from matloom.tools.area import area_line
    from matloom_rtl.fpga.devices import DEVICES
    from matloom_rtl.generate import generate as make_chip
    from matloom_rtl.integration import write

    if fpga is not None and fpga not in DEVICES:
        hint = "leave it out for a prediction of the area"
        raise unknown_name_error(UserError, "--fpga-report", fpga, DEVICES, hint=hint)
    chosen = load_config(config)
    require_folder("--output", output)
    with progress(f"generating the Verilog of {config}"):
        chip = make_chip(chosen)
    with name_in_errors(output):
        written = [*chip.write(output), *write(chip, output)]
    header = output / "matloom_regs.h"
    write_file(header, _c_header())
    for path in (*written, header):
        say(path)
    if fpga is None:
        device = DEVICES[_DEVICE]
        say(area_line(chosen, device.name, device.family, device.capacity))
    else:
        _place_and_route(chip, DEVICES[fpga], output, Path(config).stem, routing, workers)


def _c_header() -> str:
    """Return the C header with registers and instructions, for firmware."""
    from matloom.arch.generate.header import header

    return header()


def _place_and_route(
    chip: Any, device: Any, output: Path, name: str, options: Routing, workers: Workers
) -> None:
    """Place and route the chip on an FPGA, write the reports, and print the clock reached."""
    import json

    from matloom_rtl.fpga.flow import Effort, build_report

    effort = Effort(
        seeds=tuple(range(options.seed, options.seed + options.seeds)),
        jobs=workers.workers,
        folder=output / "fpga",
        checkpoints=options.checkpoints,
        spread=workers.spread({"nextpnr": 1.0}),
    )
    if options.freq is not None:
        device = device.with_options({"--freq": f"{options.freq:g}"})
    report, units = build_report(chip, device, say, effort)
    path = output / f"{device.name}_{name}.json"
    write_file(path, json.dumps(report, indent=2) + "\n")
    breakdown = output / f"{device.name}_{name}_units.json"
    write_file(breakdown, json.dumps(units, indent=2) + "\n")
    say(breakdown)
    if report["fmax_mhz"] is None:
        say(path)
        raise UserError(
            f"no seed was routed ({len(effort.seeds)} tried)",
            hint=f"try others: --seed {effort.seeds[-1] + 1}, or a slower clock: --freq",
        )
    clocks = f"{report['fmax_mhz']} MHz by seed {report['seed']}"
    if len(effort.seeds) > 1:
        clocks += f", median {report['median_mhz']}"
    say(f"{path}: {clocks}")


@cli.command(
    "package-ip",
    examples=(
        "matloom package-ip --config small -o ip",
        "matloom package-ip --config medium -o ip --freq 150",
    ),
)
@CONFIG
@OUTPUT_FOLDER
@click.option(
    "--freq",
    type=click.FloatRange(1, 2000),
    default=100.0,
    show_default=True,
    metavar="MHZ",
    help="Clock frequency of the constraint and of the block designs.",
)
def package_ip(config: str, output: Path, freq: float) -> None:
    """Write the chip as an IP package for Vivado.

    It contains a clock constraint, and Tcl scripts that make block designs with a Zynq processor
    and with a MicroBlaze.
    """
    from matloom.arch.config import load_config
    from matloom.terminal.progress import progress
    from matloom_rtl.generate import generate
    from matloom_rtl.integration.ipxact import package

    chosen = load_config(config)
    require_folder("--output", output)
    with progress(f"generating the Verilog of {config}"):
        chip = generate(chosen)
    for path in package(chip, output, freq):
        say(path)


@cli.command("simulate-link", examples=("matloom simulate-link --config nano",))
@CONFIG
def simulate_link(config: str) -> None:
    """Simulate the chip on a serial line until interrupted.

    Prints the value of --device for commands in another terminal.
    """
    import threading

    from matloom.arch.config import load_config
    from matloom.device.linked import LinkedChip

    chosen = load_config(config)
    with LinkedChip(chosen) as chip:
        say(f"--device {chip.device} --config {config}")
        threading.Event().wait()


@cli.command(
    examples=(
        "matloom demo",
        "matloom demo --config nano --device model",
        "matloom demo --save .",
        "matloom demo --device uart:/dev/ttyUSB0 --config small",
    ),
)
@DEVICE
@CONFIG
@click.option(
    "--save",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Only write the network (digits.tflite) and its images (in.npz, ten of them; "
    "labelled.npz, all with labels) to this folder.",
)
def demo(device: str, config: str, folder: Path | None) -> None:
    """Classify 360 handwritten digits on the simulated chip."""
    if folder is not None:
        from matloom.data.digits import save

        require_folder("--save", folder)
        for path in save(folder):
            say(path)
        return
    from matloom.arch.config import load_config
    from matloom.device.open import require_device
    from matloom.terminal.tables import plain_console
    from matloom.tools.demo import run_demo

    # Checked before the digits are read.
    require_device(device)
    load_config(config)
    sys.exit(0 if run_demo(plain_console(markup=True), device, config) else 1)


@cli.command(
    examples=(
        "matloom bench --config nano --output bench_nano.json",
        "matloom bench --config nano --output bench_nano.json --check",
    ),
)
@CONFIG
@click.option("--check", is_flag=True, help="Compare with the stored report; exit 1 if worse.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="File of the report. [default: docs/results/bench_CONFIG.json]",
)
@MEMORY
def bench(config: str, check: bool, output: Path | None, memory: str | None) -> None:
    """Measure cycles on the simulated chip, and store a report.

    With --check it compares the cycles with the stored report: exit status 1 if any are worse.
    """
    from matloom.arch.config import load_config
    from matloom.arch.memory import load_memory
    from matloom.tools import bench as benchmark

    chosen, outside = load_config(config), load_memory(memory)
    name = Path(config).stem if memory is None else f"{Path(config).stem}_{Path(memory).stem}"
    path = output or Path("docs/results") / f"bench_{name}.json"
    if not check:
        require_folder("--output", path.parent)
        require_writable("--output", path)
    kept = benchmark.kept_cycles(path) if check else {}
    results, skipped = benchmark.run_bench(
        chosen, name, say=lambda line: say(line, err=True), memory=outside
    )
    show((benchmark.table(results, name), *benchmark.peer_lines(results), *skipped))
    if check:
        problems = benchmark.check(results, kept)
        for line in problems:
            say(line, err=True)
        sys.exit(1 if problems else 0)
    write_file(path, benchmark.to_json(results, chosen, name))
    say(path)
