"""Checks the area of presets for growth: python -m matloom_rtl.fpga.size nano small.

Exits with 1 if the tables or flip-flops of a preset exceed its stored report by more than 2 %. With
`--keep`, writes the reports instead.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from matloom.arch.config import load_config
from matloom_rtl.fpga.devices import DEVICES, Device
from matloom_rtl.fpga.flow import soft_columns, synthesise, unit_report
from matloom_rtl.fpga.pinsaver import WRAPPER_NAME, wrap
from matloom_rtl.fpga.units import area_by_unit, read_cells
from matloom_rtl.generate import Chip, generate

__all__ = ["growth", "measure"]

#: Folder of the stored reports, and fraction by which a total may exceed the stored one.
REPORTS = Path(__file__).resolve().parents[3] / "bitstreams" / "reports"
TOLERANCE = 0.02


def measure(chip: Chip, device: Device) -> dict:
    """Synthesise a chip like `build_report`, without placing it; return its `unit_report`."""
    columns = soft_columns(chip, device)
    with tempfile.TemporaryDirectory(prefix="matloom-size-") as name:
        text = wrap(chip.verilog)
        found = synthesise(text, WRAPPER_NAME, device.family, Path(name), print, columns)
        return unit_report(chip, device, area_by_unit(read_cells(found["netlist"])))


def growth(stored: dict, measured: dict) -> list[str]:
    """Return a sentence for each total that exceeds the stored one by more than the tolerance."""
    problems = []
    for column in ("COMB", "FF"):
        before, now = stored["total"][column], measured["total"][column]
        if now > before * (1 + TOLERANCE):
            limit = f"at most {TOLERANCE:.0%} above the {before:,} of the kept report"
            change = f"{now:,} ({now / before - 1:+.1%})"
            problems.append(f"{column} must be {limit}, not {change}: --keep writes a new one")
    return problems


def main() -> int:
    """Check or store the area reports of presets; return 1 if one has grown too much, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--device", default="ecp5-85k", choices=DEVICES)
    parser.add_argument("--keep", action="store_true", help="write the reports")
    arguments = parser.parse_args()
    grown = False
    for preset in arguments.presets:
        path = REPORTS / f"{arguments.device}_{preset}_units.json"
        if not arguments.keep and not path.is_file():
            parser.error(f"{preset} must have a kept report at {path}: --keep writes one")
        found = measure(generate(load_config(preset)), DEVICES[arguments.device])
        print(preset, ", ".join(f"{count:,} {name}" for name, count in found["total"].items()))
        if arguments.keep:
            path.write_text(json.dumps(found, indent=2) + "\n")
            continue
        for problem in growth(json.loads(path.read_text()), found):
            print(f"{preset}: {problem}")
            grown = True
    return int(grown)


if __name__ == "__main__":
    sys.exit(main())
