"""Mutants of address generators; every proof fails."""

import pytest

from matloom.arch.config import load_config
from matloom.arch.isa import Opcode
from matloom_rtl.array.execute import Execute
from matloom_rtl.array.loader import Loader
from matloom_rtl.array.outputs import Outputs
from matloom_rtl.array.walk import Walk
from matloom_rtl.array.windows import Windows
from matloom_rtl.dma.rows import Rows
from matloom_rtl.formal.array.execute import execute
from matloom_rtl.formal.array.loader import loader
from matloom_rtl.formal.array.outputs import outputs
from matloom_rtl.formal.array.walk import walk
from matloom_rtl.formal.array.walk_nest import STAGES
from matloom_rtl.formal.array.windows import windows
from matloom_rtl.formal.dma.rows import rows
from matloom_rtl.formal.engine import PROVEN
from matloom_rtl.formal.post.parameters import parameters
from matloom_rtl.formal.post.positions import positions
from matloom_rtl.formal.post.reader import reader
from matloom_rtl.ports import SPAD_READ_LATENCY
from matloom_rtl.post.parameters import Parameters
from matloom_rtl.post.positions import Positions
from matloom_rtl.post.reader import Reader

NANO = load_config("nano")
#: Cycles of the induction of `Execute`.
_PLACES = SPAD_READ_LATENCY + STAGES


def load_rows(component=Rows):
    return rows(component(Opcode.LOAD, load_config("nano")))


def pair_positions(component=Positions):
    return positions(component(load_config("small+i8xi4")))


def exec_walk(component=Walk):
    return walk(component(NANO))


def zero_point_walk(component=Walk):
    return walk(component(load_config("nano+zero_points=1")))


def exec_outputs(component=Outputs):
    return outputs(component(NANO))


def exec_places(component=Execute):
    return execute(component(NANO))


def zero_point_places(component=Execute):
    return execute(component(load_config("nano+zero_points=1")))


def exec_weights(component=Loader):
    return loader(component(NANO))


def narrow_weights(component=Loader):
    return loader(component(load_config("reference+i8xi4")))


def transposed_weights(component=Loader):
    return loader(component(load_config("nano+transposed_weights=1")))


def zero_points_of_weights(component=Loader):
    return loader(component(load_config("nano+zero_points=1")))


def zero_points_beside_blocks(component=Loader):
    return loader(component(load_config("reference+zero_points=1")))


def float_weights(component=Loader):
    return loader(component(load_config("small+bf16+fp16+fp8_e5m2+weight_rows=2")))


def wide_windows(component=Windows):
    return windows(component(load_config("small+rows=16+windows=2+broadcast_group=2"), 2))


def windows_of_zero_points(component=Windows):
    return windows(component(load_config("nano+zero_points=1"), 0))


def post_parameters(component=Parameters):
    return parameters(component(NANO))


def post_reader(component=Reader):
    return reader(component(NANO))


