"""Post-processing unit: executes POST on accumulators or bytes, using the lanes."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, RowFunction
from matloom_rtl.ports import (
    AccReadSignature,
    AccUpdateSignature,
    CommandSignature,
    SpadReadSignature,
    SpadWriteSignature,
)
from matloom_rtl.post.lanes import Lanes
from matloom_rtl.post.maxima import Maxima
from matloom_rtl.post.numbers import Numbers
from matloom_rtl.post.parameters import Parameters
from matloom_rtl.post.positions import Positions
from matloom_rtl.post.reader import Reader
from matloom_rtl.post.sequencer import Sequencer
from matloom_rtl.post.softmax import Softmax
from matloom_rtl.post.writer import Writer

__all__ = ["Post"]


class Post(wiring.Component):
    """Post-processing unit: executes POST, one vector of `columns` values after another.

    A vector passes through the lanes in ``columns / lanes`` beats. Reads run up to ten vectors
    ahead of the lanes, twelve with `config.products`. The lanes never stall, because a stall signal
    would have to reach every register in them; instead, a vector enters only when one of sixteen
    places is free for its result. Two `Positions` generate the addresses of sources and
    destinations, and advance as the requests of `Reader` and `Writer` are granted.

    With `Rounding.FLOAT`, values use floating-point lanes (`FloatLane`) in parallel to the others.
    A vector of two- or four-byte elements, floating-point or int16 (`words`), takes two or four
    reads, and as many writes.

    Parameters of the next block are fetched while the current one streams, those of the next
    instruction as soon as `fetch` allows.

    Latency: the sum of parameters (5 to 20 cycles, if not prefetched), source (4 or 9), products
    (2), lanes (13), tables (1 or 2), curves (5), maxima (`maxima_latency`), and splitting results
    (1). `done` comes when the last write is visible.
    Throughput: one vector per ``columns / lanes`` cycles, with one idle cycle between blocks, or
    more if a block is shorter than the fetch of the next one's parameters. Instructions do not
    overlap, except for their parameters.

    With `config.tables`, result bytes may be replaced by table entries, or written to the table
    instead of to memory. With `config.products`, bytes may first be multiplied by accumulators;
    both are requested in the same cycle. With `config.has_result_sums`, bytes may instead wait
    until results leave the lanes, where the tables add them. With `config.has_curves`, results may
    be words that are LOGISTIC or TANH of the lanes' results (`Curves`). With `config.pooling`, a
    result may be the maximum of four consecutive vectors (`Maxima`). With `config.softmax`, rows of
    bytes may be read three times and processed by `Softmax`, which borrows lanes.

    Members
    -------
    unit: CommandSignature(POST), in
        `command` is the head of the queue, valid when it may start.
    fetch: in
        There is an instruction at the head of the queue, and it need not wait for LOAD any more, so
        that its parameters may be fetched.
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
        """Return the module: sequencer, reader, parameters, lanes and writer, and both walks."""
        m = Module()
        config = self._config
        pools = bool(config.pooling)
        m.submodules.sources = sources = Positions(config, passes=Softmax.PASSES, pools=pools)
        m.submodules.results = results = Positions(config)
        m.submodules.parameters = parameters = Parameters(config)
        m.submodules.numbers = numbers = Numbers(config)
        m.submodules.reader = reader = Reader(config)
        m.submodules.lanes = lanes = Lanes(config)
        m.submodules.writer = writer = Writer(config)
        m.submodules.sequencer = sequencer = Sequencer(config)
        command = sequencer.command

        m.d.comb += [part.command.eq(command) for part in (numbers, reader, lanes, writer)]
        m.d.comb += [part.numbers.eq(numbers.o) for part in (reader, lanes, writer)]
        if config.element_size_bits:
            m.d.comb += [sources.size.eq(numbers.o.size), results.size.eq(numbers.o.size)]
        self._geometry(m, command, sequencer.start, sources, results)
        for part, positions in ((reader, sources), (writer, results)):
            m.d.comb += [
                part.position.eq(positions.position),
                positions.advance.eq(part.advance),
            ]
        wiring.connect(m, parameters.read, reader.parameters)
        wiring.connect(m, parameters.o, lanes.parameters)
        wiring.connect(m, reader.vectors, lanes.vectors)
        for inner, outer in (
            (reader.acc, self.acc_read),
            (reader.spad, self.spad_read),
            (writer.acc, self.acc_update),
            (writer.spad, self.spad_write),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        self._sequence(m, sequencer, reader, lanes, writer)
        if pools:
            m.d.comb += sources.pooled.eq(command.pool)
        if config.fills_tables:
            wiring.connect(m, writer.rows, lanes.rows)
        if config.has_result_sums:
            m.d.comb += [lanes.bytes_arrive.eq(reader.bytes_arrive), lanes.bytes.eq(reader.bytes)]
        m.d.comb += [
            sequencer.fetched.eq(self._fetch(m, parameters)),
            sequencer.asked_all.eq(reader.advance & sources.position.end),
            parameters.arriving.eq(reader.parameters_arriving),
            *self._results(m, command, lanes, writer),
            self.unit.progress.eq(lanes.last_beat | writer.advance | parameters.arriving),
        ]
        return m

    def _sequence(self, m: Module, sequencer, reader, lanes, writer):
        """Connect the sequencer."""
        outer, inner = self.unit, sequencer.unit
        wiring.connect(m, wiring.flipped(outer.command), inner.command)
        m.d.comb += [
            *(getattr(outer, name).eq(getattr(inner, name)) for name in ("busy", "done")),
            outer.done_mark.eq(inner.done_mark),
            reader.streaming.eq(sequencer.streaming),
            lanes.start.eq(sequencer.start),
            lanes.written.eq(writer.advance),
            sequencer.finished.eq(writer.finished),
            sequencer.waiting.eq(writer.waiting),
        ]

    def _results(self, m: Module, command, lanes, writer):
        """Return the connections from results to the writer, through `Maxima` if it is built."""
        if not self._config.pooling:
            return [writer.emerges.eq(lanes.emerges), writer.results.eq(lanes.results)]
        m.submodules.maxima = maxima = Maxima(self._config)
        return [
            maxima.pools.eq(command.pool),
            maxima.emerges.eq(lanes.emerges),
            maxima.results.eq(lanes.results),
            lanes.kept.eq(maxima.kept),
            writer.emerges.eq(maxima.maxima_emerge),
            writer.results.eq(maxima.maxima),
        ]

    def _geometry(self, m: Module, command, start, sources, results):
        """Give the walks over sources and over results the addresses and sizes of the command."""
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
            if self._config.softmax:
                m.d.comb += positions.whole_rows.eq(command.softmax == RowFunction.SOFTMAX)
            if self._config.has_narrow:
                m.d.comb += positions.pairs.eq(command.pairs)

    def _fetch(self, m: Module, parameters):
        """Fetch parameters for the head of the queue; return whether that has begun.

        SOFTMAX has no parameters, so that for it the fetch counts as begun after one cycle.
        """
        head, task = self.unit.command, parameters.i
        begun = Signal()
        asks, passes = self.fetch & ~begun, task.valid & task.ready
        if self._config.softmax:
            without = head.payload.softmax == RowFunction.SOFTMAX
            asks, passes = asks & ~without, passes | (self.fetch & without)
        m.d.comb += [
            task.valid.eq(asks),
            task.payload.address.eq(head.payload.param_addr),
            task.payload.blocks.eq(head.payload.oc_blocks),
        ]
        for name in ("channel_bias", "channel_scale", "bias", "multiplier", "shift"):
            m.d.comb += task.payload[name].eq(head.payload[name])
        with m.If(passes):
            m.d.sync += begun.eq(1)
        with m.If(head.valid & head.ready):
            m.d.sync += begun.eq(0)
        return begun
