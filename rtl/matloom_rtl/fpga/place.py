"""Places and routes a netlist with several seeds, reusing results of earlier runs."""

import json
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from matloom.sealed import intact, seal
from matloom_rtl.fpga.devices import Device
from matloom_rtl.fpga.progress import UnroutedError, rounds_of
from matloom_rtl.fpga.tools import find, run

__all__ = ["SEED", "Netlist", "Spread", "cores", "place_and_route", "summary"]

#: Default placement seed.
SEED = 4

#: Factor from a requested clock that was missed to the one requested next.
_SLOWER_FACTOR = 0.95


@dataclass(frozen=True, kw_only=True)
class Netlist:
    """Netlist from Yosys for a device: the file `name` in `folder`, where results are cached too.

    With `checkpoints` the placement is cached and routed from the cache, if nextpnr can. `slower`
    is the maximum number of retries if connections miss the requested clock, each with a clock 5 %
    slower.
    """

    folder: Path
    name: str
    device: Device
    checkpoints: bool = False
    slower: int = 0

    def command(self, seed: int, design: str, *options: str) -> list[str]:
        """Write the pin file, and return the nextpnr command that reads a design in the folder."""
        (self.folder / self.device.pin_file).write_text(self.device.constraints())
        return [
            find(self.device.nextpnr).path,
            *self.device.options,
            *self.device.pin_options,
            *("--json", design, "--seed", str(seed)),
            # Missing the clock is not an error: the report has the achieved one.
            "--timing-allow-fail",
            *options,
        ]

    def result_path(self, seed: int, step: str) -> Path:
        """Return the path of the result of a step, `placed` or `routed`."""
        return self.folder / f"seed_{seed}_{step}.json"

    def files(self, seed: int, step: str) -> list[Path]:
        """Return all files of a step: the netlist, its result and its log."""
        kept = self.result_path(seed, step)
        return [self.folder / self.name, kept, kept.with_suffix(".log")]

    def is_kept(self, seed: int, step: str) -> bool:
        """Return whether a step is finished and its files are intact."""
        return intact(_seal_of(self.result_path(seed, step)), self.files(seed, step))

    def keep(self, seed: int, step: str) -> None:
        """Seal the files of a finished step, so that `is_kept` recognises them."""
        seal(_seal_of(self.result_path(seed, step)), self.files(seed, step))


def _seal_of(checkpoint: Path) -> Path:
    """Return the path of the file of digests that seals a checkpoint."""
    return checkpoint.with_suffix(".digests")


def cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class SeedTask:
    """A seed to run on a worker that shares no folder; `design` is the compressed netlist file."""

    netlist: Netlist
    design: bytes
    seed: int


#: Outcome of a seed as in `place_and_route`, and the contents of its files by name.
SeedRun: TypeAlias = tuple[dict[str, Any], dict[str, bytes]]

#: Runs a function on tasks elsewhere, and yields the results in the order of the tasks, as
#: `matloom.workers.TaskRunner.in_order` does.
Spread: TypeAlias = Callable[[Callable[[SeedTask], SeedRun], Iterable[SeedTask]], Iterator[SeedRun]]


def place_and_route(
    netlist: Netlist,
    seeds: list[int],
    say: Callable[[str], None],
    jobs: int,
    spread: Spread | None = None,
) -> list[dict[str, Any]]:
    """Place and route with each seed, `jobs` at a time; return the outcome of each, in order.

    An outcome has its `seed`, `estimated_mhz` after placement, the number of routing `rounds`, and
    the `shared_wires` and `late_connections` left after the last. `routed_for_mhz`, `fmax_mhz` and
    nextpnr's `report` are None if routing was abandoned. Cached results in the folder are reused.

    Parameters
    ----------
    spread:
        Function that runs the seeds on workers, with the same outcomes and files; None for threads.
    """
    if spread is not None:
        return list(_on_workers(netlist, seeds, say, spread))
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        runs = [pool.submit(partial(_run_seed, netlist, seed, say)) for seed in seeds]
        try:
            return [each.result() for each in runs]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _on_workers(
    netlist: Netlist, seeds: list[int], say: Callable[[str], None], spread: Spread
) -> Iterator[dict[str, Any]]:
    """Yield the outcome of each seed in order; workers run those without a cached routing."""
    left = [seed for seed in seeds if not netlist.is_kept(seed, "routed")]
    design = zlib.compress((netlist.folder / netlist.name).read_bytes()) if left else b""
    made = spread(run_task, (SeedTask(netlist=netlist, design=design, seed=seed) for seed in left))
    for seed in seeds:
        if seed not in left:
            yield _run_seed(netlist, seed, say)
            continue
        outcome, files = next(made)
        for name, content in files.items():
            (netlist.folder / name).write_bytes(content)
        _report(say, seed, "done by a worker")
        yield outcome


def run_task(task: SeedTask) -> SeedRun:
    """Place and route a task's seed in a temporary folder; return its outcome and its files."""
    with tempfile.TemporaryDirectory(prefix="matloom-fpga-") as name:
        folder = Path(name)
        netlist = replace(task.netlist, folder=folder)
        (folder / netlist.name).write_bytes(zlib.decompress(task.design))
        outcome = _run_seed(netlist, task.seed, lambda _line: None)
        files = {each.name: each.read_bytes() for each in folder.glob(f"seed_{task.seed}[._]*")}
    return outcome, files


