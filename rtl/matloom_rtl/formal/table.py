"""The table of proofs: which claims a configuration needs."""

from amaranth.hdl import Fragment

from matloom.arch.config import Config
from matloom_rtl.formal.answers import answer_proofs
from matloom_rtl.formal.bursts import burst_proofs
from matloom_rtl.formal.contents import contents_proofs
from matloom_rtl.formal.datapath import datapath_proofs
from matloom_rtl.formal.dma import dma_proofs
from matloom_rtl.formal.execute import execute_proofs
from matloom_rtl.formal.extents import bounds_proofs
from matloom_rtl.formal.floats import float_proofs
from matloom_rtl.formal.gate import gate_proofs
from matloom_rtl.formal.gather import gather_proofs
from matloom_rtl.formal.inside import owners
from matloom_rtl.formal.instructions import instruction_proofs
from matloom_rtl.formal.kept import kept_proofs
from matloom_rtl.formal.lanes import lanes_proofs
from matloom_rtl.formal.loader import loader_proofs
from matloom_rtl.formal.memory import memory_proofs, memory_units
from matloom_rtl.formal.merge import merge_proofs
from matloom_rtl.formal.merge_progress import progress_proofs
from matloom_rtl.formal.numbers import numbers_proofs
from matloom_rtl.formal.outputs import output_proofs
from matloom_rtl.formal.parameters import parameters_proofs
from matloom_rtl.formal.positions import position_proofs
from matloom_rtl.formal.products import products_proofs
from matloom_rtl.formal.proof import Proof
from matloom_rtl.formal.queues import queue_proofs
from matloom_rtl.formal.reader import reader_proofs
from matloom_rtl.formal.registers import register_proofs
from matloom_rtl.formal.requantise import requantise_proofs
from matloom_rtl.formal.rows import row_proofs
from matloom_rtl.formal.scoreboard import scoreboard_proofs
from matloom_rtl.formal.sdram import sdram_proofs
from matloom_rtl.formal.sequencer import sequencer_proofs
from matloom_rtl.formal.share import share_proofs
from matloom_rtl.formal.supervisor import supervisor_proofs
from matloom_rtl.formal.timestamps import timestamps_proofs
from matloom_rtl.formal.walk import walk_proofs
from matloom_rtl.formal.walk_reach import reach_proofs
from matloom_rtl.formal.writer import writer_proofs
from matloom_rtl.top import Top

__all__ = ["KINDS", "proofs_of"]

#: Each kind returns its proofs for the units of a chip.
KINDS = (
    *(queue_proofs, gate_proofs, instruction_proofs, scoreboard_proofs),
    *(bounds_proofs, answer_proofs),
    *(burst_proofs, dma_proofs, register_proofs, memory_proofs),
    *(sdram_proofs, datapath_proofs, merge_proofs, progress_proofs, share_proofs),
    *(contents_proofs, supervisor_proofs, timestamps_proofs),
    *(row_proofs, position_proofs, walk_proofs, reach_proofs, output_proofs),
    *(loader_proofs, parameters_proofs, kept_proofs),
    *(sequencer_proofs, reader_proofs, lanes_proofs, writer_proofs),
    *(execute_proofs, gather_proofs),
    *(requantise_proofs, products_proofs, numbers_proofs, float_proofs),
)


def proofs_of(config: Config) -> list[Proof]:
    """Return the proofs of all kinds for a configuration's chip, and for an SDRAM before it."""
    units = [*owners(Fragment.get(Top(config), None)), *memory_units(config)]
    return [proof for kind in KINDS for proof in kind(units)]
