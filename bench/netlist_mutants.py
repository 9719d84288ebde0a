"""Mutates the chip's netlist with Yosys and reports which mutants random streams notice.

    python bench/netlist_mutants.py                        # continues the report
    python bench/netlist_mutants.py --count 400 --again    # starts again
    python bench/netlist_mutants.py --steps retry          # only survivors, after wider streams

Yosys changes one bit of one cell for each mutant (`mutate`: inverted, constant, or swapped with
another if a bit says so). All mutants are in one netlist with an input that selects one, so that a
single simulator serves all. Clocks are not mutated, nor the initial contents of memories, which
are random before the first run. A mutant runs legal and corrupted streams against the functional
model, with bus rules and timestamps checked, in a process of its own with a time limit: some
hang, some have loops that no simulator settles. Survivors are compared with the original module by
Yosys' equivalence check (`equiv_induct`), which removes equivalent mutants. The others are tried
on the claims of `matloom_rtl.formal` about their unit, then on more streams. The report of another
netlist is discarded.
"""

import argparse
import hashlib
import json
import re
import time
from pathlib import Path
from typing import Any

from mutant_campaign import Campaign
from mutant_report import REPORT, digest_of, give_reasons, reusable_verdicts, summary, write
from mutant_yosys import observable_mutants, run_yosys

from matloom.arch.config import load_config
from matloom.device.simulator import arguments, build_chip_simulator
from matloom.toolchain import power_up, simulated
from matloom.toolchain.cache import cache_folder
from matloom_rtl.generate import TOP_NAME, Chip, generate

#: Bits of the input that chooses a mutant.
_BITS = 12

#: Initial contents of memories, and clocks: no logic.
_NO_LOGIC = re.compile(r"\$meminit|-port (CLK|RD_CLK|WR_CLK) ")


def draw(chip: Chip, count: int, seed: int, folder: Path) -> list[str]:
    """Write the chip in Yosys' format; return random mutants, as arguments of `mutate`.

    The draw is cached in `folder` and repeated only if the chip, `count` or `seed` has changed.
    """
    text = power_up.without_initial_values(simulated.for_simulation(chip.verilog))
    (folder / "chip.v").write_text(text)
    script = (
        f"read_verilog chip.v\nhierarchy -top {TOP_NAME}\nproc\nopt_clean\nwrite_rtlil chip.il\n"
        f"mutate -list {count} -seed {seed} -o mutants.txt\n"
    )
    of = hashlib.sha256((text + script).encode()).hexdigest()
    drawn = folder / "drawn"
    if not drawn.is_file() or drawn.read_text() != of:
        run_yosys(script, folder)
        drawn.write_text(of)
    lines = (folder / "mutants.txt").read_text().splitlines()
    return [line.removeprefix("mutate ") for line in lines if not _NO_LOGIC.search(line)]


def with_mutants(mutants: list[str], folder: Path) -> Path:
    """Return a Verilog file of the chip with all mutants, selected by the input ``mutsel``.

    The file is cached in `folder`.
    """
    changes = [
        f"mutate -ctrl mutsel {_BITS} {number} {mutant}\n"
        for number, mutant in enumerate(mutants, start=1)
    ]
    script = "read_rtlil chip.il\n" + "".join(changes) + "opt_clean\n"
    of = hashlib.sha256((folder / "chip.il").read_bytes() + script.encode()).hexdigest()[:16]
    made = folder / f"mutants_{of}.v"
    if not made.is_file():
        run_yosys(f"{script}write_verilog -noattr mutants.v\n", folder)
        (folder / "mutants.v").rename(made)
    return made


def _options() -> argparse.Namespace:
    """Return the options of the command line."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--config", default="nano", help="preset or file")
    options.add_argument("--count", type=int, default=400, help="mutants that are drawn")
    options.add_argument("--seed", type=int, default=1, help="of the choice")
    options.add_argument("--steps", default="first,compare,claims,more", help="in their order")
    options.add_argument("--minutes", type=float, default=1e9, help="in which a trial may begin")
    options.add_argument("--proof-seconds", type=int, default=300, help="of a proof")
    options.add_argument("--again", action="store_true", help="forget the report")
    arguments = options.parse_args()
    if not 0 < arguments.count < 1 << _BITS:
        options.error(f"--count must be 1 to {(1 << _BITS) - 1}, not {arguments.count}")
    return arguments


def main() -> None:
    """Draw, build, try, and write the report after each mutant."""
    given = _options()
    config = load_config(given.config)
    chip = generate(config)
    folder = cache_folder() / "netlist_mutants" / f"{config.digest:08x}"
    folder.mkdir(parents=True, exist_ok=True)
    mutants = draw(chip, given.count, given.seed, folder)
    flags = [*arguments(config, False, "none"), "-CFLAGS", "-DMATLOOM_MUTANTS"]
    print(f"building the simulator of {len(mutants)} mutants", flush=True)
    verilog = with_mutants(mutants, folder)
    library = build_chip_simulator(chip, verilog.read_text(), flags)
    report: dict[str, Any] = {
        "config": given.config,
        "seed": given.seed,
        "count": given.count,
        "netlist": digest_of(folder),
        "mutants": {},
    }
    if REPORT.is_file() and not given.again:
        report["mutants"] = reusable_verdicts(json.loads(REPORT.read_text()), report)
    end = time.monotonic() + 60 * given.minutes
    tried = Campaign(config=config, library=library, mutants=mutants, folder=folder, report=report)
    tried.leave_out(observable_mutants(verilog))
    steps = {
        "first": tried.first_streams,
        "retry": tried.retry,
        "compare": tried.compare,
        "claims": lambda end: tried.claims(end, given.proof_seconds),
        "more": tried.more_streams,
    }
    for name in given.steps.split(","):
        steps[name](end)
        give_reasons(report)
    write(report)
    print(summary(report["mutants"]))


if __name__ == "__main__":
    main()
