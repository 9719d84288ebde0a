"""Finds the largest engines that fit a device, by predictions, without synthesis."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from matloom.arch.blocks import (
    columns_in_tables,
    link_block_rams,
    memory_block_rams,
    multiplier_blocks,
    own_block_rams,
)
from matloom.arch.config import ConfigError, load_config
from matloom.tools.area import AreaModel, load_model, load_samples
from matloom.tools.fitted_engine import FittedEngine, Use

#: Usable fraction of each resource.
FILL = {"tables": 0.85, "flip-flops": 0.95, "multipliers": 1.0, "block RAMs": 1.0}

#: Fraction of a device's tables that can be routed, by family. On an ECP5-25F, 70 % could be
#: routed, and 81 % could not.
_ROUTABLE = {"ecp5": 0.75}

#: Sides of the arrays to try; neither is more than twice the other.
_SIDES = (4, 8, 12, 16, 24, 32)

#: Presets to start from, with buses of 32 and 64 bits.
_PRESETS = ("small", "nano")

#: Sets of omitted features to try: none; most timestamps, which take a block RAM; also counters of
#: cycles; also checks of instructions.
_LEAVE_OUT = (
    "",
    "+timestamps=16",
    "+counters=0+timestamps=0",
    "+counters=0+timestamps=0+checks=0",
)

#: Accumulator entries, and bytes and banks of the scratchpad to try, the largest first.
_ENTRIES = (512, 256, 128)
_SPADS = sorted(
    ((banks << bits, banks) for banks in (3, 4, 5) for bits in range(12, 18)), reverse=True
)

#: Exponent of the number of tables in the expected clock, from `nano` and `small`.
_CLOCK_EXPONENT = -0.28


@dataclass(frozen=True, kw_only=True)
class Part:
    """Device of a board, and what predictions of its area and clock depend on.

    Members
    -------
    board, device, family:
        Names.
    capacity:
        Numbers of LUTs, flip-flops, multipliers and block RAMs of 18 Kbit, named as in `FILL`.
    soft_multiplier:
        Whether columns of the array can multiply in LUTs, without multiplier blocks.
    blocks_per_cell:
        Multiplier blocks per product of bytes.
    memory_kind, memory_bytes:
        Kind of external memory, ``block`` or ``sdram``, and its size.
    memory_masks:
        Whether single bytes of an SDRAM can be masked.
    clock_mhz:
        Required clock.
    """

    board: str
    device: str
    family: str
    capacity: dict[str, int]
    soft_multiplier: bool
    blocks_per_cell: float
    memory_kind: str
    memory_bytes: int
    clock_mhz: float
    memory_masks: bool = True


@dataclass(kw_only=True)
class EngineSearch:
    """Search for engines that fit a device.

    `search` sets `best`, the engines that fit, best first. It also sets `next_larger`, the engine
    with a larger array that exceeds a limit by the smallest fraction; None if there is none.
    """

    part: Part
    model: AreaModel = field(default_factory=load_model)
    placed: dict[str, Any] = field(default_factory=lambda: load_samples()["placed"])
    best: list[FittedEngine] = field(default_factory=list)
    next_larger: FittedEngine | None = None

    def search(self) -> None:
        """Find the largest engine of each array shape that fits; store them in `best`."""
        fitting, tight = [], []
        for rows, columns in itertools.product(_SIDES, _SIDES):
            if max(rows, columns) > 2 * min(rows, columns):
                continue
            best, lacks = self._best_of_shape(rows, columns)
            if best:
                fitting.append(best)
            elif lacks:
                tight.append(lacks)
        self.best = sorted(fitting, key=lambda item: item.rank)
        largest = self.best[0].macs if self.best else 0
        # The engine with a larger array that exceeds its limit by the least.
        larger = [item for item in tight if item.macs > largest]
        self.next_larger = min(larger, key=lambda item: item.limit[1], default=None)

    def _best_of_shape(
        self, rows: int, columns: int
    ) -> tuple[FittedEngine | None, FittedEngine | None]:
        """Return the largest engine with an array of this shape that fits, and the nearest miss.

        The nearest miss exceeds a limit by the smallest fraction. Either is None if there is none.
        """
        fitting: list[FittedEngine] = []
        lacking: FittedEngine | None = None
        memories = list(_memory_sizes(columns))
        for head in _engines_without_memories(rows, columns):
            # More memory never helps an engine to fit, so this one decides for most shapes.
            smallest = self.candidate(head + memories[-1])
            least = -math.inf if smallest is None or smallest.fits else smallest.limit[1]
            if lacking is not None and least >= lacking.limit[1]:
                continue
            for tail in memories:
                candidate = self.candidate(head + tail)
                if candidate is None:
                    continue
                if candidate.fits:
                    fitting.append(candidate)
                    break
                if lacking is None or candidate.limit[1] < lacking.limit[1]:
                    lacking = candidate
                if candidate.limit[1] <= least:
                    break
        return max(fitting, key=lambda item: item.size, default=None), lacking

    def candidate(self, text: str) -> FittedEngine | None:
        """Return the predictions for an engine; None if its configuration breaks a rule."""
        try:
            config = load_config(text)
        except ConfigError:
            return None
        part = self.part
        soft = columns_in_tables(config, part.capacity["multipliers"])
        soft = soft if part.soft_multiplier else 0
        area, added = self.model.predict(config, part.family, soft), self._uses_besides_engine()
        needs = {
            "tables": self.whole_board(area.tables),
            "flip-flops": area.flip_flops + added["FF"],
            "multipliers": multiplier_blocks(config, soft, part.blocks_per_cell),
            "block RAMs": own_block_rams(config)
            + link_block_rams()
            + memory_block_rams(
                part.memory_kind, part.memory_bytes, config.bus_bits, part.memory_masks
            ),
        }
        fill = FILL | {"tables": _ROUTABLE.get(part.family, FILL["tables"])}
        uses = {
            name: Use(used=needs[name], room=fill[name] * available, available=available)
            for name, available in part.capacity.items()
        }
        return FittedEngine(
            text=text,
            config=config,
            uses=uses,
            soft_columns=soft,
            asked_mhz=part.clock_mhz,
            mhz=self._expected_clock(needs["tables"]),
            routed=max(
                (each["tables"] for each in self.placed["clocks"] if each["device"] == part.device),
                default=0,
            ),
        )

    def whole_board(self, tables: float) -> float:
        """Return the predicted number of LUTs of a whole board after placement.

        `tables` is the number of LUTs of its engine after synthesis.
        """
        return float(tables * self.placed["packing"] + self._uses_besides_engine()["LUT4"])

    def _uses_besides_engine(self) -> dict[str, int]:
        """Return the resources that a board needs besides the engine, by name as in reports.

        They are those of a board that was built with the same kind of memory, or else of any board.
        """
        boards: dict[str, dict[str, int]] = self.placed["boards"]
        return boards.get(self.part.memory_kind) or next(iter(boards.values()))

    def _expected_clock(self, tables: float) -> float | None:
        """Return the expected clock in MHz of a board with this number of LUTs.

        It is scaled from the routed design of the nearest size; None if the family has none.
        """
        known = [item for item in self.placed["clocks"] if item["family"] == self.part.family]
        own = [item for item in known if item["board"] == self.part.board]
        boards = [item for item in known if item["board"]]
        alike = own or boards or known
        if not alike:
            return None
        nearest = min(alike, key=lambda item: abs(math.log(item["tables"] / tables)))
        return float(nearest["mhz"] * (tables / nearest["tables"]) ** _CLOCK_EXPONENT)


def _engines_without_memories(rows: int, columns: int) -> Iterator[str]:
    """Yield configurations with an array of this shape, as text without memory sizes."""
    for preset, parts, left_out in itertools.product(_PRESETS, (2, 4), _LEAVE_OUT):
        lanes = max(2, columns // parts)
        yield f"{preset}+rows={rows}+columns={columns}+lanes={lanes}{left_out}"


def _memory_sizes(columns: int) -> Iterator[str]:
    """Yield sizes of on-chip memories as configuration text, the largest scratchpad first."""
    for (spad, banks), entries in itertools.product(_SPADS, _ENTRIES):
        acc = entries * 4 * columns
        yield f"+spad_bytes={spad}+spad_banks={banks}+acc_bytes={acc}"
