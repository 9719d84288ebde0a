import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Destination, Opcode, Region, RowFunction, Source, Table
from matloom.arch.machine import Machine
from matloom.arch.numerics import Rounding
from matloom.cost.predict import predict
from matloom.schedule.commands.dependencies import DependencyTracker

CONFIG = PRESETS["reference"]


def _exec(positions, steps, **values):
    return {
        "weights_fixed": 0,
        "width": positions,
        "height": 1,
        "kernel_rows": steps,
        "kernel_cols": 1,
        "blocks": 1,
        "oc_blocks": 1,
        "weight_addr": CONFIG.bank_bytes,
        **values,
    }


def _cycles(*instructions):
    return predict([*instructions, Instruction(Opcode.END)], Machine(config=CONFIG)).cycles


def test_a_step_takes_its_positions_or_its_weights_whichever_is_more():
    base = _cycles(Instruction(Opcode.EXEC, _exec(100, 1)))
    assert _cycles(Instruction(Opcode.EXEC, _exec(100, 5))) - base == 400
    few = _cycles(Instruction(Opcode.EXEC, _exec(1, 10)))
    assert few - base == 10 * CONFIG.tile_load_cycles - 100
    fixed, longer = (
        _cycles(Instruction(Opcode.EXEC, _exec(1, steps, weights_fixed=1))) for steps in (10, 30)
    )
    assert longer - fixed == 20 * 4


def test_accumulating_instructions_wait_for_earlier_sums():
    first, second = (
        _cycles(Instruction(Opcode.EXEC, _exec(100, 5, accumulate=again))) for again in (0, 1)
    )
    assert second == first + CONFIG.acc_update_latency


def test_instructions_come_no_faster_than_they_are_checked():
    run = Instruction(Opcode.EXEC, _exec(4, 1))
    assert _cycles(*[run] * 9) - _cycles(run) == 8 * 31


def test_weights_in_the_bank_of_the_input_take_its_cycles():
    apart = _cycles(Instruction(Opcode.EXEC, _exec(9, 20)))
    shared = _cycles(Instruction(Opcode.EXEC, _exec(9, 20, weight_addr=4096)))
    assert shared - apart == 20 * CONFIG.tile_load_cycles
    half = CONFIG.bank_bytes - 10 * CONFIG.tile_bytes
    between = _cycles(Instruction(Opcode.EXEC, _exec(9, 20, weight_addr=half)))
    assert between - apart == 10 * CONFIG.tile_load_cycles


def test_fills_of_a_table_wait_for_the_bank_that_the_array_reads():
    stream = _exec(500, 1, x_step=CONFIG.rows, input_row_bytes=500 * CONFIG.rows)
    shape = {"width": 16, "height": 1, "oc_blocks": 1, "tail": 16, "x_step": 16}
    sides = {"source": Source.SPAD, "destination": Destination.SPAD}
    same, other = (
        _cycles(
            Instruction(Opcode.EXEC, stream),
            Instruction(
                Opcode.POST, {**shape, **sides, "table": Table.FILL, "source_addr": address}
            ),
        )
        for address in (0, 2 * CONFIG.bank_bytes)
    )
    assert same > other


def test_softmax_waits_for_the_bank_that_the_array_reads():
    """The array reads 500 vectors in 500 cycles, in which SOFTMAX reads none."""
    config = load_config("reference+softmax=16")
    stream = _exec(500, 1, x_step=config.rows, input_row_bytes=500 * config.rows)
    rows = {"width": 1, "height": 16, "oc_blocks": 8, "tail": 16, "softmax": RowFunction.SOFTMAX}
    rows |= {"source_pitch": 128, "dest_addr": 3 * config.bank_bytes, "dest_pitch": 128}
    sides = {"source": Source.SPAD, "destination": Destination.SPAD}
    same, other = (
        predict(
            [
                Instruction(Opcode.EXEC, stream),
                Instruction(Opcode.POST, {**rows, **sides, "source_addr": address}),
                Instruction(Opcode.END),
            ],
            Machine(config=config),
        ).cycles
        for address in (0, 2 * config.bank_bytes)
    )
    assert 400 <= same - other <= 500


def test_tiles_of_paired_windows_come_between_steps():
    """On the simulated chip, instructions of 25 x 25 blocks follow each other in 629 cycles."""
    one, two = (
        _cycles(*[Instruction(Opcode.EXEC, _exec(625, 1, window=1, paired=1))] * count)
        for count in (1, 2)
    )
    assert two - one == 629


