"""Mutates the chip's netlist with Yosys and reports which mutants random streams notice.

    python bench/netlist_mutants.py                        # goes on where the report ends
    python bench/netlist_mutants.py --count 400 --again    # from the beginning

Yosys changes one bit of one cell for each mutant (`mutate`: inverted, constant, or exchanged with
another where a bit says so), all of them in one netlist with an input that chooses one, so that
one simulator is built for all. Clocks are not mutated, nor memories' initial contents, which are
random before the first run. A mutant runs legal and corrupted streams against the functional model,
bus rules checked; survivors run more of them. Each has a process of its own with a limit: some
hang, some make loops that no simulator settles. Survivors are compared with the module as it was by
Yosys' equivalence check (`equiv_induct`): what no input tells apart is no mutant.
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import re
import resource
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matloom.arch.config import Config, load_config
from matloom.device.errors import DeviceError
from matloom.device.rtl import RtlTransport
from matloom.device.simulator import arguments, load, simulator_of
from matloom.testing.checks import check_corrupted, check_streams
from matloom.testing.pair import MEMORY_BYTES, Pair
from matloom.toolchain import power_up, simulated
from matloom.toolchain.cache import cache_folder
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.tools import YOSYS, find, run
from matloom_rtl.generate import TOP_NAME, Chip, generate

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "netlist_mutants.json"

#: Bits of the input that chooses a mutant.
_BITS = 12

#: Seconds of processor time, and by the clock, that a trial may take: what takes longer hangs.
_PROCESSOR_SECONDS, _SECONDS = 240, 900

#: Initial contents of memories, and clocks: no logic.
_NO_LOGIC = re.compile(r"\$meminit|-port (CLK|RD_CLK|WR_CLK) ")

#: Seconds of a run: all others take far less than one.
_RUN_SECONDS = 6.0

#: Streams of the first trial, and of one of survivors.
_FEW, _MANY = (10, 10), (100, 60)

#: Verdicts: noticed by the first streams, by more of them, by none; not told apart by any input.
STREAMS, MORE_STREAMS, NOTHING, EQUIVALENT = "streams", "more streams", "nothing", "equivalent"


def yosys(script: str, folder: Path) -> None:
    """Run a script of Yosys in a folder; raises FlowError."""
    (folder / "script.ys").write_text(script)
    run([find(YOSYS).path, "-q", "script.ys"], folder, "yosys.log", lambda _line: None)


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


def trial(config: Config, library: Path, number: int, streams: tuple[int, int]) -> None:
    """Run streams on a mutant; raises what notices it."""
    limit = _PROCESSOR_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    chip = MutantTransport(config, library, number)
    pair = Pair.of(chip, config, timeout=_RUN_SECONDS)
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


def equivalent(mutant: str, folder: Path) -> bool:
    """Return whether no input of its module tells a mutant from what it was (by induction)."""
    module = _module(mutant)
    script = (
        f"read_rtlil chip.il\nhierarchy -top {module}\ncopy {module} gold\n"
        f"mutate {mutant}\nrename {module} gate\nflatten gold gate\nmemory_map gold gate\n"
        "opt_clean gold gate\nequiv_make gold gate joined\nhierarchy -top joined\nopt -full\n"
        "equiv_simple -seq 3\nequiv_induct -seq 3\nequiv_status -assert\n"
    )
    try:
        yosys(script, folder)
    except FlowError:
        return False
    return True


def _module(mutant: str) -> str:
    found = re.search(r"-module (\S+)", mutant)
    assert found is not None
    return found[1]


def unit_of(mutant: str) -> str:
    """Return the unit of a mutant: the second level below the core, without Yosys' numbers."""
    parts = [re.sub(r"\$\d+$", "", part) for part in _module(mutant).split(".")]
    return ".".join(parts[2:4]) or ".".join(parts)


def main() -> None:
    """Draw, build, try, and write the report after each mutant."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--config", default="nano", help="preset or file")
    options.add_argument("--count", type=int, default=400, help="mutants that are drawn")
    options.add_argument("--seed", type=int, default=1, help="of the choice")
    options.add_argument("--again", action="store_true", help="forget the report")
    given = options.parse_args()
    if not 0 < given.count < 1 << _BITS:
        options.error(f"--count must be 1 to {(1 << _BITS) - 1}, not {given.count}")
    config = load_config(given.config)
    chip = generate(config)
    folder = cache_folder() / "netlist_mutants" / f"{config.digest:08x}"
    folder.mkdir(parents=True, exist_ok=True)
    mutants = draw(chip, given.count, given.seed, folder)
    flags = [*arguments(config, False, "none"), "-CFLAGS", "-DMATLOOM_MUTANTS"]
    print(f"building the simulator of {len(mutants)} mutants", flush=True)
    library = simulator_of(chip, with_mutants(mutants, folder), flags)
    report = {"config": given.config, "seed": given.seed, "count": given.count, "mutants": {}}
    if REPORT.is_file() and not given.again:
        known = json.loads(REPORT.read_text())["mutants"]
        # Those of other hardware are forgotten.
        report["mutants"] = {name: known[name] for name in mutants if name in known}
    campaign(config, library, mutants, report["mutants"], folder, lambda: _write(report))
    count = Counter(item["verdict"] for item in report["mutants"].values())
    real = sum(count.values()) - count[EQUIVALENT]
    found = count[STREAMS] + count[MORE_STREAMS]
    print(f"{dict(count)}; {found} of {real} are noticed: {found / max(real, 1):.1%}")


def campaign(
    config: Config,
    library: Path,
    mutants: list[str],
    verdicts: dict[str, Any],
    folder: Path,
    write: Callable[[], None],
) -> None:
    """Try every mutant that has no verdict; `write` is called after each."""
    if noticed(config, library, 0, _FEW):
        raise SystemExit("the chip without a mutant must pass its streams")
    for number, mutant in enumerate(mutants, start=1):
        if mutant in verdicts:
            continue
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


def _write(report: dict[str, Any]) -> None:
    REPORT.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
