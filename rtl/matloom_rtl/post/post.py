"""The post-processing unit: POST instructions from accumulators or bytes, through the lanes."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.ports import (
    SPAD_WRITE_LATENCY,
    AccReadSignature,
    AccUpdateSignature,
    CommandSignature,
    SpadReadSignature,
    SpadWriteSignature,
    body_layout,
)
from matloom_rtl.post.lanes import Lanes
from matloom_rtl.post.numbers import Numbers
from matloom_rtl.post.parameters import Parameters
from matloom_rtl.post.positions import Positions
from matloom_rtl.post.reader import Reader
from matloom_rtl.post.writer import Writer

__all__ = ["Post"]


class Post(wiring.Component):
    """Requantise one vector (`columns` values) after another.

    A vector takes ``columns / lanes`` beats through the lanes. Reads run ahead of the lanes by
    up to ten vectors. The lanes never hold, for that would be a signal to every one of
    their registers: a vector enters when a place for its result is free among sixteen.

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

        numbers = Numbers(m, config, command)
        lanes = Lanes(config, command, numbers)
        reader = Reader(config, command, numbers, self.acc_read, self.spad_read)
        writer = Writer(config, command, numbers, lanes, self.acc_update, self.spad_write)
        if config.element_size_bits:
            m.d.comb += [sources.size.eq(numbers.size), results.size.eq(numbers.size)]
        self._geometry(m, command, start, sources, results)
        fetched = self._fetch(m, parameters)
        vectors = reader.queue(m, streaming, sources, parameters)
        last_beat, block_left = lanes.feed(m, vectors, parameters, written)
        finished, waits = writer.collect(m, start, results, written)
        asked_all = sources.advance & sources.end
        self._sequence(
            m, command, start, streaming, fetched, asked_all, block_left, finished, waits
        )
        m.d.sync += self.unit.progress.eq(last_beat | written | parameters.arriving)
        return m

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
