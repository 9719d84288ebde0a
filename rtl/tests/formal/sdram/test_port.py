"""Mutants of the SDRAM's port; every proof fails."""

import pytest

from matloom.arch.config import load_config
from matloom.arch.sdram import load_sdram
from matloom_rtl.formal.engine import PROVEN
from matloom_rtl.formal.link.share import share_reads, share_writes
from matloom_rtl.formal.sdram.controller import sdram, short_wait_controller
from matloom_rtl.formal.sdram.datapath import datapath
from matloom_rtl.formal.sdram.merge import merge
from matloom_rtl.formal.sdram.merge_progress import progress
from matloom_rtl.formal.sdram.port import chunks, memory_units, read_room, unanswered_beats
from matloom_rtl.link.share import Share
from matloom_rtl.sdram.banks import Banks
from matloom_rtl.sdram.chunks import Chunks
from matloom_rtl.sdram.columns import Columns
from matloom_rtl.sdram.datapath import DataPath
from matloom_rtl.sdram.merge import BURSTS, Merge
from matloom_rtl.sdram.opener import Opener
from matloom_rtl.sdram.pins import ControllerPlan
from matloom_rtl.sdram.port import Port
from matloom_rtl.sdram.sequence import Sequence
from matloom_rtl.sdram.unanswered import Unanswered


@pytest.fixture(scope="module")
def plan():
    units = memory_units(load_config("nano"))
    return next(unit._plan for unit in units if isinstance(unit, Port))


@pytest.mark.slow
def test_a_chunk_beyond_its_burst_is_not_proven(refuted, mutated, plan):
    mutant = mutated(Chunks, ("left.eq(left - room - 1)", "left.eq(left - room)"))
    refuted(lambda: chunks(mutant(plan, write=False)), depth=9)


@pytest.mark.slow
def test_room_that_is_promised_twice_is_not_proven(refuted, mutated, plan):
    mutant = mutated(Port, ("taken.eq(~self.chunks.valid & ~recent &", "taken.eq(1 &"))
    refuted(lambda: read_room(mutant(plan)), depth=12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [("(past <= length)", "(past < length)"), ("self.answered & oldest[index]", "self.answered")],
)
def test_an_older_burst_that_is_overlooked_is_not_proven(refuted, mutated, change):
    mutant = mutated(Unanswered, change)
    refuted(lambda: unanswered_beats(mutant(BURSTS)), depth=6)


#: A unit of the controller and the replaced text.
RULES = {
    "tRCD is a cycle short": (Banks, ("(activate, timing.rcd)", "(activate, timing.rcd - 1)")),
    "tRAS is a cycle short": (Banks, ("(activate, ras)", "(activate, ras - 1)")),
    "tWR is a cycle short": (Banks, ("plan.write_held),", "plan.write_held - 1),")),
    "a word is driven while one comes": (Columns, ("cas_latency + plan.burst + 1", "cas_latency")),
    "a bank is closed at whose columns a chunk is": (
        Opener,
        ("self.free & ~self.busy", "self.free"),
    ),
    "a refresh waits for a pause": (Sequence, ("m.If(owed):", "m.If(owed & self.idle):")),
}


#: With two cycles of the SDRAM in one, too, but for what takes the solver minutes.
GEARED = [name for name in RULES if name != "a refresh waits for a pause"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "gear"), [*((name, 1) for name in RULES), *((name, 2) for name in GEARED)]
)
def test_a_broken_rule_of_the_sdram_is_not_proven(refuted, mutated, monkeypatch, name, gear):
    component, change = RULES[name]
    mutant = mutated(component, change)
    monkeypatch.setattr(f"matloom_rtl.sdram.controller.{component.__name__}", mutant)
    unit = short_wait_controller(
        load_sdram("IS42S16160"), clock_hz=54_000_000, bus_bits=32, gear=gear
    )
    refuted(lambda: sdram(unit, with_covers=False), depth=66)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "change"),
    [
        # A beat of the other; a link that does not wait; data that are cut off, or that come
        # before their address and are not counted.
        (share_reads, ("engine.valid.eq(out.valid & ~owned)", "engine.valid.eq(out.valid)")),
        (share_reads, ("wants & ~shows & (under_way == 0)", "wants & (under_way == 0)")),
        (share_writes, ("& ~inside & ~addresses & ~data", "& ~inside & ~addresses")),
        (share_writes, ("ahead.eq(ahead + address - (beat & ~inside))", "ahead.eq(0)")),
    ],
)
def test_a_port_that_mixes_up_is_not_proven(refuted, mutated, claim, change):
    mutant = mutated(Share, change)
    refuted(lambda: claim(mutant(load_config("nano"))), depth=10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        # Words of a READ in another order; bytes without a strobe that are driven; a word too few.
        ("Cat(caught[width:], self.dq_i)", "Cat(self.dq_i, caught[: burst * width - width])"),
        ("Cat(self.dqm, masks).eq(~beat.strb)", "Cat(self.dqm, masks).eq(beat.strb)"),
        ("(1 << burst) - 1", "(1 << burst) // 2 - 1"),
    ],
)
def test_a_word_at_another_place_is_not_proven(refuted, mutated, plan, change):
    mutant = mutated(DataPath, change)
    refuted(lambda: datapath(mutant(plan)), depth=12)


@pytest.mark.slow
def test_beats_of_one_word_at_registered_pins_are_proven(prove):
    part = load_sdram("GW2AR-18")
    timing = part.timing(54_000_000)
    plan = ControllerPlan(part=part, timing=timing, bus_bits=32, chunk_beats=16, pin_cycles=2)
    result = prove(lambda: datapath(DataPath(plan)), depth=9, cover_depth=12)
    assert result.verdict == PROVEN, result.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        # A beat is read at the next one's place, or twice; bytes are mixed up; what was read for
        # the initiator is taken for a beat; room is promised twice; the next beat does not wait.
        ("place.eq(current)]", "place.eq(current + 1)]"),
        ("m.d.sync += wanted.eq(0)", "m.d.sync += wanted.eq(unanswered.held)"),
        ("Mux(beat.strb[index],", "Mux(beat.strb[0],"),
        ("found.w_en.eq(come.valid & asked.r_data)", "found.w_en.eq(come.valid)"),
        ("Mux(passed, ar.payload.len + 1, 0)", "Mux(passed, ar.payload.len, 0)"),
        ("active & queue.w_rdy & ~wanted)", "active & queue.w_rdy)"),
    ],
)
def test_a_wrongly_merged_beat_is_not_proven(refuted, mutated, change):
    refuted(lambda: merge(mutated(Merge, change)(32)), depth=14)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        # Each waits for the other, or for its turn forever; beats wait for the initiator; room
        # that is not given back.
        ("taken.eq(own & may)", "taken.eq(own & may & ~ar.valid)"),
        ("m.d.sync += recent.eq(own)", "m.d.sync += recent.eq(1)"),
        ("m.d.sync += recent.eq(own)", "m.d.sync += recent.eq(own | self.axi_read.ar.valid)"),
        ("(owed != _READS))", "(owed != _READS) & self.axi_write.b.ready)"),
        ("under_way + unanswered.begin - (b.valid & b.ready)", "under_way + unanswered.begin"),
    ],
)
def test_a_merger_that_waits_for_ever_is_not_proven(refuted, mutated, change):
    refuted(lambda: progress(mutated(Merge, change)(32)), depth=16)
