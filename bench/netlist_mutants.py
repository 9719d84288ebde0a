"""Mutates the chip's netlist with Yosys and reports which mutants random streams notice.

    python bench/netlist_mutants.py                        # goes on where the report ends
    python bench/netlist_mutants.py --count 400 --again    # from the beginning
    python bench/netlist_mutants.py --minutes 0 --retry    # survivors alone, after wider streams

Yosys changes one bit of one cell for each mutant (`mutate`: inverted, constant, or exchanged with
another where a bit says so), all of them in one netlist with an input that chooses one, so that
one simulator is built for all. Clocks are not mutated, nor memories' initial contents, which are
random before the first run. A mutant runs legal and corrupted streams against the functional model,
bus rules and timestamps checked; survivors run more of them. Each has a process of its own with a
limit: some hang, some make loops that no simulator settles. Survivors are compared with the module
as it was by Yosys' equivalence check (`equiv_induct`): what no input tells apart is no mutant. What
streams do not notice is put to the claims of `matloom_rtl.formal` about its unit. A report of
another netlist is begun anew.
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mutant_proofs import noticing_claim, prepare
from mutant_report import (
    EQUIVALENT,
    MORE_STREAMS,
    NOTHING,
    PROOFS,
    REPORT,
    STREAMS,
    digest_of,
    give_reasons,
    kept,
    summary,
    unit_of,
    write,
)
from mutant_yosys import equivalent, yosys

from matloom.arch.config import Config, load_config
from matloom.device.errors import DeviceError
from matloom.device.rtl import RtlTransport
from matloom.device.simulator import arguments, load, simulator_of
from matloom.testing.checks import check_corrupted, check_streams
from matloom.testing.pair import MEMORY_BYTES, Pair
from matloom.toolchain import power_up, simulated
from matloom.toolchain.cache import cache_folder
from matloom_rtl.generate import TOP_NAME, Chip, generate

#: Bits of the input that chooses a mutant.
_BITS = 12

#: Seconds of processor time, and by the clock, that a trial may take: what takes longer hangs.
_PROCESSOR_SECONDS, _SECONDS = 240, 900

#: Initial contents of memories, and clocks: no logic.
_NO_LOGIC = re.compile(r"\$meminit|-port (CLK|RD_CLK|WR_CLK) ")

#: Seconds of a run: all others take far less than one.
_RUN_SECONDS = 6.0

#: Cycles without progress that make a fault of what hangs, and those of the longest run.
_WATCHDOG, _RUN_CYCLES = 20_000, 1 << 19

#: Streams of the first trial, and of one of survivors.
_FEW, _MANY = (10, 10), (100, 60)


def draw(chip: Chip, count: int, seed: int, folder: Path) -> list[str]:
    """Write the chip as Yosys has it, and return the mutants drawn: arguments of `mutate`."""
    text = power_up.without_initial_values(simulated.simulated(chip.verilog))
    (folder / "chip.v").write_text(text)
    yosys(
        f"read_verilog chip.v\nhierarchy -top {TOP_NAME}\nproc\nopt_clean\nwrite_rtlil chip.il\n"
        f"mutate -list {count} -seed {seed} -o mutants.txt\n",
        folder,
    )
    lines = (folder / "mutants.txt").read_text().splitlines()
    return [line.removeprefix("mutate ") for line in lines if not _NO_LOGIC.search(line)]


def with_mutants(mutants: list[str], folder: Path) -> str:
    """Return Verilog of the chip with all mutants, chosen by the input ``mutsel``."""
    changes = [
        f"mutate -ctrl mutsel {_BITS} {number} {mutant}\n"
        for number, mutant in enumerate(mutants, start=1)
    ]
    last = "opt_clean\nwrite_verilog -noattr mutants.v\n"
    yosys("read_rtlil chip.il\n" + "".join(changes) + last, folder)
    return (folder / "mutants.v").read_text()


class MutantTransport(RtlTransport):
    """A mutant of the chip: `library` has them all."""

    def __init__(self, config: Config, library: Path, number: int) -> None:
        self._of = library, number
        super().__init__(config, MEMORY_BYTES, check_bus=True)

    def _load(
        self, config: Config, trace: bool, on_line: Callable[[str], None] | None
    ) -> ctypes.CDLL:
        path, number = self._of
        library = load(path)
        library.matloom_choose(number)
        return library

    def wait_interrupt(self, cycles: int) -> int:
        """Let the mutant run until its interrupt rises; a run that has none is noticed."""
        count = super().wait_interrupt(min(cycles, _RUN_CYCLES))
        if count >= _RUN_CYCLES:
            raise DeviceError(f"no interrupt in {count} cycles")
        return count


def trial(config: Config, library: Path, number: int, streams: tuple[int, int]) -> None:
    """Run streams on a mutant; raises what notices it."""
    limit = _PROCESSOR_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    chip = MutantTransport(config, library, number)
    pair = Pair.of(chip, config, timeout=_RUN_SECONDS)
    pair.rtl.write("TIMEOUT", _WATCHDOG)
    check_streams(pair, number, streams[0])
    check_corrupted(pair, number, streams[1])
    if chip.stray_accesses:
        raise DeviceError("an access outside external memory")


def _child(config: Config, library: Path, number: int, streams: tuple[int, int], to: Any) -> None:
    # What a mutant makes its simulator say is of no use to anybody.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        trial(config, library, number, streams)
    except Exception as error:
        to.send(f"{type(error).__name__}: {error}"[:200])
    else:
        to.send("")


def noticed(config: Config, library: Path, number: int, streams: tuple[int, int]) -> str:
    """Return by what a mutant is noticed; nothing where it is not."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=_child, args=(config, library, number, streams, there))
    child.start()
    there.close()
    try:
        said = str(here.recv()) if here.poll(_SECONDS) else "takes too long"
    except EOFError:
        said = "the simulator ends"
    child.kill()
    child.join()
    return said


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--config", default="nano", help="preset or file")
    options.add_argument("--count", type=int, default=400, help="mutants that are drawn")
    options.add_argument("--seed", type=int, default=1, help="of the choice")
    options.add_argument("--minutes", type=float, default=1e9, help="of streams: then proofs")
    options.add_argument("--proof-seconds", type=int, default=300, help="of a proof; 0: no proofs")
    options.add_argument("--retry", action="store_true", help="first streams of survivors again")
    options.add_argument("--again", action="store_true", help="forget the report")
    given = options.parse_args()
    if not 0 < given.count < 1 << _BITS:
        options.error(f"--count must be 1 to {(1 << _BITS) - 1}, not {given.count}")
    return given


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
    library = simulator_of(chip, with_mutants(mutants, folder), flags)
    report: dict[str, Any] = {
        "config": given.config,
        "seed": given.seed,
        "count": given.count,
        "netlist": digest_of(folder),
        "mutants": {},
    }
    if REPORT.is_file() and not given.again:
        report["mutants"] = kept(json.loads(REPORT.read_text()), report)
    verdicts, end = report["mutants"], time.monotonic() + 60 * given.minutes
    if given.minutes:
        campaign(config, library, mutants, verdicts, folder, (end, lambda: write(report)))
    if given.retry:
        try_again(config, library, mutants, verdicts, folder, lambda: write(report))
    if given.proof_seconds:
        try_proofs(config, verdicts, folder, given.proof_seconds, lambda: write(report))
    give_reasons(report)
    write(report)
    print(summary(verdicts))


