"""Fetches weight tiles into the shadow registers, one tile ahead of the vectors."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.array.cells import decode_flags, delay, operand_bits
from matloom_rtl.memory.bank_select import align_down, bank_select_of
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.ports import SPAD_READ_LATENCY, SpadReadSignature, access_bits, body_layout

__all__ = ["Loader"]


class Loader(wiring.Component):
    """Read the weight tiles of one EXEC after another, in the order of their steps.

    The shadow registers hold one tile. `full` rises in the cycle after the last row of a tile is
    granted and falls with `release`. Rows of the next tile are requested from the cycle of
    `release` on, so a tile takes `tile_load_cycles` with no gap between tiles. This is safe
    because vectors and weights reach the array equally long after their grants.

    The loader does not count tiles: `last` marks the last tile of a command. Any rows requested
    beyond it are dropped. The first row of the next command is requested two cycles after the
    release, or three if the command was not yet waiting.

    Latency: a row reaches the array `SPAD_READ_LATENCY` + 1 cycles after its grant.
    Throughput: one request of `weight_rows` rows per cycle.

    Members
    -------
    i: stream of `body_layout(EXEC)`, in
        Commands. The next one is accepted and held while the current one is processed.
    release: in
        The array switches to the tile in the shadow registers.
    last: in
        With `release`: that tile is the last of its command.
    full: out
        The shadow registers hold a complete tile.
    read: SpadReadSignature, out
        Reads `weight_rows` rows at a time, aligned.
    taken: in
        A block of a paired window uses the scratchpad port in this cycle. Only with paired
        windows.
    blank, pad: in
        The arriving block is padding, and the value of the padding.
    weight_writes, weight_data: out
        Rows for the array: one bit for each group of rows, and the bytes of the group whose bit
        is set. If none is set, the bytes of a block. With `Config.zero_points`, numbers of nine
        bits: bytes less the zero point of weights, or bytes of a block.
    weight_transposed: out
        The rows are columns of the array. Only with `Config.transposed_weights`.
    weight_narrow: out
        Each byte holds two weights. Only with narrow modes.
    weight_format: out
        Format of floating-point weights. Only with floating-point modes.
    """

    def __init__(self, config: Config):
        self._config = config
        width = config.weight_bytes
        paired = {"taken": In(1), "blank": In(1), "pad": In(8)}
        super().__init__(
            {
                "i": In(stream.Signature(body_layout(Opcode.EXEC, config))),
                "release": In(1),
                "last": In(1),
                "full": Out(1),
                "read": Out(SpadReadSignature(width, config.spad_banks)),
                "weight_writes": Out(config.tile_load_cycles),
                "weight_data": Out(operand_bits(config) * width),
                **(paired if config.has_paired_windows else {}),
                **({"weight_transposed": Out(1)} if config.transposed_weights else {}),
                **({"weight_narrow": Out(1)} if config.has_narrow else {}),
                **(
                    {"weight_format": Out(range(len(config.float_modes)))}
                    if config.has_float
                    else {}
                ),
            }
        )

    def elaborate(self, platform):
        """Return the module: a queue of commands, the requests of their rows, and the delivery."""
        m = Module()
        config, read = self._config, self.read
        end = Signal()
        m.d.comb += end.eq(self.release & self.last)
        requests = SkidBuffer(self._request_layout(), registered=("bank_select",))
        m.submodules.requests = ResetInserter(end)(requests)
        begin = self._request_rows(m, requests, end)

        # `release` arrives late, from an arbiter: everything else is ready before it.
        free = ~self.full | (self.release & ~self.last)
        if config.has_paired_windows:
            free = free & ~self.taken
        fire = Signal()
        tile_end = Signal()
        group, last = self._count_groups(m, fire)
        m.d.comb += [
            read.valid.eq(requests.o.valid & free),
            read.address.eq(requests.o.payload.address),
            read.bank_select.eq(requests.o.payload.bank_select),
            requests.o.ready.eq(read.ready & free),
            fire.eq(read.valid & read.ready),
            tile_end.eq(fire & last),
        ]
        with m.If(tile_end):
            m.d.sync += self.full.eq(1)
        with m.Elif(self.release):
            m.d.sync += self.full.eq(0)
        self._deliver(m, fire, group, self._zero_point(m, begin, requests))
        flags = decode_flags(self.i.payload.mode, config)
        if config.has_narrow:
            self._follow(m, begin, requests, "narrow", flags["narrow"], self.weight_narrow)
        if len(config.float_modes) > 1:
            self._follow(m, begin, requests, "format", flags["format"], self.weight_format)
        if config.transposed_weights:
            transposed = self.i.payload.weights_transposed
            self._follow(m, begin, requests, "transposed", transposed, self.weight_transposed)
        return m

    def _request_layout(self) -> data.StructLayout:
        """Return the layout of the request for a row of weights: address, banks, number format."""
        config = self._config
        return data.StructLayout(
            {
                "address": access_bits(config),
                "bank_select": config.spad_banks,
                **({"narrow": 1} if config.has_narrow else {}),
                **({"format": len(self.weight_format)} if config.has_float else {}),
                **({"transposed": 1} if config.transposed_weights else {}),
                **({"zero": 8} if config.zero_points else {}),
            }
        )

    def _request_rows(self, m: Module, requests, end):
        """Request the weight rows of a command one after another, until `end` marks the last.

        Returns a flag that is set when the next command begins, if one is waiting.
        """
        config = self._config
        working = Signal()
        waiting = Signal()
        begin = Signal()
        address, following = (
            Signal(access_bits(config), name=name, reset_less=True)
            for name in ("address", "following")
        )
        m.d.comb += [
            requests.i.valid.eq(working),
            requests.i.payload.address.eq(address),
            requests.i.payload.bank_select.eq(
                bank_select_of(address, self.read.signature.width, config)
            ),
            self.i.ready.eq(~waiting),
            begin.eq(~working | end),
        ]
        with m.If(begin):
            m.d.sync += [working.eq(waiting), waiting.eq(0)]
        with m.If(begin | requests.i.ready):
            # A single adder: the selection of its operand goes into its carry cells.
            before = Mux(begin, following, address)
            m.d.sync += address.eq(before + Mux(begin, 0, config.weight_bytes))
        with m.If(self.i.ready):
            m.d.sync += waiting.eq(self.i.valid)
            m.d.sync += following.eq(align_down(self.i.payload.weight_addr, config.weight_boundary))
        return begin

    def _zero_point(self, m: Module, begin, requests):
        """Return the zero point of the rows that arrive; None if the engine has no zero points."""
        if not self._config.zero_points:
            return None
        command, zero = self.i.payload, Signal(8, name="arriving_zero")
        given = Mux(command.zero_points & ~command.window, command.line, 0)
        self._follow(m, begin, requests, "zero", given, zero, SPAD_READ_LATENCY)
        return zero.as_signed()

    def _follow(
        self, m: Module, begin, requests, name: str, value, port, cycles=SPAD_READ_LATENCY + 1
    ):
        """Drive `port` with a value of a command when rows of that command arrive.

        `cycles` is the delay from the grant of a row, by default that of `_deliver`.
        """
        following = Signal.like(port, name=f"following_{name}", reset_less=True)
        flag = Signal.like(port, name=name, reset_less=True)
        with m.If(self.i.ready):
            m.d.sync += following.eq(value)
        with m.If(begin):
            m.d.sync += flag.eq(following)
        m.d.comb += requests.i.payload[name].eq(flag)
        delivered = requests.o.payload[name]
        if self._config.has_paired_windows:
            delivered = Mux(self.taken, 0, delivered)
        for _stage in range(cycles):
            delivered = delay(m, delivered)
        m.d.comb += port.eq(delivered)

    def _count_groups(self, m: Module, when):
        """Count the row groups of a weight tile, one for each cycle in which `when` is set.

        Returns the index of the current group, and whether it is the last of the tile.
        """
        cycles = self._config.tile_load_cycles
        group = Signal(range(cycles))
        last = Signal(init=cycles == 1)
        with m.If(when):
            m.d.sync += group.eq(Mux(last, 0, group + 1))
            if cycles > 1:
                m.d.sync += last.eq(group == cycles - 2)
        return group, last

    def _deliver(self, m: Module, fire, group, zero):
        """Deliver rows of weights to the array, less their zero point unless `zero` is None.

        `fire` marks a cycle in which a read of weights is granted, and `group` is the index of its
        group of rows (those that one read fills) in the weight tile.
        """
        valid, row = fire, group
        for _stage in range(SPAD_READ_LATENCY):
            valid_next = Signal()
            row_next = Signal.like(group)
            m.d.sync += [valid_next.eq(valid), row_next.eq(row)]
            valid, row = valid_next, row_next
        # An extra register, to match the vectors' padding register.
        data_next = Signal.like(self.weight_data, reset_less=True)
        found = self.read.data
        if self._config.has_paired_windows:
            found = Mux(self.blank, self.pad.replicate(len(found) // 8), found)
        if zero is not None:
            count = self._config.weight_bytes
            found = Cat(found.word_select(at, 8).as_signed() - zero for at in range(count))
        m.d.sync += [
            # Driven by registers, because each enables hundreds of weights.
            self.weight_writes.eq(valid << row),
            data_next.eq(found),
        ]
        m.d.comb += self.weight_data.eq(data_next)
