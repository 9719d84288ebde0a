"""LOAD and STORE: strides, misaligned rows, fills and long bursts, byte by byte."""

import cocotb
from bench import Bench
from jobs import Job, ordered, transfer

from matloom.arch.isa import Opcode, Region


def _shape(random, most):
    """Return random sizes row_bytes, rows and planes, of at most `most` bytes in all."""
    row_bytes = random.choice((1, 2, 3, 7, 8, random.randint(1, 300)))
    rows, planes = random.choice((1, 2, 5)), random.choice((1, 2, 3))
    while row_bytes * rows * planes > most:
        row_bytes = row_bytes // 2
    return max(1, row_bytes), rows, planes


def _steps(random, row_bytes, rows):
    """Return random strides of rows and planes at which nothing overlaps."""
    row_step = row_bytes + random.choice((0, 1, 5, 64))
    return row_step, rows * row_step + random.choice((0, 3, 17))


def _addresses(start, shape, steps):
    """Return the address of each byte, in order."""
    row_bytes, rows, planes = shape
    return [
        start + plane * steps[1] + row * steps[0] + byte
        for plane in range(planes)
        for row in range(rows)
        for byte in range(row_bytes)
    ]


def _copy(bench, size):
    """Return a job that copies rows and planes through the scratchpad, and the expected OUTPUT."""
    random, config = bench.random, bench.config
    source, output = random.randbytes(size), bytearray(random.randbytes(size))
    shape = _shape(random, 1000)
    row_bytes, rows, planes = shape
    steps = {name: _steps(random, row_bytes, rows) for name in ("input", "spad", "output")}
    extent = {name: _addresses(0, shape, both)[-1] + 1 for name, both in steps.items()}
    start = {
        name: random.randint(0, limit - extent[name])
        for name, limit in (("input", size), ("spad", config.spad_bytes), ("output", size))
    }
    box = {
        "rows": rows,
        "planes": planes,
        "spad_addr": start["spad"],
        "spad_row_step": steps["spad"][0],
        "spad_plane_step": steps["spad"][1],
    }

    def outside(name):
        """Return the fields of a transfer for its side in external memory, `name`."""
        return {
            "dram_offset": start[name],
            "dram_row_step": steps[name][0],
            "dram_plane_step": steps[name][1],
        }

    fill = random.random() < 0.2
    noise = random.randrange(256)
    filled = {"fill": int(fill), "fill_value": noise}
    instructions = ordered(
        config,
        transfer(Opcode.LOAD, Region.INPUT, row_bytes, **box, **outside("input"), **filled),
        transfer(Opcode.STORE, Region.OUTPUT, row_bytes, **box, **outside("output")),
        output=size,
    )
    job = Job.of(instructions, input=source, output=bytes(output))
    sources = _addresses(start["input"], shape, steps["input"])
    targets = _addresses(start["output"], shape, steps["output"])
    for here, there in zip(sources, targets, strict=True):
        output[there] = noise if fill else source[here]
    return job, bytes(output)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def boxes_of_bytes_arrive_whole(dut):
    bench = await Bench.open(dut)
    for _ in range(15):
        job, expected = _copy(bench, 3000)
        assert (await bench.compare(job))[Region.OUTPUT] == expected


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def long_rows_split_at_pages_and_burst_lengths(dut):
    bench = await Bench.open(dut)
    size = 9000
    source = bench.random.randbytes(size)
    first, row_bytes = bench.random.randrange(40), size - 40
    common = {"spad_addr": bench.random.randrange(64), "dram_offset": first}
    instructions = ordered(
        bench.config,
        transfer(Opcode.LOAD, Region.INPUT, row_bytes, **common),
        transfer(Opcode.STORE, Region.OUTPUT, row_bytes, **common),
        output=size,
    )
    regions = await bench.compare(Job.of(instructions, input=source, output=bytes(size)))
    expected = bytes(first) + source[first : first + row_bytes] + bytes(size - first - row_bytes)
    assert regions[Region.OUTPUT] == expected
    longest = max(beats for _address, beats in bench.monitor.writes)
    assert longest == bench.config.burst_beats


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def every_alignment_of_short_rows(dut):
    """Start rows at each byte of a beat, on either side, with rows about a beat long."""
    bench = await Bench.open(dut)
    width = bench.config.bus_bytes
    lengths = (1, width - 1, width, width + 1)
    size = 4 * width + 16
    for shift in range(width):
        source = bench.random.randbytes(size)
        steps, expected = [], bytearray(size * len(lengths))
        for number, length in enumerate(lengths):
            spad = number * size + bench.random.randrange(width)
            there = number * size + bench.random.randrange(width)
            steps += [
                transfer(Opcode.LOAD, Region.INPUT, length, dram_offset=shift, spad_addr=spad),
                transfer(Opcode.STORE, Region.OUTPUT, length, dram_offset=there, spad_addr=spad),
            ]
            expected[there : there + length] = source[shift : shift + length]
        instructions = ordered(bench.config, *steps, output=len(expected))
        job = Job.of(instructions, input=source, output=bytes(len(expected)))
        assert (await bench.compare(job))[Region.OUTPUT] == expected


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def commands_begin_anywhere_in_their_region(dut):
    """Commands follow constants, which LOAD reads from the same region."""
    bench = await Bench.open(dut)
    for _ in range(4):
        constants = bench.random.randbytes(16 * bench.random.randint(1, 40))
        size = len(constants)
        job = Job.of(
            ordered(
                bench.config,
                transfer(Opcode.LOAD, Region.PROGRAM, size, spad_addr=3),
                transfer(Opcode.STORE, Region.ARENA, size, spad_addr=3),
                arena=size,
            ),
            arena=bytes(size),
        )
        moved = Job(
            regions={**job.regions, Region.PROGRAM: constants + job.commands},
            command_offset=size,
            command_bytes=job.command_bytes,
        )
        assert (await bench.compare(moved))[Region.ARENA] == constants
