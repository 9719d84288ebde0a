"""Every assumption of a proof is paired with its justification; one without a pair fails."""

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

#: By function, how many assumptions it makes, and what makes them true: `ANY`, `BUS`, or units
#: that are proven to do so.
PAIRED = {
    "arbitrary:Arbitrary.__init__": (2, ANY),
    "channel:assume_stays": (1, BUS),
    "dma:_addresses": (1, "Bursts"),
    "dma:fetch": (1, BUS),
    "dma:read_port": (2, f"{BUS}, Fetch"),
    "answers:_Answers._check_extents": (5, "Bounds"),
    "execute:execute": (9, "Walk, CreditQueue, UncheckedFIFO"),
    "extents:bounds": (2, ANY),
    "freed_queue:FreedQueue.__init__": (2, "SyncFIFO, SyncFIFOBuffered"),
    "freed_queue:FreedQueue.shows_at_once": (1, "SyncFIFO"),
    "freed_queue:FreedQueue.shows_soon": (1, "SyncFIFOBuffered"),
    "gate:_brings": (2, "InstructionMemory"),
    "gate:_dispatches": (5, "Dispatch, Control"),
    "gate:_noted": (1, "InstructionMemory"),
    "merge:_Parts.__init__": (2, "SyncFIFO, SyncFIFOBuffered"),
    "merge:_asks": (4, f"{BUS}, StreamRegister"),
    "merge:_responses": (1, BUS),
    "merge_progress:_Owed.__init__": (5, BUS),
    "merge_progress:_Parts.__init__": (3, "SyncFIFO, SyncFIFOBuffered"),
    "merge_progress:progress": (2, "Unanswered"),
    "pipeline:Pipeline.constant": (1, ANY),
    "reader:_Parts.__init__": (3, "SyncFIFO, UncheckedFIFO, Products"),
    "rows:rows": (1, "Registers"),
    "scoreboard:scoreboard": (1, ANY),
    "sdram_rules:Rules.__init__": (1, ANY),
    "share:share_reads": (4, BUS),
    "share:share_writes": (5, BUS),
    "walk_lemmas:_places": (1, "Walk"),
}

#: Those that no claim makes true: simulations of the units that use the proven one hold them, not
#: proofs. The list may only shrink.
UNPROVEN = {
    "answers:_Answers._judge_fields": (1, "control/test_dispatch.py: the verdict on fields"),
    "answers:answered": (1, "control/test_dispatch.py: a check after the other"),
    "bursts:cut_row": (1, "dma/test_rows.py: rows that passed the dispatcher's checks"),
    "datapath:_sends": (2, "sdram/test_controller.py: words of a WRITE in time"),
    "gate:_bounded": (1, "control/test_queues.py: instructions issued while a head is read"),
    "gate:_dispatches": (2, "control/test_control.py: units complete what they were given"),
    "gather:gather": (1, "memory/test_scratchpad.py: turns by whole boundaries"),
    "kept:Blocks.__init__": (3, "post/test_lanes.py: beats and releases of the lanes"),
    "kept:_late": (1, "post/test_post.py: data follow their grants"),
    "lanes:_Beats.__init__": (1, "post/test_post.py: results are written once"),
    "lanes:_held": (1, "post/test_post.py: a command stays while it is inside"),
    "loader:_Rows.__init__": (1, "array/test_execute.py: whole tiles are released"),
    "memory:older_beats": (2, "sdram/test_merge.py: places of bursts"),
    "memory:read_room": (1, "sdram/test_controller.py: beats follow their chunk"),
    "merge_progress:_ranks": (2, "sdram/test_merge.py: responses in order"),
    "nest:Nest.__init__": (1, "control/test_dispatch.py: no loop of zero rounds is legal"),
    "outputs:_Grids._assume": (5, "array/test_walk.py: moves and starts of the walk"),
    "parameters:Reads.__init__": (2, "post/test_parameters.py: data that were asked for"),
    "positions:_held": (1, "post/test_post.py: the geometry stays"),
    "positions:positions": (2, "post/test_post.py: only what runs advances"),
    "queues:credit_queue": (2, "array/test_execute.py: the walk begins with room"),
    "queues:unchecked_fifo": (2, "units that write with a place alone: their own tests"),
    "reader:_asks": (2, "control/test_dispatch.py: sizes of elements are legal"),
    "reader:_stays": (1, "post/test_post.py: a command stays while it is inside"),
    "sequencer:sequencer": (2, "post/test_sequencer.py: the last is asked for after the first"),
    "timestamps:_Completion.__init__": (3, "control/test_timestamps.py: one completion a slot"),
    "timestamps:_Times.__init__": (2, "control/test_csr.py: reads of the table"),
    "timestamps:_Times._cycle": (3, "control/test_counters.py: the counter of cycles"),
    "walk_nest:WalkNest.__init__": (2, "control/test_dispatch.py: legal loops and rows"),
    "walk_reach:reach": (2, "control/test_dispatch.py: no loop of zero rounds is legal"),
    "writer:_Results.__init__": (2, "post/test_writer.py: beats in order, with a place"),
    "writer:_stays": (3, "post/test_writer.py: what is said of results stays"),
}


def assumptions():
    """Return how many times each function of the proofs assumes something."""
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
                found[f"{file.stem}:{'.'.join(path)}"] = count

    for file in sorted(FOLDER.glob("*.py")):
        look(ast.parse(file.read_text()), file, ())
    return found


def test_every_assumption_is_in_the_table():
    table = Counter()
    for part in (PAIRED, UNPROVEN):
        table.update({name: count for name, (count, _why) in part.items()})
    assert assumptions() == table


def test_all_of_a_file_is_looked_at():
    """No assumption stands outside of functions, or under another name."""
    written = sum(file.read_text().count("Assume(") for file in FOLDER.glob("*.py"))
    assert sum(assumptions().values()) == written


def test_what_is_called_proven_has_a_proof():
    proven = {proof.unit.split(",")[0] for proof in proofs_of(load_config("nano+products=1"))}
    named = {unit for _count, why in PAIRED.values() for unit in why.split(", ")}
    assert named - {ANY, BUS} <= proven


@pytest.mark.parametrize("name", UNPROVEN)
def test_what_is_not_proven_has_a_test(name):
    file = UNPROVEN[name][1].split(":")[0]
    assert (FOLDER.parents[1] / "tests" / file).is_file() or file.startswith("units that")


def test_the_list_of_what_is_not_proven_only_shrinks():
    assert len(UNPROVEN) <= 32
