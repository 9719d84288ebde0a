"""Matrix products, convolutions and post-processing: exact sums, random streams and layers."""

import cocotb
import numpy as np
from bench import Bench
from jobs import Job, checkup, ordered, scrub, transfer

from matloom.arch.csr import EXEC_CAUSES
from matloom.arch.isa import Opcode, Region
from matloom.compiler import CompileOptions, compile_network
from matloom.kernels.interpreter import interpret
from matloom.verification.random_layers import random_layer

STREAMS = 3
LAYERS = 6


def _bytes(generator, *shape):
    """Return random int8 numbers of a shape."""
    noise = np.frombuffer(generator.randbytes(int(np.prod(shape))), np.int8)
    return noise.reshape(shape)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def checkups_agree_with_the_model(dut):
    bench = await Bench.open(dut)
    for _ in range(4):
        await bench.compare(checkup(bench.config, bench.random))


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_product_of_matrices_is_numpys(dut):
    bench = await Bench.open(dut)
    rows, columns = bench.config.rows, bench.config.columns
    positions, blocks, oc_blocks = 7, 3, 2
    depth, channels = rows * blocks, columns * oc_blocks
    left = _bytes(bench.random, positions, depth)
    right = _bytes(bench.random, depth, channels)
    tiles = right.reshape(blocks, rows, oc_blocks, columns).transpose(2, 0, 1, 3).tobytes()
    result = len(tiles) + left.size
    steps = (
        transfer(Opcode.LOAD, Region.INPUT, result),
        (
            Opcode.EXEC,
            {
                "input_addr": len(tiles),
                "input_pitch": depth,
                "input_rows": positions,
                "input_row_bytes": depth,
                "width": 1,
                "height": positions,
                "y_step": 1,
                "kernel_rows": 1,
                "kernel_cols": 1,
                "blocks": blocks,
                "oc_blocks": oc_blocks,
            },
        ),
        # 2**30 / 2**31 * 2**-7: the sum's 256th part, rounded once as the part is exact before.
        (
            Opcode.POST,
            {
                "rounding": 1,
                "multiplier": 2**30,
                "shift": -7,
                "output_zero": 3,
                "clamp_low": -100,
                "clamp_high": 110,
                "width": 1,
                "height": positions,
                "oc_blocks": oc_blocks,
                "tail": columns,
                "dest_addr": result,
                "dest_pitch": channels,
            },
        ),
        transfer(Opcode.STORE, Region.OUTPUT, positions * channels, spad_addr=result),
    )
    job = Job.of(
        ordered(bench.config, *steps, output=positions * channels),
        input=tiles + left.tobytes(),
        output=bytes(positions * channels),
    )
    regions = await bench.compare(job)
    sums = left.astype(np.int64) @ right.astype(np.int64)
    # Halves go up.
    expected = np.clip(((sums + 128) >> 8) + 3, -100, 110).astype(np.int8)
    assert regions[Region.OUTPUT] == expected.tobytes()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_convolution_is_numpys(dut):
    """A 3x3 convolution with padding of a one-channel image equals NumPy's.

    Each kernel row is a run of bytes in the scratchpad.
    """
    bench = await Bench.open(dut)
    rows, columns, tile = bench.config.rows, bench.config.columns, bench.config.tile_bytes
    height, width, pad = 5, 6, -7
    image = _bytes(bench.random, height, width)
    kernel = _bytes(bench.random, 3, 3, columns)
    tiles = np.zeros((3, rows, columns), np.int8)
    tiles[:, :3] = kernel
    result, size = 3 * tile + image.size, height * width * columns
    steps = (
        transfer(Opcode.LOAD, Region.INPUT, result),
        (
            Opcode.EXEC,
            {
                "input_addr": 3 * tile,
                "input_pitch": width,
                "input_rows": height,
                "input_row_bytes": width,
                "first_row": -1,
                "first_byte": -1,
                "pad_value": pad,
                "width": width,
                "height": height,
                "x_step": 1,
                "y_step": 1,
                "kernel_rows": 3,
                "kernel_row_step": 1,
                "kernel_cols": 1,
                "blocks": 1,
                "oc_blocks": 1,
            },
        ),
        (
            Opcode.POST,
            {
                "rounding": 1,
                "multiplier": 2**30,
                "shift": -8,
                "clamp_low": -128,
                "clamp_high": 127,
                "width": width,
                "height": height,
                "oc_blocks": 1,
                "tail": columns,
                "x_step": columns,
                "dest_addr": result,
                "dest_pitch": width * columns,
            },
        ),
        transfer(Opcode.STORE, Region.OUTPUT, size, spad_addr=result),
    )
    instructions = ordered(bench.config, *steps, output=size)
    content = tiles.tobytes() + image.tobytes()
    regions = await bench.compare(Job.of(instructions, input=content, output=bytes(size)))
    padded = np.pad(image.astype(np.int64), 1, constant_values=pad)
    sums = sum(
        padded[y : y + height, x : x + width, None] * kernel[y, x].astype(np.int64)
        for y in range(3)
        for x in range(3)
    )
    expected = np.clip((sums + 256) >> 9, -128, 127).astype(np.int8)
    assert regions[Region.OUTPUT] == expected.tobytes()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def random_streams_agree_with_the_model(dut):
    bench = await Bench.open(dut)
    await bench.compare(scrub(bench.config))
    for _ in range(STREAMS):
        number = bench.random.getrandbits(32)
        dut._log.info("stream %d", number)
        job = Job.stream(number, bench.config)
        await bench.compare(job)
        await _check_counters(bench, job)


async def _check_counters(bench, job):
    """Check that the counters match the bus, and that each cycle has one cause."""
    counters = await bench.counters()
    assert {name: counters[name] for name in bench.monitor.counts} == bench.monitor.counts
    assert counters["instructions"] == bench.model.executed
    causes = sum(counters[name] for name, _doc in EXEC_CAUSES)
    assert causes == counters["cycles"]


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def random_layers_agree_with_the_interpreter(dut):
    bench = await Bench.open(dut)
    for _ in range(LAYERS):
        number = bench.random.getrandbits(32)
        graph, inputs = random_layer(number, bench.config)
        dut._log.info("layer %d, %s", number, graph.name)
        program = compile_network(graph, bench.config, CompileOptions(tiling_seed=number))
        (step,) = program.steps
        contents = {region: bytearray(program.region_bytes.get(region, 0)) for region in Region}
        contents[Region.PROGRAM][: len(program.image)] = program.image
        by_name = {graph.tensors[key].name: array for key, array in inputs.items()}
        for binding in step.inputs:
            data = by_name[binding.name].tobytes()
            contents[binding.region][binding.offset : binding.offset + len(data)] = data
        job = Job(
            regions={region: bytes(data) for region, data in contents.items()},
            command_offset=step.command_offset,
            command_bytes=step.command_bytes,
        )
        regions = await bench.compare(job)
        (expected,) = interpret(graph, inputs).values()
        (binding,) = step.outputs
        found = regions[binding.region][binding.offset : binding.offset + expected.nbytes]
        assert found == expected.tobytes(), f"layer {number} differs from the interpreter"
