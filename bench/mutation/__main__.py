"""Mutates the hardware's source and reports which tests notice.

PYTHONPATH=bench, or `make mutate ARGS=...`:

python -m mutation                      everything that has no verdict yet
python -m mutation --only control dma   these units or folders
python -m mutation --retry              the survivors again, after tests were added
python -m mutation --quick              each unit's own tests alone: survivors are not looked at

The report is docs/results/mutants.json, written after each mutant: an interrupted run goes on
where it was. A verdict stands while the unit's source is the same; the mutants of a seed stay the
same where their lines do.
"""

import argparse
import os
from pathlib import Path

import amaranth.back.rtlil
import amaranth.lib.fifo
import amaranth.sim
import numpy as np

import matloom.verification.random_programs
from mutation.campaign import Campaign
from mutation.units import ROOT, UNITS

REPORT = ROOT / "docs" / "results" / "mutants.json"

# Loaded for the children, which find them done.
_LOADED = (amaranth, np, matloom.verification.random_programs)


def main() -> None:
    """Read the command line, run the campaign, print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", nargs="+", default=[], metavar="UNIT", help="units or folders")
    options.add_argument("--total", type=int, default=300, help="mutants in all, about")
    options.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    options.add_argument("--streams", type=int, default=200, help="random streams for a survivor")
    options.add_argument("--quick", action="store_true", help="tests of the unit alone")
    options.add_argument("--report", type=Path, default=REPORT, help="JSON, read and written")
    options.add_argument("--retry", action="store_true", help="survivors again")
    given = options.parse_args()
    os.nice(10)
    chosen = [
        unit for unit in UNITS if not given.only or {unit, unit.split("/")[0]} & set(given.only)
    ]
    if not chosen:
        options.error(f"--only must name units or folders, such as {UNITS[0]}, not {given.only}")
    campaign = Campaign(total=given.total, seed=given.seed, path=given.report)
    for unit in chosen:
        campaign.run_unit(unit, retry=given.retry, quick=given.quick)
    if not given.quick:
        for unit in chosen:
            campaign.run_survivors(unit, given.streams)
    campaign.print_table()


if __name__ == "__main__":
    main()
