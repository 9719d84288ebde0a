"""Renews the syntheses that `matloom fit` learns from, in host/matloom/data/area.json.

    python bench/area.py                          # renews what comes from bitstreams/reports
    python bench/area.py ecp5-85k nano+lanes=4    # also synthesises, a minute or more each

Clocks, and the area that placement and boards add, are read from bitstreams/reports. The area of a
kind of memory stays as it was if no report of a board has its engine alone, too. All syntheses
should be of one state of the hardware: renew all of them, or none.
"""

import argparse
import json
from typing import Any

from matloom.arch.config import load_config
from matloom.tools.area import SAMPLES
from matloom_rtl.fpga.devices import DEVICES
from matloom_rtl.fpga.flow import soft_columns
from matloom_rtl.fpga.size import REPORTS, measure
from matloom_rtl.generate import Chip, generate


def sample(config: str, chip: Chip, device: str, total: dict[str, float]) -> dict[str, Any]:
    """Return an entry of area.json: configuration, device family, and area of one engine."""
    return {
        "config": config,
        "family": DEVICES[device].family,
        "soft_columns": int(soft_columns(chip, DEVICES[device])),
        "total": total,
    }


def synthesise(device: str, config: str) -> dict[str, Any]:
    """Synthesise an engine in a four-pin wrapper for a device; return its entry of area.json."""
    chip = generate(load_config(config))
    return sample(config, chip, device, measure(chip, DEVICES[device])["total"])


def _used_cells(report: dict[str, Any]) -> dict[str, int]:
    """Return the used number of each resource, by name, from a report of the flow."""
    return {name: item["used"] for name, item in report["area"].items()}


def placement_costs() -> dict[str, Any]:
    """Return the area that placement and the board add to an engine, and the clocks reached."""
    reports = [
        json.loads(path.read_text())
        for path in sorted(REPORTS.glob("*.json"))
        if not path.stem.endswith("_units")
    ]
    # A board adds its link and memory; the model does not include processors.
    routed = [
        report
        for report in reports
        if "area" in report and report.get("fmax_mhz") and "cpu" not in report
    ]
    engines = {item["config_digest"]: item for item in routed if "board" not in item}
    nano = f"{load_config('nano').digest:08x}"
    units = json.loads((REPORTS / "ecp5-85k_nano_units.json").read_text())
    packing = engines[nano]["area"]["LUT4"]["used"] / units["total"]["COMB"]
    boards = {}
    for item in routed:
        if "board" in item and item["config_digest"] in engines:
            engine = _used_cells(engines[item["config_digest"]])
            used = _used_cells(item)
            added = {name: used[name] - engine[name] for name in ("LUT4", "FF")}
            boards.setdefault(item["memory"]["kind"], []).append(added)
    worst = {
        kind: {name: max(each[name] for each in added) for name in added[0]}
        for kind, added in boards.items()
    }
    clocks = [
        {
            "board": item.get("board", ""),
            "device": item["device"],
            "family": DEVICES[item["device"]].family,
            "tables": item["area"]["LUT4"]["used"],
            "mhz": item["fmax_mhz"],
        }
        for item in routed
    ]
    return {"packing": round(packing, 4), "boards": worst, "clocks": clocks}


def main() -> None:
    """Rewrite host/matloom/data/area.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device", nargs="?", choices=DEVICES)
    parser.add_argument("configs", nargs="*")
    arguments = parser.parse_args()
    kept = json.loads(SAMPLES.read_text()) if SAMPLES.is_file() else {}
    old = kept.get("engines", [])
    fresh = [synthesise(arguments.device, item) for item in arguments.configs]
    merged = {(item["family"], item["config"]): item for item in [*old, *fresh]}
    engines = [merged[key] for key in sorted(merged)]
    found = placement_costs()
    found["boards"] = kept.get("placed", {}).get("boards", {}) | found["boards"]
    SAMPLES.write_text(json.dumps({"engines": engines, "placed": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
