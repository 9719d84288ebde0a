"""Draws random legal instruction streams, to compare devices, and runs them."""

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
from matloom.verification.instructions import AddressRanges, random_instruction

#: Size of each region of external memory that a stream uses, in bytes.
REGION_BYTES = 6000

#: Region size in bytes of a few streams of `random_streams`; the others use REGION_BYTES.
_LARGE_REGION_BYTES = 300_000

#: Approximate maximum of cycles of an instruction.
_MAX_CYCLES = 1500

#: A limit of cycles within which every opcode has an instruction in any configuration.
_LEAST_STEPS = 64

_UNIT_SHARES = {Opcode.LOAD: 3, Opcode.EXEC: 4, Opcode.POST: 4, Opcode.STORE: 2}


@dataclass(frozen=True, kw_only=True)
class RandomProgram:
    """A random instruction stream, and the contents of the memory regions before it runs.

    Members
    -------
    instructions:
        The instructions, of which the last is END; empty for a corrupted stream.
    commands:
        The bytes of the command buffer.
    regions:
        Contents of each region except PROGRAM, which holds the commands.
    """

    instructions: tuple[Instruction, ...]
    commands: bytes
    regions: dict[Region, bytes]


def random_streams(config: Config, seed: int, count: int) -> Iterator[RandomProgram]:
    """Yield `count` random instruction streams, most of them of 12 to 40 short instructions.

    A few have hundreds of instructions, so that waits reach far back; a few have large regions; a
    few have long instructions, so that counts may reach the maximum of their fields.
    """
    generator = random.Random(f"streams {seed} {config.digest}")
    for _number in range(count):
        number = generator.getrandbits(32)
        kind = generator.randrange(40)
        if kind == 0:
            yield random_stream(number, config, 250, max_cycles=60)
        elif kind == 1:
            yield random_stream(number, config, 6, max_cycles=50_000)
        elif kind == 2:
            yield random_stream(number, config, region_bytes=_LARGE_REGION_BYTES)
        else:
            yield random_stream(number, config, generator.choice((12, 20, 40)))


def random_stream(
    seed: int,
    config: Config,
    length: int = 12,
    *,
    max_cycles: int = _MAX_CYCLES,
    region_bytes: int = REGION_BYTES,
) -> RandomProgram:
    """Return a legal, hazard-free stream of `length` random instructions.

    Further instructions fill the memories before them, load parameters, and store results. Waits
    are those that the accesses need, and a few stronger ones, so that units overlap as far as
    dependencies allow.

    Parameters
    ----------
    most_steps:
        Approximate maximum of cycles per instruction; most take far fewer.
    region_bytes:
        Size in bytes of each region except PROGRAM.
    """
    return StreamDraw(seed, config, region_bytes).stream(length, max_cycles)


class StreamDraw:
    """Draws one random stream of legal instructions without hazards.

    Parameters
    ----------
    region_bytes:
        Size in bytes of each region except PROGRAM.
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

    def _space(self, region_bytes: int) -> AddressRanges:
        """Return the ranges of addresses that instructions may use.

        Weights and parameters are at one end of the scratchpad.
        """
        size = self.config.spad_bytes
        cut = self.random.choice((size // 4, size // 2))
        fetched, results = (size - cut, size), (0, size - cut)
        if self.random.random() < 0.4:
            fetched, results = (0, cut), (cut, size)
        return AddressRanges(
            config=self.config,
            regions=dict.fromkeys(self.regions, region_bytes),
            fetched=fetched,
            results=results,
        )

    def stream(self, length: int, max_cycles: int) -> RandomProgram:
        """Draw `length` random instructions and the ones they need; return the instruction stream.

        May be called only once.
        """
        self._begin()
        for _number in range(length):
            (opcode,) = self.random.choices(tuple(_UNIT_SHARES), tuple(_UNIT_SHARES.values()))
            self._append_random(opcode, max_cycles)
        return self._end(max_cycles)

    def _begin(self) -> None:
        """Append instructions that fill parts of the scratchpad with noise, and all tables."""
        for values in self._fill_scratchpad():
            self._append(Opcode.LOAD, values)
        # The contents of the tables are unknown.
        for values in _table_fills(self.config):
            last = self.config.spad_bytes - table_bytes(values, self.config)
            address = self.random.randrange(last + 1)
            self._append(Opcode.POST, {**values, "source_addr": address})

    def _end(self, max_cycles: int) -> RandomProgram:
        """Append STOREs of random parts of the scratchpad and END; return the stream."""
        for region in WRITABLE_REGIONS:
            self._append_random(Opcode.STORE, max_cycles, region)
        self.order.end()
        self._strengthen_waits(Opcode.END, share=0.5)
        instructions = tuple(self.order.instructions)
        return RandomProgram(
            instructions=instructions,
            commands=b"".join(pack(instruction) for instruction in instructions),
            regions={region: bytes(contents) for region, contents in self.regions.items()},
        )

    def _append_random(self, opcode: Opcode, max_cycles: int, region: Region | None = None) -> None:
        """Append a random instruction, which takes at most about `max_cycles`."""
        # Most instructions are short, so that many fit into a second.
        budget = max(_LEAST_STEPS, int(max_cycles ** self.random.uniform(0.6, 1)))
        values = random_instruction(self.random, self._remaining_space(), opcode, budget)
        if region is not None:
            values["region"] = region
        self._append_values(opcode, values)

    def _remaining_space(self) -> AddressRanges:
        """Return the address ranges for the next instruction; PROGRAM ends with the latest one."""
        regions = {**self.space.regions, Region.PROGRAM: self.command_bytes}
        return dataclasses.replace(self.space, regions=regions)

    def _append_values(self, opcode: Opcode, values: dict[str, int]) -> None:
        """Append an instruction, after a LOAD of the parameters that it needs, if any."""
        if opcode is Opcode.POST and values["channel_scale"]:
            self._load_parameters(values)
        self._append(opcode, values)

    def _random_timestamp(self) -> int:
        """Return a random timestamp slot; 0, none, is the most likely."""
        last = self.config.last_timestamp
        return self.random.choice((0, 0, last, self.random.randint(0, last)))

    def _append(self, opcode: Opcode, values: dict[str, int]) -> None:
        """Append an instruction with the waits that it needs, and perhaps more."""
        self.order.append(opcode, **values)
        self._strengthen_waits(opcode)
        self.command_bytes += FORMATS[opcode].instruction_words * INSTRUCTION_WORD_BYTES
        self.issued[opcode] += 1

    def _strengthen_waits(self, opcode: Opcode, share: float = 0.1) -> None:
        """Give the last instruction a random timestamp slot, and perhaps stronger waits.

        Each of its waits is replaced with probability `share`.
        """
        values = {"timestamp": self._random_timestamp(), **self.order.instructions.pop().values}
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
        """Append a LOAD of legal multipliers and shifts for a POST, because noise would be illegal.

        They are written to region INPUT; if it has no room, the POST gets no scales by channel.
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
        """Yield the fields of LOADs that fill parts of the scratchpad with noise."""
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


