"""Mutants of post-processing; every proof fails."""

import pytest

from matloom.arch.config import load_config
from matloom_rtl.formal.engine import PROVEN
from matloom_rtl.formal.post.exponentials import exponentials
from matloom_rtl.formal.post.lanes import lanes
from matloom_rtl.formal.post.maxima import maxima
from matloom_rtl.formal.post.numbers import numbers
from matloom_rtl.formal.post.parameter_cache import parameter_cache
from matloom_rtl.formal.post.pooled_positions import pooled_blocks
from matloom_rtl.formal.post.positions import whole_rows
from matloom_rtl.formal.post.products import products
from matloom_rtl.formal.post.reader import reader
from matloom_rtl.formal.post.reciprocals import reciprocals
from matloom_rtl.formal.post.sequencer import sequencer
from matloom_rtl.formal.post.softmax import softmax
from matloom_rtl.formal.post.writer import writer
from matloom_rtl.post.exponentials import Exponentials
from matloom_rtl.post.lanes import Lanes
from matloom_rtl.post.maxima import Maxima
from matloom_rtl.post.numbers import Numbers
from matloom_rtl.post.parameters import Parameters
from matloom_rtl.post.positions import Positions
from matloom_rtl.post.products import Products
from matloom_rtl.post.reader import Reader
from matloom_rtl.post.reciprocals import Reciprocals
from matloom_rtl.post.sequencer import Sequencer
from matloom_rtl.post.softmax import Softmax
from matloom_rtl.post.writer import Writer

NANO = load_config("nano")
ROWS = load_config("nano+softmax=1")
POOLS = load_config("nano+pooling=1")
POOLS_REGISTERED = load_config("nano+tables=2+pooling=1")
WORDS = load_config("nano+i16xi8+tables=1")
WORD_PRODUCTS = load_config("nano+i16xi8+products=4")
RESULT_SUMS = load_config("nano+columns=16+lanes=16+tables=1+products=2+result_sums=1")
FORMATS = load_config("small+i16xi8+bf16+fp8_e4m3+fp8_e5m2+weight_rows=2")


def byte_writer(component=Writer):
    return writer(component(NANO))


def word_writer(component=Writer):
    return writer(component(WORDS))


def byte_lanes(component=Lanes):
    return lanes(component(NANO))


def table_lanes(component=Lanes):
    return lanes(component(WORDS))


def curve_lanes(component=Lanes):
    return lanes(component(load_config("nano+lanes=4+i16xi8+curves=1")))


def sequences(component=Sequencer):
    return sequencer(component(NANO))


def row_lanes(component=Lanes):
    return lanes(component(ROWS))


def row_walk(component=Positions):
    return whole_rows(component(ROWS, passes=3))


def pooled_walk(component=Positions):
    return pooled_blocks(component(POOLS, pools=True))


def pooled_lanes(component=Lanes):
    return lanes(component(POOLS))


def pooled_maxima(component=Maxima):
    return maxima(component(POOLS))


def registered_maxima(component=Maxima):
    return maxima(component(POOLS_REGISTERED))


def row_order(component=Softmax):
    return softmax(component(ROWS))


def row_reciprocals(component=Reciprocals):
    return reciprocals(component(2))


def row_table(component=Exponentials):
    return exponentials(component(load_config("small+softmax=2")))


def post_products(component=Products):
    return products(component(NANO, 8))


def post_squares(component=Products):
    return products(component(load_config("nano+products=3"), 8))


def word_products(component=Products):
    return products(component(WORD_PRODUCTS, 8))


def sum_lanes(component=Lanes):
    return lanes(component(RESULT_SUMS))


def sum_products(component=Products):
    return products(component(RESULT_SUMS, 8))


def sum_reader(component=Reader):
    return reader(component(RESULT_SUMS))


def word_reader(component=Reader):
    return reader(component(WORD_PRODUCTS))


def contents(component=Parameters):
    return parameter_cache(component(NANO))