def _run_seed(netlist: Netlist, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Place and route with one seed; return clocks, routing rounds and nextpnr's report."""
    told = partial(_report, say, seed)
    routed = netlist.result_path(seed, "routed")
    done = netlist.is_kept(seed, "routed")
    if done:
        told(f"routed already, {routed}")
    else:
        done = _route_slower(netlist, seed, told)
    placing, routing = (_read_log(netlist, seed, step) for step in ("placed", "routed"))
    report = json.loads(routed.read_text()) if done else None
    rounds = rounds_of(routing)
    shared, late = rounds[-1] if rounds else (None, None)
    return {
        "seed": seed,
        "estimated_mhz": _first_clock(placing or routing),
        "rounds": len(rounds),
        "shared_wires": shared,
        "late_connections": late,
        "routed_for_mhz": _requested_mhz(report) if report else None,
        "fmax_mhz": _slowest_clock(report) if report else None,
        "report": report,
    }


def _report(say: Callable[[str], None], seed: int, message: str) -> None:
    """Pass a message to `say`, with the seed in front."""
    say(f"seed {seed}: {message}")


def _read_log(netlist: Netlist, seed: int, step: str) -> str:
    """Return nextpnr's log of a step, `placed` or `routed`, with a seed; empty if there is none."""
    path = netlist.result_path(seed, step).with_suffix(".log")
    return path.read_text() if path.exists() else ""


def _route_slower(netlist: Netlist, seed: int, say: Callable[[str], None]) -> bool:
    """Place and route, retrying with slower clocks if connections are late; return the success."""
    fastest = netlist.device.clock_mhz
    for step in range(netlist.slower + 1):
        asked = {"--freq": f"{fastest * _SLOWER_FACTOR**step:.4g}"} if step else {}
        try:
            _route(replace(netlist, device=netlist.device.with_options(asked)), seed, say)
        except UnroutedError as error:
            say(str(error))
            if error.late:
                continue
            return False
        return True
    return False


def _route(netlist: Netlist, seed: int, say: Callable[[str], None]) -> None:
    """Place and route in one run, or route from a checkpoint of the placement, made if missing."""
    placed, routed = netlist.result_path(seed, "placed"), netlist.result_path(seed, "routed")
    design, options = netlist.name, []
    if netlist.checkpoints and netlist.device.continues:
        if netlist.is_kept(seed, "placed"):
            say(f"placed already, {placed}")
        else:
            command = netlist.command(seed, netlist.name, "--no-route", "--write", placed.name)
            run(command, netlist.folder, placed.with_suffix(".log").name, say)
            netlist.keep(seed, "placed")
        design, options = placed.name, ["--no-pack", "--no-place"]
    command = netlist.command(seed, design, *options, "--report", routed.name)
    run(command, netlist.folder, routed.with_suffix(".log").name, say)
    netlist.keep(seed, "routed")


def _first_clock(log: str) -> float | None:
    """Return the first clock in MHz that nextpnr prints, its estimate after placement."""
    match = re.search(r"Max frequency for clock\s+'[^']*':\s*([\d.]+) MHz", log)
    return float(match[1]) if match else None


def _requested_mhz(report: dict[str, Any]) -> float | None:
    """Return the slowest requested clock in MHz; None if nextpnr reports none."""
    asked = min((clock["constraint"] for clock in report["fmax"].values()), default=None)
    return round(asked, 2) if asked else None


def _slowest_clock(report: dict[str, Any]) -> float | None:
    """Return the slowest requested clock in MHz times the least fraction reached; None if none."""
    clocks = report["fmax"].values()
    least = min((clock["constraint"] for clock in clocks), default=0)
    reached = [clock["achieved"] * least / clock["constraint"] for clock in clocks]
    return round(min(reached), 2) if reached else None


def summary(runs: list[dict[str, Any]], device: Device) -> dict[str, Any]:
    """Return area, clock and critical path of the fastest run, the median clock, and all `runs`.

    The runs are without nextpnr's reports. If none was routed, all entries but `runs` are None.
    """
    routed = [item for item in runs if item["fmax_mhz"]]
    clocks = [item["fmax_mhz"] for item in routed]
    best = max(routed, key=lambda item: item["fmax_mhz"], default=None)
    return {
        "area": _area(best["report"], device) if best else None,
        "fmax_mhz": best["fmax_mhz"] if best else None,
        "median_mhz": round(median(clocks), 2) if clocks else None,
        "critical_path": _critical_path(best["report"]) if best else None,
        "seed": best["seed"] if best else None,
        "runs": [{key: item[key] for key in item if key != "report"} for item in runs],
    }


def _area(report: dict[str, Any], device: Device) -> dict[str, dict[str, int]]:
    """Return the used and the available number of each resource, by name, from nextpnr's report."""
    used = report["utilization"]
    return {
        name: {
            "used": ceil(
                sum(each * used.get(cell, {}).get("used", 0) for cell, each in cells.items())
            ),
            "available": device.capacity[name],
        }
        for name, cells in device.cells.items()
    }


def _critical_path(report: dict[str, Any]) -> dict[str, Any]:
    """Return ends and delays of the slowest path within a clock domain; an empty dict if none."""
    paths = [path for path in report["critical_paths"] if path["from"] == path["to"]]
    if not paths:
        return {}
    path = max(paths, key=lambda item: sum(part["delay"] for part in item["path"]))
    parts = path["path"]
    logic = sum(part["delay"] for part in parts if part["type"] != "routing")
    routing = sum(part["delay"] for part in parts if part["type"] == "routing")
    return {
        "from": parts[0]["from"]["cell"],
        "to": parts[-1]["to"]["cell"],
        "logic_ns": round(logic, 2),
        "routing_ns": round(routing, 2),
    }