def test_units_overlap_unless_they_wait():
    transfer = {"region": Region.PROGRAM, "row_bytes": 8000, "rows": 1, "planes": 1}
    load = Instruction(Opcode.LOAD, transfer)
    alone = _cycles(load)
    run = Instruction(Opcode.EXEC, _exec(500, 1))
    assert _cycles(load, run) == alone
    after = Instruction(Opcode.EXEC, {**_exec(500, 1), "wait_load": 1})
    assert _cycles(load, after) > alone + 500


def test_commands_come_over_the_bus_of_loads():
    """Commands beyond those read ahead each take their beats on the bus."""
    values = {"region": Region.PROGRAM, "row_bytes": 8000, "rows": 1, "planes": 1}
    load, run = Instruction(Opcode.LOAD, values), Instruction(Opcode.EXEC, _exec(4, 1))
    few, many = (_cycles(load, *[run] * count, load) for count in (9, 19))
    assert many - few == 10 * 48 // CONFIG.bus_bytes


def test_rows_of_whole_beats_come_without_a_pause():
    def load(row_bytes, step):
        shape = {"row_bytes": row_bytes, "rows": 100, "planes": 1, "dram_row_step": step}
        return _cycles(Instruction(Opcode.LOAD, {"region": Region.INPUT, **shape}))

    # On the simulated chip: 1,109, 2,109 and 1,209 cycles, and 524 and 594 where rows are so
    # short that the bursts that may be on their way are all awaited.
    assert load(80, 400) == pytest.approx(1109, abs=1)
    assert load(160, 400) == pytest.approx(2109, abs=1)
    assert load(84, 400) == pytest.approx(1209, rel=0.01)
    assert load(8, 400) == pytest.approx(524, abs=2)
    assert load(32, 400) == pytest.approx(594, abs=2)


def test_a_spread_beat_is_written_from_its_first_byte_on():
    """Rows of 10 bytes, 4 apart, take 5 to 8 writes; 24 rows take 157 cycles on the chip."""

    def load(count, start):
        shape = {"row_bytes": 10, "rows": count, "planes": 1, "dram_row_step": 10, "spread": 2}
        values = {"region": Region.INPUT, "dram_offset": start, **shape}
        return _cycles(Instruction(Opcode.LOAD, values))

    alone = load(1, 0)
    assert [load(1, start) - alone for start in (2, 4, 6)] == [1, 2, 3]
    assert load(48, 0) - load(24, 0) == pytest.approx(157, abs=1)


def test_stores_overlap_the_responses_of_those_before():
    store = Instruction(
        Opcode.STORE, {"region": Region.OUTPUT, "row_bytes": 800, "rows": 1, "planes": 1}
    )
    beats = 800 // CONFIG.bus_bytes
    assert _cycles(store, store) - _cycles(store) == beats + 1


def test_a_look_up_takes_a_cycle_more():
    post = {"width": 50, "height": 1, "oc_blocks": 1, "tail": CONFIG.columns}
    plain, looked_up = (
        _cycles(Instruction(Opcode.POST, {**post, "table": table})) for table in (0, 1)
    )
    assert looked_up == plain + 1


def test_marks_get_the_completion_of_their_instruction():
    order = DependencyTracker(CONFIG, {})
    order.append(Opcode.EXEC, **_exec(100, 1), timestamp=3, input_rows=1, input_row_bytes=1)
    order.append(Opcode.EXEC, **_exec(100, 1), timestamp=4, input_rows=1, input_row_bytes=1)
    order.end()
    prediction = predict(order.instructions, Machine(config=CONFIG))
    assert prediction.timestamps[4] - prediction.timestamps[3] == 100
    assert prediction.busy["exec"] == 200


@pytest.mark.parametrize(
    ("values", "cycles"),
    [
        ({"source": Source.SPAD, "destination": Destination.ACC_SET, "pre_shift": 8}, 198),
        ({"source": Source.ACC, "destination": Destination.SPAD, "pre_shift": 8}, 194),
        ({"source": Source.ACC, "destination": Destination.SPAD, "pre_shift": 4}, 114),
    ],
)
def test_floats_take_a_cycle_for_each_byte_of_a_column(values, cycles):
    """As measured on the simulated chip with 40 vectors of fp32 and of bf16."""
    machine = Machine(config=load_config("small+bf16+weight_rows=2"))
    shape = {"width": 40, "height": 1, "oc_blocks": 1, "tail": 8, "rounding": Rounding.FLOAT}
    post, end = Instruction(Opcode.POST, {**shape, **values}), Instruction(Opcode.END)
    one, nine = (predict([*[post] * count, end], machine).cycles for count in (1, 9))
    assert (nine - one) / 8 == pytest.approx(cycles, abs=1)
