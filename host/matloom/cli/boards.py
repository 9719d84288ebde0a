"""Commands of boards: build, program, simulate-board."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matloom.cli.group import cli
from matloom.cli.options import SEED
from matloom.cli.places import require_folder, write_file
from matloom.cli.room import require_capacity
from matloom.cli.say import say
from matloom.cli.worker_options import ALONE, Workers, worker_options
from matloom.errors import UserError

if TYPE_CHECKING:
    from matloom_rtl.board.build import Bitstream
    from matloom_rtl.board.definition import Board
    from matloom_rtl.board.plan import Plan


def _list_boards(context: click.Context, _parameter: click.Parameter, requested: bool) -> None:
    """Print the boards that come with Matloom, and exit."""
    if not requested or context.resilient_parsing:
        return
    from matloom_rtl.board.definition import board_names, load_board

    for board in map(load_board, board_names()):
        kind = {"block": "block RAM", "sdram": "SDRAM"}[board.memory.kind]
        memory = f"{board.memory.bytes // 1024} KiB of {kind}"
        clock = f"{board.clock_hz / 1e6:.4g} MHz"
        # The engine is last, because its text can be as long as a line.
        say(f"{board.name:18} {clock:9} {memory:22} {board.title:40} {board.config}")
    context.exit()


_SOC = click.option(
    "--soc", is_flag=True, help="Use a processor instead of the host link (docs/soc.md)."
)
_CPU = click.option(
    "--cpu", metavar="NAME", help="Variant of the processor of --soc: default, or the smaller lite."
)


def _processor(soc: bool, cpu: str | None) -> str | None:
    """Return the name of the processor that --soc and --cpu ask for; None without --soc."""
    if cpu and not soc:
        raise UserError(f"--cpu {cpu} must go with --soc", hint="add --soc, or leave --cpu out")
    return cpu or ("default" if soc else None)


@cli.command(
    "build",
    examples=(
        "matloom build --list",
        "matloom build ulx3s-85f",
        "matloom build ulx3s-85f --soc --cpu lite",
        "matloom build tang-nano-20k --seeds 8 --workers 2 -o bitstream",
    ),
)
@click.argument("board")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_boards,
    help="Print the supported boards.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Output folder. [default: build/BOARD]"
)
@click.option(
    "--config", metavar="PRESET[+CHANGE...]|FILE", help="The engine, instead of the board's."
)
@click.option(
    "--freq",
    type=click.FloatRange(1, 2000),
    metavar="MHZ",
    help="Clock to reach instead of the board's.",
)
@click.option("--seed", type=SEED, help="First seed of placement, instead of the board's.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    help="Route this many seeds, from --seed upward, and take the fastest. By default up to 4 are "
    "routed, one by one, until one reaches the clock.",
)
@click.option("--force", is_flag=True, help="Build even if the engine is predicted not to fit.")
@worker_options
@_SOC
@_CPU
def build(
    board: str,
    output: Path | None,
    config: str | None,
    freq: float | None,
    force: bool,
    soc: bool,
    cpu: str | None,
    **placement: Any,
) -> None:
    """Make the bitstream of BOARD, and a report of it.

    BOARD is a name that --list prints, or a board file (.toml).

    For a device without open-source tools, it writes a folder for Vivado, checked with Yosys.

    The netlist and each routing are cached: the same command takes no time again, and further seeds
    need no new synthesis. Each worker routes one seed at a time. If no seed reaches the clock, the
    command fails and writes no bitstream.
    """
    from matloom.arch.config import load_config
    from matloom_rtl.board.definition import load_board
    from matloom_rtl.fpga.vivado import VIVADO_DEVICES

    processor, found = _processor(soc, cpu), load_board(board)
    # Check first: the plan generates the board's Verilog, which takes seconds.
    load_config(config or found.config)
    if config and not force and found.device not in VIVADO_DEVICES:
        require_capacity(board, config, freq)
    if output is not None:
        require_folder("--output", output)
    if found.device in VIVADO_DEVICES:
        if processor:
            raise UserError(
                f"--soc must go with a device that open tools support, not {board}",
                hint="leave --soc out; docs/boards.md says which boards have a processor",
            )
        _write_vivado_project(found, output, config, freq)
        return
    plan = _plan_board(found, config, freq, processor)
    engine = config or plan.board.config
    folder = output or Path("build") / plan.name
    require_folder("--output", folder)
    say(f"{plan.board.title}: {engine} at {plan.clock_mhz:.4g} MHz, {plan.device.name}")
    say("synthesis, placement and routing take 10 to 45 minutes for each seed that is tried")
    _write_bitstream(plan, _build_plan(plan, **placement), folder)


def _plan_board(
    board: "Board", config: str | None, freq: float | None, processor: str | None
) -> "Plan":
    """Return the plan of a board: its Verilog and constraints, after checking that tools exist."""
    from matloom.toolchain.soc_firmware import boot_rom
    from matloom_rtl.board.plan import make_plan
    from matloom_rtl.fpga.devices import DEVICES
    from matloom_rtl.fpga.tools import find

    # Synthesis takes a minute; a missing placement tool should be reported before.
    for tool in DEVICES[board.device].tools:
        find(tool)
    clock_hz = round(freq * 1e6) if freq else None
    rom = boot_rom() if processor else None
    return make_plan(board, config, clock_hz, rom, processor or "default")


def _build_plan(plan: "Plan", seed: int | None, seeds: int | None, workers: Workers) -> "Bitstream":
    """Return the bitstream of a plan; raise `UserError` if it cannot be built."""
    from matloom_rtl.fpga.progress import FlowError

    first = plan.board.seed if seed is None else seed
    tried = tuple(range(first, first + (seeds or _MOST_SEEDS)))
    try:
        return build_in_cache(plan, tried, workers, first=seeds is None)
    except FlowError as error:
        raise UserError(str(error), hint=error.hint) from error


def _write_bitstream(plan: "Plan", result: "Bitstream", folder: Path) -> None:
    """Write a bitstream and its report, and print their paths."""
    bitstream = folder / result.path.name
    write_file(bitstream, result.path.read_bytes())
    report = folder / f"{plan.name}.json"
    write_file(report, json.dumps(result.report, indent=2) + "\n")
    say(report)
    say(f"{bitstream}: {summary(result.report)}")


def _write_vivado_project(
    board: "Board", output: Path | None, config: str | None, freq: float | None
) -> None:
    """Write a folder from which Vivado builds a board, and a report of a synthesis with Yosys."""
    import tempfile

    from matloom_rtl.board.vivado import check, make_project
    from matloom_rtl.fpga.progress import FlowError

    project = make_project(board, config, round(freq * 1e6) if freq else None)
    say(f"{board.title}: a folder for Vivado, {project.clock_mhz:g} MHz; no bitstream")
    folder = output or Path("build") / board.name
    require_folder("--output", folder)
    for name, text in project.files.items():
        write_file(folder / name, text)
        say(folder / name)
    try:
        with tempfile.TemporaryDirectory(prefix="matloom-vivado-") as work:
            report = check(project, Path(work), say)
    except FlowError as error:
        raise UserError(str(error), hint=error.hint) from error
    path = folder / f"{board.name}.json"
    write_file(path, json.dumps(report, indent=2) + "\n")
    say(f"{path}: by Yosys {_area(report)}")


def build_in_cache(
    plan: "Plan", seeds: tuple[int, ...], workers: Workers = ALONE, *, first: bool = False
) -> "Bitstream":
    """Return the bitstream of a board's plan, built in the cache unless it is there already.

    A placement is made from each of `seeds`. The fastest one is taken or, with `first`, the first
    that reaches the clock. Raises FlowError if the bitstream cannot be built.
    """
    from matloom.toolchain.cache import cache_folder, exclusive
    from matloom_rtl.board.build import build_board

    work = cache_folder() / "boards" / f"{plan.name}-{plan.digest()}"
    with exclusive(work / "build"):
        spread = workers.spread({"nextpnr": 1.0})
        return build_board(plan, work, say, seeds, workers.workers, first, spread)


def _area(report: dict[str, Any]) -> str:
    """Return the used and available cells of each kind, from the report of a bitstream, as text."""
    area = report["area"]
    return ", ".join(f"{name} {item['used']} of {item['available']}" for name, item in area.items())


def summary(report: dict[str, Any]) -> str:
    """Return one line with the clock, the seed and the area from the report of a bitstream."""
    return f"{report['fmax_mhz']} MHz by seed {report['seed']}; {_area(report)}"


#: Default number of seeds to try.
_MOST_SEEDS = 4


@cli.command(
    examples=(
        "matloom program ulx3s-85f build/ulx3s-85f/ulx3s-85f.bit",
        "matloom program tang-nano-20k top.fs --flash",
    ),
)
@click.argument("board")
@click.argument("bitstream", type=click.Path(path_type=Path))
@click.option(
    "--flash", is_flag=True, help="Write to the board's flash, to keep it after power-off."
)
def program(board: str, bitstream: Path, flash: bool) -> None:
    """Write BITSTREAM to BOARD.

    Requires openFPGALoader.
    """
    import subprocess

    from matloom_rtl.board.definition import load_board
    from matloom_rtl.board.programmer import programmer_command

    command = programmer_command(load_board(board), bitstream, flash)
    say(" ".join(command))
    result = subprocess.run(command, check=False)
    if result.returncode:
        raise UserError(
            f"openFPGALoader failed with status {result.returncode}",
            hint=f"is {board} plugged in, and may you use its port (docs/boards.md)?",
        )


@cli.command(
    "simulate-board",
    examples=(
        "matloom simulate-board tang-nano-20k",
        "matloom simulate-board ulx3s-85f --soc",
    ),
)
@click.argument("board")
@click.option(
    "--config", metavar="PRESET[+CHANGE...]|FILE", help="The engine, instead of the board's."
)
@_SOC
@_CPU
def simulate_board(board: str, config: str | None, soc: bool, cpu: str | None) -> None:
    """Simulate BOARD until interrupted.

    Everything except the PLL is simulated. Prints the value of --device for commands in another
    terminal.

    With --soc, the boot ROM waits for a program, which `matloom boot` sends.
    """
    from matloom.device.simulated_board import SimulatedBoard
    from matloom_rtl.board.definition import load_board

    processor, found = _processor(soc, cpu), load_board(board)
    engine = config or (found.with_processor() if processor else found).config
    with SimulatedBoard(board, config, cpu=processor) as running:
        say(f"--device {running.device} --config {engine}")
        running.stopped.wait()
