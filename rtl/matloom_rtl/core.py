"""Core of the engine: connects control, DMA, scratchpad, array and post-processing."""

from amaranth.hdl import Cat, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.config import Config
from matloom_rtl.array.accumulators import Accumulators
from matloom_rtl.array.execute import Execute
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.bus.axi_lite import AxiLiteSignature
from matloom_rtl.control.control import Control
from matloom_rtl.dma.fetch import Fetch
from matloom_rtl.dma.load import Load
from matloom_rtl.dma.read_port import SharedReadPort
from matloom_rtl.dma.store import Store
from matloom_rtl.memory.scratchpad import ReadPort, Scratchpad
from matloom_rtl.post.post import Post
from matloom_rtl.reset import near_reset

__all__ = ["Core"]


class Core(wiring.Component):
    """Core of the engine: everything between the registers and the memory bus.

    A software reset, performed once the bus is quiet, resets everything except control.

    A reset driven from a single place would be the slowest path of the chip. Instead of a reset of
    the clock domain, each unit except control has a reset register of its own, which follows
    `reset` by one cycle.

    Members
    -------
    reset: in
        Synchronous reset of everything, for at least two cycles. VALID outputs are low meanwhile.
    axi_lite: AxiLiteSignature, in
        Registers.
    axi_read, axi_write: AxiReadSignature, AxiWriteSignature, out
        External memory.
    irq: out
        Interrupt, level-sensitive.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "reset": In(1),
                "axi_lite": In(AxiLiteSignature()),
                "axi_read": Out(AxiReadSignature(config.bus_bits)),
                "axi_write": Out(AxiWriteSignature(config.bus_bits)),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: control, units and memories, each with a reset register of its own."""
        m = Module()
        config = self._config
        control = Control(config)
        m.submodules.control = ResetInserter(self.reset)(control)
        connect(m, flipped(self.axi_lite), control.axi_lite)
        m.d.comb += self.irq.eq(control.irq)

        def unit(name, component):
            """Add a component as submodule `name`, with a reset register of its own; return it."""
            reset = near_reset(m, self.reset | control.core_reset_next, name)
            m.submodules[name] = ResetInserter(reset)(component)
            return component

        fetch, load = unit("fetch", Fetch(config)), unit("load", Load(config))
        store, read_port = unit("store", Store(config)), unit("read_port", SharedReadPort(config))
        execute, post = unit("execute", Execute(config)), unit("post", Post(config))
        accumulators = unit("accumulators", Accumulators(config))
        spad = unit("scratchpad", self._scratchpad())

        self._connect_memories(m, spad, accumulators, execute, post, load, store)
        self._connect_bus(m, control, fetch, load, store, read_port)
        connect(m, control.load, load.unit)
        connect(m, control.exec, execute.unit)
        connect(m, control.post, post.unit)
        connect(m, control.store, store.unit)
        m.d.comb += [execute.met.eq(control.exec_met), control.exec_cause.eq(execute.cause)]
        if config.parity:
            wrong = {port: spad.wrong[port.value] for port in ReadPort}
            by_exec = wrong[ReadPort.INPUT] | wrong[ReadPort.WEIGHTS]
            m.d.comb += [
                control.spad_wrong.eq(Cat(by_exec, wrong[ReadPort.POST], wrong[ReadPort.STORE])),
                control.acc_wrong.eq(accumulators.wrong),
            ]
        m.d.comb += [post.fetch.eq(control.post_fetch), execute.constants.eq(load.constants)]
        # The units follow a reset later, but AXI requires VALID to be low at once.
        offered = (
            *(self.axi_lite.b, self.axi_lite.r),
            *(self.axi_read.ar, self.axi_write.aw, self.axi_write.w),
        )
        with m.If(self.reset):
            m.d.comb += [channel.valid.eq(0) for channel in offered]
        return m

    def _scratchpad(self) -> Scratchpad:
        """Return the scratchpad, with ports in order of priority: the array first, the bus last.

        STORE shares an alignment unit with POST if POST leaves it at least half of the cycles, that
        is, reads a vector of bytes at most every other cycle.
        """
        config = self._config
        widths = {
            ReadPort.INPUT: config.rows,
            ReadPort.WEIGHTS: config.weight_bytes,
            ReadPort.POST: config.columns,
            ReadPort.STORE: config.bus_bytes,
        }
        boundaries = {ReadPort.WEIGHTS: config.weight_boundary}
        shared = {ReadPort.STORE: ReadPort.POST} if config.shares_gather else {}
        return Scratchpad(
            config,
            read_widths=[widths[port] for port in ReadPort],
            read_boundaries=[boundaries.get(port, 1) for port in ReadPort],
            read_groups=[shared.get(port, port) for port in ReadPort],
            write_widths=[config.columns, config.bus_bytes],
        )

    def _connect_memories(self, m: Module, spad, accumulators, execute, post, load, store):
        """Connect the units to the ports of the scratchpad and of the accumulators."""
        connect(m, execute.input_read, spad.read_port(ReadPort.INPUT))
        connect(m, execute.weight_read, spad.read_port(ReadPort.WEIGHTS))
        connect(m, post.spad_read, spad.read_port(ReadPort.POST))
        connect(m, store.spad_read, spad.read_port(ReadPort.STORE))
        connect(m, post.spad_write, spad.write_0)
        connect(m, load.spad_write, spad.write_1)
        connect(m, post.acc_read, accumulators.read)
        connect(m, post.acc_update, accumulators.update)
        m.d.comb += [
            accumulators.sum_valid.eq(execute.sum_valid),
            accumulators.sum_entry.eq(execute.sum_entry),
            accumulators.sum_add.eq(execute.sum_add),
            accumulators.sum_maximum.eq(execute.sum_maximum),
            accumulators.sums.eq(execute.sums),
        ]
        if self._config.has_float:
            m.d.comb += accumulators.sum_floating.eq(execute.sum_floating)
        if self._config.has_narrow:
            m.d.comb += [
                accumulators.sum_narrow.eq(execute.sum_narrow),
                accumulators.seconds.eq(execute.seconds),
            ]

    def _connect_bus(self, m: Module, control, fetch, load, store, read_port):
        """Connect the units to the memory bus, and their requests, faults and halts to control."""
        connect(m, fetch.axi, read_port.fetch)
        connect(m, load.axi, read_port.load)
        connect(m, read_port.axi, flipped(self.axi_read))
        connect(m, store.axi, flipped(self.axi_write))
        connect(m, fetch.o, control.instruction_words)
        for name, unit in (("fetch", fetch), ("load", load), ("store", store)):
            # As with resets: one register close to each unit.
            halt = Signal(name=f"{name}_halt", attrs={"keep": 1})
            m.d.sync += halt.eq(control.halt)
            m.d.comb += unit.halt.eq(halt)
        m.d.comb += [
            control.quiet.eq(Cat(fetch.quiet, load.quiet, store.quiet).all()),
            control.exhausted.eq(fetch.exhausted),
            control.read_burst.eq(read_port.burst),
            control.read_beat.eq(read_port.beat),
            control.write_burst.eq(store.burst),
            control.write_beat.eq(store.beat),
            fetch.start.eq(control.fetch_start),
            fetch.address.eq(control.fetch_address),
            fetch.bytes.eq(control.fetch_bytes),
            control.base_regions.eq(Cat(load.region, store.region)),
            Cat(load.region_base, store.region_base).eq(control.bases),
        ]
        connect(m, fetch.fault, control.fetch_fault)
        connect(m, load.fault, control.load_fault)
        m.d.comb += control.load_fault_ahead.eq(load.fault_ahead)
        connect(m, store.fault, control.store_fault)
