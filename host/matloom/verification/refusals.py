"""Checks that the chip refuses illegal instructions in the same way as the model."""

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import FORMATS, Opcode, Region
from matloom.device.driver import Driver
from matloom.device.errors import DeviceFaultError
from matloom.device.model.engine import Engine, EngineFaultError
from matloom.verification.pair import MismatchError, Pair
from matloom.verification.random_programs import random_stream

#: Size in bytes of each region of external memory except PROGRAM.
_REGION_BYTES = 8192

#: Maximum number of streams in which an instruction of each opcode is sought.
_SEARCHED_STREAMS = 40

_Record = tuple[int, int, int, int]


class _Judge(Engine):
    """Engine that checks instructions but does not execute them."""

    def _execute(self, instruction: Instruction) -> None:
        """Do nothing: only the checks before it matter."""
        pass


def expected_fault(config: Config, commands: bytes) -> _Record | None:
    """Return cause, opcode, index and address of the fault in commands; None if they are legal."""
    regions = {region: np.zeros(_REGION_BYTES, np.uint8) for region in Region}
    regions[Region.PROGRAM] = np.frombuffer(commands, np.uint8)
    judge = _Judge(config, regions)
    try:
        judge.run(commands)
    except EngineFaultError as fault:
        return fault.cause, fault.opcode, fault.index, fault.address
    return None


def altered_instructions(generator: random.Random, config: Config) -> Iterator[bytes]:
    """Yield command buffers of one altered instruction and END.

    They come from one legal instruction of each opcode. Each bit after the opcode is inverted once;
    as many random pairs of bits are inverted; and each field gets the first and last values of its
    bits, as signed and as unsigned numbers.
    """
    for instruction in _one_of_each(generator, config):
        raw = pack(instruction)
        word, bits = int.from_bytes(raw, "little"), 8 * len(raw)
        changed = [word ^ 1 << bit for bit in range(4, bits)]
        changed += [
            word ^ 1 << generator.randrange(4, bits) ^ 1 << generator.randrange(4, bits)
            for _pair in range(4, bits)
        ]
        position = 4
        for item in FORMATS[instruction.opcode].all_fields[1:]:
            ones = (1 << item.bits) - 1
            for value in {0, 1, ones >> 1, (ones >> 1) + 1, ones - 1, ones}:
                if 0 <= value <= ones:
                    changed.append(word & ~(ones << position) | value << position)
            position += item.bits
        for each in changed:
            yield each.to_bytes(len(raw), "little") + pack(Instruction(Opcode.END))


def _one_of_each(generator: random.Random, config: Config) -> list[Instruction]:
    """Return a random legal instruction of each opcode, without waits."""
    found: dict[Opcode, Instruction] = {}
    for _stream in range(_SEARCHED_STREAMS):
        for instruction in random_stream(generator.getrandbits(32), config).instructions:
            bare = {k: v for k, v in instruction.values.items() if not k.startswith("wait_")}
            found.setdefault(instruction.opcode, Instruction(instruction.opcode, bare))
        if len(found) == len(FORMATS):
            break
    return list(found.values())


def wide_products(generator: random.Random, config: Config) -> Iterator[bytes]:
    """Yield command buffers of one instruction and END, whose memory ranges exceed 32 bits.

    The low 32 bits of the extents alone would be in range. The large product is a count times a
    step of a transfer, or three counts of an EXEC: its number of accumulator entries.
    """
    for instruction in _one_of_each(generator, config):
        if instruction.opcode is Opcode.EXEC:
            counts = generator.choice(((10, 11, 11), (11, 10, 11), (11, 11, 10)))
            named = zip(("oc_blocks", "height", "width"), counts, strict=True)
            wide = {name: 1 << bits for name, bits in named}
            values = {**instruction.values, **wide, "weights_fixed": 1, "window": 0}
            yield pack(Instruction(Opcode.EXEC, values)) + pack(Instruction(Opcode.END))
    for opcode, region in ((Opcode.LOAD, Region.INPUT), (Opcode.STORE, Region.OUTPUT)):
        for count, step in (("rows", "dram_row_step"), ("planes", "dram_plane_step")):
            times = generator.randrange(256, 4095)
            multiple = generator.randrange(1, times // 256 + 1) << 32
            # Below 2**24: the multiple is at most times * 2**24.
            stride = min(-(-multiple // times), (1 << 24) - 1)
            fields = {"region": region, "row_bytes": 1, "rows": 1, "planes": 1}
            fields |= {count: times + 1, step: stride}
            yield pack(Instruction(opcode, fields)) + pack(Instruction(Opcode.END))


def check_refusals(pair: Pair, seed: int, count: int = 100) -> Counter[str]:
    """Run up to `count` illegal commands on the chip; return how many were run.

    Raises `MismatchError` if a fault record differs from the model's. Commands that the model
    accepts are not run, because they may have hazards or take long. Nothing is run if the
    configuration has no checks on chip.
    """
    generator = random.Random(f"refusals {seed}")
    if not pair.config.checks:
        return Counter()
    cases = list(altered_instructions(generator, pair.config))
    generator.shuffle(cases)
    ran: Counter[str] = Counter()
    pair.stop_stalls()
    for commands in (*wide_products(generator, pair.config), *cases):
        expected = expected_fault(pair.config, commands)
        if expected is None:
            continue
        _require_fault(pair.rtl, commands, expected)
        ran["refusals"] += 1
        if ran["refusals"] >= count:
            break
    return ran


def _require_fault(driver: Driver, commands: bytes, expected: _Record) -> None:
    """Run commands on the chip; raise `MismatchError` unless they end with this fault record."""
    driver.place_regions({**dict.fromkeys(Region, _REGION_BYTES), Region.PROGRAM: len(commands)})
    driver.write_region(Region.PROGRAM, 0, commands)
    found: _Record | None = None
    try:
        driver.run(0, len(commands))
    except DeviceFaultError as fault:
        found = fault.cause, fault.opcode, fault.index, fault.address
        driver.reset()
    if found != expected:
        raise MismatchError(
            f"{commands.hex()} ends with {found} on the chip, {expected} on the model"
        )
