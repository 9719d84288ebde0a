"""The post-processing unit: POST instructions from accumulators or bytes, through the lanes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import FP32_FORMAT, MAC_MODES, Config
from matloom.arch.floats import FLOAT_FORMATS
from matloom.arch.isa import Destination, Opcode, Source, Table
from matloom.arch.numerics import Rounding
from matloom_rtl.arith.widen import Widen
from matloom_rtl.array.cells import decode_flags
from matloom_rtl.memory.claims import claims_of
from matloom_rtl.memory.reserved import Reserved
from matloom_rtl.memory.slice import Slice
from matloom_rtl.ports import (
    ACC_ADDRESS_BITS,
    ACC_READ_LATENCY,
    SPAD_ADDRESS_BITS,
    SPAD_READ_LATENCY,
    SPAD_WRITE_LATENCY,
    AccReadSignature,
    AccUpdateSignature,
    CommandSignature,
    SpadReadSignature,
    SpadWriteSignature,
    body_layout,
)
from matloom_rtl.post.float_lane import FloatLane
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.parameters import Parameters
from matloom_rtl.post.positions import Positions
from matloom_rtl.post.products import Products
from matloom_rtl.post.tables import Tables

__all__ = ["Post"]

#: Vectors read and not yet taken by the lanes: covers the longest read latency at full rate.
_READ_AHEAD = 10

#: Vectors in the lanes and behind them: covers the way from the lanes to the memories at full
#: rate, and is the depth of the memory in four lookup tables.
_BEHIND = 16


def _request_layout(config: Config) -> data.StructLayout:
    """Return a vector's place in the accumulators or the scratchpad."""
    return data.StructLayout(
        {
            "from_acc": 1,
            "ends_block": 1,
            "entry": ACC_ADDRESS_BITS,
            "address": SPAD_ADDRESS_BITS,
            "claims": config.spad_banks,
        }
    )


def _byte_request_layout(config: Config) -> data.StructLayout:
    """Return a read of the scratchpad: a vector, or parameters."""
    return data.StructLayout(
        {
            "of_vector": 1,
            "ends_block": 1,
            "address": SPAD_ADDRESS_BITS,
            "claims": config.spad_banks,
            **({"completes": 1} if config.element_size_bits else {}),
        }
    )


def _place_layout(config: Config) -> data.StructLayout:
    """Return where a result goes; `last` ends the instruction."""
    return data.StructLayout(
        {
            "address": SPAD_ADDRESS_BITS,
            "claims": config.spad_banks,
            "entry": ACC_ADDRESS_BITS,
            "mask": config.columns,
            "last": 1,
        }
    )


def _result_layout(config: Config, bits: int) -> data.StructLayout:
    return data.StructLayout({"place": _place_layout(config), "data": bits * config.columns})


