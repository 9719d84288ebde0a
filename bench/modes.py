"""Measures the cost of each mode: an 8x8 array with accumulators, routed on an ECP5.

    python bench/modes.py                            # all, into docs/results/modes.json
    python bench/modes.py --only i8xi8 i8xi8+bf16    # printed; --report FILE renews a part

The array with the accumulators that it updates stands alone, reached through four pins
(`matloom_rtl.fpga.pinsaver`); the rest of the chip is missing. Each set takes minutes.
"""

import argparse
import dataclasses
import json
import re
import time
from pathlib import Path
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, connect, flipped

from matloom.arch.config import PRESETS, Config
from matloom.arch.modes import FLOAT_MODES
from matloom_rtl.array.accumulators import Accumulators
from matloom_rtl.array.array import Array
from matloom_rtl.array.cells import delay
from matloom_rtl.fpga.flow import DEVICES, SEED, Effort, build, tool_versions
from matloom_rtl.fpga.pinsaver import wrap
from matloom_rtl.fpga.tools import FlowError
from matloom_rtl.ports import ACC_ADDRESS_BITS, AccReadSignature, AccUpdateSignature
from support.reports import parse_with_report, read_report, write_report

REPORT = Path(__file__).resolve().parents[1] / "docs" / "results" / "modes.json"

DEVICE = DEVICES["ecp5-85k"]
TOP = "array_with_accumulators"

#: Modes other than `i8xi8`, which every configuration has.
MODE_SETS = (
    (),
    ("i8xi4",),
    ("i8xi4", "i4xi4"),
    ("i16xi8",),
    ("i8xi4", "i4xi4", "i16xi8"),
    ("fp8_e4m3",),
    ("fp8_e5m2",),
    ("fp16",),
    ("bf16",),
    FLOAT_MODES,
)


def config_of(modes: tuple[str, ...]) -> Config:
    """Return preset `small` with these number formats (modes) in addition to `i8xi8`."""
    return dataclasses.replace(PRESETS["small"], weight_rows=2, mac_modes=("i8xi8", *modes))


class MeasuredArray(wiring.Component):
    """The array and its accumulators, connected as in the execute unit.

    Members
    -------
    valid, vector and the other inputs of `Array`: in
    update, read: in
        Those of `Accumulators`.
    """

    def __init__(self, config: Config):
        tag = {"entry": ACC_ADDRESS_BITS, "add": 1, "maximum": 1}
        tag |= {"narrow": 1} if config.has_narrow else {}
        tag |= {"floating": 1} if config.has_float else {}
        self.array = Array(config, data.StructLayout(tag))
        self._config = config
        self._inputs = {
            name: member
            for name, member in self.array.signature.members.items()
            if member.flow == In
        }
        super().__init__(
            {
                **self._inputs,
                "update": In(AccUpdateSignature(config)),
                "read": In(AccReadSignature(config)),
            }
        )

    def elaborate(self, platform):
        """Return a module with the array, the accumulators and their connections."""
        m = Module()
        array = m.submodules.array = self.array
        m.submodules.accumulators = accumulators = Accumulators(self._config)
        connect(m, flipped(self.update), accumulators.update)
        connect(m, flipped(self.read), accumulators.read)
        m.d.comb += [getattr(array, name).eq(getattr(self, name)) for name in self._inputs]
        valid, tag = self.valid, array.next_tag
        for _cycle in range(array.latency - 1):
            valid = delay(m, valid, reset=True)
        m.d.comb += [
            accumulators.sum_valid.eq(valid),
            accumulators.sum_entry.eq(tag.entry),
            accumulators.sum_add.eq(tag.add),
            accumulators.sum_maximum.eq(tag.maximum),
            accumulators.sums.eq(_sign_extend(array.o_sums)),
        ]
        if self._config.has_narrow:
            m.d.comb += accumulators.sum_narrow.eq(tag.narrow)
            m.d.comb += accumulators.seconds.eq(_sign_extend(array.o_seconds))
        if self._config.has_float:
            m.d.comb += accumulators.sum_floating.eq(tag.floating)
        return m


def _sign_extend(sums):
    """Return signals of signed sums (narrower than 32 bits), extended to 32 bits and joined."""
    return Cat(Cat(each, each[-1].replicate(32 - len(each))) for each in sums)


def measure(config: Config, seed: int) -> dict[str, Any]:
    """Synthesise, place and route the array of a configuration; return its entry of the report."""
    started = time.monotonic()
    unit = MeasuredArray(config)
    latency = unit.array.latency
    text = verilog.convert(unit, name=TOP, emit_src=False, strip_internal_attrs=True)
    wrapped = wrap(text, TOP)
    wrapper = wrapped.removeprefix(text)
    found = build(wrapped, DEVICE, print, Effort(seeds=(seed,)))
    used = {name: item["used"] for name, item in found["routed"]["area"].items()}
    return {
        "modes": list(config.mac_modes),
        "config": config.as_dict(),
        "config_digest": f"{config.digest:08x}",
        "macs_per_cycle": {mode: config.macs_per_cycle(mode) for mode in config.mac_modes},
        "latency_cycles": latency,
        "mapper": found["mapper"],
        "seed": seed,
        "lut4": found["cells"].get("LUT4", 0),
        "ccu2c": found["cells"].get("CCU2C", 0),
        # What both take in the device: a carry cell is two tables.
        "comb": used["LUT4"],
        "ff": used["FF"],
        # Those of them that are the wrapper's.
        "wrapper_ff": sum(int(high) + 1 for high in re.findall(r" reg \[(\d+):0\]", wrapper)),
        "mult18x18d": used["DSP"],
        "dp16kd": used["BRAM"],
        "fmax_mhz": found["routed"]["fmax_mhz"],
        "critical_path": found["routed"]["critical_path"],
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def main() -> None:
    """Measure the chosen sets; keep the others as they are in the report."""
    sets = {"+".join(config_of(modes).mac_modes): config_of(modes) for modes in MODE_SETS}
    parser = argparse.ArgumentParser(description="What each mode costs on an ECP5.")
    parser.add_argument("--only", nargs="+", choices=sets, default=sets, metavar="MODES")
    parser.add_argument("--seed", type=int, default=SEED, help="Of the placement.")
    arguments = parse_with_report(parser, REPORT, ("only", "seed"))
    found = read_report(arguments.report).get("results", [])
    known = {"+".join(item["modes"]): item for item in found}
    for name in arguments.only:
        print(name, flush=True)
        try:
            known[name] = result = measure(sets[name], arguments.seed)
        except FlowError as error:
            print(f"  {error}", flush=True)
            continue
        area = f"{result['comb']:,} LUT4, {result['ff']:,} FF"
        print(f"  {area}, {result['fmax_mhz']} MHz, {result['minutes']} min", flush=True)
        report = {
            "device": DEVICE.name,
            "options": list(DEVICE.options),
            "clock_site": DEVICE.pins["clk"],
            "versions": tool_versions(DEVICE),
            "measured": "Array and Accumulators",
            "results": [known[name] for name in sets if name in known],
        }
        write_report(arguments.report, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
