"""Control unit: connects registers, dispatch, queues, scoreboard, counters and the run state."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.config import Config
from matloom.arch.csr import EXEC_CAUSES, UNIT_INDEX_BITS
from matloom.arch.isa import INSTRUCTION_WORD_BYTES, UNITS, Opcode, Region
from matloom_rtl.bus.axi_lite import AxiLiteSignature
from matloom_rtl.control.counters import Counters
from matloom_rtl.control.csr import ASKERS, Registers
from matloom_rtl.control.dispatch import Dispatch
from matloom_rtl.control.faults import offer_fault, parity_faults
from matloom_rtl.control.layouts import GRANULE_BITS, count_bits
from matloom_rtl.control.limit import Limit, late_fault
from matloom_rtl.control.queues import Queues
from matloom_rtl.control.supervisor import Supervisor
from matloom_rtl.control.timestamps import Timestamps
from matloom_rtl.ports import LOADS_AHEAD, CommandSignature, FaultSignature

__all__ = ["Control"]


class Control(wiring.Component):
    """Control unit of the core; not affected by the reset that it applies to the other units.

    Members
    -------
    axi_lite: AxiLiteSignature, in
    irq: out
    fetch_start, fetch_address, fetch_bytes: out
        Begin to fetch a command buffer: bus address and size, truncated to whole instruction words
        of the region.
    instruction_words: stream, in
        Command words in order.
    exhausted: in
        All instruction words have been delivered.
    load, exec, post, store: CommandSignature, out
        Commands for the units; `exec.command` is not gated by its waits.
    post_fetch: out
        There is an instruction at the head of the POST queue, and its wait on LOAD is met.
    exec_met, exec_cause: out, in
        As `Execute.met` and `Execute.cause`.
    fetch_fault, load_fault, store_fault: FaultSignature, in
    load_fault_ahead: in
        As `Load.fault_ahead`.
    read_burst, read_beat, write_burst, write_beat: in
        Bursts requested and beats transferred on the bus, for the counters.
    base_regions, bases: in, out
        One region each for LOAD and STORE, and their bus addresses. The address is valid at most
        two cycles later, before the instruction that names the region begins.
    spad_wrong: in
        Parity errors in the scratchpad, found by EXEC, POST and STORE. Only with `Config.parity`.
    acc_wrong: in
        Parity errors in the accumulators, found by EXEC and POST. Only with `Config.parity`.
    quiet: in
        No bus transfer is outstanding.
    halt: out
        DMA units stop issuing requests.
    core_reset: out
        Every unit is reset in this cycle.
    core_reset_next: out
        Every unit is reset in the next cycle.
    """

    def __init__(self, config: Config):
        self._config = config
        events = ("read_burst", "read_beat", "write_burst", "write_beat")
        super().__init__(
            {
                "axi_lite": In(AxiLiteSignature()),
                "irq": Out(1),
                "fetch_start": Out(1),
                "fetch_address": Out(32),
                "fetch_bytes": Out(32),
                "instruction_words": In(stream.Signature(GRANULE_BITS)),
                "exhausted": In(1),
                **{unit.name.lower(): Out(CommandSignature(unit, config)) for unit in UNITS},
                "exec_met": Out(len(UNITS)),
                "post_fetch": Out(1),
                "exec_cause": In(len(EXEC_CAUSES)),
                **{f"{name}_fault": In(FaultSignature()) for name in ("fetch", "load", "store")},
                "load_fault_ahead": In(range(LOADS_AHEAD + 1)),
                **{name: In(1) for name in events},
                "base_regions": In(data.ArrayLayout(range(len(Region)), ASKERS)),
                "bases": Out(data.ArrayLayout(32, ASKERS)),
                **({"spad_wrong": In(3), "acc_wrong": In(2)} if config.parity else {}),
                "quiet": In(1),
                "halt": Out(1),
                "core_reset": Out(1),
                "core_reset_next": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: registers, supervisor, counters, dispatcher, queues and timestamps."""
        m = Module()
        m.submodules.registers = registers = Registers(self._config)
        m.submodules.supervisor = supervisor = Supervisor()
        m.submodules.counters = counters = Counters(self._config)
        connect(m, flipped(self.axi_lite), registers.bus)
        # Reset together with the units: any later, and they would still see old instructions.
        forget, forget_dispatch = (
            # Separate registers, kept from being merged although they are equal.
            Signal(name=name, init=1, attrs={"keep": 1})
            for name in ("forget", "forget_dispatch")
        )
        m.d.sync += Cat(forget, forget_dispatch).eq(
            (supervisor.core_reset_next | supervisor.begin).replicate(2)
        )
        fresh = ResetInserter(forget)
        dispatch = Dispatch(self._config)
        m.submodules.dispatch = ResetInserter(forget_dispatch)(dispatch)

        completed = self._queues(m, fresh, dispatch, supervisor)
        self._registers(m, registers, supervisor, counters)
        self._fetch(m, registers, supervisor, dispatch)
        self._supervise(m, registers, supervisor, dispatch, completed)
        self._count(m, supervisor, counters, dispatch)
        if self._config.timestamps:
            self._mark(m, registers, counters)
        return m

    def _units(self):
        """Return the command port of each unit, by opcode."""
        return {unit: getattr(self, unit.name.lower()) for unit in UNITS}

    def _queues(self, m: Module, fresh, dispatch, supervisor):
        """Connect the queues to the dispatcher and the units; return the completions of each unit.

        Completions are counted modulo ``2**UNIT_INDEX_BITS``, as in a fault record.
        """
        board, bits = Module(), count_bits(self._config)
        completed = Signal(data.ArrayLayout(UNIT_INDEX_BITS, len(UNITS)))
        counts = Signal(data.ArrayLayout(bits, len(UNITS)))
        m.d.comb += [counts[n].eq(completed[n]) for n in range(len(UNITS))]
        for number, unit in enumerate(self._units().values()):
            with board.If(unit.done):
                board.d.sync += completed[number].eq(completed[number] + 1)
        m.submodules.scoreboard = fresh(board)
        queues = Queues(self._config)
        m.submodules.queues = fresh(queues)
        for opcode, unit in self._units().items():
            name = opcode.name.lower()
            connect(m, getattr(dispatch, name), getattr(queues, name))
            connect(m, getattr(queues, f"o_{name}"), flipped(unit.command))
        # Words that the dispatcher accepts are stored.
        words = self.instruction_words
        load, execute, post = (
            UNITS.index(unit) for unit in (Opcode.LOAD, Opcode.EXEC, Opcode.POST)
        )
        m.d.comb += [
            words.ready.eq(dispatch.i.ready & queues.i.ready),
            *(each.payload.eq(words.payload) for each in (dispatch.i, queues.i)),
            dispatch.i.valid.eq(words.valid & queues.i.ready),
            queues.i.valid.eq(words.valid & dispatch.i.ready),
            queues.issue.eq(dispatch.issue),
            queues.completed.eq(counts),
            dispatch.completed.eq(counts),
            dispatch.halt.eq(supervisor.halt),
            self.exec_met.eq(queues.met[execute]),
            self.post_fetch.eq(queues.met[post][load]),
        ]
        return completed

    def _registers(self, m: Module, registers, supervisor, counters):
        """Connect the registers to counters, status, fault record, interrupts and region bases."""
        m.d.comb += [
            registers.cycles.eq(counters.cycles),
            counters.slot.eq(registers.counter),
            registers.counter_value.eq(counters.value),
            registers.counter_shown.eq(counters.shown),
            registers.running.eq(supervisor.running),
            registers.status.eq(supervisor.status),
            registers.fault.eq(supervisor.record),
            registers.fault_index.eq(supervisor.record_index),
            registers.fault_address.eq(supervisor.record_address),
            registers.irq_status_set.eq(supervisor.events),
            self.irq.eq((registers.irq_status & registers.irq_enable).any()),
            registers.base_regions.eq(self.base_regions),
            self.bases.eq(registers.bases),
        ]

    def _fetch(self, m: Module, registers, supervisor, dispatch):
        """Start fetching once all state of the last run is cleared."""
        m.d.sync += self.fetch_start.eq(supervisor.begin)
        starting = Signal()
        word_bits = INSTRUCTION_WORD_BYTES.bit_length() - 1
        # Fetches stay within the region, of which `room` bytes are left, and an offset or a size
        # that is not a multiple of an instruction word fetches nothing. All are counted in
        # instruction words; a partial word at the end of the region is left out.
        at, asked, end = (
            each[word_bits:]
            for each in (
                registers.command_offset,
                registers.command_bytes,
                registers.program_bytes,
            )
        )
        room = Signal(signed(len(end) + 1))
        inside = Signal()
        words = Signal(len(end))
        m.d.comb += self.fetch_bytes.eq(Cat(Const(0, word_bits), words))
        m.d.sync += [
            room.eq(end - at),
            inside.eq(~(registers.command_offset | registers.command_bytes)[:word_bits].any()),
            self.fetch_address.eq(registers.program_base + registers.command_offset),
            words.eq(Mux(inside & (room >= 0), Mux(asked < room, asked, room), 0)),
        ]
        # One cycle late, for a shorter path; leftovers of the last run are masked.
        m.d.sync += dispatch.exhausted.eq(self.exhausted & ~starting)
        m.d.comb += [
            starting.eq(self.fetch_start | supervisor.begin),
            registers.region.eq(dispatch.region),
            dispatch.region_bytes.eq(registers.region_bytes),
        ]

    def _supervise(self, m: Module, registers, supervisor, dispatch, completed):
        """Connect the supervisor: progress for the watchdog, start, halt, resets and faults."""
        units = self._units()
        # Two cycles late for some sources, which the watchdog tolerates.
        progress = Signal(2 + len(units))
        m.d.sync += [
            progress.eq(
                Cat(
                    dispatch.dispatched,
                    self.instruction_words.valid & self.instruction_words.ready,
                    *(unit.progress | unit.done for unit in units.values()),
                )
            ),
            supervisor.progress.eq(progress.any()),
        ]
        # CONTROL is valid for one cycle: bit 0 starts, bit 1 resets.
        m.d.comb += [
            supervisor.start.eq(registers.control[0]),
            supervisor.reset.eq(registers.control[1]),
            supervisor.timeout.eq(registers.timeout),
            supervisor.quiet.eq(self.quiet),
            self.halt.eq(supervisor.halt),
            self.core_reset.eq(supervisor.core_reset),
            self.core_reset_next.eq(supervisor.core_reset_next),
        ]
        m.d.comb += supervisor.finished.eq(dispatch.finished)
        for number, unit in reversed(list(enumerate(units.values()))):
            with m.If(unit.busy):
                m.d.comb += supervisor.busy_unit.eq(number + 1)
        late = []
        if self._config.time_limit:
            m.submodules.limit = limit = Limit()
            m.d.comb += limit.completed.eq(completed)
            late.append(late_fault(m, limit, registers, supervisor, units, self.exec_met.all()))
        if self._config.parity:
            late += parity_faults(completed, (self.spad_wrong, self.acc_wrong))
        ports = (self.fetch_fault, self.load_fault, self.store_fault, self.load_fault_ahead)
        offer_fault(m, supervisor, dispatch, completed, ports, late)

    def _count(self, m: Module, supervisor, counters, dispatch):
        """Connect the inputs of the performance counters."""
        m.d.comb += [
            counters.start.eq(self.fetch_start),
            counters.running.eq(supervisor.running),
            counters.exec_cause.eq(self.exec_cause),
            counters.dispatched.eq(dispatch.dispatched),
            counters.load_busy.eq(self.load.busy),
            counters.post_busy.eq(self.post.busy),
            counters.store_busy.eq(self.store.busy),
            counters.read_burst.eq(self.read_burst),
            counters.read_beat.eq(self.read_beat),
            counters.write_burst.eq(self.write_burst),
            counters.write_beat.eq(self.write_beat),
        ]

    def _mark(self, m: Module, registers, counters):
        """Add the completion-time table (timestamps), and connect it to registers and units."""
        units = self._units()
        m.submodules.timestamps = timestamps = Timestamps(self._config)
        m.d.comb += [
            timestamps.start.eq(self.fetch_start),
            timestamps.reading.eq(registers.mark_reading),
            timestamps.slot.eq(registers.mark_slot),
            registers.mark_cycle.eq(timestamps.stored),
        ]
        # Completions and their cycle, both one cycle late.
        m.d.sync += [
            timestamps.cycle.eq(counters.cycles),
            timestamps.done.eq(Cat(unit.done for unit in units.values())),
            timestamps.done_mark.eq(Cat(unit.done_mark for unit in units.values())),
        ]
