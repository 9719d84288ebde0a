"""Mutates the hardware's source and reports which tests notice.

PYTHONPATH=bench, or `make mutate ARGS=...`:

python -m mutation                      everything that has no verdict yet
python -m mutation --only control dma   these units or folders
python -m mutation --retry              the survivors again, after tests were added
python -m mutation --quick              each unit's first test file alone: survivors prove nothing
python -m mutation --workers 2          the tests of two mutants at a time, with the same verdicts

The report is docs/results/mutants.json, written after each mutant: an interrupted run continues
where it was. A verdict stands while the unit's source is the same. Mutants are drawn at
random, but a change of one line does not affect those of other lines.
"""

import argparse
import os
from functools import partial
from pathlib import Path

from worker_arguments import add_workers, workers_of

from matloom.workers import TaskRunner, reused_executor
from mutation.campaign import Campaign
from mutation.trial import try_mutant
from mutation.units import ROOT, UNITS
from support.own_process import in_own_process

REPORT = ROOT / "docs" / "results" / "mutants.json"


def main() -> None:
    """Read the command line, run the campaign, print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", nargs="+", default=[], metavar="UNIT", help="units or folders")
    options.add_argument("--total", type=int, default=300, help="mutants in all, about")
    options.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    options.add_argument("--streams", type=int, default=200, help="random streams for a survivor")
    options.add_argument(
        "--quick",
        action="store_true",
        help="the first test file of each unit alone; a survivor proves nothing",
    )
    options.add_argument("--report", type=Path, default=REPORT, help="JSON, read and written")
    options.add_argument("--retry", action="store_true", help="survivors again")
    add_workers(options)
    arguments = options.parse_args()
    workers = workers_of(arguments)
    os.nice(10)
    chosen = [
        unit
        for unit in UNITS
        if not arguments.only or {unit, unit.split("/")[0]} & set(arguments.only)
    ]
    if not chosen:
        options.error(
            f"--only must name units or folders, such as {UNITS[0]}, not {arguments.only}"
        )
    with reused_executor(workers.make) as make:
        campaign = Campaign(
            total=arguments.total,
            seed=arguments.seed,
            path=arguments.report,
            tasks=TaskRunner(make=make, at_once=workers.at_once),
            # A worker of a cluster may have imported the hardware for another task.
            run=partial(in_own_process, try_mutant) if workers.cluster else try_mutant,
        )
        for unit in chosen:
            campaign.run_unit(unit, retry=arguments.retry, quick=arguments.quick)
    if not arguments.quick:
        for unit in chosen:
            campaign.run_survivors(unit, arguments.streams)
    campaign.print_table()


if __name__ == "__main__":
    main()
