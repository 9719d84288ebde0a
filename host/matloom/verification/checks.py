"""Checks of the chip against the functional model; configuration and seed determine each."""

import random
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.csr import EXEC_CAUSES
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import WRITABLE_REGIONS, Region
from matloom.compiler import CompileOptions, compile_network
from matloom.device.driver import Driver
from matloom.device.errors import DeviceFaultError
from matloom.ir.graph import Array, Graph
from matloom.kernels.interpreter import interpret
from matloom.program.instruction_table import unpack_all
from matloom.runtime import load
from matloom.tools.compare import random_inputs
from matloom.verification.corruption import corrupt, is_defined, leaves_chip
from matloom.verification.pair import MismatchError, Pair
from matloom.verification.random_layers import random_layer
from matloom.verification.random_programs import (
    REGION_BYTES,
    RandomProgram,
    clear_state,
    random_stream,
    random_streams,
    read_state,
    run_stream,
)
from matloom.verification.refusals import check_refusals
from matloom.verification.registers import check_registers
from matloom.verification.timestamps import (
    regular_instructions,
    wrong_regular_counters,
    wrong_regular_timestamps,
    wrong_timestamps,
)
from matloom.verification.wide_operators import WINDOWED, WideOperators

__all__ = [
    "CHECKS",
    "MismatchError",
    "check_corrupted_streams",
    "check_layers",
    "check_stream",
    "check_streams",
    "check_timestamps",
]


def _state_interval(config: Config) -> int:
    """Return the number of instruction streams between comparisons of the complete state on chip.

    Reading the state of a large chip takes as long as running several streams.
    """
    return max(5, config.spad_bytes >> 14)


def check_streams(pair: Pair, seed: int, count: int = 20) -> Counter[str]:
    """Run random legal instruction streams on chip and model; check timestamps and registers, too.

    Every other stream runs with random stalls of external memory. Returns the number of streams
    and instructions; raises `MismatchError` if chip and model differ.
    """
    ran: Counter[str] = Counter()
    interval = _state_interval(pair.config)
    for number, stream in enumerate(random_streams(pair.config, seed, count)):
        if number % 2:
            pair.start_stalls(seed + number)
        else:
            pair.stop_stalls()
        check_stream(pair, stream, number)
        if number % interval == interval - 1:
            _compare_states(pair, number)
        ran += Counter(streams=1, instructions=len(stream.instructions))
    check_timestamps(pair, seed)
    check_registers(pair, seed)
    return ran


def check_timestamps(pair: Pair, seed: int) -> None:
    """Run equal instructions on the chip that use all timestamp entries, in random order.

    Raises `MismatchError` if a timestamp or counter is wrong. Each timestamp follows from the one
    before, so a single wrong bit is noticed.
    """
    slots = list(range(1, pair.config.timestamps))
    if not slots:
        return
    random.Random(f"timestamps {seed}").shuffle(slots)
    instructions = regular_instructions(pair.config, slots)
    commands = b"".join(pack(instruction) for instruction in instructions)
    pair.stop_stalls()
    pair.rtl.place_regions({Region.PROGRAM: len(commands), Region.OUTPUT: REGION_BYTES})
    pair.rtl.write_region(Region.PROGRAM, 0, commands)
    counted = pair.rtl.run(0, len(commands))
    wrong = wrong_regular_timestamps(slots, counted.timestamps, counted.values["cycles"])
    if pair.config.counters == 2 and not wrong:
        wrong = wrong_regular_counters(pair.config, slots, counted, len(commands))
    if wrong:
        raise MismatchError(f"timestamps of equal instructions: {wrong}")