#: A unit, the replaced text, its claim, and the cycles within which a run breaks it.
MUTANTS = {
    "planes go on from the row before": (
        *(Rows, ('Mux(plane_end, ~last_plane, ~kind["goes_on"])', '~kind["goes_on"]')),
        *(load_rows, 12),
    ),
    "blocks begin where the row began": (
        *(Positions, ("base.eq(block_start)", "base.eq(row_start)")),
        *(pair_positions, 8),
    ),
    "the second of a pair goes on after the first": (
        *(Positions, ("entry.eq(first_entry)", "entry.eq(entry + 1)")),
        *(pair_positions, 8),
    ),
    "kernel columns begin where the block began": (
        *(Walk, ("next_byte.eq(next_col)", "next_byte.eq(next_block)")),
        *(exec_walk, 16),
    ),
    "an output block begins in the row of the one before": (
        *(Walk, ("next_row.eq(_start_position(command.first_row))", "next_row.eq(row_kernel)")),
        *(exec_walk, 16),
    ),
    "elements after the end of a row are read": (
        *(
            Walk,
            ("room2.eq(fixed.input_row_bytes - s1_byte.at)", "room2.eq(fixed.input_row_bytes)"),
        ),
        *(exec_walk, 10),
    ),
    "a step of one vector does not wait": (
        *(Walk, ("m.d.sync += held.eq(stays_young)", "m.d.sync += held.eq(0)")),
        *(exec_walk, 12),
    ),
    "zero points are subtracted in windows, too": (
        *(Walk, ("fixed.zero_points & ~fixed.window", "fixed.zero_points")),
        *(zero_point_walk, 10),
    ),
    "entries go on in every step": (
        *(Outputs, ("self.entry.eq(block)", "self.entry.eq(following)")),
        *(exec_outputs, 10),
    ),
    "a line without outputs is too few": (
        *(Outputs, ("skips.eq(Mux(skips_now == 0, skip, skips_now - 1))", "skips.eq(0)")),
        *(exec_outputs, 12),
    ),
    "a vector that is known goes a cycle early": (
        *(Execute, ("queue.r_en.eq(granted[-2])", "queue.r_en.eq(granted[-3])")),
        *(exec_places, 12),
    ),
    "a command's weights go on from the one before": (
        *(Loader, ("before = Mux(begin, following, address)", "before = address")),
        *(exec_weights, 12),
    ),
    "a row after the last tile is read": (
        *(
            Loader,
            ("free = ~self.full | (self.release & ~self.last)", "free = ~self.full | self.release"),
        ),
        *(exec_weights, 14),
    ),
    "a row goes to the place of the next": (
        *(Loader, ("row_next.eq(row)", "row_next.eq(row + 1)")),
        *(exec_weights, 14),
    ),
    "weights are of the mode of the instruction that comes": (
        *(
            Loader,
            ("flag.eq(following)", "flag.eq(value)"),
        ),
        *(narrow_weights, 14),
    ),
    "tiles are transposed as those of the instruction that comes": (
        *(Loader, ("flag.eq(following)", "flag.eq(value)")),
        *(transposed_weights, 14),
    ),
    "a format reaches the array after its weights": (
        *(Loader, ("cycles=SPAD_READ_LATENCY + 1", "cycles=SPAD_READ_LATENCY + 2")),
        *(float_weights, 16),
    ),
    "a zero point comes a cycle after its weights": (
        *(Loader, ("zero, SPAD_READ_LATENCY)", "zero, SPAD_READ_LATENCY + 1)")),
        *(zero_points_of_weights, 14),
    ),
    "a zero point is subtracted from a block of a window": (
        *(Loader, ("Mux(self.taken, 0, delivered)", "delivered")),
        *(zero_points_beside_blocks, 16),
    ),
    "a block of a window is taken for two weights a byte": (
        *(Loader, ("Mux(self.taken, 0, delivered)", "delivered")),
        *(narrow_weights, 16),
    ),
    "a line of five taps is stored as one of three": (
        *(Windows, ("self._last_rows(_THREE_LINES)[1:]", "self._last_rows(0)[1:]")),
        *(wide_windows, 6),
    ),
    "the lines of a window are in the wrong order": (
        *(Windows, ("ends[len(lines) - 1 - last_rows.index(row)]", "ends[last_rows.index(row)]")),
        *(wide_windows, 6),
    ),
    "a window's first taps are what stood to their right": (
        *(
            Windows,
            ("Mux(self._any(slide.shift, moves), right, following)", "right"),
        ),
        *(wide_windows, 6),
    ),
    "a block of parameters is a read too long": (
        *(Parameters, ("_BIAS_READS, _SCALE_READS = 4, 5", "_BIAS_READS, _SCALE_READS = 4, 6")),
        *(post_parameters, 12),
    ),
    "a block of parameters is one too many": (
        *(Parameters, ("m.If(task.blocks == 0)", "m.If(task.blocks[0])")),
        *(post_parameters, 20),
    ),
    "parameters of the next block restart": (
        *(
            Parameters,
            ("before + Mux(idle, 0, self._columns)", "before + Mux(load, 0, self._columns)"),
        ),
        *(post_parameters, 12),
    ),
    "vectors are read without a place": (
        *(Reader, ("room_next != 0", "room_next == room_next")),
        *(post_reader, 20),
    ),
    "an end of a block comes a cycle late": (
        *(Reader, ('SPAD_READ_LATENCY, "spad_end")', 'SPAD_READ_LATENCY + 1, "spad_end")')),
        *(post_reader, 12),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_not_proven(refuted, mutated, name):
    component, change, claim, cycles = MUTANTS[name]
    mutant = mutated(component, change)
    refuted(lambda: claim(mutant), depth=cycles)


@pytest.mark.slow
@pytest.mark.parametrize("claim", [load_rows, pair_positions, exec_outputs])
def test_loops_are_those_of_the_page(prove, claim):
    assert prove(claim, depth=2, cover_depth=30).verdict == PROVEN


@pytest.mark.slow
@pytest.mark.parametrize(
    "weights",
    [narrow_weights, transposed_weights, zero_points_of_weights, zero_points_beside_blocks],
)
def test_flags_of_weights_are_proven(prove, weights):
    """This must be proven here, as no configuration in the report has these flags."""
    assert prove(weights, depth=SPAD_READ_LATENCY + 3, cover_depth=30).verdict == PROVEN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "depth"),
    [(zero_point_walk, 2), (windows_of_zero_points, 4), (zero_point_places, _PLACES)],
)
def test_vectors_with_zero_points_are_proven(prove, claim, depth):
    assert prove(claim, depth=depth, cover_depth=30).verdict == PROVEN
