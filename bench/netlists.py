"""Renews the digests of the current netlists: python bench/netlists.py [REPORT...].

Writes bitstreams/netlists.json, from which the pages' tables tell which reports are of an earlier
netlist. Generates the Verilog of each such report, which takes a minute or two for a large one, or
only of those that are named.
"""

import json
import sys
from collections.abc import Collection
from pathlib import Path

from matloom.arch.config import Config
from matloom.arch.config_name import config_name
from matloom.errors import MissingPackageError
from matloom.toolchain.soc_firmware import boot_rom
from matloom_rtl.board.definition import load_board
from matloom_rtl.board.plan import BOARD_TOP, make_plan
from matloom_rtl.board.vivado import make_project
from matloom_rtl.generate import generate
from matloom_rtl.netlist_digest import netlist_digest

ROOT = Path(__file__).resolve().parents[1]
NETLISTS = ROOT / "bitstreams" / "netlists.json"


def verilog_of(report: dict) -> str:
    """Return the Verilog that today's sources generate for a report."""
    config = Config(**{**report["config"], "mac_modes": tuple(report["config"]["mac_modes"])})
    if "board" not in report:
        return generate(config).verilog
    board, clock = load_board(report["board"]), round(report["clock_asked_mhz"] * 1e6)
    if "part" in report:
        return make_project(board, config_name(config), clock).files[f"{BOARD_TOP}.v"]
    rom = boot_rom() if "cpu" in report else None
    cpu = report.get("cpu", "VexRiscv default").removeprefix("VexRiscv ")
    return make_plan(board, config_name(config), clock, rom, cpu).verilog


def digests(folder: Path, known: dict[str, str], names: Collection[str] = ()) -> dict[str, str]:
    """Return today's digest of each report of a folder that has one.

    With `names`, only those reports are renewed. The others, and those for which a package is
    missing, keep the digest in `known`.
    """
    found = {}
    for path in sorted(folder.rglob("*.json")):
        report = json.loads(path.read_text())
        if "netlist_digest" not in report or path.stem.endswith("_units"):
            continue
        if not names or path.stem in names:
            try:
                found[path.stem] = netlist_digest(verilog_of(report))
                continue
            except MissingPackageError as error:
                print(f"{path.stem} is left as it is: {error}")
        if path.stem in known:
            found[path.stem] = known[path.stem]
    return found


if __name__ == "__main__":
    before = json.loads(NETLISTS.read_text())
    after = digests(NETLISTS.parent / "reports", before, sys.argv[1:])
    NETLISTS.write_text(json.dumps(after, indent=2) + "\n")
