"""Builds a board's bitstream: synthesis, placement and routing by seed, timing check, packing."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matloom.sealed import intact, seal
from matloom_rtl.board.plan import BOARD_TOP, Plan
from matloom_rtl.fpga.devices import Device
from matloom_rtl.fpga.flow import synthesise
from matloom_rtl.fpga.hints import add_hints
from matloom_rtl.fpga.place import SEED, Netlist, Spread, place_and_route, summary
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.tools import find, run

__all__ = ["Bitstream", "TimingError", "build_board"]


#: Seal file of the netlist. If it matches the files, a later call skips synthesis.
_SYNTHESISED = "synthesised.digests"


class TimingError(FlowError):
    """No seed reached the clock, so there is no bitstream; `report` is the report of the build."""

    def __init__(self, message: str, report: dict[str, Any], hint: str):
        super().__init__(message, hint=hint)
        self.report = report


@dataclass(frozen=True, kw_only=True)
class Bitstream:
    """Result of a build: the bitstream's file, and a report."""

    path: Path
    report: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class BoardNetlist(Netlist):
    """Netlist of a whole board, with pin `constraints`; nextpnr writes the routed design to a file.

    The file is the input of the packer.
    """

    constraints: str

    def command(self, seed: int, design: str, *options: str) -> list[str]:
        """Write the constraint file, and return the nextpnr command that reads a design.

        nextpnr does not fail if the clock is missed; its report says so.
        """
        (self.folder / self.device.pin_file).write_text(self.constraints)
        return [
            find(self.device.nextpnr).path,
            *self.device.options,
            *(option for option in self.device.pin_options if "unconstrained" not in option),
            *("--json", design, "--seed", str(seed), "--timing-allow-fail"),
            *(self.device.routed_option, routed_name(self.device, seed)),
            *options,
        ]

    def files(self, seed: int, step: str) -> list[Path]:
        """Return the files of a step as in `Netlist`; for `routed` also the input of the packer."""
        routed = [self.folder / routed_name(self.device, seed)] if step == "routed" else []
        return [*super().files(seed, step), *routed]


def routed_name(device: Device, seed: int) -> str:
    """Return the name of the file that nextpnr writes for the packer."""
    return f"seed_{seed}{device.routed_suffix}"


def build_board(
    plan: Plan,
    folder: Path,
    say: Callable[[str], None] = print,
    seeds: tuple[int, ...] = (SEED,),
    jobs: int = 1,
    first: bool = False,
    spread: Spread | None = None,
) -> Bitstream:
    """Build the bitstream of a plan with the fastest of the seeds; return it with its report.

    `minutes` in the report is None if the netlist was already in the folder.

    Parameters
    ----------
    folder
        Folder for netlist, routings and bitstream. A later call with the same plan and tools
        continues from there, so its name should contain `Plan.digest`.
    say
        Called with a message at the start of each phase.
    seeds, jobs
        Placement seeds, and the number of them to run in parallel.
    first
        Whether to try seeds one by one, ignoring `jobs`, and stop at the first that reaches the
        clock.
    spread
        As for `place_and_route`.

    Raises
    ------
    TimingError
        No seed reached the clock.
    FlowError
        A tool is missing or fails; the netlist has latches, loops or wires with several drivers; or
        no seed was routed.
    """
    started, kept = time.monotonic(), _is_synthesised(plan, folder)
    folder.mkdir(parents=True, exist_ok=True)
    netlist = BoardNetlist(
        folder=folder,
        name=_synthesise(plan, folder, say),
        device=plan.device,
        constraints=plan.constraints,
    )
    runs = (
        _route_until_clock_is_met(netlist, seeds, plan.clock_mhz, say, spread)
        if first
        else place_and_route(netlist, list(seeds), say, jobs, spread)
    )
    report = plan.describe() | {
        "clock_asked_mhz": round(plan.clock_mhz, 3),
        **summary(runs, plan.device),
        "tools": {found.name: found.version for found in map(find, plan.device.tools)},
        "digest": plan.digest(),
        "minutes": None if kept else round((time.monotonic() - started) / 60, 1),
    }
    if report["seed"] is None:
        raise FlowError(
            f"no bitstream: no seed was routed at {plan.clock_mhz:.2f} MHz ({len(runs)} tried)",
            hint=f"try other seeds (--seed {max(seeds) + 1}), or a slower clock "
            f"(--freq {0.95 * plan.clock_mhz:.0f})",
        )
    best = next(item for item in runs if item["seed"] == report["seed"])
    _check_timing(plan, best["report"], report)
    path = folder / f"{plan.name}{plan.device.bitstream_suffix}"
    command = plan.device.pack(routed_name(plan.device, best["seed"]), path.name)
    run([find(plan.device.packer).path, *command], folder, "pack.log", say)
    return Bitstream(path=path, report=report)


def _route_until_clock_is_met(
    netlist: Netlist,
    seeds: tuple[int, ...],
    clock_mhz: float,
    say: Callable[[str], None],
    spread: Spread | None,
) -> list[dict[str, Any]]:
    """Place and route seed by seed until one reaches the clock; return the results of the seeds."""
    runs: list[dict[str, Any]] = []
    for seed in seeds:
        runs += place_and_route(netlist, [seed], say, 1, spread)
        if (runs[-1]["fmax_mhz"] or 0) >= clock_mhz:
            break
    return runs


def _netlist_files(plan: Plan, folder: Path) -> list[Path]:
    """Return the paths of the Verilog file and of the netlist that is synthesised from it."""
    return [folder / "chip.v", folder / f"{plan.device.family}.json"]


def _is_synthesised(plan: Plan, folder: Path) -> bool:
    """Return whether the folder contains the intact netlist of this plan."""
    files = _netlist_files(plan, folder)
    return intact(folder / _SYNTHESISED, files) and files[0].read_text() == plan.verilog


def _synthesise(plan: Plan, folder: Path, say: Callable[[str], None]) -> str:
    """Synthesise a plan unless its netlist is in the folder; return the netlist's file name."""
    name = f"{plan.device.family}.json"
    if _is_synthesised(plan, folder):
        say(f"synthesised already, {folder}")
        return name
    made = synthesise(plan.verilog, BOARD_TOP, plan.device.family, folder, say, plan.soft_columns)
    for fault in ("latches", "conflicts", "loops"):
        if made[fault]:
            raise FlowError(f"the netlist must have no {fault}, and has {made[fault][0]}")
    add_hints(made["netlist"], plan.device, say)
    seal(folder / _SYNTHESISED, _netlist_files(plan, folder))
    return name


def _check_timing(plan: Plan, nextpnr: dict[str, Any], report: dict[str, Any]) -> None:
    """Raise TimingError if a clock misses its constraint, FlowError if the PLL's clock has none."""
    clocks = nextpnr["fmax"]
    asked = plan.clock_mhz
    if not any(clock["constraint"] >= 0.999 * asked for clock in clocks.values()):
        raise FlowError(f"nextpnr was not told of the clock of {asked:.2f} MHz")
    for name, clock in clocks.items():
        needed = clock["constraint"] / plan.device.margin
        if clock["achieved"] < needed:
            raise TimingError(
                f"no bitstream: clock {name} reached {clock['achieved']:.2f} of {needed:.2f} MHz "
                f"with seed {report['seed']}",
                report,
                hint="try other seeds (--seed 8), or a slower clock "
                f"(--freq {clock['achieved'] * asked / needed:.0f})",
            )