def check_corrupted_streams(pair: Pair, seed: int, count: int = 20) -> Counter[str]:
    """Run corrupted instruction streams; compare fault records, and check bounds of writes.

    If a corrupted stream has defined results, these are compared, too: a random change may
    introduce hazards, and results then depend on the order of units. Every tenth time, a legal
    stream shows that the core is still usable. Returns the number of streams, faults and compared
    results; raises `MismatchError` if chip and model differ.
    """
    generator = random.Random(f"corrupted {seed}")
    counts: Counter[str] = Counter()
    for number in range(count):
        legal = random_stream(generator.getrandbits(32), pair.config)
        stream = corrupt(generator, legal)
        # Without checks, only the model detects it.
        if not pair.config.checks and leaves_chip(stream, pair.config):
            continue
        pair.start_stalls(seed + number)
        faulty = _compare_ends(pair, stream, generator, number)
        counts += Counter(streams=1, faults=int(faulty))
        for driver in pair:
            driver.reset()
        if number % 10 == 0:
            stream = legal
        elif faulty or not is_defined(stream, pair.config):
            continue
        counts["results"] += 1
        for driver in pair:
            clear_state(driver)
        check_stream(pair, stream, number)
        _compare_states(pair, number)
    return counts


def _random_layer(number: int, config: Config) -> tuple[Graph, dict[int, Array]]:
    """Return random layer `number`, a network of one operator, and its inputs by tensor number.

    For an odd `number`, it is a layer of `WideOperators`, with one unusually large quantity.
    """
    if number % 2 == 0:
        return random_layer(number, config)
    op = WINDOWED[number // 2 % len(WINDOWED)]
    graph = WideOperators(number).make(op)
    return graph, random_inputs(graph, number)


def check_layers(pair: Pair, seed: int, count: int = 5) -> Counter[str]:
    """Run random layers with random tiles on chip and model; compare with the graph interpreter.

    Returns the number of layers; raises `MismatchError` if a result differs.
    """
    for number in range(seed, seed + count):
        graph, inputs = _random_layer(number, pair.config)
        program = compile_network(graph, pair.config, CompileOptions(tiling_seed=number))
        named = {graph.tensors[tensor].name: array for tensor, array in inputs.items()}
        expected = interpret(graph, inputs)
        pair.start_stalls(number)
        for name, driver in (("model", pair.model), ("rtl", pair.rtl)):
            results = load(program, device=driver).run(named)
            for tensor in graph.outputs:
                wrong = np.argwhere(results[graph.tensors[tensor].name] != expected[tensor])
                if wrong.size:
                    raise MismatchError(
                        f"layer {number}, {graph.nodes[0]}: {name} differs at {tuple(wrong[0])}"
                    )
    return Counter(layers=count)


#: Checks by name, each a function of a `Pair` and a seed that returns counts.
CHECKS = {
    "streams": check_streams,
    "corrupted": check_corrupted_streams,
    "refusals": check_refusals,
    "layers": check_layers,
}


def minimum_busy_cycles(instructions: list[Instruction], bus_bytes: int) -> dict[str, int]:
    """Return the minimum cycles that LOAD and STORE are busy, by the name of the counter.

    Each unit moves at most one beat per cycle, and needs two cycles for the address of a row.
    """
    least = {"load_busy": 0, "store_busy": 0}
    for instruction in instructions:
        name = f"{instruction.opcode.name.lower()}_busy"
        if name in least:
            rows = instruction.rows * instruction.planes
            least[name] += rows * max(2, -(-instruction.row_bytes // bus_bytes))
    return least


def check_stream(pair: Pair, stream: RandomProgram, number: int) -> None:
    """Run legal stream `number` on chip and model; compare their writes to external memory.

    `number` is the index of the stream, for messages. Raises `MismatchError` if the writes differ,
    or if the chip's counters or completion times are inconsistent.
    """
    model, chip = (run_stream(driver, stream) for driver in pair)
    if chip != model:
        raise MismatchError(f"stream {number}: external memory differs")
    counters = pair.rtl.counters()
    counted = counters.values
    spent = sum(counted[name] for name, _doc in EXEC_CAUSES)
    if pair.rtl.config.counters == 2 and spent != counted["cycles"]:
        raise MismatchError(f"stream {number}: causes add to {spent} of {counted['cycles']} cycles")
    for unit in ("load_busy", "post_busy", "store_busy"):
        if counted[unit] >= max(1, counted["cycles"]):
            raise MismatchError(
                f"stream {number}: {unit} is {counted[unit]} of {counted['cycles']}"
            )
    instructions = list(unpack_all(stream.commands))
    for unit, least in minimum_busy_cycles(instructions, pair.rtl.config.bus_bytes).items():
        if pair.rtl.config.counters == 2 and counted[unit] < least:
            raise MismatchError(
                f"stream {number}: {unit} is {counted[unit]}, at least {least} needed"
            )
    wrong = wrong_timestamps(instructions, counters.timestamps, counted["cycles"])
    if wrong:
        raise MismatchError(f"stream {number}: {wrong}")


def _compare_states(pair: Pair, number: int) -> None:
    """Raise `MismatchError`, which names stream `number`, if states of chip and model differ."""
    pair.stop_stalls()
    model, chip = (read_state(driver) for driver in pair)
    if chip != model:
        raise MismatchError(f"after stream {number}: scratchpad or accumulators differ")


def _compare_ends(pair: Pair, stream: RandomProgram, generator: random.Random, number: int) -> bool:
    """Run corrupted stream `number` on chip and model; return whether it ended with a fault.

    Raises `MismatchError` if the fault records differ, if the chip's record changes later, or if
    the chip wrote outside of the writable regions.
    """
    bases = _fill_memory(pair.rtl, pair.chip.memory, stream, generator)
    written = [
        slice(start, start + len(stream.regions[region]))
        for region in WRITABLE_REGIONS
        for start in [bases[region] - pair.chip.memory_base]
    ]
    before = _without_written(pair.chip.memory, written)
    chip, model = _fault_record_of_run(pair.rtl, stream), _fault_record_of_run(pair.model, stream)
    if chip != model:
        raise MismatchError(f"stream {number}: the chip ends with {chip}, the model with {model}")
    if chip is not None:
        _require_stable_record(pair, chip, number)
    if (_without_written(pair.chip.memory, written) != before).any():
        raise MismatchError(f"stream {number}: a write outside its regions")
    return chip is not None


def _require_stable_record(pair: Pair, record: tuple[int, int, int, int], number: int) -> None:
    """Raise `MismatchError` if the fault record of stream `number` changes when read again."""
    pair.rtl.write("IRQ_STATUS", 3)
    for cycles in (1, 1, 2):
        pair.chip.wait_interrupt(cycles)
        if _fault_record(pair.rtl.fault()) != record:
            raise MismatchError(f"stream {number}: the record {record} does not stay")


def _fill_memory(
    driver: Driver, memory: NDArray[np.uint8], stream: RandomProgram, generator: random.Random
) -> dict[Region, int]:
    """Fill the start of memory with noise, and write a stream's regions; return their addresses."""
    sizes = {region: len(contents) for region, contents in stream.regions.items()}
    bases = driver.place_regions({Region.PROGRAM: len(stream.commands), **sizes})
    noise = np.frombuffer(generator.randbytes(1 << 16), np.uint8)
    memory[: noise.size] = noise
    driver.write_region(Region.PROGRAM, 0, stream.commands)
    for region, contents in stream.regions.items():
        driver.write_region(region, 0, contents)
    return bases


def _without_written(memory: NDArray[np.uint8], written: list[slice]) -> NDArray[np.uint8]:
    """Return a copy of external memory in which the bytes that a stream may write are zero."""
    remaining = memory.copy()
    for part in written:
        remaining[part] = 0
    return remaining


def _fault_record_of_run(driver: Driver, stream: RandomProgram) -> tuple[int, int, int, int] | None:
    """Run an instruction stream; return its fault record, or None if it ends without a fault."""
    try:
        run_stream(driver, stream)
    except DeviceFaultError as fault:
        return _fault_record(fault)
    return None


def _fault_record(fault: DeviceFaultError) -> tuple[int, int, int, int]:
    """Return the four values of a fault record, in the order of the registers."""
    return fault.cause, fault.opcode, fault.index, fault.address
