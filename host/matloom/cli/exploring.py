"""The verb explore: engines for a board and some networks, the fastest and the smallest."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matloom.cli.fitting import part_of
from matloom.cli.group import cli
from matloom.cli.network_argument import NetworkFile
from matloom.cli.options import OUTPUT_FOLDER, SEED
from matloom.cli.places import require_folder
from matloom.cli.say import say
from matloom.cli.worker_options import Workers, on_workers
from matloom.errors import UserError

if TYPE_CHECKING:
    from matloom.tools.explore import Exploration, ExploredPoint

__all__: list[str] = []


@cli.command(
    examples=(
        "matloom explore --board ulx3s-85f --network digits -o out",
        "matloom explore --board ulx3s-25f --network a.tflite --network b.tflite -o out",
        "matloom explore --board ulx3s-85f --network digits --workers 2 -o out",
    ),
)
@click.option("--board", required=True, help="A board by name, as for `matloom fit`.")
@click.option(
    "--network",
    "networks",
    type=NetworkFile(),
    multiple=True,
    required=True,
    help="A network that the engine must run; again for others.",
)
@OUTPUT_FOLDER
@click.option(
    "--points",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    help="Engines that are predicted.",
)
@on_workers
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the first engines.")
@click.option("--freq", type=click.FloatRange(1, 2000), metavar="MHZ", help="Another clock.")
def explore(
    board: str,
    networks: tuple[Path, ...],
    output: Path,
    points: int,
    workers: Workers,
    seed: int,
    freq: float | None,
) -> None:
    """Find engines for a board that none beats in time and size.

    Arrays, lanes, buses and memories on chip are tried by prediction: cycles by the compiler,
    sizes and clock by the models of `matloom fit`. The folder holds index.html, front.json and
    points.jsonl, from which the same command goes on after an interruption.
    """
    from matloom import frontend
    from matloom.arch.memory import BOARD_MEMORIES
    from matloom.tools.explore import Exploration, front_of

    part = part_of(board, freq)
    for network in networks:
        frontend.load(network)
    require_folder("--output", output)
    exploration = Exploration(
        part=part,
        networks=tuple(map(str, networks)),
        memory=board if board in BOARD_MEMORIES else None,
        journal=output / "points.jsonl",
        seed=seed,
    )
    found = _run(exploration, points, workers)
    _write(exploration, found, output)
    best = front_of(found)
    if not best:
        raise UserError(
            f"none of {len(found)} engines for {board} can run the networks",
            hint="allow more of them with --points, or take a larger board",
        )
    for each in best:
        say(f"{each.milliseconds:9.3f} ms  {each.tables:8,} tables  --config {each.text}")
    say(f"wrote {output / 'index.html'}")


def _run(exploration: "Exploration", points: int, workers: Workers) -> list["ExploredPoint"]:
    """Explore so many engines, and show how many are done."""
    from matloom.terminal.progress import progress
    from matloom.workers import kept

    done = [0]

    def note(count: int) -> None:
        done[0] = count

    def far() -> str:
        return f"{done[0]} of {points} engines"

    with (
        progress(f"exploring {exploration.part.board}", detail=far),
        kept(workers.make) as make,
    ):
        return exploration.run(points, make, note)


def _write(exploration: "Exploration", found: list["ExploredPoint"], folder: Path) -> None:
    from matloom.tools.explore_page import to_html

    (folder / "index.html").write_text(to_html(exploration, found), encoding="utf-8")
    text = json.dumps(exploration.as_dict(found), indent=1) + "\n"
    (folder / "front.json").write_text(text, encoding="utf-8")
