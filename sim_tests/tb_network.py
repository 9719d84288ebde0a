"""A whole trained network through the unmodified blocking driver."""

import cocotb
import numpy as np
from bench import Bench, SimTransport
from cocotb.task import bridge

from matloom import frontend
from matloom.arch.isa import Region
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.device.driver import Driver
from matloom.device.model.transport import ModelTransport
from matloom.kernels.interpreter import interpret
from matloom.program import EngineStep

IMAGES = 2


def _run(transport, program, inputs):
    """Run the engine's steps on a device; return all resulting tensors, and the counters."""
    driver = Driver(transport, program.config, timeout=600)
    driver.reset()
    driver.place_regions(program.region_bytes)
    driver.write_region(Region.PROGRAM, 0, program.image)
    known, counters = dict(inputs), []
    for step in program.steps:
        if isinstance(step, EngineStep):
            for binding in step.inputs:
                driver.write_region(binding.region, binding.offset, known[binding.name].tobytes())
            counters.append(driver.run(step.command_offset, step.command_bytes))
            for binding in step.outputs:
                size = int(np.prod(binding.shape))
                raw = driver.read_region(binding.region, binding.offset, size)
                known[binding.name] = np.frombuffer(raw, np.int8).reshape(binding.shape)
    return known, counters


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def the_digit_network_runs_through_the_driver(dut):
    bench = await Bench.open(dut)
    graph = frontend.load(NETWORK)
    program = compile_network(graph, bench.config)
    (number,) = graph.inputs
    tensor = graph.tensors[number]
    # The driver places its regions from the memory's first byte on.
    size = sum(-(-count // 4096) * 4096 for count in program.region_bytes.values())
    bench.memory.readable = bench.memory.writable = [(bench.memory.base, bench.memory.base + size)]
    for _ in range(IMAGES):
        noise = bench.random.randbytes(int(np.prod(tensor.shape)))
        image = np.frombuffer(noise, np.int8).reshape(tensor.shape)
        inputs = {tensor.name: image}
        found, counters = await bridge(_run)(SimTransport(bench), program, inputs)
        modelled, _ = _run(ModelTransport(bench.config, 1 << 20), program, inputs)
        assert all((found[name] == modelled[name]).all() for name in modelled)
        by_number = interpret(graph, {number: image}, keep=True)
        for key, array in by_number.items():
            name = graph.tensors[key].name
            if name in found:
                assert (found[name] == array).all(), name
        assert counters[0].cycles > 0
        timestamps = {layer.timestamp for layer in program.layers if layer.timestamp}
        assert set(counters[0].timestamps) == timestamps
        assert max(counters[0].timestamps.values()) <= counters[0].cycles
        bench.check_traffic()
