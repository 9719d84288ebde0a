"""Units that share a scratchpad bank wait as long on the chip as predicted."""

import pytest

from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Destination, Opcode, Region, Source
from matloom.arch.machine import Machine
from matloom.cost.predict import predict

pytestmark = pytest.mark.parametrize("pair", ["nano"], indirect=True)

#: Positions of a tile, steps of an EXEC.
ROWS, STEPS = 60, 6


def execute(config, bank, **waits):
    """Return an EXEC that reads a vector per cycle from a bank, and weights from the last bank."""
    row = STEPS * config.rows
    return Instruction(
        Opcode.EXEC,
        {
            "input_addr": bank * config.bank_bytes,
            "input_pitch": row,
            "input_rows": ROWS,
            "input_row_bytes": row,
            "width": 1,
            "height": ROWS,
            "x_step": row,
            "y_step": 1,
            "kernel_rows": 1,
            "kernel_cols": 1,
            "kernel_row_step": 1,
            "blocks": STEPS,
            "oc_blocks": 1,
            "weight_addr": (config.spad_banks - 1) * config.bank_bytes,
            **waits,
        },
    )


def post(config, bank, *, blocks=1, **values):
    """Return a POST that writes a bank."""
    step = blocks * config.columns
    return Instruction(
        Opcode.POST,
        {
            "pre_shift": 0,
            "multiplier": 1 << 30,
            "clamp_low": -128,
            "clamp_high": 127,
            "width": ROWS // blocks,
            "height": 1,
            "oc_blocks": blocks,
            "tail": config.columns,
            "x_step": step,
            "dest_addr": bank * config.bank_bytes,
            **values,
        },
    )


def move(opcode, config, bank, size, **waits):
    region = Region.INPUT if opcode is Opcode.LOAD else Region.OUTPUT
    where = {"region": region, "spad_addr": bank * config.bank_bytes, "row_bytes": size}
    return Instruction(opcode, {**where, "rows": 1, "planes": 1, **waits})


def parameters(config, bank):
    """Return a POST whose parameters are in a bank, and an EXEC that streams from bank 0."""
    given = {"channel_bias": 1, "channel_scale": 1, "param_addr": bank * config.bank_bytes + 4096}
    made = post(config, 1, blocks=4, wait_exec=1, **given)
    other = {"acc_addr": config.acc_entries // 2}
    together, after = execute(config, 0, **other), execute(config, 0, wait_post=1)
    return [execute(config, 0), made, together, after]


def vectors(config, bank):
    """Return a POST that reads a bank while an EXEC streams from bank 0."""
    start = bank * config.bank_bytes + 4096
    made = post(config, 1, source=Source.SPAD, source_addr=start)
    return [execute(config, 0), made, execute(config, 0, acc_addr=config.acc_entries // 2)]


def stored(config, bank):
    """Return a STORE from a bank while POSTs read bank 0 and write bank 1."""
    made = post(config, 1, source=Source.SPAD)
    sums = post(config, 1, source=Source.SPAD, destination=Destination.ACC_SET)
    return [move(Opcode.STORE, config, bank, 2000), made, sums, made, made]


def held(config, bank):
    """Return a STORE from bank 1 while POSTs fetch parameters and EXECs stream from bank 0."""
    given = {"channel_bias": 1, "channel_scale": 1, "param_addr": bank * config.bank_bytes + 4096}
    made = post(config, 1, wait_exec=1, **given)
    entries = (0, config.acc_entries // 2)
    tiles = [execute(config, 0, acc_addr=entries[number % 2]) for number in range(4)]
    return [move(Opcode.STORE, config, 1, 4000), *(part for tile in tiles for part in (tile, made))]


def loaded(config, bank):
    """Return a LOAD into a bank while POSTs write bank 1."""
    made = post(config, 1, source=Source.SPAD)
    return [move(Opcode.LOAD, config, bank, 2000), *[made] * 4]


#: The bank that another unit uses, and the one next to it.
CASES = {parameters: (0, 2), vectors: (0, 2), stored: (0, 2), held: (0, 2), loaded: (1, 2)}


def cycles(pair, instructions):
    """Return measured and predicted cycles."""
    instructions = [*instructions, Instruction(Opcode.END)]
    commands = b"".join(pack(instruction) for instruction in instructions)
    size = {Region.INPUT: 1 << 14, Region.OUTPUT: 1 << 14}
    pair.rtl.place_regions({Region.PROGRAM: len(commands), **size})
    pair.rtl.write_region(Region.PROGRAM, 0, commands)
    measured = pair.rtl.run(0, len(commands)).cycles
    return measured, predict(instructions, Machine(config=pair.config)).cycles


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_unit_waits_at_a_bank_as_long_as_predicted(pair, case):
    shared, apart = (cycles(pair, case(pair.config, bank)) for bank in CASES[case])
    if case is stored and pair.config.shares_gather:
        # STORE waits for POST wherever either reads: without that it would take a tenth less.
        assert shared[0] == apart[0]
    else:
        assert shared[0] > 1.05 * apart[0], "the case must make a unit wait"
    for measured, predicted in (shared, apart):
        assert predicted == pytest.approx(measured, rel=0.03, abs=12)