def campaign(
    config: Config,
    library: Path,
    mutants: list[str],
    verdicts: dict[str, Any],
    folder: Path,
    end_write: tuple[float, Callable[[], None]],
) -> None:
    """Try every mutant that has no verdict until the end; what writes is called after each."""
    end, write = end_write
    wrong = noticed(config, library, 0, _MANY)
    if wrong:
        raise SystemExit(f"the chip without a mutant must pass its streams, not end with {wrong}")
    for number, mutant in enumerate(mutants, start=1):
        if mutant in verdicts:
            continue
        if time.monotonic() > end:
            break
        begin = time.monotonic()
        verdict, by = STREAMS, noticed(config, library, number, _FEW)
        if not by and equivalent(mutant, folder):
            verdict = EQUIVALENT
        elif not by:
            verdict, by = MORE_STREAMS, noticed(config, library, number, _MANY)
        if verdict == MORE_STREAMS and not by:
            verdict = NOTHING
        verdicts[mutant] = {"unit": unit_of(mutant), "verdict": verdict, "by": by}
        write()
        seconds = time.monotonic() - begin
        print(f"{number:4} {seconds:6.1f} s  {unit_of(mutant):28} {verdict:12} {by}", flush=True)


def try_again(
    config: Config,
    library: Path,
    mutants: list[str],
    verdicts: dict[str, Any],
    folder: Path,
    write: Callable[[], None],
) -> None:
    """Run the first streams on survivors once more, and compare them with what they were."""
    for number, mutant in enumerate(mutants, start=1):
        item = verdicts.get(mutant, {"verdict": ""})
        if item["verdict"] != NOTHING:
            continue
        by = noticed(config, library, number, _FEW)
        if by:
            item.update(verdict=STREAMS, by=by)
        elif equivalent(mutant, folder):
            item.update(verdict=EQUIVALENT)
        write()
        print(f"{unit_of(mutant):28} {item['verdict']:12} {by}", flush=True)


def try_proofs(
    config: Config,
    verdicts: dict[str, Any],
    folder: Path,
    seconds: int,
    write: Callable[[], None],
) -> None:
    """Put what no stream notices to the claims about its unit, each once; `write` after each."""
    left = [name for name, item in verdicts.items() if item["verdict"] == NOTHING]
    left = [name for name in left if "claims" not in verdicts[name]]
    claims = prepare(config, folder / "claims") if left else []
    for mutant in left:
        tried, by = noticing_claim(mutant, folder, claims, folder / "proof", seconds)
        found = {"verdict": PROOFS, "by": by} if by else {}
        verdicts[mutant].update(claims=tried, **found)
        write()
        print(f"{unit_of(mutant):28} {tried} claims {by}", flush=True)


if __name__ == "__main__":
    main()