#: The field of an instruction's head that waits for a unit, by unit.
_WAITS = {
    unit: next(item for item in HEAD if item.name == f"wait_{unit.name.lower()}") for unit in UNITS
}


def _noise(generator: random.Random, size: int) -> bytes:
    """Return `size` random bytes; beyond `REGION_BYTES`, they repeat."""
    piece = generator.randbytes(min(size, REGION_BYTES))
    return (piece * -(-size // len(piece)))[:size]


def _multiplier(generator: random.Random) -> bytes:
    """Return a random multiplier of a requantisation, in bytes."""
    value = generator.choice((0, 1, 2**30, 2**31 - 1, generator.randrange(2**31)))
    return value.to_bytes(4, "little")


def _shift(generator: random.Random) -> int:
    """Return a random shift of a requantisation, at or between its limits."""
    return generator.choice((-31, 30, 0, -9, generator.randint(-31, 30)))


def _table_fills(config: Config) -> Iterator[dict[str, int]]:
    """Yield the fields of POSTs that fill each kind of table completely, from address 0."""
    if config.tables:
        yield _fill_table(config, {"table": Table.FILL})
    if config.softmax:
        yield _fill_table(config, {"softmax": RowFunction.FILL})


def _fill_table(config: Config, fill: dict[str, int]) -> dict[str, int]:
    """Return the fields of a POST that fills a table; `fill` has the fields that select it."""
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
    """Run an instruction stream on a device; return the contents of the writable memory regions.

    Raises what `Driver.run` raises.
    """
    sizes = {region: len(contents) for region, contents in stream.regions.items()}
    driver.place_regions({Region.PROGRAM: len(stream.commands), **sizes})
    driver.write_region(Region.PROGRAM, 0, stream.commands)
    for region, contents in stream.regions.items():
        driver.write_region(region, 0, contents)
    driver.run(0, len(stream.commands))
    return {region: driver.read_region(region, 0, sizes[region]) for region in WRITABLE_REGIONS}


def read_state(driver: Driver) -> bytes:
    """Return bytes that represent the contents of scratchpad and accumulators.

    They are equal for two devices exactly if both contents are equal.

    The scratchpad comes first, then four passes over the accumulators, one for each byte from the
    lowest, rounded by the bytes below it. The state does not change.
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
    for values in _table_fills(driver.config):
        order.append(Opcode.POST, **values)
    _run_order(driver, order, 0)


def _run_order(driver: Driver, tracker: DependencyTracker, output_bytes: int) -> bytes:
    """Run the instructions of a tracker, and END; return the bytes of region OUTPUT."""
    tracker.end()
    commands = b"".join(pack(instruction) for instruction in tracker.instructions)
    driver.place_regions({Region.PROGRAM: len(commands), Region.OUTPUT: output_bytes})
    driver.write_region(Region.PROGRAM, 0, commands)
    driver.run(0, len(commands))
    return driver.read_region(Region.OUTPUT, 0, output_bytes)


def _parts_of_scratchpad(config: Config) -> list[dict[str, int]]:
    """Return the fields of LOADs or STOREs that together cover the whole scratchpad.

    The first covers the part that the POSTs of `_whole_accumulators` use, so that these can run
    while the rest is transferred.
    """
    row_bytes = min(config.bank_bytes, 1 << 20)
    rows = config.spad_bytes // row_bytes
    needed = -(-_entries_per_pass(config) * config.columns // row_bytes)
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
    """Return the fields of a transfer whose offset in the region is its scratchpad address."""
    return {**values, "dram_offset": values["spad_addr"]}


def _entries_per_pass(config: Config) -> int:
    """Return the number of accumulator entries of which the scratchpad can hold one byte each."""
    count = config.acc_entries
    while count * config.columns > config.spad_bytes:
        count //= 2
    return count


def _whole_accumulators(config: Config) -> Iterator[dict[str, int]]:
    """Yield the fields of POSTs that together cover all accumulator entries.

    The results of each fit the scratchpad.
    """
    count = _entries_per_pass(config)
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
