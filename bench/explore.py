"""Comparison of `matloom explore` with an exhaustive grid of four times as many points.

    python bench/explore.py --network digits -o build/explore --workers 2

Predicts 2,000 engines of the space, all of those that fit the board in every other choice of each
list, and then explores 500 points among them. Both fronts are compared by their hypervolume: the
area of latency and tables, on scales of logarithms, that a front leaves below the worst point.
The journal in the folder lets a second run continue where the first stopped.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path

from worker_arguments import add_workers, workers_of

from matloom.cli.fitting import board_part
from matloom.tools import explore
from matloom.tools.explore import Exploration, ExploredPoint, front_of
from matloom.workers import reused_executor

BOARD = "ulx3s-85f"


def hypervolume(front: Sequence[ExploredPoint], corner: tuple[float, float]) -> float:
    """Return the area, in logarithms, between a front and a corner that all its points beat."""
    area, after = 0.0, math.log(corner[1])
    for point in front:
        area += (math.log(corner[0]) - math.log(point.milliseconds)) * max(
            0.0, after - math.log(point.tables)
        )
        after = min(after, math.log(point.tables))
    return area


def main() -> None:
    """Explore a grid exhaustively and by search, and print how the fronts compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", action="append", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    add_workers(parser)
    parser.add_argument("--grid", type=int, default=2000)
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--report", type=Path, help="JSON of the result")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    def exploration(name: str) -> Exploration:
        """Return an exploration of engines on the board, with `name` as the journal's file name."""
        return Exploration(
            part=board_part(BOARD, None),
            networks=tuple(arguments.network),
            memory=BOARD,
            journal=arguments.output / name,
        )

    whole = explore.engine_space()
    fitting = exploration("none")
    grid = [at for at in random.Random(1).sample(whole, len(whole)) if fitting.fits(at)]
    grid = grid[: arguments.grid]
    # Only engines that both know.
    explore.engine_space = lambda: list(grid)
    with reused_executor(workers_of(arguments).make) as make:
        begin, cpu = time.monotonic(), time.process_time()
        found = exploration("points.jsonl").run(arguments.points, make)
        seconds, used = time.monotonic() - begin, time.process_time() - cpu
        print(f"{len(found)} points in {seconds:.0f} s ({used:.0f} CPU s in this process)")
        every = exploration("points.jsonl").run(len(grid), make, lambda done: print(done, end=" "))
    able = [each for each in every if math.isfinite(each.milliseconds)]
    corner = (max(each.milliseconds for each in able), max(each.tables for each in able))
    volumes = [hypervolume(front_of(each), corner) for each in (found, every)]
    result = {
        "board": BOARD,
        "networks": arguments.network,
        "workers": arguments.workers,
        "grid": len(every),
        "points": len(found),
        "seconds": round(seconds),
        "hypervolume": round(volumes[0] / volumes[1], 4),
        "fronts": [len(front_of(each)) for each in (found, every)],
    }
    print(json.dumps(result))
    if arguments.report is not None:
        arguments.report.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
