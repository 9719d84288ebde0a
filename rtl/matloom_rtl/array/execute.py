"""Execute unit: takes EXEC commands, reads the scratchpad, sends sums to the accumulators."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.config import Config
from matloom.arch.csr import EXEC_CAUSES
from matloom.arch.isa import UNITS, Opcode
from matloom_rtl.array.array import Array
from matloom_rtl.array.cells import delay, flags_layout
from matloom_rtl.array.loader import Loader
from matloom_rtl.array.walk import Walk, vector_layout
from matloom_rtl.memory.bank_select import align_down, bank_select_of
from matloom_rtl.memory.credits import CREDITS, CreditQueue
from matloom_rtl.memory.unchecked_fifo import UncheckedFIFO
from matloom_rtl.ports import (
    SPAD_READ_LATENCY,
    CommandSignature,
    SpadReadSignature,
    mark_bits,
)

__all__ = ["Execute", "attributes_layout"]

_CAUSES = [name for name, _doc in EXEC_CAUSES]


#: Fields of the tag that are mode flags.
_MODE_TAGS = ("narrow", "floating")


def _tag_layout(config: Config) -> data.StructLayout:
    """Return the layout of the tag that travels with a vector through the array."""
    return data.StructLayout(
        {
            "entry": config.acc_addr_bits,
            "add": 1,
            "maximum": 1,
            "last": 1,
            **({"narrow": 1} if config.has_narrow else {}),
            **({"floating": 1} if config.has_float else {}),
        }
    )


def attributes_layout(config: Config) -> data.StructLayout:
    """Return the layout of the attributes stored for a vector until its bytes arrive."""
    members = vector_layout(config).members
    return data.StructLayout({name: members[name] for name in members if name != "address"})


def _vector_request_layout(config: Config) -> data.StructLayout:
    """Return the layout of an entry in the queue between `Walk` and the scratchpad.

    An entry is either the read of a vector (`valid`), or a pause (`paused`).
    """
    return data.StructLayout(
        {
            "valid": 1,
            "paused": 1,
            "switch": 1,
            "last_tile": 1,
            "bank_select": config.spad_banks,
            **({"paired": 1} if config.has_paired_windows else {}),
            "address": vector_layout(config)["address"].shape,
        }
    )


class Execute(wiring.Component):
    """Execute unit: streams inputs through the array, tile by tile and command by command.

    The command at the head of the EXEC queue is taken once everything it depends on has
    completed and the command before it has begun. Its weights are fetched earlier, as soon as
    `met` shows that the LOADs it waits for have completed, and the POSTs too if it has
    `weights_wait_post`. Vectors stall only for the shadow registers and for the scratchpad. Once
    granted, vectors and weights move in step to the array, and sums to the accumulators.

    Latency: the sum of Walk (6), request (1), scratchpad (`SPAD_READ_LATENCY`), padding (1), the
    array, and the accumulators (`acc_update_latency`) until `done`.
    Throughput: one vector per cycle; a step takes at least `tile_load_cycles`.

    Members
    -------
    unit: CommandSignature(EXEC), in
        `command` is the head of the queue, valid whether or not it may start.
    met: in
        For each unit of `isa.UNITS`: the command at the head need no longer wait for it. A bit that
        is set stays set until the head is taken.
    constants: in
        LOAD is fetching constants.
    cause: out
        How the previous cycle was spent: one bit of `csr.EXEC_CAUSES`.
    input_read, weight_read: SpadReadSignature, out
    sum_valid, sum_entry, sum_add, sum_maximum: out
        Accumulator update, announced a cycle ahead and never refused.
    sums: out
        The sums announced in the previous cycle, 32 bits per column.
    sum_narrow, seconds: out
        The update has second sums (announced like `sum_entry`), and those sums (timed like `sums`).
        Only with narrow modes.
    sum_floating: out
        The sums are fp32 numbers. Only with floating-point modes.
    """

    def __init__(self, config: Config):
        self._config = config
        narrow = {"sum_narrow": Out(1), "seconds": Out(32 * config.columns)}
        super().__init__(
            {
                "unit": In(CommandSignature(Opcode.EXEC, config)),
                "met": In(len(UNITS)),
                "constants": In(1),
                "cause": Out(len(EXEC_CAUSES), init=1 << _CAUSES.index("exec_wait_command")),
                "input_read": Out(SpadReadSignature(config.rows, config.spad_banks)),
                "weight_read": Out(SpadReadSignature(config.weight_bytes, config.spad_banks)),
                "sum_valid": Out(1),
                "sum_entry": Out(config.acc_addr_bits),
                "sum_add": Out(1),
                "sum_maximum": Out(1),
                "sums": Out(32 * config.columns),
                **(narrow if config.has_narrow else {}),
                **({"sum_floating": Out(1)} if config.has_float else {}),
            }
        )

    def elaborate(self, platform):
        """Return the module: walk over the input, weight loader, array, and their connections."""
        m = Module()
        m.submodules.walk = walk = Walk(self._config)
        m.submodules.loader = loader = Loader(self._config)
        m.submodules.array = array = Array(self._config, _tag_layout(self._config))
        if not self._config.has_paired_windows:
            connect(m, loader.read, flipped(self.weight_read))
        m.d.comb += [
            array.weight_writes.eq(loader.weight_writes),
            array.weight_data.eq(loader.weight_data),
        ]
        if self._config.transposed_weights:
            m.d.comb += array.weight_transposed.eq(loader.weight_transposed)
        if self._config.has_narrow:
            m.d.comb += array.weight_narrow.eq(loader.weight_narrow)
        if self._config.has_float:
            m.d.comb += array.weight_format.eq(loader.weight_format)
        self._take_commands(m, walk, loader)
        fire = self._request(m, walk, loader)
        output = self._pad(m, walk, fire, array, loader)
        self._send_sums(m, array, output)
        return m

    def _take_commands(self, m: Module, walk, loader):
        """Offer the head of the queue to the loader, then to the walk, which takes it."""
        command = self.unit.command
        prefetched = Signal()
        load_met, post_met = (self.met[UNITS.index(unit)] for unit in (Opcode.LOAD, Opcode.POST))
        may_fetch = load_met & (post_met | ~command.payload.weights_wait_post)
        may_walk = Signal()
        m.d.comb += [
            may_walk.eq(self.met.all() & prefetched),
            loader.i.payload.eq(command.payload),
            loader.i.valid.eq(command.valid & may_fetch & ~prefetched),
            # A condition that is met stays met.
            command.ready.eq(walk.i.ready),
            walk.i.payload.eq(command.payload),
            walk.i.valid.eq(command.valid & may_walk),
        ]
        with m.If(loader.i.valid & loader.i.ready):
            m.d.sync += prefetched.eq(1)
        with m.If(command.valid & command.ready):
            m.d.sync += prefetched.eq(0)

    def _request(self, m: Module, walk, loader):
        """Request each vector; return whether one is granted.

        A queue decouples the walk from everything that stalls. Pauses pass through it like vectors:
        they keep conflicting accumulator updates apart.
        """
        config, read = self._config, self.input_read
        paired = ("paired",) if config.has_paired_windows else ()
        m.submodules.vectors = vectors = CreditQueue(
            _vector_request_layout(config),
            registered=("valid", "paused", "switch", "last_tile", "bank_select", *paired),
        )
        shown = vectors.o.payload
        allowed = ~shown.switch | loader.full
        address, arriving = walk.vector.address, vectors.w_data
        wanted, bank_select = shown.valid & allowed, bank_select_of(address, config.rows, config)
        ready, fire = read.ready, read.valid & read.ready
        if paired:
            block = align_down(address, config.weight_boundary)
            block_claims = bank_select_of(block, config.paired_bytes, config)
            bank_select = Mux(walk.vector.paired, block_claims, bank_select)
            m.d.comb += arriving.paired.eq(walk.vector.paired)
            ready = Mux(shown.paired, self.weight_read.ready, read.ready)
            fire = wanted & ready
            self._share_weight_read(
                m, loader, wanted & shown.paired, shown.address, shown.bank_select
            )
            wanted = wanted & ~shown.paired
        m.d.comb += [
            walk.room.eq(vectors.room),
            vectors.start.eq(walk.start),
            vectors.w_en.eq(walk.valid | walk.paused),
            arriving.valid.eq(walk.valid),
            arriving.paused.eq(walk.paused),
            arriving.switch.eq(walk.vector.switch),
            arriving.last_tile.eq(walk.vector.last_tile),
            arriving.address.eq(address),
            # Padding selects no bank, so it never waits.
            arriving.bank_select.eq(Mux(walk.vector.row_valid, bank_select, 0)),
            vectors.o.ready.eq(~shown.valid | (ready & allowed)),
            read.valid.eq(wanted),
            read.address.eq(shown.address),
            read.bank_select.eq(shown.bank_select),
            loader.release.eq(fire & shown.switch),
            loader.last.eq(shown.last_tile),
        ]
        m.d.sync += self.unit.progress.eq(fire | (self.weight_read.valid & self.weight_read.ready))
        self._drive_cause(m, shown, allowed, fire, walk.active)
        return fire

    def _share_weight_read(self, m: Module, loader, taken, address, bank_select):
        """Share the port `weight_read`: a block of a paired window (`taken`) precedes weight rows.

        Blocks never wait for a tile while they hold the port, so the tile is always loaded in the
        end.
        """
        port, rows = self.weight_read, loader.read
        m.d.comb += [
            loader.taken.eq(taken),
            port.valid.eq(taken | rows.valid),
            port.address.eq(Mux(taken, address, rows.address)),
            port.bank_select.eq(Mux(taken, bank_select, rows.bank_select)),
            rows.ready.eq(port.ready),
            rows.data.eq(port.data),
        ]

    def _drive_cause(self, m: Module, shown, allowed, fire, begun):
        """Drive `cause`: a vector entered the array, or the reason why none did (`EXEC_CAUSES`).

        It is a register, because the counters are far away.
        """
        spent = Signal(len(EXEC_CAUSES))
        m.d.sync += self.cause.eq(spent)
        cause = {name: spent[index] for index, name in enumerate(_CAUSES)}
        met = dict(zip(UNITS, self.met, strict=True))
        with m.If(fire):
            m.d.comb += cause["exec_stream"].eq(1)
        with m.Elif(shown.valid & ~allowed):
            m.d.comb += cause["exec_wait_weights"].eq(1)
        with m.Elif(shown.valid):
            m.d.comb += cause["exec_wait_bank"].eq(1)
        with m.Elif(shown.paused):
            m.d.comb += cause["exec_wait_sums"].eq(1)
        with m.Elif(begun):
            m.d.comb += cause["exec_setup"].eq(1)
        with m.Elif(~self.unit.command.valid):
            m.d.comb += cause["exec_wait_command"].eq(1)
        with m.Elif(~met[Opcode.LOAD]):
            m.d.comb += [
                cause["exec_wait_constants"].eq(self.constants),
                cause["exec_wait_input"].eq(~self.constants),
            ]
        with m.Elif(~met[Opcode.POST]):
            m.d.comb += cause["exec_wait_post"].eq(1)
        with m.Elif(~met[Opcode.STORE]):
            m.d.comb += cause["exec_wait_store"].eq(1)
        with m.Elif(~met[Opcode.EXEC]):
            m.d.comb += cause["exec_wait_self"].eq(1)
        with m.Else():
            m.d.comb += cause["exec_setup"].eq(1)

    def _stored_attributes(self, m: Module, walk, fire):
        """Return the attributes of the vector whose bytes arrive in this cycle, and whether any do.

        Attributes wait in a FIFO memory from the walk's request to the bytes. It cannot overflow: a
        vector that takes over another's place in the FIFO is requested at least two cycles after
        the grant of the other, and written four cycles later.
        """
        layout = attributes_layout(self._config)
        m.submodules.known = queue = UncheckedFIFO(width=layout.size, depth=CREDITS)
        written = data.View(layout, queue.w_data)
        known = Signal(layout, reset_less=True)
        granted = [fire]
        for _stage in range(SPAD_READ_LATENCY):
            granted.append(delay(m, granted[-1], reset=True, name="granted"))
        m.d.comb += [
            queue.w_en.eq(walk.valid),
            *(written[name].eq(walk.vector[name]) for name in layout.members),
            queue.r_en.eq(granted[-2]),
        ]
        m.d.sync += known.eq(queue.r_data)
        return known, granted[-1]

    def _pad(self, m: Module, walk, fire, array, loader):
        """Send a vector to the array when its bytes arrive, with padding inserted.

        The loader receives the bytes of blocks and pads them itself. Return whether the vector that
        enters the array in this cycle is an output.
        """
        known, valid = self._stored_attributes(m, walk, fire)
        from_spad = self.input_read.data
        padded = [
            Mux(
                known.row_valid & (index >= known.low) & (index < known.high),
                from_spad.word_select(index, 8),
                known.pad,
            )
            for index in range(self._config.rows)
        ]
        # The line memories are read one cycle before the vector enters the array.
        windows = self._config.has_windows
        if windows:
            m.d.comb += array.position.eq(known.position)
        output = Signal()
        m.d.sync += [array.valid.eq(valid), output.eq(known.output & valid)]
        m.d.sync += [array.switch.eq(known.switch & valid)]
        bytes_next = Signal.like(array.vector, reset_less=True)
        slide = Signal.like(array.slide, reset_less=True)
        tag = Signal.like(array.tag, reset_less=True)
        m.d.comb += [array.vector.eq(bytes_next), array.slide.eq(slide), array.tag.eq(tag)]
        with m.If(valid):
            m.d.sync += bytes_next.eq(Cat(self._less_pad(each, known) for each in padded))
            m.d.sync += [
                slide.pad.eq(known.pad),
                *(tag[name].eq(known[name]) for name, _ in tag.shape() if name not in _MODE_TAGS),
            ]
            if windows:
                m.d.sync += [
                    slide.window.eq(known.window),
                    slide.shift.eq(known.window & ~known.first),
                    slide.recall.eq(known.window & ~known.first_line),
                ]
            if self._config.has_wide_windows:
                shapes = range(len(self._config.window_shapes))
                m.d.sync += slide.shapes.eq(
                    Cat(known.window & (known.window_shape == number) for number in shapes)
                )
        if self._config.has_paired_windows:
            m.d.comb += [
                loader.blank.eq(valid & known.paired & ~known.row_valid),
                loader.pad.eq(known.pad),
            ]
            with m.If(valid):
                m.d.sync += slide.paired.eq(known.paired)
        if flags_layout(self._config).size:
            flags = Signal.like(array.flags, reset_less=True)
            m.d.comb += array.flags.eq(flags)
            with m.If(valid):
                m.d.sync += flags.eq(known.flags)
                m.d.sync += [
                    tag[name].eq(known.flags[name]) for name, _ in tag.shape() if name in _MODE_TAGS
                ]
        return output

    def _less_pad(self, byte, known):
        """Return a byte less its zero point, which is in `known`, if the engine has zero points."""
        if not self._config.zero_points:
            return byte
        return byte.as_signed() - Mux(known.zero_points, known.pad, 0).as_signed()

    def _send_sums(self, m: Module, array, output):
        """Send sums to the accumulators, and report an instruction when its last sum is readable.

        An instruction ends with its last vector, whether or not the sums of that vector are kept.
        """
        columns = self._config.columns
        # Delayed like the array's own `valid`, so that no gate precedes the accumulators.
        for _stage in range(array.latency - 1):
            output_next = Signal()
            m.d.sync += output_next.eq(output)
            output = output_next
        m.d.comb += [
            self.sum_valid.eq(output),
            self.sum_entry.eq(array.next_tag.entry),
            self.sum_add.eq(array.next_tag.add),
            self.sum_maximum.eq(array.next_tag.maximum),
            self.sums.eq(Cat(_extend(array.o_sums[column]) for column in range(columns))),
        ]
        if self._config.has_narrow:
            seconds = Cat(_extend(array.o_seconds[column]) for column in range(columns))
            m.d.comb += [self.sum_narrow.eq(array.next_tag.narrow), self.seconds.eq(seconds)]
        if self._config.has_float:
            m.d.comb += self.sum_floating.eq(array.next_tag.floating)
        done = array.o_valid & array.o_tag.last
        for _stage in range(self._config.acc_update_latency):
            done = delay(m, done, reset=True, name="done")
        # Bound on instructions in flight: none stays longer than `cycles`, each takes a step at
        # least.
        cycles = CREDITS + SPAD_READ_LATENCY + array.latency + self._config.acc_update_latency + 8
        places = 1 << (cycles // self._config.acc_update_latency + 1).bit_length()
        taken = Signal()
        under_way = Signal(range(places + 1))
        m.d.comb += [
            taken.eq(self.unit.command.valid & self.unit.command.ready),
            self.unit.done.eq(done),
            self.unit.busy.eq(under_way != 0),
        ]
        m.d.sync += under_way.eq(under_way + taken - done)
        self._stamp(m, places, taken)

    def _stamp(self, m: Module, places: int, taken):
        """Queue the timestamps of instructions in flight, and show the oldest as `done_mark`.

        `taken` is set when an instruction is taken; `places` is the capacity, a power of two.
        """
        stamps = Memory(shape=mark_bits(self._config), depth=places, init=[])
        m.submodules.stamps = stamps
        store, fetch = stamps.write_port(), stamps.read_port(domain="comb")
        newest = Signal(range(places))
        oldest = Signal(range(places))
        m.d.sync += [newest.eq(newest + taken), oldest.eq(oldest + self.unit.done)]
        m.d.comb += [
            *(store.addr.eq(newest), store.en.eq(taken), fetch.addr.eq(oldest)),
            store.data.eq(self.unit.command.payload.timestamp),
            self.unit.done_mark.eq(fetch.data),
        ]


def _extend(value):
    """Return a value sign-extended to 32 bits."""
    return Cat(value, value[-1].replicate(32 - len(value)))
