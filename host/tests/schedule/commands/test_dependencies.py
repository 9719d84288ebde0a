import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Opcode, Region
from matloom.compiler import CompileOptions, compile_unchecked
from matloom.cost.predict import predict
from matloom.cost.timing import Timings
from matloom.schedule import pipeline
from matloom.schedule.commands.dependencies import DependencyTracker
from support.mobilenet import mobilenet

CONFIG = PRESETS["nano"]


def _order():
    return DependencyTracker(CONFIG, {Region.ARENA: 1024})


def _load(order, address, size=16):
    return order.append(
        Opcode.LOAD, region=Region.PROGRAM, spad_addr=address, row_bytes=size, rows=1, planes=1
    )


def _exec(order, address, *, weights, entry=0, **more):
    one = ("width", "height", "kernel_rows", "kernel_cols", "blocks", "oc_blocks", "input_rows")
    return order.append(
        Opcode.EXEC,
        input_addr=address,
        weight_addr=weights,
        acc_addr=entry,
        **({"input_row_bytes": 16, **dict.fromkeys(one, 1)} | more),
    )


def _store(order, address, offset):
    return order.append(
        Opcode.STORE,
        region=Region.ARENA,
        dram_offset=offset,
        spad_addr=address,
        row_bytes=16,
        rows=1,
        planes=1,
    )


def test_reader_waits_for_the_writer_that_overlaps():
    order = _order()
    _load(order, 0)
    _load(order, 16)
    _load(order, 100)
    instruction = _exec(order, 8, weights=200, blocks=16 // CONFIG.rows)
    assert instruction.wait_load == 2
    assert (instruction.wait_exec, instruction.wait_post, instruction.wait_store) == (0, 0, 0)


def test_a_reader_of_a_part_of_a_row_waits_for_that_part():
    """Of a map of one row, each LOAD brings the input of four outputs, which read two positions."""
    order, positions, size = _order(), 12, CONFIG.rows
    for part in range(0, positions, 4):
        _load(order, part * size, size=4 * size)
    row = {"input_row_bytes": positions * size, "x_step": size, "kernel_cols": 2}
    step = {"kernel_col_step": size, "weights": 1000, "width": 4}
    waits = [
        _exec(order, 0, **row, **step, first_byte=first * size).wait_load
        for first in (0, 3, 4, 8, -1, 9)
    ]
    # The last LOADs that they need: the second (outputs 0 to 3 read position 4), third, and so on.
    assert waits == [2, 2, 1, 1, 3, 1]


def test_a_writer_waits_for_readers_of_the_old_bytes():
    order = _order()
    _exec(order, 0, weights=200)
    _exec(order, 64, weights=300)
    assert _load(order, CONFIG.rows - 1).wait_exec == 2
    assert _load(order, 315).wait_exec == 1
    assert _load(order, 400).wait_exec == 0


def test_units_do_not_wait_for_themselves():
    order = _order()
    _load(order, 0)
    assert _load(order, 0).wait_load == 0


def test_long_distances_become_the_longest_wait():
    order = _order()
    _load(order, 0)
    for _ in range(99):
        _load(order, 64)
    assert _exec(order, 0, weights=200).wait_load == 63


def test_external_memory_orders_a_load_after_the_store():
    order = _order()
    _store(order, 0, 0)
    _store(order, 32, 512)
    again = order.append(
        Opcode.LOAD,
        region=Region.ARENA,
        dram_offset=0,
        spad_addr=300,
        row_bytes=16,
        rows=1,
        planes=1,
    )
    assert again.wait_store == 2
    assert _load(order, 320).wait_store == 0


def test_columns_of_a_matrix_wait_for_their_own_readers_alone():
    """Rows of 32 bytes: the first 16 are read while the rest arrives."""
    order = _order()

    def columns(first):
        return order.append(
            Opcode.LOAD,
            region=Region.PROGRAM,
            spad_addr=first,
            row_bytes=16,
            rows=4,
            planes=1,
            dram_row_step=32,
            spad_row_step=32,
        )

    def read(first_byte, blocks):
        one = ("width", "kernel_rows", "kernel_cols", "oc_blocks")
        return order.append(
            Opcode.EXEC,
            **dict.fromkeys(one, 1),
            height=4,
            input_rows=4,
            input_row_bytes=32,
            input_pitch=32,
            x_step=32,
            y_step=1,
            first_byte=first_byte,
            blocks=blocks,
            weight_addr=1024,
        )

    columns(0)
    columns(16)
    assert read(0, 4).wait_load == 2
    assert read(16, 4).wait_load == 1
    assert columns(0).wait_exec == 2
    # Of five blocks only four lie in the row.
    assert read(16, 5).wait_load == 2


@pytest.mark.parametrize("preset", ["nano", "reference"])
def test_costs_are_those_of_each_instruction(monkeypatch, preset):
    compared = []

    def predict_and_compare(instructions, machine, *, costs):
        timings = Timings(machine)
        assert costs == [timings.of(each) for each in instructions[:-1]]
        compared.extend(costs)
        return predict(instructions, machine, costs=costs)

    monkeypatch.setattr(pipeline, "predict", predict_and_compare)
    compile_unchecked(mobilenet(10, 48), PRESETS[preset], CompileOptions(tuned=False))
    assert len(compared) > 100
