"""Random legal instruction streams, to compare devices, drawn from the ISA's tables."""

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import (
    FORMATS,
    HEAD,
    INSTRUCTION_WORD_BYTES,
    UNITS,
    WRITABLE_REGIONS,
    Destination,
    Opcode,
    Region,
    RowFunction,
    Source,
    Table,
)
from matloom.arch.numerics import Rounding
from matloom.device.driver import Driver
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.verification.draws import table_bytes
from matloom.verification.instructions import Space, random_instruction

#: Size of each region of external memory that a stream uses, in bytes.
REGION_BYTES = 6000

#: Region size of some streams of `random_streams`; most use REGION_BYTES.
_LARGE_REGION_BYTES = 300_000

#: Maximum element steps of an instruction; longer ones are drawn again.
_MOST_STEPS = 1500

#: Every opcode has an instruction of at most this many steps, in any configuration.
_LEAST_STEPS = 64

_UNIT_SHARES = {Opcode.LOAD: 3, Opcode.EXEC: 4, Opcode.POST: 4, Opcode.STORE: 2}


@dataclass(frozen=True, kw_only=True)
class RandomProgram:
    """A command buffer with the contents of the regions before it runs.

    Members
    -------
    instructions:
        END last.
    commands:
        The instructions, packed.
    regions:
        Contents of each region except PROGRAM, whose constants begin after the commands.
    """

    instructions: tuple[Instruction, ...]
    commands: bytes
    regions: dict[Region, bytes]


def random_streams(config: Config, seed: int, count: int) -> Iterator[RandomProgram]:
    """Yield `count` streams for a configuration: most are short, some run long.

    Some have hundreds of instructions, so that waits reach far back; some have large regions; some
    have instructions that count to the maximum of a field.
    """
    generator = random.Random(f"streams {seed} {config.digest}")
    for _number in range(count):
        number = generator.getrandbits(32)
        kind = generator.randrange(40)
        if kind == 0:
            yield random_stream(number, config, 250, most_steps=60)
        elif kind == 1:
            yield random_stream(number, config, 6, most_steps=50_000)
        elif kind == 2:
            yield random_stream(number, config, region_bytes=_LARGE_REGION_BYTES)
        else:
            yield random_stream(number, config, generator.choice((12, 20, 40)))


def random_stream(
    seed: int,
    config: Config,
    length: int = 12,
    *,
    most_steps: int = _MOST_STEPS,
    region_bytes: int = REGION_BYTES,
) -> RandomProgram:
    """Return a legal, hazard-free stream of about `length` instructions.

    Fields, addresses, strides and overlaps are random; waits are those that the accesses need, or
    stronger, so units overlap as far as dependencies allow.

    Parameters
    ----------
    most_steps:
        Approximate maximum of cycles per instruction; most take far fewer.
    region_bytes:
        Size of each region except PROGRAM.
    """
    return Draw(seed, config, region_bytes).stream(length, most_steps)


