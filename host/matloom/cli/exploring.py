"""The command explore: finds the fastest and smallest engines for a board and some networks."""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matloom.cli.group import cli
from matloom.cli.network_argument import NetworkFile
from matloom.cli.options import OUTPUT_FOLDER, SEED
from matloom.cli.places import require_folder, write_file
from matloom.cli.room import board_part
from matloom.cli.say import say
from matloom.cli.worker_options import Workers, worker_options
from matloom.errors import UserError

if TYPE_CHECKING:
    from matloom.tools.explore import Exploration, ExploredPoint


@dataclass(frozen=True, kw_only=True)
class _Search:
    """Options for the extent of an exploration, named as on the command line."""

    points: int
    seed: int
    confirm: bool
    route: bool


def _search(command: Callable[..., Any]) -> Any:
    """Add the options of `_Search` to a command, and pass them to it as its argument `search`."""

    @click.option(
        "--points",
        type=click.IntRange(1, 100_000),
        default=200,
        show_default=True,
        help="Number of engines to predict.",
    )
    @click.option(
        "--confirm",
        is_flag=True,
        help="Synthesise the engines of the Pareto front; takes minutes for each.",
    )
    @click.option(
        "--route",
        is_flag=True,
        help="Also place and route these engines; takes ten minutes or more for each.",
    )
    @click.option(
        "--seed",
        type=SEED,
        default=0,
        show_default=True,
        help="Seed for the random choice of the first engines.",
    )
    @functools.wraps(command)
    def wrapper(points: int, seed: int, confirm: bool, route: bool, **values: Any) -> Any:
        """Call the command with these options as one `_Search`."""
        search = _Search(points=points, seed=seed, confirm=confirm, route=route)
        return command(search=search, **values)

    return wrapper


@cli.command(
    examples=(
        "matloom explore --board ulx3s-85f --network digits -o out",
        "matloom explore --board ulx3s-25f --network a.tflite --network b.tflite -o out",
        "matloom explore --board ulx3s-85f --network digits --workers 2 -o out",
        "matloom explore --board ulx3s-85f --network digits -o out --confirm --route",
    ),
)
@click.option("--board", required=True, help="Name of a board, as for `matloom fit`.")
@click.option(
    "--network",
    "networks",
    type=NetworkFile(),
    multiple=True,
    required=True,
    help="A network that the engine must run; may be given several times.",
)
@OUTPUT_FOLDER
@_search
@worker_options
@click.option(
    "--freq",
    type=click.FloatRange(1, 2000),
    metavar="MHZ",
    help="Clock to reach instead of the board's.",
)
def explore(
    board: str,
    networks: tuple[Path, ...],
    output: Path,
    search: "_Search",
    workers: Workers,
    freq: float | None,
) -> None:
    """Find the best engines for a board, by time and size.

    Tries arrays, lanes, buses and on-chip memories of different sizes. The compiler predicts their
    cycles; the models of `matloom fit` predict area and clock. The folder gets index.html,
    front.json and points.jsonl, from which the same command continues after an interruption.
    """
    from matloom import frontend
    from matloom.arch.memory import BOARD_MEMORIES
    from matloom.tools.explore import Exploration, front_of

    part = board_part(board, freq)
    for network in networks:
        frontend.load(network)
    require_folder("--output", output)
    exploration = Exploration(
        part=part,
        networks=tuple(map(str, networks)),
        memory=board if board in BOARD_MEMORIES else None,
        journal=output / "points.jsonl",
        seed=search.seed,
    )
    found = _explore(exploration, search.points, workers)
    _write_front(exploration, found, output)
    best = front_of(found)
    if not best:
        raise UserError(
            f"none of {len(found)} engines for {board} can run the networks",
            hint="allow more of them with --points, or take a larger board",
        )
    for kind in _measurements(search, board, freq):
        best = _confirm(exploration, best, kind, output, workers)
        known = {each.text: each for each in best}
        found = [known.get(each.text, each) for each in found]
        _write_front(exploration, found, output)
    _print_front(best)
    say(f"wrote {output / 'index.html'}")


def _explore(exploration: "Exploration", points: int, workers: Workers) -> list["ExploredPoint"]:
    """Explore up to `points` engines, and show progress; return the best ones, the Pareto front."""
    from matloom.terminal.progress import progress
    from matloom.workers import reused_executor

    done = [0]

    def note(count: int) -> None:
        """Store the number of explored engines, for the progress line."""
        done[0] = count

    def progress_text() -> str:
        """Return the progress as text: engines explored, of the engines to explore."""
        return f"{done[0]} of {points} engines"

    with (
        progress(f"exploring {exploration.part.board}", detail=progress_text),
        reused_executor(workers.make) as make,
    ):
        return exploration.run(points, make, note)


def _print_front(best: "list[ExploredPoint]") -> None:
    """Print the engines of the Pareto front: time, size, configuration and measurements."""
    from matloom.tools.explore_page import measurement_text

    for each in best:
        say(f"{each.milliseconds:9.3f} ms  {each.tables:8,} tables  --config {each.text}")
        if each.measured:
            say(f"{'':12} {measurement_text(each)}")


def _measurements(search: _Search, board: str, freq: float | None) -> list[tuple[str, Any]]:
    """Return the requested measurements: pairs of a name and the function that measures an engine.

    The names are ``synthesis`` (--confirm) and ``routing`` (--route).
    """
    from matloom.cli import confirming

    chosen: list[tuple[str, Any]] = []
    if search.confirm:
        chosen.append(("synthesis", functools.partial(confirming.synthesise_engine, board=board)))
    if search.route:
        task = functools.partial(confirming.route_board, board=board, freq=freq)
        chosen.append(("routing", task))
    return chosen


def _confirm(
    exploration: "Exploration",
    best: "list[ExploredPoint]",
    kind: tuple[str, Any],
    folder: Path,
    workers: Workers,
) -> "list[ExploredPoint]":
    """Measure the best engines in one way, given by name and function; return the results.

    `kind` is an item of `_measurements`. Results are also stored in `folder`.
    """
    from matloom.terminal.progress import progress
    from matloom.tools.confirmation import Confirmation
    from matloom.workers import reused_executor

    name, task = kind
    done = [0]

    def note(count: int) -> None:
        """Store the number of measured engines, for the progress line."""
        done[0] = count

    confirmation = Confirmation(
        exploration=exploration, kind=name, tool=task, journal=folder / f"{name}.jsonl"
    )
    # Placement takes gigabytes: one per worker.
    resources = {"nextpnr": 1.0} if name == "routing" else None
    with (
        progress(f"{name} of the front", detail=lambda: f"{done[0]} of {len(best)} engines"),
        reused_executor(lambda: workers.make(resources)) as make,
    ):
        return confirmation.measure(best, make, note)


def _write_front(exploration: "Exploration", points: list["ExploredPoint"], folder: Path) -> None:
    """Write the page and the JSON file of the best engines to a folder."""
    from matloom.tools.explore_page import to_html

    write_file(folder / "index.html", to_html(exploration, points))
    text = json.dumps(exploration.as_dict(points), indent=1) + "\n"
    write_file(folder / "front.json", text)
