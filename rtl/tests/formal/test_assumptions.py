"""Every assumption of a proof is paired with its justification."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from matloom.arch.config import load_config
from matloom_rtl import formal
from matloom_rtl.formal.table import proofs_of

FOLDER = Path(formal.__file__).parent

#: No assumption about hardware: an arbitrary number, item or constant is chosen, and stays so.
ANY = "any"
#: What a bus or its user must do: the rules of AXI, `matloom.arch.bus_rules`.
BUS = "bus"

#: Fields are legal: what breaks a rule is not issued, what is issued reaches its unit unchanged.
_CHECKED = "Legality, Dispatch, InstructionMemory, UnitQueue"

#: Assumptions by module and function: how many, and what makes them true: `ANY`, `BUS`, or units
#: that are proven to do so.
PAIRED = {
    "parts.arbitrary:Arbitrary.__init__": (2, ANY),
    "parts.channel:assume_stays": (1, BUS),
    "dma.managers:_addresses": (1, "Bursts"),
    "dma.managers:fetch": (1, BUS),
    "dma.managers:read_port": (2, f"{BUS}, Fetch"),
    "control.answers:_Answers._add_extent_check": (5, "Bounds"),
    "array.execute:execute": (9, "Walk, CreditQueue, UncheckedFIFO"),
    "control.extents:bounds": (2, ANY),
    "parts.abstract_queue:AbstractQueue.__init__": (2, "SyncFIFO, SyncFIFOBuffered"),
    "parts.abstract_queue:AbstractQueue.shows_at_once": (1, "SyncFIFO"),
    "parts.abstract_queue:AbstractQueue.shows_soon": (1, "SyncFIFOBuffered"),
    "control.gate:_assume_word_order": (2, "InstructionMemory"),
    "control.gate:_claim_bounds": (1, "InstructionMemory, Dispatch, Control"),
    "control.gate:_assume_dispatch": (4, "Dispatch"),
    "control.gate:_claim_notes": (1, "InstructionMemory"),
    "sdram.merge:_Parts.__init__": (2, "SyncFIFO, SyncFIFOBuffered"),
    "sdram.merge:_claim_requests": (4, f"{BUS}, StreamRegister"),
    "sdram.merge:_responses": (1, BUS),
    "sdram.merge_progress:_PendingWork.__init__": (5, BUS),
    "sdram.merge_progress:_Parts.__init__": (3, "SyncFIFO, SyncFIFOBuffered"),
    "sdram.merge_progress:progress": (2, "Unanswered"),
    "parts.pipeline:Pipeline.constant": (1, ANY),
    "post.lanes:_assume_whole_vectors": (1, "Maxima"),
    "post.lanes:lanes": (2, f"{_CHECKED}, Numbers"),
    "post.maxima:maxima": (2, "Lanes, Sequencer"),
    "post.products:products": (4, f"{_CHECKED}, Reader"),
    "post.positions:positions": (2, "Positions"),
    "post.pooled_positions:pooled_blocks": (4, "Positions"),
    "post.positions:whole_rows": (1, "Positions"),
    "post.softmax_lanes:claim_softmax_lanes": (3, "Softmax"),
    "post.reciprocals:reciprocals": (1, "Softmax"),
    "post.softmax:_assume_rules": (5, "UncheckedFIFO, Sequencer, Positions, Reciprocals"),
    "post.reader:_Parts.__init__": (3, "SyncFIFO, UncheckedFIFO, Products"),
    "dma.rows:rows": (1, "Registers"),
    "control.scoreboard:scoreboard": (1, ANY),
    "sdram.pin_rules:Rules.__init__": (1, ANY),
    "link.share:share_reads": (4, BUS),
    "link.share:share_writes": (5, BUS),
    "array.walk_lemmas:_unchanged_positions": (1, "Walk"),
    "array.windows:_Step._flags": (3, "Execute, Walk"),
    "array.windows:_Step._follow": (4, "Execute, Walk, Outputs"),
    "control.answers:_Answers._add_field_check": (1, "Legality"),
    "control.answers:answer_timing": (1, "Dispatch"),
    "parts.loop_nest:Nest.__init__": (1, _CHECKED),
    "array.walk_nest:WalkNest.__init__": (2, f"{_CHECKED}, Bounds"),
    "array.walk_reach:reach": (2, f"{_CHECKED}, Walk"),
    "post.reader:_claim_requests": (2, f"{_CHECKED}, Numbers"),
    "sdram.port:read_room": (1, "DataPath, SdramController"),
    "memory.queues:unchecked_fifo": (2, "Reader, Execute, Store, Merge"),
}

#: Those that no claim makes true: simulations of the units that use the proven one hold them, not
#: proofs. The list may only shrink.
UNPROVEN = {
    "dma.bursts:cut_row": (1, "dma/test_rows.py: rows that passed the dispatcher's checks"),
    "sdram.datapath:_sends": (2, "sdram/test_controller.py: words of a WRITE in time"),
    "control.gate:_assume_dispatch": (2, "control/test_control.py: units complete what they got"),
    "memory.gather:gather": (1, "memory/test_scratchpad.py: turns by whole boundaries"),
    "post.parameter_cache:Blocks.__init__": (
        3,
        "post/test_lanes.py: beats and releases",
    ),
    "post.parameter_cache:_assume_latency": (1, "post/test_post.py: data follow their grants"),
    "post.lanes:_Beats.__init__": (1, "post/test_post.py: results are written once"),
    "post.lanes:_assume_stable": (1, "post/test_post.py: a command stays while it is inside"),
    "array.loader:_Rows.__init__": (1, "array/test_execute.py: whole tiles are released"),
    "sdram.port:unanswered_beats": (2, "sdram/test_merge.py: places of bursts"),
    "sdram.merge_progress:_ranks": (2, "sdram/test_merge.py: responses in order"),
    "array.outputs:_Grids._assume_inputs": (5, "array/test_walk.py: moves and starts of the walk"),
    "post.parameters:Reads.__init__": (2, "post/test_parameters.py: data that were asked for"),
    "post.positions:assume_stable": (1, "post/test_post.py: the geometry stays"),
    "post.positions:assume_advances": (2, "post/test_post.py: only what runs advances"),
    "memory.queues:credit_queue": (2, "array/test_execute.py: the walk begins with room"),
    "post.reader:_assume_constant": (1, "post/test_post.py: a command stays while it is inside"),
    "post.sequencer:sequencer": (
        2,
        "post/test_sequencer.py: the last comes after the first",
    ),
    "control.timestamps:_Completion.__init__": (
        3,
        "control/test_timestamps.py: one a slot",
    ),
    "control.timestamps:_Times.__init__": (2, "control/test_csr.py: reads of the table"),
    "control.timestamps:_Times._cycle": (3, "control/test_counters.py: the counter of cycles"),
    "post.writer:_Results.__init__": (2, "post/test_writer.py: beats in order, with a place"),
    "post.writer:_assume_constant": (3, "post/test_writer.py: results keep their description"),
}


def assumptions():
    """Return the number of assumptions in each function of the proofs."""
    found = {}

    def look(node, file, names):
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.ClassDef):
                continue
            path = (*names, child.name)
            if isinstance(child, ast.ClassDef):
                look(child, file, path)
                continue
            calls = (each for each in ast.walk(child) if isinstance(each, ast.Call))
            count = sum(getattr(each.func, "id", "") == "Assume" for each in calls)
            if count:
                module = ".".join(file.relative_to(FOLDER).with_suffix("").parts)
                found[f"{module}:{'.'.join(path)}"] = count

    for file in sorted(FOLDER.rglob("*.py")):
        look(ast.parse(file.read_text()), file, ())
    return found


def test_every_assumption_is_in_the_table():
    table = Counter()
    for part in (PAIRED, UNPROVEN):
        table.update({name: count for name, (count, _why) in part.items()})
    assert assumptions() == table


def test_all_of_a_file_is_looked_at():
    """Every assumption in a file is inside a function and is made with the name `Assume`."""
    written = sum(file.read_text().count("Assume(") for file in FOLDER.rglob("*.py"))
    assert sum(assumptions().values()) == written


def test_proven_claims_have_a_proof():
    proven = {
        proof.unit.split(",")[0]
        for proof in proofs_of(load_config("nano+products=1+softmax=1+pooling=1"))
    }
    named = {unit for _count, why in PAIRED.values() for unit in why.split(", ")}
    assert named - {ANY, BUS} <= proven


@pytest.mark.parametrize("name", UNPROVEN)
def test_unproven_assumptions_have_a_test(name):
    file = UNPROVEN[name][1].split(":")[0]
    assert (FOLDER.parents[1] / "tests" / file).is_file() or file.startswith("units that")


def test_the_list_of_what_is_not_proven_only_shrinks():
    assert len(UNPROVEN) <= 23
