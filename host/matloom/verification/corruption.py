"""Corrupts command buffers at random, and tells which of them have defined results."""

import dataclasses
import random

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom.arch.instruction import Instruction, IsaError, length_words, pack, unpack
from matloom.arch.isa import FORMATS, INSTRUCTION_WORD_BYTES, Opcode, Region
from matloom.device.model.engine import Engine, EngineFaultError
from matloom.program.instruction_table import unpack_all
from matloom.program.verify import VerifyError, verify_commands
from matloom.verification.random_programs import RandomProgram

#: Approximate maximum of steps of a corrupted stream; longer ones are drawn again.
_MAX_CYCLES = 60_000

_LOOPS = {
    Opcode.LOAD: ("rows", "planes", "row_bytes"),
    Opcode.STORE: ("rows", "planes", "row_bytes"),
    Opcode.EXEC: ("width", "height", "kernel_rows", "kernel_cols", "blocks", "oc_blocks"),
    Opcode.POST: ("width", "height", "oc_blocks"),
    Opcode.END: (),
}


def corrupt(generator: random.Random, stream: RandomProgram) -> RandomProgram:
    """Return a stream with corrupted commands.

    A bit or a word is changed, the end is cut off, or some or all of the commands are replaced by
    random bytes. Streams that could run very long are drawn again. `instructions` is empty.
    """
    commands = _corrupt(generator, stream.commands)
    while _count_cycles(commands) > _MAX_CYCLES:
        commands = _corrupt(generator, stream.commands)
    return dataclasses.replace(stream, instructions=(), commands=commands)


def _corrupt(generator: random.Random, legal: bytes) -> bytes:
    """Return commands changed in a random way: a bit, a word, cut off, or replaced by noise."""
    kind = generator.choice(("bit", "bit", "bit", "word", "cut", "noise", "after"))
    commands = bytearray(legal)
    if kind == "bit":
        commands[generator.randrange(len(commands))] ^= 1 << generator.randrange(8)
    elif kind == "word":
        at = generator.randrange(0, len(commands), 4)
        commands[at : at + 4] = generator.randbytes(4)
    elif kind == "cut":
        del commands[
            generator.randrange(1, len(commands) // INSTRUCTION_WORD_BYTES)
            * INSTRUCTION_WORD_BYTES :
        ]
    elif kind == "after":
        # Legal instructions that are still running when noise follows.
        noise = bytearray(generator.randbytes(3 * INSTRUCTION_WORD_BYTES))
        noise[0] = noise[0] & 0xF0 | generator.choice(tuple(Opcode))
        boundaries, at = [], 0
        while at < len(commands):
            boundaries.append(at)
            at += length_words(commands[at]) * INSTRUCTION_WORD_BYTES
        commands[generator.choice(boundaries) :] = noise
    else:
        commands = bytearray(generator.randbytes(INSTRUCTION_WORD_BYTES * generator.randint(1, 12)))
        if generator.random() < 0.5:
            commands[0] = commands[0] & 0xF0 | generator.choice(tuple(FORMATS))
    return bytes(commands)


def _count_cycles(commands: bytes) -> int:
    """Return roughly how many cycles the instructions before the first undecodable one take."""
    total, offset = 0, 0
    while offset < len(commands):
        try:
            instruction, offset = unpack(commands, offset)
        except IsaError:
            break
        product = 1
        for name in _LOOPS[instruction.opcode]:
            product *= getattr(instruction, name)
        total += product
    return total


def is_defined(stream: RandomProgram, config: Config) -> bool:
    """Return whether a stream has defined results on devices that start with zeroed memories.

    It has if it is legal, if the order in which units work does not matter, and if all multipliers
    and shifts that a POST reads from the scratchpad are in range.
    """
    sizes = {region: len(contents) for region, contents in stream.regions.items()}
    try:
        verify_commands(stream.commands, config, {Region.PROGRAM: len(stream.commands), **sizes})
    except VerifyError:
        return False
    engine = Engine(config)
    contents = {**stream.regions, Region.PROGRAM: stream.commands}
    engine.regions = {
        region: np.frombuffer(data, np.uint8).copy() for region, data in contents.items()
    }
    for instruction in unpack_all(stream.commands):
        if not _scales_are_legal(instruction, engine.spad, config):
            return False
        bare = {name: v for name, v in instruction.values.items() if not name.startswith("wait_")}
        engine.run(pack(Instruction(instruction.opcode, bare)) + pack(Instruction(Opcode.END)))
    return True


def leaves_chip(stream: RandomProgram, config: Config) -> bool:
    """Return whether a stream's first fault is an access beyond scratchpad or accumulators."""
    engine = Engine(config)
    contents = {**stream.regions, Region.PROGRAM: stream.commands}
    engine.regions = {
        region: np.frombuffer(data, np.uint8).copy() for region, data in contents.items()
    }
    try:
        engine.run(stream.commands)
    except EngineFaultError as fault:
        return fault.cause in (Fault.SPAD_RANGE, Fault.ACC_RANGE)
    return False


def _scales_are_legal(instruction: Instruction, spad: NDArray[np.uint8], config: Config) -> bool:
    """Return whether the multipliers and shifts that a POST reads from the scratchpad are in range.

    True for other instructions.
    """
    if instruction.opcode is not Opcode.POST or not instruction.channel_scale:
        return True
    bias_bytes = config.bias_block_bytes * instruction.channel_bias
    block = bias_bytes + config.scale_block_bytes
    start, end = instruction.param_addr, instruction.param_addr + instruction.oc_blocks * block
    scales = spad[start:end].reshape(-1, block)[:, bias_bytes:]
    multipliers = np.ascontiguousarray(scales[:, : 4 * config.columns]).view("<i4")
    shifts = scales[:, 4 * config.columns :].view(np.int8)
    return bool((multipliers >= 0).all() and (shifts >= -31).all() and (shifts <= 30).all())
