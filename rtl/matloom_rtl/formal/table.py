"""Table of all kinds of proofs, and the proofs that a configuration needs."""

from amaranth.hdl import Fragment

from matloom.arch.config import Config
from matloom_rtl.formal.array.execute import execute_proofs
from matloom_rtl.formal.array.loader import loader_proofs
from matloom_rtl.formal.array.outputs import output_proofs
from matloom_rtl.formal.array.walk import walk_proofs
from matloom_rtl.formal.array.walk_reach import reach_proofs
from matloom_rtl.formal.array.windows import windows_proofs
from matloom_rtl.formal.control.answers import answer_proofs
from matloom_rtl.formal.control.contents import contents_proofs
from matloom_rtl.formal.control.extents import bounds_proofs
from matloom_rtl.formal.control.gate import gate_proofs
from matloom_rtl.formal.control.instructions import instruction_proofs
from matloom_rtl.formal.control.legality import legality_proofs
from matloom_rtl.formal.control.registers import register_proofs
from matloom_rtl.formal.control.scoreboard import scoreboard_proofs
from matloom_rtl.formal.control.supervisor import supervisor_proofs
from matloom_rtl.formal.control.timestamps import timestamps_proofs
from matloom_rtl.formal.dma.bursts import burst_proofs
from matloom_rtl.formal.dma.managers import dma_proofs
from matloom_rtl.formal.dma.rows import row_proofs
from matloom_rtl.formal.link.share import share_proofs
from matloom_rtl.formal.memory.gather import gather_proofs
from matloom_rtl.formal.memory.queues import queue_proofs
from matloom_rtl.formal.parts.whitebox import owners
from matloom_rtl.formal.post.exponentials import exponentials_proofs
from matloom_rtl.formal.post.floats import float_proofs
from matloom_rtl.formal.post.lanes import lanes_proofs
from matloom_rtl.formal.post.maxima import maxima_proofs
from matloom_rtl.formal.post.numbers import numbers_proofs
from matloom_rtl.formal.post.parameter_cache import parameter_cache_proofs
from matloom_rtl.formal.post.parameters import parameters_proofs
from matloom_rtl.formal.post.pooled_positions import pooled_proofs
from matloom_rtl.formal.post.positions import position_proofs
from matloom_rtl.formal.post.products import products_proofs
from matloom_rtl.formal.post.reader import reader_proofs
from matloom_rtl.formal.post.reciprocals import reciprocals_proofs
from matloom_rtl.formal.post.requantise import requantise_proofs
from matloom_rtl.formal.post.sequencer import sequencer_proofs
from matloom_rtl.formal.post.softmax import softmax_proofs
from matloom_rtl.formal.post.writer import writer_proofs
from matloom_rtl.formal.proof import Proof
from matloom_rtl.formal.sdram.controller import sdram_proofs
from matloom_rtl.formal.sdram.datapath import datapath_proofs
from matloom_rtl.formal.sdram.merge import merge_proofs
from matloom_rtl.formal.sdram.merge_progress import progress_proofs
from matloom_rtl.formal.sdram.port import memory_proofs, memory_units
from matloom_rtl.top import Top

__all__ = ["KINDS", "proofs_of"]

#: Functions that return the proofs of a kind for a list of a chip's units.
KINDS = (
    *(queue_proofs, gate_proofs, instruction_proofs, scoreboard_proofs),
    *(bounds_proofs, legality_proofs, answer_proofs),
    *(burst_proofs, dma_proofs, register_proofs, memory_proofs),
    *(sdram_proofs, datapath_proofs, merge_proofs, progress_proofs, share_proofs),
    *(contents_proofs, supervisor_proofs, timestamps_proofs),
    *(row_proofs, position_proofs, walk_proofs, reach_proofs, output_proofs),
    *(windows_proofs, loader_proofs, parameters_proofs, parameter_cache_proofs),
    *(sequencer_proofs, reader_proofs, lanes_proofs, writer_proofs),
    *(execute_proofs, gather_proofs),
    *(requantise_proofs, products_proofs, numbers_proofs, float_proofs),
    *(softmax_proofs, reciprocals_proofs, exponentials_proofs),
    *(pooled_proofs, maxima_proofs),
)


def proofs_of(config: Config) -> list[Proof]:
    """Return all proofs for a configuration's chip, and for an SDRAM in front of it."""
    units = [*owners(Fragment.get(Top(config), None)), *memory_units(config)]
    return [proof for kind in KINDS for proof in kind(units)]
