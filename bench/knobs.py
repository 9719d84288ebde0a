"""Measures the cost of each field of a configuration: `nano` with one field changed at a time.

    python bench/knobs.py                      # all, into docs/results/knobs.json
    python bench/knobs.py --only windows=0     # printed; --report FILE renews a part

Each takes a minute or two. `python -m matloom.arch.generate` puts the differences into
docs/configuration.md.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from matloom.arch.config import load_config
from matloom_rtl.fpga.devices import DEVICES
from matloom_rtl.fpga.size import measure
from matloom_rtl.generate import generate
from support.reports import parse_with_report, read_report, write_report

REPORT = Path(__file__).resolve().parents[1] / "docs" / "results" / "knobs.json"

PRESET, DEVICE = "nano", "ecp5-85k"

#: As `--config` takes them after a preset. `paired_windows` has no effect on so small an array.
CHANGES = (
    "windows=0",
    "maximum=0",
    "checks=0",
    "counters=1",
    "time_limit=1",
    "parity=1",
    "element_stride=0",
    "timestamps=0",
    "timestamps=0+counters=0",
    "address_first=1",
    "tables=1",
    "tables=2",
    "products=1",
    "products=2",
    "products=3",
    "softmax=1",
    "softmax=2",
    "zero_points=1",
    "transposed_weights=1",
    "pooling=1",
    "columns=16+lanes=16+tables=1+products=2",
    "columns=16+lanes=16+tables=1+products=2+result_sums=1",
    "lanes=4+tables=1",
    "lanes=4+tables=1+channel_tables=1",
    "lanes=1",
    "lanes=4",
    "outstanding=1",
    "queue_depth=4",
    "broadcast_group=1",
    "i8xi4",
    "i16xi8",
    "i16xi8+products=3",
    "i16xi8+products=4",
    "i16xi8+curves=1",
)


def measure_area(text: str) -> dict[str, Any]:
    """Return the area of a configuration, synthesised by Yosys in a four-pin wrapper."""
    report = measure(generate(load_config(text)), DEVICES[DEVICE])
    return {key: report[key] for key in ("config", "config_digest", "versions", "total")}


def main() -> None:
    """Measure the chosen changes, and write the report after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CHANGES, default=CHANGES, metavar="CHANGE")
    arguments = parse_with_report(parser, REPORT, ("only",))
    kept = read_report(arguments.report) or {"changes": {}}
    found = {"preset": PRESET, "device": DEVICE, "base": measure_area(PRESET)}
    # What is kept was measured against the preset of then.
    changes = {
        name: {"base": kept["base"]["total"], **item}
        for name, item in kept["changes"].items()
        if arguments.only is not CHANGES
    }
    for change in arguments.only:
        changes[change] = measure_area(f"{PRESET}+{change}")
        ordered = {name: changes[name] for name in CHANGES if name in changes}
        print(change, json.dumps(changes[change]), flush=True)
        write_report(arguments.report, json.dumps({**found, "changes": ordered}, indent=2) + "\n")


if __name__ == "__main__":
    main()
