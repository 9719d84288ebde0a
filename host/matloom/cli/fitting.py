"""The command fit: finds the largest engine for a board."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from matloom.cli.boards import build_in_cache, summary
from matloom.cli.group import cli
from matloom.cli.network_argument import NetworkFile
from matloom.cli.room import board_part
from matloom.cli.say import say
from matloom.errors import UserError

if TYPE_CHECKING:
    from matloom.ir.graph import Graph
    from matloom.tools.fit import EngineSearch, Part
    from matloom.tools.fitted_engine import FittedEngine

#: Number of engines to show and, with a network, to compile for.
_SHOWN_ENGINES = 6


@cli.command(
    examples=(
        "matloom fit ulx3s-85f",
        "matloom fit ulx3s-25f --network net.tflite",
        "matloom fit colorlight-5a75b --runs 3 --freq 60",
    ),
)
@click.argument("board")
@click.option(
    "--network",
    type=NetworkFile(),
    help="Rank engines by the predicted time of this network.",
)
@click.option(
    "--runs",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    help="Build up to this many of the best engines, until one meets its clock.",
)
@click.option(
    "--freq",
    type=click.FloatRange(1, 2000),
    metavar="MHZ",
    help="Clock to reach instead of the board's.",
)
def fit(board: str, network: Path | None, runs: int, freq: float | None) -> None:
    """Find the largest engine that fits BOARD, and its limit.

    Engines that are predicted to miss the clock of BOARD do not count.

    Counts of multipliers and block RAMs are exact; those of lookup tables (LUTs) and flip-flops
    come from a model that is fitted to syntheses, whose error is printed. Pass the name of an
    engine in the list to `matloom build --config`.
    """
    from matloom.terminal.progress import progress
    from matloom.tools.fit import EngineSearch

    wanted = EngineSearch(part=board_part(board, freq))
    graph = _read_graph(network)
    with progress(f"fitting engines to {wanted.part.device}"):
        wanted.search()
    if not wanted.best:
        clock = f"{wanted.part.clock_mhz:.4g} MHz"
        raise UserError(
            f"no engine fits {board} at {clock}", hint="allow a slower clock with --freq"
        )
    shown = wanted.best[:_SHOWN_ENGINES]
    if graph is not None:
        _predict(shown, wanted.part, graph, board)
    _print_engines(wanted, shown, network)
    _build(shown[:runs], board, freq)


def _read_graph(network: Path | None) -> "Graph | None":
    """Read the network; called first, so that errors in the file appear before the long search."""
    from matloom import frontend

    return None if network is None else frontend.load(network)


def _predict(engines: list["FittedEngine"], part: "Part", graph: "Graph", board: str) -> None:
    """Predict the time of a network on each engine, and sort the engines, the fastest first.

    Sets `milliseconds` of each engine, or `why`: the reason why it cannot run the network.
    """
    from matloom.arch.memory import BOARD_MEMORIES
    from matloom.runtime import compile
    from matloom.terminal.progress import progress

    memory = board if board in BOARD_MEMORIES else None
    for candidate in engines:
        with progress(f"compiling for {candidate.text}"):
            try:
                program = compile(graph, candidate.config, check="none", memory=memory)
            except ValueError as error:
                candidate.why = str(error)
                continue
        needed = program.memory_bytes
        if needed > part.memory_bytes:
            candidate.why = f"needs {needed:,} of {part.memory_bytes:,} bytes of memory"
        else:
            candidate.milliseconds = program.predicted_cycles / part.clock_mhz / 1000
    engines.sort(key=lambda candidate: candidate.rank)


def _print_engines(
    search: "EngineSearch", engines: list["FittedEngine"], network: Path | None
) -> None:
    """Print the engines that fit, best first, their use of resources, and the model's errors."""
    part = search.part
    say(f"{part.board}: {part.device} at {part.clock_mhz:.4g} MHz")
    for place, item in enumerate(engines, 1):
        config = item.config
        line = f"{place}. {config.rows}x{config.columns}, {item.text}"
        if item.soft_columns:
            line += f", {item.soft_columns} columns in tables"
        say(line)
        uses = [f"{name} {use.used:,.0f} of {use.available:,}" for name, use in item.uses.items()]
        uses.append("clock not known" if item.mhz is None else f"about {item.mhz:.0f} MHz")
        if item.is_beyond_routed:
            most = f"more tables than any routed engine ({item.routed:,})"
            uses.append(most if item.routed else "nothing was routed on this device yet")
        if network is not None and item.milliseconds is not None:
            uses.append(f"{network.name} {item.milliseconds:.3f} ms")
        say(f"   {', '.join(uses + ([item.why] if item.why else []))}")
    _print_limit(search, engines[0])
    worst = search.model.worst()
    say(
        f"Model: {len(search.model.samples)} syntheses; each left out and predicted by the others, "
        f"tables are off by up to {worst['COMB']:.0%}, flip-flops by up to {worst['FF']:.0%}; "
        f"multipliers and block RAMs are exact. The clock varies by a tenth between seeds."
    )


def _print_limit(search: "EngineSearch", best: "FittedEngine") -> None:
    """Print the resource that the best engine uses most, and what a larger array would exceed."""
    use = best.uses[best.fullest]
    say(
        f"Fullest: {best.fullest}, {use.used / use.available:.0%} of the device; "
        f"{max(0, use.room - use.used):,.0f} left of the {use.room:,.0f} that can be filled."
    )
    if search.next_larger is None:
        return
    larger, (name, beyond) = search.next_larger, search.next_larger.limit
    shape = f"{larger.config.rows}x{larger.config.columns}"
    if name == "clock":
        lack = f"would reach about {larger.mhz:.0f} of {larger.asked_mhz:.4g} MHz"
    else:
        use = larger.uses[name]
        lack = f"lacks {use.used - use.room:,.0f} {name}, {beyond:.0%} of what can be filled"
    say(f"Limit: the next larger array, {shape}, {lack}.")


def _build(best: list["FittedEngine"], board: str, freq: float | None) -> None:
    """Build engines until one meets the clock."""
    from matloom_rtl.board.definition import load_board
    from matloom_rtl.board.plan import make_plan
    from matloom_rtl.fpga.progress import FlowError

    for candidate in best:
        say(f"building {candidate.text}")
        plan = make_plan(load_board(board), candidate.text, round(freq * 1e6) if freq else None)
        try:
            bitstream = build_in_cache(plan, (4,))
        except FlowError as error:
            say(f"{candidate.text}: {error}")
            continue
        say(f"{candidate.text}: {summary(bitstream.report)}")
        say(f"matloom build {board} --config {candidate.text} copies its bitstream")
        return
    if best:
        raise UserError(
            f"none of the engines met its clock on {board}",
            hint="allow a slower clock with --freq, or try more engines with --runs",
        )
