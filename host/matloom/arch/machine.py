"""The engine and its external memory: durations of each unit's work.

All cost estimates are based on it: prediction, timing of transfers, tiles and layouts.
"""

from dataclasses import dataclass
from functools import cached_property
from math import lcm

from matloom.arch.bursts import Channel, Rows, stream_cycles
from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Table, post_element_bytes, post_vector_count
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.arch.post_latency import post_latency
from matloom.arch.softmax_cycles import softmax_cycles

#: Cycles of a LOAD in addition to the memory's latency: from its start to its first beat, plus from
#: its last beat to its completion. `_READ_GAP`: cycles from a burst's last beat to the address of
#: the next burst.
_LOAD_PATH_CYCLES = 5
_READ_GAP = 1

#: Cycles from a burst's response to the first beat of the next burst: response queue, address,
#: scratchpad read and beat queue.
_WRITE_GAP = 9

#: Cycles from a STORE's start to its first beat, in addition to the memory's latency.
#: `_STORE_OVERLAP`: how many of them may overlap with the next STORE, while the response is
#: outstanding.
_STORE_PATH_CYCLES = 11
_STORE_OVERLAP = 1

#: Cycles from the start, or from the moment when a burst fits into the queue, to the first beat of
#: commands at the dispatcher, in addition to the memory's latency.
_COMMAND_PATH_CYCLES = 6

#: Cycles from the issue of a LOAD to its first byte, in addition to the memory's latency: dispatch
#: and data path.
_ISSUE_PATH_CYCLES = 28

#: Margin in cycles, in addition to the read latency, by which a LOAD should complete early, because
#: estimated durations of tiles may be wrong.
_SPARE_CYCLES = 168

#: Cycles from the last vector of an EXEC to its last sum in the accumulators.
_EXEC_LATENCY = 20

#: Additional cycles of floating-point modes: for unpacking, product and sum; per tree level.
_FLOAT_LATENCY, _FLOAT_LEVEL = 9, 7

#: Cycles of a POST between output blocks.
_POST_BLOCK_CYCLES = 1

