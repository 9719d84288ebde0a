"""Command buffers with the memory they need, and the functional model's results for them."""

from dataclasses import dataclass

import numpy as np

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.device.model import Engine, EngineFaultError
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.verification.random_programs import random_stream


@dataclass(frozen=True, kw_only=True)
class Job:
    """A command buffer with the initial contents of every region; a test input."""

    regions: dict[Region, bytes]
    command_offset: int = 0
    command_bytes: int

    @classmethod
    def of(cls, instructions, **regions) -> "Job":
        """Return a job of instructions or bytes; `regions` are contents by lower-case name."""
        parts = [item if isinstance(item, bytes) else pack(item) for item in instructions]
        commands = b"".join(parts)
        contents = {region: regions.get(region.name.lower(), b"") for region in Region}
        return cls(regions={**contents, Region.PROGRAM: commands}, command_bytes=len(commands))

    @classmethod
    def stream(cls, seed: int, config: Config, length: int = 12) -> "Job":
        """Return a job of a random legal instruction stream, which first fills the scratchpad."""
        stream = random_stream(seed, config, length)
        regions = {**stream.regions, Region.PROGRAM: stream.commands}
        return cls(regions=regions, command_bytes=len(stream.commands))

    @property
    def commands(self) -> bytes:
        """Bytes of the command buffer, within the region PROGRAM."""
        region = self.regions[Region.PROGRAM]
        return region[self.command_offset : self.command_offset + self.command_bytes]


def run_model(engine: Engine, job: Job) -> tuple[dict[Region, bytes], EngineFaultError | None]:
    """Run a job on the functional model; return the regions' contents, and its fault or None."""
    engine.regions = {
        region: np.frombuffer(data, np.uint8).copy() for region, data in job.regions.items()
    }
    fault = None
    try:
        engine.run(job.commands)
    except EngineFaultError as error:
        fault = error
    return {region: array.tobytes() for region, array in engine.regions.items()}, fault


def ordered(config: Config, *steps, **region_bytes) -> list[Instruction]:
    """Return (opcode, fields) pairs as instructions with the waits they need, and an END."""
    sizes = {Region[name.upper()]: size for name, size in region_bytes.items()}
    order = DependencyTracker(config, sizes)
    for opcode, fields in steps:
        order.append(opcode, **fields)
    order.end()
    return order.instructions


def transfer(opcode: Opcode, region: Region, row_bytes: int, **fields: int):
    """Return a LOAD or STORE of one row, unless `fields` change it."""
    return opcode, {
        "region": region,
        "row_bytes": row_bytes,
        "rows": 1,
        "planes": 1,
        **fields,
    }


def scrub(config: Config) -> Job:
    """Return a job that clears scratchpad and accumulators."""
    entries = config.acc_entries
    width = min(entries, 2048)
    zeros = {"source": 1, "destination": 1, "oc_blocks": 1, "tail": config.columns}
    steps = (
        transfer(Opcode.LOAD, Region.INPUT, config.spad_bytes, fill=1),
        (Opcode.POST, {**zeros, "width": width, "height": entries // width}),
    )
    return Job.of(ordered(config, *steps))


def checkup(config: Config, random) -> Job:
    """Return a small job that uses every unit, independent of earlier state."""
    rows, columns, tile = config.rows, config.columns, config.tile_bytes
    positions = random.randint(1, 12)
    size = positions * rows
    result = tile + size
    steps = (
        transfer(Opcode.LOAD, Region.INPUT, tile + size),
        (
            Opcode.EXEC,
            {
                "input_addr": tile,
                "input_pitch": rows,
                "input_rows": positions,
                "input_row_bytes": rows,
                "width": 1,
                "height": positions,
                "y_step": 1,
                "kernel_rows": 1,
                "kernel_cols": 1,
                "blocks": 1,
                "oc_blocks": 1,
            },
        ),
        (
            Opcode.POST,
            {
                "multiplier": 2**30,
                "shift": -4,
                "clamp_low": -128,
                "clamp_high": 127,
                "width": positions,
                "height": 1,
                "oc_blocks": 1,
                "tail": columns,
                "x_step": columns,
                "dest_addr": result,
            },
        ),
        transfer(Opcode.STORE, Region.OUTPUT, positions * columns, spad_addr=result),
    )
    return Job.of(
        ordered(config, *steps, output=positions * columns),
        input=random.randbytes(tile + size),
        output=bytes(positions * columns),
    )
