"""Fetches weight tiles into the shadow registers, one tile ahead of the vectors."""

from amaranth.hdl import Module, Mux, Signal
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

    Latency: a row reaches the array `SPAD_READ_LATENCY` + 1 cycles after its grant.

    Members
    -------
    i: stream of `body_layout(EXEC)`, in
        Commands; taken from the cycle on in which all rows of the one before are asked for.
    release: in
        The array switches to the tile in the shadow registers.
    full: out
        A tile is complete.
    read: SpadReadSignature, out
        The rows of one cycle, on their boundary.
    taken: in
        A block of a paired window takes the port of the scratchpad in this cycle; where such
        windows are built.
    blank, pad: in
        Likewise, the block that arrives is padding, and what that reads as.
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
        m.submodules.requests = requests = SkidBuffer(
            data.StructLayout(
                {
                    "address": access_bits(config),
                    "bank_select": config.spad_banks,
                    **({"narrow": 1} if config.has_narrow else {}),
                    **({"format": len(self.weight_format)} if config.has_float else {}),
                }
            ),
            at_hand=("bank_select",),
        )
        working, all_end = Signal(), Signal()
        address, asked = Signal(access_bits(config), reset_less=True), Signal()
        m.d.comb += [
            requests.i.valid.eq(working),
            requests.i.payload.address.eq(address),
            requests.i.payload.bank_select.eq(
                bank_select_of(address, read.signature.width, config)
            ),
            asked.eq(working & requests.i.ready),
            self.i.ready.eq(~working),
        ]
        with m.If(asked):
            m.d.sync += address.eq(address + config.weight_bytes)
        _group, last_asked = self._count_groups(m, asked, "group_asked")
        self._count_tiles(m, asked & last_asked, all_end)
        with m.If(all_end):
            m.d.sync += working.eq(0)
        with m.If(self.i.ready):
            first = aligned(self.i.payload.weight_addr, config.weight_boundary)
            m.d.sync += [working.eq(self.i.valid), address.eq(first)]

        free = ~self.full | self.release
        if config.has_paired_windows:
            free = free & ~self.taken
        fire, tile_end = Signal(), Signal()
        group, last = self._count_groups(m, fire, "group")
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
            self._follow_mode(m, requests, "narrow", self.weight_narrow)
        if len(config.float_modes) > 1:
            self._follow_mode(m, requests, "format", self.weight_format)
        return m

    def _follow_mode(self, m: Module, requests, name: str, port):
        """Take along a flag of the mode of the rows of a request, as `_deliver` does."""
        incoming, flag = self.i.payload, Signal.like(port, name=name, reset_less=True)
        with m.If(self.i.ready & self.i.valid):
            m.d.sync += flag.eq(decode_flags(incoming.mode, self._config)[name])
        m.d.comb += requests.i.payload[name].eq(flag)
        delivered = requests.o.payload[name]
        if self._config.has_paired_windows:
            delivered = Mux(self.taken, 0, delivered)
        for _stage in range(SPAD_READ_LATENCY + 1):
            delivered = delay(m, delivered)
        m.d.comb += port.eq(delivered)

    def _count_groups(self, m: Module, when, name: str):
        """Count the groups of rows of a tile; return the group at hand, and if it is the last."""
        cycles = self._config.tile_load_cycles
        group = Signal(range(cycles), name=name)
        last = Signal(name=f"{name}_last", init=cycles == 1)
        with m.If(when):
            m.d.sync += group.eq(Mux(last, 0, group + 1))
            if cycles > 1:
                m.d.sync += last.eq(group == cycles - 2)
        return group, last

    def _count_tiles(self, m: Module, tile_end, all_end):
        """Count the step loops down: a product would need a multiplier.

        Whether a loop is at its last pass is known from a register.
        """
        incoming = self.i.payload
        carry = tile_end
        for name in ("blocks", "kernel_cols", "kernel_rows", "oc_blocks"):
            bits = len(incoming[name])
            left, reload = (
                Signal(bits, name=f"{what}_{name}", reset_less=True) for what in ("left", "reload")
            )
            at_last, single = Signal(name=f"last_{name}"), Signal(name=f"single_{name}")
            with m.If(carry):
                m.d.sync += [left.eq(left - 1), at_last.eq(left == 1)]
                with m.If(at_last):
                    m.d.sync += [left.eq(reload), at_last.eq(single)]
            # What is taken while nothing is valid is never worked on. One fixed tile serves all
            # steps: every loop is then a single pass.
            with m.If(self.i.ready):
                passes = Mux(incoming.weights_fixed, 1, incoming[name])
                m.d.sync += [left.eq(passes - 1), reload.eq(passes - 1)]
                m.d.sync += [at_last.eq(passes == 1), single.eq(passes == 1)]
            carry = carry & at_last
        m.d.comb += all_end.eq(carry)

    def _deliver(self, m: Module, fire, group):
        valid, row = fire, group
        for _stage in range(SPAD_READ_LATENCY):
            valid_next, row_next = Signal(), Signal.like(group)
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