#: Scratchpad reads of a block's biases, and of its multipliers and shifts; additional cycles to
#: fetch them; minimum cycles to replicate parameters that apply to all channels.
_POST_BIAS = 4
_POST_SCALE = 5
_POST_FETCH = 12
_POST_REPEAT = 5


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Estimates of the cycles that instructions take on an engine with its memory.

    Engine and bus share one clock. The bus is busy if as many bursts as permitted are outstanding.
    Parameters `values` are the fields of an instruction.

    Members
    -------
    config, memory:
        The engine, and the memory on its bus.
    """

    config: Config
    memory: Memory = REFERENCE_MEMORY

    @cached_property
    def bank_bytes(self) -> int:
        """Size of a scratchpad bank in bytes; cached for speed."""
        return self.config.bank_bytes

    @cached_property
    def tile_bytes(self) -> int:
        """Size of a weight tile in bytes."""
        return self.config.tile_bytes

    @cached_property
    def tile_load_cycles(self) -> int:
        """Cycles to load a weight tile into the array."""
        return self.config.tile_load_cycles

    @cached_property
    def _update_latency(self) -> int:
        """Minimum cycles between two updates of an accumulator entry; cached for speed."""
        return self.config.acc_update_latency

    @cached_property
    def _lane_passes(self) -> int:
        """Cycles in which the lanes of POST process a vector of all columns."""
        return self.config.columns // self.config.lanes

    @cached_property
    def _repeat_cycles(self) -> int:
        """Cycles to replicate parameters that all channels share."""
        config = self.config
        rows = config.columns // lcm(config.columns // 4, config.lanes)
        return max(_POST_REPEAT, 2 * rows + 1)

    @cached_property
    def beat_cycles(self) -> float:
        """Minimum cycles between two beats of a transfer."""
        return float(self.memory.beat_cycles(self.config.bus_bytes))

    @cached_property
    def load_latency(self) -> int:
        """Cycles from a LOAD's start to its first beat plus those from its last beat to its end."""
        return self.memory.read_latency + _LOAD_PATH_CYCLES

    @cached_property
    def command_latency(self) -> int:
        """Cycles from requesting commands to their first beat at the dispatcher."""
        return self.memory.read_latency + _COMMAND_PATH_CYCLES

    @cached_property
    def outstanding_read_cycles(self) -> float:
        """Cycles for the beats of all reads that may be outstanding, each of maximum length."""
        return self._read_channel.outstanding * self.config.burst_beats * self.beat_cycles

    @cached_property
    def issue_latency(self) -> int:
        """Approximate cycles from the issue of a LOAD to its first byte."""
        return self.memory.read_latency + _ISSUE_PATH_CYCLES

    @cached_property
    def margin(self) -> int:
        """Cycles by which a LOAD should complete before its bytes are needed."""
        return self.memory.read_latency + _SPARE_CYCLES

    def transfer_cycles(self, size: int) -> float:
        """Return the cycles to move `size` bytes over the bus in one direction, without latency."""
        return size / self.config.bus_bytes * self.beat_cycles

    def durations(self, instruction: Instruction) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the duration and the delay of an instruction, on an idle bus and on a busy one.

        The instruction occupies its unit for the duration, which for a LOAD starts with its first
        beat, and completes after a further delay, which may be negative.
        """
        values = instruction.values
        if instruction.opcode is Opcode.EXEC:
            found = self.exec_cycles(values), self.exec_latency
            return found, found
        if instruction.opcode is Opcode.POST:
            found = self._post_duration(values), 0
            return found, found
        if instruction.opcode is Opcode.LOAD:
            # Nothing waits after the last beat.
            rest = -round(self.beat_cycles - 1)
            alone, late = self.load_cycles(values)
            return (alone, rest), (late, rest)
        response = self.memory.write_latency + _STORE_PATH_CYCLES - _STORE_OVERLAP
        alone, late = self.store_cycles(values)
        return (alone + _STORE_OVERLAP, response), (late + _STORE_OVERLAP, response)

    def exec_cycles(self, values: dict[str, int]) -> int:
        """Return the number of cycles for which an EXEC streams its input."""
        taps = values["kernel_rows"] * values["kernel_cols"] * values["blocks"]
        steps, vectors = taps * values["oc_blocks"], values["width"] * values["height"]
        # RAW guard: an EXEC that adds to sums waits until the last update can be read.
        guard = self._update_latency if values.get("accumulate") else 0
        if values.get("weights_fixed"):
            return max(vectors, self._update_latency) * steps + guard
        load = self.tile_load_cycles
        if values.get("paired"):
            # Tiles use the same port as blocks, between steps.
            return (vectors + load) * steps + guard
        alone = max(vectors, load, self._update_latency) * steps + guard
        # In a shared bank, weights are read first, and each read costs a vector's cycle.
        shared = _shared_fraction(values, steps * self.tile_bytes, self.bank_bytes)
        return alone + round(((vectors + load) * steps + guard - alone) * shared)

    @cached_property
    def exec_latency(self) -> int:
        """Cycles from the last vector of an EXEC to its last sum in the accumulators."""
        if not self.config.has_float:
            return _EXEC_LATENCY
        levels = self.config.float_rows.bit_length() - 1
        return _EXEC_LATENCY + _FLOAT_LATENCY + _FLOAT_LEVEL * levels

    def post_cycles(self, values: dict[str, int]) -> int:
        """Return the number of cycles during which a POST produces results."""
        vectors = post_vector_count(values) * self.post_beats(values)
        # Parameters of the next block are fetched while this one streams.
        block = max(vectors + self.post_block_gap, self.post_fetch(values))
        cycles = vectors + block * (values["oc_blocks"] - 1)
        if values.get("table", 0) == Table.FILL and self.config.tables > 1:
            # One entry per cycle.
            rows = values["width"] * values["height"] * values["oc_blocks"]
            cycles = max(cycles, rows * (self.config.table_row_bytes + 1))
        return max(cycles, softmax_cycles(values, self.config))

    def post_beats(self, values: dict[str, int]) -> int:
        """Return the cycles that a POST takes for each vector."""
        # Each write contains one byte per column.
        return max(self._lane_passes, post_element_bytes(values))

    @property
    def post_block_gap(self) -> int:
        """Cycles between the blocks of a POST."""
        return _POST_BLOCK_CYCLES

    def post_fetch(self, values: dict[str, int]) -> int:
        """Return the cycles to fetch a block's parameters, or to replicate shared ones.

        A POST replicates its parameters if all channels share them.
        """
        reads = self.post_reads(values)
        if reads:
            return _POST_FETCH + reads
        return self._repeat_cycles

    @staticmethod
    def post_reads(values: dict[str, int]) -> int:
        """Return the number of scratchpad reads for the parameters of one block of a POST."""
        biases = _POST_BIAS * values.get("channel_bias", 0)
        return biases + _POST_SCALE * values.get("channel_scale", 0)

    def _post_duration(self, values: dict[str, int]) -> int:
        """Return the cycles from a POST's start to its last result in memory."""
        latency = post_latency(values, self.config) + self._update_latency
        return self.post_cycles(values) + latency

    @cached_property
    def offset_period(self) -> int:
        """Bytes by which a transfer in external memory can move without changing its cycles."""
        return max(self._read_channel.burst_bytes, self._read_channel.row_bytes)

    def load_cycles(self, values: dict[str, int]) -> tuple[int, int]:
        """Return the cycles of a LOAD's beats, on an idle bus and on a busy one."""
        if values.get("fill"):
            size, rows = values["row_bytes"], values["rows"] * values["planes"]
            cycles = rows * max(2, -(-size // self.config.bus_bytes))
            return cycles, cycles
        return self._transfer(values, self._read_channel)

    def store_cycles(self, values: dict[str, int]) -> tuple[int, int]:
        """Return the cycles of a STORE's beats, on an idle bus and on a busy one."""
        return self._transfer(values, self._write_channel)

    @cached_property
    def _read_channel(self) -> Channel:
        """Timing of reads on the bus."""
        return self._channel(self.memory.read_latency + _READ_GAP)

    @cached_property
    def _write_channel(self) -> Channel:
        """Timing of writes on the bus."""
        return self._channel(self.memory.write_latency + _WRITE_GAP)

    def _channel(self, gap_cycles: int) -> Channel:
        """Return the timing of a direction of the bus; `gap_cycles` is as in `Channel`."""
        return Channel(
            bus_bytes=self.config.bus_bytes,
            burst_beats=self.config.burst_beats,
            outstanding=min(self.config.outstanding, self.memory.outstanding),
            beat_cycles=self.beat_cycles,
            gap_cycles=gap_cycles,
            row_bytes=self.memory.row_bytes,
            row_miss_cycles=self.memory.row_miss_cycles,
        )

    def _transfer(self, values: dict[str, int], channel: Channel) -> tuple[int, int]:
        """Return the cycles of a LOAD's or STORE's beats, on an idle bus and on a busy one."""
        size, spread = values["row_bytes"], values.get("spread", 0)
        planes, count = values["planes"], values["rows"] * values["planes"]
        start = values.get("dram_offset", 0)
        if count == 1 and not spread and channel.hides_latency and size >= channel.burst_bytes:
            cycles = round(-(-size // channel.bus_bytes) * channel.beat_cycles)
            return cycles, cycles
        # Only the position of a row within a burst and within a row of the memory matters.
        step = values.get("dram_row_step", 0)
        if planes > 1 and values["rows"] == 1:
            step = values.get("dram_plane_step", 0)
        rows = Rows(
            start=start % self.offset_period, size=size, count=count, step=step, spread=1 << spread
        )
        alone, late = stream_cycles(rows, channel)
        return round(alone), round(late)


def _shared_fraction(values: dict[str, int], size: int, bank: int) -> float:
    """Return the fraction of an EXEC's `size` bytes of weights in banks that also hold input."""
    first = values.get("weight_addr", 0)
    start = values.get("input_addr", 0)
    rows = (values.get("input_rows", 1) - 1) * values.get("input_pitch", 0)
    end = start + rows + values.get("input_row_bytes", 1)
    low, high = start // bank * bank, -(-end // bank) * bank
    return max(0, min(first + size, high) - max(first, low)) / size