class Draw:
    """Draws one stream.

    Parameters
    ----------
    region_bytes:
        Size of each region except PROGRAM.
    """

    def __init__(self, seed: int, config: Config, region_bytes: int = REGION_BYTES):
        self.config = config
        self.random = random.Random(f"{seed}-{config.digest}")
        self.order = DependencyTracker(config, dict.fromkeys(WRITABLE_REGIONS, region_bytes))
        self.regions = {
            region: bytearray(_noise(self.random, region_bytes))
            for region in Region
            if region != Region.PROGRAM
        }
        if config.has_float and seed % 4:
            # With arbitrary bytes, sums of products would be infinite or NaN, so most numbers are
            # below two.
            for contents in self.regions.values():
                contents[:] = bytes(byte & 0xBF for byte in contents)
        # Start of the parameters, at the end of INPUT.
        self.parameters = region_bytes * 2 // 3
        self.command_bytes = 0
        self.issued = dict.fromkeys(UNITS, 0)
        self.space = self._space(region_bytes)

    def _space(self, region_bytes: int) -> Space:
        """Choose the end of the scratchpad for weights and parameters."""
        size = self.config.spad_bytes
        cut = self.random.choice((size // 4, size // 2))
        fetched, results = (size - cut, size), (0, size - cut)
        if self.random.random() < 0.4:
            fetched, results = (0, cut), (cut, size)
        return Space(
            config=self.config,
            regions=dict.fromkeys(self.regions, region_bytes),
            fetched=fetched,
            results=results,
        )

    def stream(self, length: int, most_steps: int) -> RandomProgram:
        """Return the stream; may be called only once."""
        self._begin()
        for _number in range(length):
            (opcode,) = self.random.choices(tuple(_UNIT_SHARES), tuple(_UNIT_SHARES.values()))
            self._append_random(opcode, most_steps)
        return self._end(most_steps)

    def _begin(self) -> None:
        """Fill the memories."""
        for values in self._fill_scratchpad():
            self._append(Opcode.LOAD, values)
        # The contents of the tables are unknown.
        for values in _fills(self.config):
            last = self.config.spad_bytes - table_bytes(values, self.config)
            address = self.random.randrange(last + 1)
            self._append(Opcode.POST, {**values, "source_addr": address})

    def _end(self, most_steps: int) -> RandomProgram:
        """Store some of the contents, and return the stream."""
        for region in WRITABLE_REGIONS:
            self._append_random(Opcode.STORE, most_steps, region)
        self.order.end()
        self._strengthen_waits(Opcode.END, share=0.5)
        instructions = tuple(self.order.instructions)
        return RandomProgram(
            instructions=instructions,
            commands=b"".join(pack(instruction) for instruction in instructions),
            regions={region: bytes(contents) for region, contents in self.regions.items()},
        )

    def _append_random(self, opcode: Opcode, most_steps: int, region: Region | None = None) -> None:
        # Most instructions are short, so that many fit into a second.
        budget = max(_LEAST_STEPS, int(most_steps ** self.random.uniform(0.6, 1)))
        values = random_instruction(self.random, self._remaining_space(), opcode, budget)
        if region is not None:
            values["region"] = region
        self._append_values(opcode, values)

    def _remaining_space(self) -> Space:
        """Return the space for the next instruction's data."""
        regions = {**self.space.regions, Region.PROGRAM: self.command_bytes}
        return dataclasses.replace(self.space, regions=regions)

    def _append_values(self, opcode: Opcode, values: dict[str, int]) -> None:
        """Append an instruction, after those that it needs."""
        if opcode is Opcode.POST and values["channel_scale"]:
            self._load_parameters(values)
        self._append(opcode, values)

    def _mark(self) -> int:
        last = self.config.last_timestamp
        return self.random.choice((0, 0, last, self.random.randint(0, last)))

    def _append(self, opcode: Opcode, values: dict[str, int]) -> None:
        self.order.append(opcode, **values)
        self._strengthen_waits(opcode)
        self.command_bytes += FORMATS[opcode].instruction_words * INSTRUCTION_WORD_BYTES
        self.issued[opcode] += 1

    def _strengthen_waits(self, opcode: Opcode, share: float = 0.1) -> None:
        """Sometimes make the last instruction wait for more than necessary."""
        values = {"timestamp": self._mark(), **self.order.instructions.pop().values}
        for unit in UNITS:
            item = _WAITS[unit]
            longest = min(self.issued[unit], item.range[1])
            longest = values.get(item.name, 0) or longest
            if longest and self.random.random() < share:
                values[item.name] = self.random.choice(
                    (1, longest, self.random.randint(1, longest))
                )
        self.order.instructions.append(Instruction(opcode, values))

    def _load_parameters(self, values: dict[str, int]) -> None:
        """Load legal parameters for a POST, since noise is not a legal multiplier or shift.

        If INPUT has no room for them, the POST gets none.
        """
        columns, blocks = self.config.columns, values["oc_blocks"]
        block = 4 * columns * values["channel_bias"] + 5 * columns
        contents = self.regions[Region.INPUT]
        if self.parameters + blocks * block > len(contents):
            values["channel_scale"] = 0
            return
        start = self.parameters
        for _block in range(blocks):
            end = self.parameters + block
            scales = b"".join(_multiplier(self.random) for _column in range(columns))
            shifts = bytes(_shift(self.random) & 255 for _column in range(columns))
            contents[end - 5 * columns : end] = scales + shifts
            self.parameters = end
        self._append(
            Opcode.LOAD,
            {
                "region": Region.INPUT,
                "dram_offset": start,
                "spad_addr": values["param_addr"],
                "row_bytes": blocks * block,
                "rows": 1,
                "planes": 1,
            },
        )

    def _fill_scratchpad(self) -> Iterator[dict[str, int]]:
        """Fill parts of the scratchpad with noise, so that reads find more than zeros."""
        for _number in range(3):
            size = self.random.randint(64, min(REGION_BYTES, self.config.spad_bytes // 2))
            yield {
                "region": Region.INPUT,
                "dram_offset": 0,
                "spad_addr": self.random.randrange(self.config.spad_bytes - size + 1),
                "row_bytes": size,
                "rows": 1,
                "planes": 1,
            }


#: The head field that waits for each unit.
_WAITS = {
    unit: next(item for item in HEAD if item.name == f"wait_{unit.name.lower()}") for unit in UNITS
}


def _noise(generator: random.Random, size: int) -> bytes:
    """Return random bytes; a large size repeats a short sequence."""
    piece = generator.randbytes(min(size, REGION_BYTES))
    return (piece * -(-size // len(piece)))[:size]


def _multiplier(generator: random.Random) -> bytes:
    value = generator.choice((0, 1, 2**30, 2**31 - 1, generator.randrange(2**31)))
    return value.to_bytes(4, "little")


def _shift(generator: random.Random) -> int:
    return generator.choice((-31, 30, 0, -9, generator.randint(-31, 30)))


def _fills(config: Config) -> Iterator[dict[str, int]]:
    """Yield the fields of the POSTs that fill each table as a whole, from address 0."""
    if config.tables:
        yield _fill_table(config, {"table": Table.FILL})
    if config.softmax:
        yield _fill_table(config, {"softmax": RowFunction.FILL})


def _fill_table(config: Config, fill: dict[str, int]) -> dict[str, int]:
    return {
        "source": Source.SPAD,
        "destination": Destination.SPAD,
        "multiplier": 2**30,
        "shift": 1,
        "clamp_low": -128,
        "clamp_high": 127,
        "width": table_bytes(fill, config) // config.table_row_bytes,
        "height": 1,
        "oc_blocks": 1,
        "tail": config.table_row_bytes,
        "x_step": config.table_row_bytes,
        **fill,
    }


def run_stream(driver: Driver, stream: RandomProgram) -> dict[Region, bytes]:
    """Run a stream on a device and return the writable regions; raises like `Driver.run`."""
    sizes = {region: len(contents) for region, contents in stream.regions.items()}
    driver.allocate({Region.PROGRAM: len(stream.commands), **sizes})
    driver.write_region(Region.PROGRAM, 0, stream.commands)
    for region, contents in stream.regions.items():
        driver.write_region(region, 0, contents)
    driver.run(0, len(stream.commands))
    return {region: driver.read_region(region, 0, sizes[region]) for region in WRITABLE_REGIONS}


def read_state(driver: Driver) -> bytes:
    """Return the contents of scratchpad and accumulators, without changing them.

    The scratchpad comes first, then four passes over the accumulators, one per byte from the
    lowest, each rounded by the bytes below. Equal states give equal bytes, and different
    accumulators give different ones.
    """
    config = driver.config
    size = config.acc_bytes // 4
    order = DependencyTracker(config, {Region.OUTPUT: config.spad_bytes + 4 * size})
    parts = _parts_of_scratchpad(config)
    for values in parts:
        order.append(Opcode.STORE, region=Region.OUTPUT, **_at_offset(values))
    target = config.spad_bytes
    for byte in range(4):
        for values in _whole_accumulators(config):
            order.append(
                Opcode.POST,
                source=Source.ACC,
                destination=Destination.SPAD,
                rounding=Rounding.SINGLE,
                pre_shift=24 - 8 * byte,
                multiplier=2**30,
                shift=-23,
                clamp_low=-128,
                clamp_high=127,
                **values,
            )
            count = values["width"] * values["height"] * config.columns
            order.append(
                Opcode.STORE,
                region=Region.OUTPUT,
                dram_offset=target,
                row_bytes=count,
                rows=1,
                planes=1,
            )
            target += count
    order.append(Opcode.LOAD, region=Region.OUTPUT, **_at_offset(parts[0]))
    return _run_order(driver, order, target)


def clear_state(driver: Driver) -> None:
    """Fill the scratchpad, the accumulators and the tables with zeros."""
    order = DependencyTracker(driver.config, {})
    for values in _parts_of_scratchpad(driver.config):
        order.append(Opcode.LOAD, fill=1, **values)
    for values in _whole_accumulators(driver.config):
        order.append(Opcode.POST, source=Source.SPAD, destination=Destination.ACC_SET, **values)
    for values in _fills(driver.config):
        order.append(Opcode.POST, **values)
    _run_order(driver, order, 0)


def _run_order(driver: Driver, tracker: DependencyTracker, output_bytes: int) -> bytes:
    tracker.end()
    commands = b"".join(pack(instruction) for instruction in tracker.instructions)
    driver.allocate({Region.PROGRAM: len(commands), Region.OUTPUT: output_bytes})
    driver.write_region(Region.PROGRAM, 0, commands)
    driver.run(0, len(commands))
    return driver.read_region(Region.OUTPUT, 0, output_bytes)


def _parts_of_scratchpad(config: Config) -> list[dict[str, int]]:
    """Return the fields of transfers that cover every byte, in rows that the fields can count.

    The first part is the one that `_whole_accumulators` needs, so POSTs run while the rest is
    transferred.
    """
    row_bytes = min(config.bank_bytes, 1 << 20)
    rows = config.spad_bytes // row_bytes
    needed = -(-_piece(config) * config.columns // row_bytes)
    return [
        {
            "spad_addr": first * row_bytes,
            "row_bytes": row_bytes,
            "rows": end - first,
            "planes": 1,
            # A legal instruction cannot have a step as large as the scratchpad.
            **dict.fromkeys(("dram_row_step", "spad_row_step"), row_bytes if rows > 1 else 0),
        }
        for first, end in ((0, needed), (needed, rows))
        if first < end
    ]


def _at_offset(values: dict[str, int]) -> dict[str, int]:
    """Return a transfer whose data have the same offset in the region as on chip."""
    return {**values, "dram_offset": values["spad_addr"]}


def _piece(config: Config) -> int:
    """Return how many accumulator entries the scratchpad can hold one byte of."""
    count = config.acc_entries
    while count * config.columns > config.spad_bytes:
        count //= 2
    return count


def _whole_accumulators(config: Config) -> Iterator[dict[str, int]]:
    """Yield the fields of POSTs over every entry, in pieces that fit the scratchpad."""
    count = _piece(config)
    width = min(count, 2048)
    for first in range(0, config.acc_entries, count):
        yield {
            "acc_addr": first,
            "width": width,
            "height": count // width,
            "oc_blocks": 1,
            "tail": config.columns,
            "x_step": config.columns,
            "source_pitch": width * config.columns,
            "dest_pitch": width * config.columns,
        }