class Post(wiring.Component):
    """Requantise one vector (`columns` values) after another.

    A vector takes ``columns / lanes`` beats through the lanes. Reads run ahead of the lanes by
    up to `_READ_AHEAD` vectors. The lanes never hold, for that would be a signal to every one of
    their registers: a vector enters when a place for its result is free among `_BEHIND`.

    Under `Rounding.FLOAT` values go through floating-point lanes (`FloatLane`) beside the others.
    A vector of elements of two or four bytes, of these or of int16 (`words`), is as many reads,
    and as many writes.

    Parameters of the next block are fetched while this one streams, those of the next instruction
    as soon as `fetch` allows.

    Latency: parameters 4 to 19 cycles where they were not fetched ahead, source 4 or 8, products
    2, lanes 13, tables 1, result 2; `done` follows the last write by the time it takes to be
    visible. Throughput: one vector every ``columns / lanes`` cycles; one cycle between blocks, or
    more where a block is shorter than the fetch of the next one's parameters. Instructions do not
    overlap, but for the parameters.

    With `config.tables` bytes may become entries of a table, or fill it: then they are not
    written. With `config.products` bytes may be multiplied by accumulators first; both are read
    in the same cycle.

    Members
    -------
    unit: CommandSignature(POST), in
        `command` is the head of the queue, valid when it may start.
    fetch: in
        The head of the queue is present, and its wait on LOAD is met.
    spad_read, spad_write: SpadReadSignature, SpadWriteSignature, out
        `columns` bytes.
    acc_read, acc_update: AccReadSignature, AccUpdateSignature, out
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "unit": In(CommandSignature(Opcode.POST, config)),
                "fetch": In(1),
                "spad_read": Out(SpadReadSignature(config.columns, config.spad_banks)),
                "spad_write": Out(SpadWriteSignature(config.columns, config.spad_banks)),
                "acc_read": Out(AccReadSignature(config)),
                "acc_update": Out(AccUpdateSignature(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.sources = sources = Positions(config)
        m.submodules.results = results = Positions(config)
        m.submodules.parameters = parameters = Parameters(config)
        command = Signal(body_layout(Opcode.POST, config), reset_less=True)
        start, streaming = Signal(), Signal()
        written = Signal()

        if config.has_float:
            self._decode_rule(m, command)
        if config.element_size_bits:
            self._decode_size(m, command, sources, results)
        self._geometry(m, command, start, sources, results)
        fetched = self._fetch(m, parameters)
        fifo = self._read(m, command, streaming, sources, parameters)
        last_beat, block_left = self._lanes(m, command, fifo, parameters, written)
        finished, waits = self._write(m, command, start, results, written)
        asked_all = sources.advance & sources.end
        self._sequence(
            m, command, start, streaming, fetched, asked_all, block_left, finished, waits
        )
        m.d.sync += self.unit.progress.eq(last_beat | written | parameters.arriving)
        return m

    def _decode_rule(self, m: Module, command):
        """Keep what the rule and the format say beside the command, from the next cycle on."""
        config = self._config
        self._floating, self._fp32 = Signal(reset_less=True), Signal(reset_less=True)
        self._format = Signal(range(len(config.float_modes)), reset_less=True)
        m.d.sync += [
            self._floating.eq(command.rounding == Rounding.FLOAT),
            self._fp32.eq(command.pre_shift == FP32_FORMAT),
            self._format.eq(decode_flags(command.pre_shift, config).get("format", 0)),
        ]
        self._limits = []
        for side in ("low", "high"):
            m.submodules[f"limit_{side}"] = widen = Widen(("fp8_e5m2",))
            m.d.comb += widen.bits.eq(command[f"clamp_{side}"])
            self._limits.append(widen.o.as_value())

    def _decode_size(self, m: Module, command, sources, results):
        """Keep the logarithm of the bytes of an element likewise."""
        config = self._config
        self._size = Signal(config.element_size_bits, reset_less=True)
        size = command.words if config.has_words else 0
        if config.has_float:
            double = Cat(command.pre_shift == number for number in _of_two_bytes()).any()
            of_format = Mux(command.pre_shift == FP32_FORMAT, 2, double)
            size = Mux(command.rounding == Rounding.FLOAT, of_format, size)
        m.d.sync += self._size.eq(size)
        m.d.comb += [sources.size.eq(self._size), results.size.eq(self._size)]

    def _geometry(self, m: Module, command, start, sources, results):
        for positions, side in ((sources, "source"), (results, "dest")):
            m.d.comb += [
                positions.start.eq(start),
                positions.address.eq(command[f"{side}_addr"]),
                positions.pitch.eq(command[f"{side}_pitch"]),
                positions.entry.eq(command.acc_addr),
                positions.x_step.eq(command.x_step),
                positions.width.eq(command.width),
                positions.height.eq(command.height),
                positions.blocks.eq(command.oc_blocks),
            ]
            if self._config.has_narrow:
                m.d.comb += positions.pairs.eq(command.pairs)

    def _fetch(self, m: Module, parameters):
        """Fetch for the head of the queue; return whether that has begun."""
        head, task, begun = self.unit.command, parameters.i, Signal()
        m.d.comb += [
            task.valid.eq(self.fetch & ~begun),
            task.payload.address.eq(head.payload.param_addr),
            task.payload.blocks.eq(head.payload.oc_blocks),
        ]
        for name in ("channel_bias", "channel_scale", "bias", "multiplier", "shift"):
            m.d.comb += task.payload[name].eq(head.payload[name])
        with m.If(task.valid & task.ready):
            m.d.sync += begun.eq(1)
        with m.If(head.valid & head.ready):
            m.d.sync += begun.eq(0)
        return begun

    def _read(self, m: Module, command, streaming, sources, parameters):
        """Request vectors from the cycle after `streaming` on, while there is room.

        Parameters go before vectors at the byte port.

        A request waits in registers for its grant: the arbiters of the memories are far away.
        """
        columns, acc, spad = self._config.columns, self.acc_read, self.spad_read
        read_ahead = _READ_AHEAD + self._config.products * Products.LATENCY
        m.submodules.fifo = fifo = Reserved(width=32 * columns + 1, depth=read_ahead)
        m.submodules.requests = requests = Slice(
            _request_layout(self._config), at_hand=("from_acc", "entry", "claims")
        )
        ask, request = requests.i, requests.o
        room, asked = Signal(range(read_ahead + 1), init=read_ahead), Signal()
        asking, room_next = Signal(), Signal.like(room)
        m.d.comb += [
            ask.valid.eq(asking),
            ask.payload.from_acc.eq(command.source == Source.ACC),
            ask.payload.ends_block.eq(sources.block_end),
            ask.payload.entry.eq(sources.at_entry),
            ask.payload.address.eq(sources.at_address),
            ask.payload.claims.eq(claims_of(sources.at_address, columns, self._config)),
            asked.eq(ask.valid & ask.ready),
            sources.advance.eq(asked),
            acc.address.eq(request.payload.entry),
        ]
        from_bytes = self._requests(m, command, request, parameters)
        m.d.comb += room_next.eq(room - asked + fifo.r_en)
        m.d.sync += [room.eq(room_next), asking.eq(streaming & (room_next != 0))]

        of_vector = from_bytes.of_vector
        read_spad = spad.valid & spad.ready
        acc_arrived = _delayed(m, acc.valid & acc.ready, ACC_READ_LATENCY, "acc_asked")
        spad_arrived = _delayed(m, read_spad & of_vector, SPAD_READ_LATENCY, "spad_asked")
        acc_end = _delayed(m, request.payload.ends_block, ACC_READ_LATENCY, "acc_end")
        spad_end = _delayed(m, from_bytes.ends_block, SPAD_READ_LATENCY, "spad_end")
        spad_values = Cat(_extend(spad.data.word_select(index, 8)) for index in range(columns))
        if self._config.element_size_bits:
            completes = _delayed(m, from_bytes.completes, SPAD_READ_LATENCY, "completes")
            spad_values = self._assemble(m, spad_values, spad_arrived)
            spad_arrived = spad_arrived & completes
        m.d.comb += parameters.arriving.eq(
            _delayed(m, read_spad & ~of_vector, SPAD_READ_LATENCY - 1, "parameters_asked")
        )
        written, vectors = acc_arrived | spad_arrived, Cat(spad_values, spad_end)
        vectors = Mux(acc_arrived, Cat(acc.data, acc_end), vectors)
        if self._config.products:
            m.submodules.products = products = Products(self._config, read_ahead)
            multiplies = _multiplies(command)
            m.d.comb += [
                products.zero.eq(command.factor_zero),
                products.sums_arrived.eq(acc_arrived & multiplies),
                products.sums.eq(acc.data),
                products.bytes_arrived.eq(spad_arrived & multiplies),
                products.bytes.eq(spad.data),
                products.ends.eq(spad_end),
            ]
            written = Mux(multiplies, products.valid, written)
            vectors = Mux(multiplies, Cat(products.values, products.ended), vectors)
        m.d.comb += [fifo.w_en.eq(written), fifo.w_data.eq(vectors)]
        return fifo

    def _assemble(self, m: Module, values, arrived):
        """Return the values of a vector whose last bytes arrive, in 32 bits each."""
        columns, sizes = self._config.columns, self._config.element_size_bits
        bits = 8 * columns
        before = Signal(((1 << sizes) - 1) * bits, reset_less=True)
        everything = Cat(before, self.spad_read.data)
        with m.If(arrived):
            m.d.sync += before.eq(everything[bits:])
        doubles = everything[-2 * bits :]
        doubles = Cat(_extend(doubles.word_select(index, 16)) for index in range(columns))
        values = Mux(self._size[0], doubles, values)
        return Mux(self._size[1], everything, values) if sizes > 1 else values

    def _count_parts(self, m: Module, taken, name: str):
        """Count the reads or writes of a vector; return the one at hand, and if it is the last."""
        part = Signal(len(self._size), name=f"part_{name}")
        last = Signal(name=f"last_part_{name}")
        m.d.comb += last.eq(part == (1 << self._size) - 1)
        with m.If(taken):
            m.d.sync += part.eq(Mux(last, 0, part + 1))
        return part, last

    def _requests(self, m: Module, command, request, parameters):
        """Ask for sums; for parameters, else vectors of bytes; return the payload of the latter.

        One register more for vectors of bytes, none for sums, which are most of them. Of a
        product both are asked for in the same cycle.
        """
        acc, spad, wanted = self.acc_read, self.spad_read, parameters.read
        m.submodules.byte_requests = requests = Slice(
            _byte_request_layout(self._config), at_hand=("of_vector", "claims")
        )
        ask, shown = requests.i, requests.o
        claims = claims_of(wanted.address, self._config.columns, self._config)
        from_acc, bytes_ready = request.payload.from_acc, ask.ready & ~wanted.valid
        acc_valid, bytes_valid = request.valid & from_acc, request.valid & ~from_acc
        address, vector_claims = request.payload.address, request.payload.claims
        part_taken = bytes_ready
        if self._config.element_size_bits:
            part, last_part = self._count_parts(m, bytes_valid & bytes_ready, "read")
            address = (address + part * self._config.columns)[:SPAD_ADDRESS_BITS]
            vector_claims = claims_of(address, self._config.columns, self._config)
            m.d.comb += ask.payload.completes.eq(last_part)
            part_taken = bytes_ready & last_part
        taken = Mux(from_acc, acc.ready, part_taken)
        if self._config.products:
            multiplies = _multiplies(command)
            acc_valid |= request.valid & multiplies & bytes_ready
            bytes_valid &= ~multiplies | acc.ready
            taken &= ~multiplies | acc.ready
        m.d.comb += [
            acc.valid.eq(acc_valid),
            ask.valid.eq(wanted.valid | bytes_valid),
            ask.payload.of_vector.eq(~wanted.valid),
            ask.payload.ends_block.eq(request.payload.ends_block),
            ask.payload.address.eq(Mux(wanted.valid, wanted.address, address)),
            ask.payload.claims.eq(Mux(wanted.valid, claims, vector_claims)),
            wanted.ready.eq(ask.ready),
            wanted.data.eq(spad.data),
            request.ready.eq(taken),
            spad.valid.eq(shown.valid),
            spad.address.eq(shown.payload.address),
            spad.claims.eq(shown.payload.claims),
            shown.ready.eq(spad.ready),
        ]
        return shown.payload

    def _lanes(self, m: Module, command, fifo, parameters, written):
        """Feed the lanes beat by beat; return the last beat of a vector, of a block."""
        columns, lanes = self._config.columns, self._config.lanes
        beats = columns // lanes
        beat, last_beat, block_left = _beat_number(beats), Signal(), Signal()
        feed, begin = Signal(), Signal()
        # Vectors that entered and are not written; whether there is a place for one more, and
        # the parameters of its block.
        behind, place = Signal(range(self._behind + 1)), Signal()
        behind_next = Signal.like(behind)
        m.d.sync += behind.eq(behind_next)
        m.d.sync += place.eq((behind_next != self._behind) & parameters.ready)
        m.d.comb += [
            # A vector that has entered is there until its last beat.
            feed.eq((beat != 0) | (fifo.r_rdy & place)),
            begin.eq(feed & (beat == 0)),
            behind_next.eq(behind + begin - written),
            last_beat.eq(feed & (beat == beats - 1)),
            fifo.r_en.eq(last_beat),
            block_left.eq(last_beat & fifo.r_data[-1]),
            parameters.release.eq(block_left),
        ]
        with m.If(feed):
            m.d.sync += beat.eq(Mux(last_beat, 0, beat + 1))

        self._lane_units, self._float_results = [], []
        for index in range(lanes):
            mine = beat
            if beats > 1:
                # Each lane counts for itself: one count for all lanes is far from most of them.
                mine = Signal.like(beat, name=f"beat_{index}", attrs={"keep": 1})
                with m.If(feed):
                    m.d.sync += mine.eq(Mux(mine == beats - 1, 0, mine + 1))
            m.submodules[f"lane_{index}"] = lane = Lane(16 if self._config.has_words else 8)
            self._lane_units.append(lane)
            pick = [
                (fifo.r_data, 32, lane.value),
                (parameters.biases, 32, lane.bias),
                (parameters.multipliers, 32, lane.multiplier),
                (parameters.shifts, 8, lane.shift),
            ]
            for vector, bits, port in pick:
                group = Cat(vector.word_select(b * lanes + index, bits) for b in range(beats))
                m.d.comb += port.eq(group.word_select(mine, bits))
            m.d.comb += [
                lane.rounding.eq(command.rounding),
                lane.pre_shift.eq(command.pre_shift),
                lane.zero.eq(command.output_zero),
                lane.low.eq(self._limit(command, "low")),
                lane.high.eq(self._limit(command, "high")),
            ]
            if self._config.has_float:
                self._float_results.append(self._float_lane(m, command, index, lane))
        self._inside = [feed]
        for stage in range(self._last_latency):
            inside = Signal(name=f"inside_{stage}")
            m.d.sync += inside.eq(self._inside[-1])
            self._inside.append(inside)
        return last_beat, block_left

    def _limit(self, command, side: str):
        """Return the smallest or largest result: a byte, or of words one with a lower byte."""
        limit = command[f"clamp_{side}"]
        if not self._config.has_words:
            return limit
        return Mux(command.words, Cat(command[f"{side}_byte"], limit).as_signed(), limit)

    @property
    def _behind(self) -> int:
        """Vectors that may be in the lanes and behind them: a look-up takes a cycle more."""
        return _BEHIND + self._config.tables

    @property
    def _last_latency(self) -> int:
        """Cycles from the lanes' values to the results that need most of them."""
        config = self._config
        floats = FloatLane.LATENCY if config.has_float else 0
        return max(Lane.LATENCY + config.tables * Tables.LATENCY, floats)

    def _float_lane(self, m: Module, command, index: int, lane):
        """Put a floating-point lane beside the other; return what goes to bytes, and to sums."""
        m.submodules[f"float_lane_{index}"] = floating = FloatLane(self._config.float_modes)
        low, high = self._limits
        m.d.comb += [
            floating.value.eq(lane.value),
            floating.bias.eq(lane.bias),
            floating.narrow.eq((command.source == Source.SPAD) & ~self._fp32),
            floating.format.eq(self._format),
            floating.low.eq(low),
            floating.high.eq(high),
        ]
        return Mux(self._fp32, floating.result, floating.element), floating.result

    def _write(self, m: Module, command, start, results, written):
        """Collect a vector's beats, queue them, offer the head; set `written` when it is taken.

        A result waits in registers for its grant, like a request. Returns whether the last of the
        instruction is taken, and whether one waits.
        """
        columns, lanes = self._config.columns, self._config.lanes
        beats = columns // lanes
        to_spad = command.destination == Destination.SPAD
        beat, full = _beat_number(beats), Signal()
        words = Signal(32 * columns, reset_less=True)
        # Known a cycle ahead, for a register of its own for each beat: many bits wait for it.
        emerging, emerges = self._inside[Lane.LATENCY - 1], Signal(beats)
        # Of a word the byte is the lower one.
        words_made = self._config.has_words
        bytes_made = [lane.word if words_made else lane.byte for lane in self._lane_units]
        if self._config.tables:
            looks_up = to_spad & (command.table == Table.LOOK_UP)
            fills = _fills(command)
            entries = self._tables(m, start, full & fills, words)
            emerging = Mux(looks_up, self._inside[Lane.LATENCY + Tables.LATENCY - 1], emerging)
            bytes_made = [
                Mux(looks_up, entry, byte) for entry, byte in zip(entries, bytes_made, strict=True)
            ]
        if self._config.has_float:
            emerging = Mux(self._floating, self._inside[FloatLane.LATENCY - 1], emerging)
        m.d.sync += [emerges.eq(Mux(emerging, 1 << beat, 0)), full.eq(emerges[-1])]
        with m.If(emerging):
            m.d.sync += beat.eq(Mux(beat == beats - 1, 0, beat + 1))
        for b in range(beats):
            with m.If(emerges[b]):
                for index, lane in enumerate(self._lane_units):
                    value = Mux(to_spad, bytes_made[index], lane.result)
                    if self._config.has_float:
                        element, result = self._float_results[index]
                        value = Mux(self._floating, Mux(to_spad, element, result), value)
                    m.d.sync += words.word_select(b * lanes + index, 32).eq(value)
        layout = _result_layout(self._config, 32)
        m.submodules.queue = queue = Reserved(width=layout.size, depth=self._behind)
        collected, head = data.View(layout, queue.w_data), data.View(layout, queue.r_data)
        self._place(m, command, results, collected.place)
        m.submodules.to_spad = bytes_out = Slice(
            _result_layout(self._config, 8), at_hand=("place",)
        )
        m.submodules.to_acc = sums_out = Slice(layout, at_hand=("place",))
        place, data_out = head.place, _narrowed(head.data, 8, columns)
        bytes_taken = bytes_out.i.ready
        if self._config.element_size_bits:
            place, data_out, last_part = self._parts(m, head, bytes_out.i)
            bytes_taken &= last_part
        m.d.comb += [
            collected.data.eq(words),
            queue.w_en.eq(full),
            results.advance.eq(full),
            written.eq(queue.r_rdy & Mux(to_spad, bytes_taken, sums_out.i.ready)),
            queue.r_en.eq(written),
            bytes_out.i.valid.eq(queue.r_rdy & to_spad),
            bytes_out.i.payload.place.eq(place),
            bytes_out.i.payload.data.eq(data_out),
            sums_out.i.valid.eq(queue.r_rdy & ~to_spad),
            sums_out.i.payload.eq(head),
        ]
        self._offer(m, command, bytes_out.o, sums_out.o)
        return written & head.place.last, bytes_out.o.valid | sums_out.o.valid

    def _tables(self, m: Module, start, fill, words):
        """Look up the lanes' bytes; fill with those of a vector. Return each lane's entry."""
        m.submodules.tables = tables = Tables(self._config)
        row_bytes = self._config.table_row_bytes
        m.d.comb += [
            tables.start.eq(start),
            tables.fill.eq(fill),
            tables.row.eq(Cat(words.word_select(index, 32)[:8] for index in range(row_bytes))),
        ]
        m.d.comb += [
            tables.index[number].eq(lane.byte) for number, lane in enumerate(self._lane_units)
        ]
        return [tables.value[number] for number in range(self._config.lanes)]

    def _parts(self, m: Module, head, stream):
        """Return place and bytes of the write at hand of a vector, and if it is the last one."""
        config, columns = self._config, self._config.columns
        part, last = self._count_parts(m, stream.valid & stream.ready, "written")
        place = Signal(_place_layout(config))
        m.d.comb += place.eq(head.place)
        m.d.comb += place.address.eq(head.place.address + part * columns)
        m.d.comb += place.claims.eq(claims_of(place.address, columns, config))
        bytes_out = Signal(8 * columns)
        with m.Switch(self._size):
            for size in range(len(self._size) + 1):
                with m.Case(size):
                    times = 1 << size
                    packed = _narrowed(head.data, 8 * times, columns)
                    masks = Cat(bit.replicate(times) for bit in head.place.mask)
                    m.d.comb += [
                        bytes_out.eq(packed.word_select(part, 8 * columns)),
                        place.mask.eq(masks.word_select(part, columns)),
                    ]
        return place, bytes_out, last

    def _place(self, m: Module, command, results, place):
        """Tell where the result that is complete goes; it is then queued, come what may."""
        m.d.comb += [
            place.address.eq(results.at_address),
            place.claims.eq(claims_of(results.at_address, self._config.columns, self._config)),
            place.entry.eq(results.at_entry),
            place.last.eq(results.end),
        ]
        shown = ~results.last_block
        for index in range(self._config.columns):
            mask = shown | (index < command.tail)
            if self._config.tables:
                # What fills the table goes nowhere else.
                mask &= ~_fills(command)
            m.d.comb += place.mask[index].eq(mask)

    def _offer(self, m: Module, command, byte_result, sum_result):
        """Show results to the memories."""
        spad, acc = self.spad_write, self.acc_update
        m.d.comb += [
            spad.valid.eq(byte_result.valid),
            spad.address.eq(byte_result.payload.place.address),
            spad.claims.eq(byte_result.payload.place.claims),
            spad.data.eq(byte_result.payload.data),
            spad.mask.eq(byte_result.payload.place.mask),
            byte_result.ready.eq(spad.ready),
            acc.valid.eq(sum_result.valid),
            acc.address.eq(sum_result.payload.place.entry),
            acc.add.eq(command.destination == Destination.ACC_ADD),
            acc.data.eq(sum_result.payload.data),
            acc.mask.eq(sum_result.payload.place.mask),
            sum_result.ready.eq(acc.ready),
        ]
        if self._config.has_float:
            m.d.comb += acc.floating.eq(self._floating)

    def _sequence(
        self, m: Module, command, start, streaming, fetched, asked_all, block_left, finished, waits
    ):
        """Take a command; read and requantise its vectors; wait until all is visible."""
        unit = self.unit
        blocks_left = Signal(12)
        settling = Signal(range(max(SPAD_WRITE_LATENCY, self._config.acc_update_latency) + 1))
        everything_written = Signal()
        with m.If(finished):
            m.d.sync += everything_written.eq(1)
        # Three states have registers of their own, since hundreds of others wait for them.
        idle = Signal(init=1)
        m.d.sync += start.eq(0)
        with m.If(idle):
            m.d.sync += command.eq(unit.command.payload)
        streams = Signal()
        m.d.comb += streaming.eq(streams & ~asked_all)
        m.d.sync += streams.eq(streaming)
        with m.FSM() as states:
            with m.State("Idle"):
                m.d.comb += unit.command.ready.eq(fetched)
                m.d.sync += everything_written.eq(0)
                with m.If(unit.command.valid & fetched):
                    m.d.sync += [start.eq(1), idle.eq(0)]
                    m.next = "Begin"
            with m.State("Begin"):
                m.d.comb += streaming.eq(1)
                m.d.sync += blocks_left.eq(command.oc_blocks - 1)
                m.next = "Stream"
            with m.State("Stream"), m.If(block_left):
                m.d.sync += blocks_left.eq(blocks_left - 1)
                with m.If(blocks_left == 0):
                    m.next = "Drain"
            with m.State("Drain"):
                m.d.sync += settling.eq(self._config.acc_update_latency)
                with m.If(everything_written & ~waits):
                    m.next = "Settle"
            with m.State("Settle"):
                m.d.sync += settling.eq(settling - 1)
                with m.If(settling == 1):
                    m.d.comb += [unit.done.eq(1), unit.done_mark.eq(command.mark)]
                    m.d.sync += idle.eq(1)
                    m.next = "Idle"
        m.d.comb += unit.busy.eq(~states.ongoing("Idle"))


def _beat_number(beats: int) -> Signal:
    """Return a counter of beats; Verilog has no signal without bits, even for a single beat."""
    return Signal(range(max(2, beats)), name="beat")


def _multiplies(command):
    """Return whether a command's values are products."""
    return command.product & (command.source == Source.SPAD)


def _fills(command):
    """Return whether a command's bytes go into the table."""
    return (command.destination == Destination.SPAD) & (command.table == Table.FILL)


def _delayed(m: Module, value, cycles: int, name: str):
    """Return a bit some cycles later."""
    for stage in range(cycles):
        later = Signal(name=f"{name}_{stage}")
        m.d.sync += later.eq(value)
        value = later
    return value


def _narrowed(words, bits: int, columns: int):
    """Return the low bits of words of 32 bits, side by side."""
    return Cat(words.word_select(index, 32)[:bits] for index in range(columns))


def _of_two_bytes() -> tuple[int, ...]:
    """Return the numbers of the formats whose elements have two bytes."""
    return tuple(MAC_MODES.index(name) for name, form in FLOAT_FORMATS.items() if form.bytes == 2)


def _extend(number):
    """Return the bits of a signed number at 32 bits."""
    return Cat(number, number[-1].replicate(32 - len(number)))