def all_numbers(component=Numbers):
    return numbers(component(FORMATS))


#: A unit, the replaced text, its claim, and the cycles within which a run breaks it.
MUTANTS = {
    "a column after the tail is written": (
        *(Writer, ("(index < command.tail)", "(index <= command.tail)")),
        *(byte_writer, 6),
    ),
    "data leave with their request": (
        *(Writer, ("taken if early else leaves", "taken")),
        *(byte_writer, 8),
    ),
    "a beat goes to the column of another": (
        *(Writer, ("divmod(column, self._config.lanes)", "divmod(column ^ 1, self._config.lanes)")),
        *(byte_writer, 8),
    ),
    "both parts of a vector go to one address": (
        *(Writer, ("address + part * columns)", "address)")),
        *(word_writer, 10),
    ),
    "a byte's mask is that of another element": (
        *(Writer, ("masks.word_select(part, columns)", "masks[:columns]")),
        *(word_writer, 10),
    ),
    "a row of the table is taken for another": (
        *(Writer, ("Mux(fills, self.rows.ready, bytes_taken)", "Mux(fills, 1, bytes_taken)")),
        *(word_writer, 8),
    ),
    "a lane has the column of another beat": (
        *(Lanes, ("values[parameters.beats[index]]", "values[0]")),
        *(byte_lanes, 8),
    ),
    "a vector enters without a place": (
        *(Lanes, ("(inside_next != PLACES)", "(inside_next != PLACES + 1)")),
        *(byte_lanes, 50),
    ),
    "a vector enters without its parameters": (
        *(Lanes, ("(inside_next != PLACES) & ready", "(inside_next != PLACES)")),
        *(byte_lanes, 8),
    ),
    "beats are shown in another order": (
        *(Lanes, ("Mux(emerging, 1 << emerged, 0)", "Mux(emerging, 1 << (emerged ^ 1), 0)")),
        *(byte_lanes, 20),
    ),
    "what is looked up is shown a cycle early": (
        *(Lanes, ("inside[Lane.LATENCY + Tables.LATENCY - 1]", "inside[Lane.LATENCY - 1]")),
        *(table_lanes, 20),
    ),
    "parameters of the next command are released with rows": (
        *(
            Lanes,
            ("release = ready | active, release & ~active", "release = ready | active, release"),
        ),
        *(row_lanes, 6),
    ),
    "a batch ends a row early": (
        *(Positions, ('row["left"] == of_batch', 'row["left"] == of_batch + 1')),
        *(row_walk, 6),
    ),
    "a block of sums is as wide as its results": (
        *(Positions, ("Cat(Const(1, 1), self.width - 1)", "self.width")),
        *(pooled_walk, 8),
    ),
    "a block ends with each of its sums": (
        *(Positions, ("of_block_end & last_entry", "of_block_end")),
        *(pooled_walk, 6),
    ),
    "a result that is kept takes a place": (
        *(Lanes, ("entered - self.kept", "entered")),
        *(pooled_lanes, 30),
    ),
    "bytes are compared without their signs": (
        *(Maxima, ("byte.as_signed() > before.as_signed()", "byte > before")),
        *(pooled_maxima, 8),
    ),
    "a group begins with the largest byte of the one before": (
        *(Maxima, ("is_larger = first | (", "is_larger = (")),
        *(pooled_maxima, 16),
    ),
    "a beat is compared with another column's": (
        *(Maxima, ("Mux(emerges[beat], held[beat], before)", "before")),
        *(pooled_maxima, 10),
    ),
    "what leaves is the first of a group": (
        *(Maxima, ("Mux(last, emerged, 0)", "Mux(first, emerged, 0)")),
        *(registered_maxima, 16),
    ),
    "a byte is compared before its register": (
        *(Maxima, ("lane, compared, (", "lane, byte, (")),
        *(registered_maxima, 16),
    ),
    "a result that passed unchanged leaves again": (
        *(Maxima, ("Mux(self.pools, self.emerges, 0)", "self.emerges")),
        *(registered_maxima, 8),
    ),
    "a row begins with the largest byte of the one before": (
        *(Softmax, ("here.first | (found > before)", "found > before")),
        *(row_order, 10),
    ),
    "results enter without their reciprocals": (
        *(Softmax, ("(of_pass != _RESULTS)", "(of_pass == _LARGEST)")),
        *(row_order, 14),
    ),
    "elements after the tail are added": (
        *(Reciprocals, ("Mux(self.adds[way], rounded, 0)", "rounded")),
        *(row_reciprocals, 6),
    ),
    "the first estimate is multiplied by another row's sum": (
        *(Reciprocals, ("Mux(begins, count, of_multiplier.row)", "count")),
        *(row_reciprocals, 28),
    ),
    "a second exponential has a bit of the first": (
        *(Exponentials, ("row.eq(row >> bits)", "row.eq(row >> (bits - 1))")),
        *(row_table, 6),
    ),
    "copies of the table differ": (
        *(Exponentials, ("write.addr.eq(at)", "write.addr.eq(at + way)")),
        *(row_table, 6),
    ),
    "the next command is looked at before the last is done": (
        *(Sequencer, ("with m.If(idle):", "with m.If(unit.command.valid):")),
        *(sequences, 8),
    ),
    "a command completes a cycle early": (
        *(Sequencer, ("m.If(settling == 1)", "m.If(settling == 2)")),
        *(sequences, 12),
    ),
    "a request that waits is forgotten": (
        *(Sequencer, ("m.If(all_written & ~self.waiting)", "m.If(all_written)")),
        *(sequences, 8),
    ),
    "a zero point is added": (
        *(Products, ("as_signed() - self.zero", "as_signed() + self.zero")),
        *(post_products, 6),
    ),
    "a column is multiplied by the sum of the first": (
        *(Products, ("waiting.r_data.word_select(index,", "waiting.r_data.word_select(0,")),
        *(post_products, 6),
    ),
    "a byte is added to the sum whose difference is squared": (
        *(Products, ("_DIFFERENCE_BITS] - (centred", "_DIFFERENCE_BITS] + (centred")),
        *(post_squares, 6),
    ),
    "a difference is multiplied by the sum": (
        *(Products, (", factor.eq(difference)]", "]")),
        *(post_squares, 6),
    ),
    "a curve is shown when its product is": (
        *(Lanes, ("Mux(curved, inside[behind - 1]", "Mux(curved, inside[behind - 2]")),
        *(curve_lanes, 24),
    ),
    "what becomes a curve is limited first": (
        *(Lanes, ("[lane.limits.eq(0) for lane in lanes]", "[]")),
        *(curve_lanes, 8),
    ),
    "a word is multiplied by the low bits of a byte's sum": (
        *(Products, ("factor.eq(total[:_WORD_BITS])", "factor.eq(low.as_signed())")),
        *(word_products, 6),
    ),
    "the first bytes of a word ask for its sum": (
        *(Reader, ("multiplies &= last_part", "multiplies &= 1")),
        *(word_reader, 8),
    ),
    "the last bytes of a word do not wait for its sum": (
        *(Reader, ("bytes_valid &= ~multiplies | acc.ready", "bytes_valid &= 1")),
        *(word_reader, 8),
    ),
    "a byte is added to the sum whose result it waits for": (
        *(Products, ("Mux(self.keeps, 0, byte) if self._keeps else byte", "byte")),
        *(sum_products, 6),
    ),
    "bytes of other sums wait for results": (
        *(Reader, ("spad_arrived & multiplies & keeps", "spad_arrived & multiplies")),
        *(sum_reader, 12),
    ),
    "bytes are taken a cycle early": (
        *(Lanes, ("takes=adds & inside[Lane.LATENCY])", "takes=adds & inside[Lane.LATENCY - 1])")),
        *(sum_lanes, 24),
    ),
    "a sum is shown with its look-up": (
        *(Lanes, ("Tables.SUM_LATENCY - 1], emerging)", "Tables.LATENCY - 1], emerging)")),
        *(sum_lanes, 24),
    ),
    "a word of one column is kept for another": (
        *(Parameters, ("writes.groups[index // self._words]", "writes.groups[0]")),
        *(contents, 14),
    ),
    "multipliers are taken for biases": (
        *(Parameters, ("Mux(task.channel_bias, 0, _BIAS_READS)", "0")),
        *(contents, 14),
    ),
    "what an instruction says of all is read": (
        *(Parameters, ("Mux(writes.repeats, repeated, read)", "read")),
        *(contents, 12),
    ),
    "the last row keeps what was there": (
        *(Parameters, ("2 * self._rows) - 1", "2 * self._rows) - 2")),
        *(contents, 12),
    ),
    "a shift that an instruction has is read": (
        *(Parameters, ("Mux(writes.repeats, task.shift, read)", "read")),
        *(contents, 12),
    ),
    "a block gives way to the next before it is released": (
        *(Parameters, ("swap.eq(full & ~swap & (~present | o.release))", "swap.eq(full & ~swap)")),
        *(contents, 14),
    ),
    "a limit's bytes change places": (
        *(Numbers, ('Cat(command[f"{side}_byte"], limit)', 'Cat(limit, command[f"{side}_byte"])')),
        *(all_numbers, 6),
    ),
    "an element of four bytes is taken for one of two": (
        *(Numbers, ("== FP32_FORMAT, 2, double)", "== FP32_FORMAT, 1, double)")),
        *(all_numbers, 6),
    ),
    "a limit is of another format": (
        *(Numbers, ('Widen(("fp8_e5m2",))', 'Widen(("fp8_e4m3",))')),
        *(all_numbers, 6),
    ),
    "the rule is that of sums": (
        *(Numbers, ('"floating": command.rounding', '"floating": command.source')),
        *(all_numbers, 6),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_not_proven(refuted, mutated, name):
    component, change, claim, cycles = MUTANTS[name]
    mutant = mutated(component, change)
    refuted(lambda: claim(mutant), depth=cycles)


@pytest.mark.slow
@pytest.mark.parametrize("claim", [pooled_walk, pooled_lanes, pooled_maxima, registered_maxima])
def test_maxima_are_proven(prove, claim):
    """No preset of the report pools at so small a size."""
    assert prove(claim, depth=3, cover_depth=30).verdict == PROVEN


@pytest.mark.slow
def test_squares_are_proven(prove):
    """This must be proven here, as no configuration in the report has the feature."""
    assert prove(post_squares, depth=4, cover_depth=8).verdict == PROVEN


@pytest.mark.slow
@pytest.mark.parametrize(("claim", "depth"), [(word_products, 4), (word_reader, 7)])
def test_products_of_words_are_proven(prove, claim, depth):
    """This must be proven here, as no configuration in the report has the feature."""
    assert prove(claim, depth=depth, cover_depth=20).verdict == PROVEN


@pytest.mark.slow
@pytest.mark.parametrize(("claim", "depth"), [(sum_lanes, 2), (sum_products, 4), (sum_reader, 7)])
def test_sums_of_results_are_proven(prove, claim, depth):
    """This must be proven here, as no configuration in the report has the feature."""
    assert prove(claim, depth=depth, cover_depth=30).verdict == PROVEN


@pytest.mark.slow
def test_lanes_with_curves_are_proven(prove):
    """This must be proven here, as no configuration in the report has the feature."""
    assert prove(curve_lanes, depth=2, cover_depth=30).verdict == PROVEN


@pytest.mark.slow
def test_numbers_of_all_formats_are_proven(prove):
    """No configuration in the report has both 16-bit and floating-point formats."""
    assert prove(all_numbers, depth=5, cover_depth=8).verdict == PROVEN
