"""Fetches weight tiles into the shadow registers, one tile ahead of the vectors."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.array.cells import decode_flags, delay
from matloom_rtl.memory.bank_select import aligned, bank_select_of
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.ports import SPAD_READ_LATENCY, SpadReadSignature, access_bits, body_layout

__all__ = ["Loader"]


class Loader(wiring.Component):
    """Read the weight tiles of one EXEC after another, in the order of its steps.

    Shadow registers hold one tile. `full` rises in the cycle after the last row of a tile is
    granted and falls with `release`; the rows of the next tile are requested from the cycle of
    `release` on, so a tile takes `tile_load_cycles` cycles and none between tiles. That is safe
    because vectors and weights reach the array the same number of cycles after their grants.

    Nothing is counted: who releases a tile knows whether it is the last of its command. Rows of a
    tile after it may then be waiting, which are forgotten, so that the first row of the next
    command follows the release by two cycles. It follows a command that finds nothing to wait for
    by three.

    Latency: a row reaches the array `SPAD_READ_LATENCY` + 1 cycles after its grant.

    Members
    -------
    i: stream of `body_layout(EXEC)`, in
        Commands; one is taken while another one is worked on, and waits.
    release: in
        The array switches to the tile in the shadow registers.
    last: in
        With `release`: that tile is the last of its command.
    full: out
        A tile is complete.
    read: SpadReadSignature, out
        The rows of one cycle, on their boundary.
    taken: in
        A block of a paired window takes the port of the scratchpad in this cycle; where such
        windows are built.
    blank, pad: in
        Whether the block that arrives is padding, and what that reads as.
    weight_writes, weight_data: out
        Rows to the array: a bit for each group of rows, and the bytes of the one that is set;
        without one, of a block.
    weight_narrow: out
        Those bytes are two weights each; where narrow modes are built.
    weight_format: out
        The format of their floating-point numbers; where such modes are built.
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
                "weight_data": Out(8 * width),
                **(paired if config.has_paired_windows else {}),
                **({"weight_narrow": Out(1)} if config.has_narrow else {}),
                **(
                    {"weight_format": Out(range(len(config.float_modes)))}
                    if config.has_float
                    else {}
                ),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, read = self._config, self.read
        end = Signal()
        m.d.comb += end.eq(self.release & self.last)
        requests = SkidBuffer(self._request_layout(), registered=("bank_select",))
        m.submodules.requests = ResetInserter(end)(requests)
        begin = self._ask(m, requests, end)

        # Long before `release` is known, which comes from an arbiter.
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
        self._deliver(m, fire, group)
        if config.has_narrow:
            self._follow_mode(m, begin, requests, "narrow", self.weight_narrow)
        if len(config.float_modes) > 1:
            self._follow_mode(m, begin, requests, "format", self.weight_format)
        return m

    def _request_layout(self) -> data.StructLayout:
        config = self._config
        return data.StructLayout(
            {
                "address": access_bits(config),
                "bank_select": config.spad_banks,
                **({"narrow": 1} if config.has_narrow else {}),
                **({"format": len(self.weight_format)} if config.has_float else {}),
            }
        )

    def _ask(self, m: Module, requests, end):
        """Request row after row until the `end` of a command; return whether a request begins."""
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
            # One adder: the choice before it goes into its carry cells.
            before = Mux(begin, following, address)
            m.d.sync += address.eq(before + Mux(begin, 0, config.weight_bytes))
        with m.If(self.i.ready):
            m.d.sync += waiting.eq(self.i.valid)
            m.d.sync += following.eq(aligned(self.i.payload.weight_addr, config.weight_boundary))
        return begin

    def _follow_mode(self, m: Module, begin, requests, name: str, port):
        """Delay a mode flag along with the rows of a request, like `_deliver`."""
        following = Signal.like(port, name=f"following_{name}", reset_less=True)
        flag = Signal.like(port, name=name, reset_less=True)
        with m.If(self.i.ready):
            m.d.sync += following.eq(decode_flags(self.i.payload.mode, self._config)[name])
        with m.If(begin):
            m.d.sync += flag.eq(following)
        m.d.comb += requests.i.payload[name].eq(flag)
        delivered = requests.o.payload[name]
        if self._config.has_paired_windows:
            delivered = Mux(self.taken, 0, delivered)
        for _stage in range(SPAD_READ_LATENCY + 1):
            delivered = delay(m, delivered)
        m.d.comb += port.eq(delivered)

    def _count_groups(self, m: Module, when):
        """Count the groups of rows of a tile; return the current one, and whether it is last."""
        cycles = self._config.tile_load_cycles
        group = Signal(range(cycles))
        last = Signal(init=cycles == 1)
        with m.If(when):
            m.d.sync += group.eq(Mux(last, 0, group + 1))
            if cycles > 1:
                m.d.sync += last.eq(group == cycles - 2)
        return group, last

    def _deliver(self, m: Module, fire, group):
        valid, row = fire, group
        for _stage in range(SPAD_READ_LATENCY):
            valid_next = Signal()
            row_next = Signal.like(group)
            m.d.sync += [valid_next.eq(valid), row_next.eq(row)]
            valid, row = valid_next, row_next
        # One register more, as the vectors have one for their padding.
        data_next = Signal.like(self.weight_data, reset_less=True)
        found = self.read.data
        if self._config.has_paired_windows:
            found = Mux(self.blank, self.pad.replicate(len(found) // 8), found)
        m.d.sync += [
            # Out of registers: each writes hundreds of weights.
            self.weight_writes.eq(valid << row),
            data_next.eq(found),
        ]
        m.d.comb += self.weight_data.eq(data_next)
