"""Dispatcher: takes command words, checks each instruction, and hands it to its unit's queue."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom.arch.isa import FORMATS, UNITS, Opcode, Region
from matloom_rtl.control.bounds import Bounds
from matloom_rtl.control.layouts import (
    GRANULE_BITS,
    LONGEST,
    LONGEST_WAIT,
    count_bits,
    notes_layout,
    slice_field,
)
from matloom_rtl.control.legality import Legality

__all__ = ["Dispatch"]


class Dispatch(wiring.Component):
    """Assemble, check and issue instructions in program order.

    An instruction enters the queue of its unit as soon as there is room, so that the queue can
    read it while it is being checked. It is issued once all checks have passed.

    Checks, of which the first that fails determines the fault: opcode, fields, read-only region,
    dependencies on instructions that were never issued, extents in the order of the instruction
    set's table. A faulty instruction is never issued; `fault` is shown for one cycle, and nothing
    more is taken until a reset.

    A wait of k on a unit is converted to the number that the unit's completions must exceed:
    issued - k, modulo ``2**count_bits(config)``.

    Throughput: one instruction per 16 to 43 cycles (usually 23 to 35): the cycles of `Bounds`, one
    for each word, and one more. This is less than LOAD, EXEC and POST take for tiles of useful
    size. Latency: one cycle more. A full queue stalls everything behind it.

    Members
    -------
    i: stream of instruction words, in
    exhausted: in
        Every instruction word of the command buffer has been delivered.
    region, region_bytes: out, in
        A region, and its size in the same cycle.
    completed: in
        Number of completions of each unit, `count_bits` each.
    halt: in
        Issue nothing from the next cycle on.
    load, exec, post, store: streams of `notes_layout`, out
        Waits of the instruction whose last word was taken most recently.
    issue: out
        One bit for each unit: the instruction it received last has passed all checks.
    issued: out
        Number of instructions issued to each unit, `count_bits` each.
    index: out
        Index of the current instruction in the command buffer.
    dispatched: out
        An instruction was issued, or END was accepted, in this cycle.
    finished: out
        END was reached and every unit has completed all instructions; high for one cycle.
    fault, fault_opcode, fault_address: out
        A `csr.Fault` for one cycle, otherwise 0; opcode and address stay valid.
    """

    def __init__(self, config: Config):
        self._config = config
        queues = {
            opcode.name.lower(): Out(stream.Signature(notes_layout(config))) for opcode in UNITS
        }
        counts = data.ArrayLayout(count_bits(config), len(UNITS))
        super().__init__(
            {
                "i": In(stream.Signature(GRANULE_BITS)),
                "exhausted": In(1),
                "region": Out(range(len(Region))),
                "region_bytes": In(32),
                "completed": In(counts),
                "halt": In(1),
                **queues,
                "issue": Out(len(UNITS)),
                "issued": Out(counts),
                "index": Out(32),
                "dispatched": Out(1),
                "finished": Out(1),
                "fault": Out(4),
                "fault_opcode": Out(4),
                "fault_address": Out(32),
            }
        )

    def elaborate(self, platform):
        """Return the module: a state machine around the checks of fields and extents."""
        m = Module()
        word = Signal(LONGEST * GRANULE_BITS, reset_less=True)
        issue = Signal()
        opcode = word[:4]
        m.submodules.legality = legality = Legality(self._config)
        m.submodules.bounds = bounds = Bounds(self._config)
        m.d.comb += [
            legality.word.eq(word),
            legality.opcode.eq(opcode),
            bounds.word.eq(word),
            bounds.opcode.eq(opcode),
            self.region.eq(bounds.region),
            bounds.region_bytes.eq(self.region_bytes),
        ]
        # Next word to be filled: incoming data is written to it in every cycle until a valid word
        # comes.
        place = Signal(LONGEST, init=1)
        awaiting = Signal(init=1)
        m.d.comb += self.i.ready.eq(awaiting)
        for index in range(LONGEST):
            with m.If(place[index]):
                m.d.sync += word.word_select(index, GRANULE_BITS).eq(self.i.payload)
        m.d.sync += self.fault.eq(0)
        # All words of the instruction are present: from when it is examined until it is issued.
        whole = Signal()
        given, issued, targets = self._queues(m, word, whole, issue)
        with m.If(issued):
            m.d.comb += self.dispatched.eq(1)
            m.d.sync += self.index.eq(self.index + 1)
        unissued = self._waits_before_start(m, targets)
        # One cycle late, which is early enough: the last issue is long past when END is judged.
        settled = Signal()
        m.d.sync += settled.eq(
            Cat(self.issued[n] == self.completed[n] for n in range(len(UNITS))).all()
        )

        def offer():
            """Issue the instruction once it is in its queue and nothing halts the unit."""
            m.next = "Issue"
            with m.If(given & ~self.halt):
                m.d.comb += issue.eq(1)
                m.d.sync += [place.eq(1), awaiting.eq(1)]
                m.next = "Assemble"

        # Valid for other faults too: the extents of such an instruction are never checked to the
        # end.
        m.d.comb += self.fault_address.eq(bounds.address)

        def fail(cause, opcode=opcode):
            """Record a fault with the instruction's opcode, and halt."""
            m.d.sync += [self.fault.eq(cause), self.fault_opcode.eq(opcode)]
            m.next = "Halted"

        with m.FSM():
            with m.State("Assemble"):
                self._assemble(m, word, place, awaiting, whole)
            with m.State("Unknown"):
                fail(Fault.ILLEGAL_OPCODE)
            with m.State("Cut-Short"):
                fail(Fault.COMMAND_RANGE, opcode=0)
            with m.State("Cut-Within"):
                fail(Fault.COMMAND_RANGE)
            # The verdict on fields takes two cycles, with registers between them. The extents of an
            # illegal instruction are meaningless and their verdict is ignored.
            with m.State("Look"):
                m.d.comb += bounds.start.eq(opcode != Opcode.END)
                m.next = "Look-Again"
            with m.State("Look-Again"):
                m.next = "Judge"
            with m.State("Judge"):
                with m.If(legality.illegal_field):
                    fail(Fault.ILLEGAL_FIELD)
                with m.Elif(legality.read_only):
                    fail(Fault.READ_ONLY_REGION)
                with m.Elif(unissued):
                    fail(Fault.DEPENDENCY)
                with m.Elif(opcode == Opcode.END):
                    m.d.comb += self.dispatched.eq(1)
                    m.next = "Settle"
                with m.Else():
                    m.next = "Measure"
            with m.State("Measure"), m.If(bounds.done):
                offer()
                with m.If(bounds.fault != 0):
                    m.d.comb += issue.eq(0)
                    m.d.sync += [place.eq(0), awaiting.eq(0)]
                    fail(bounds.fault)
            with m.State("Issue"):
                offer()
            with m.State("Settle"), m.If(settled):
                m.d.comb += self.finished.eq(1)
                m.next = "Halted"
            with m.State("Halted"):
                pass
        return m

    def _assemble(self, m: Module, word, place, awaiting, whole):
        """Collect an instruction's words until it is `whole`; faults are shown one cycle later."""
        opcode = Mux(place[0], self.i.payload[:4], word[:4])
        known = Signal()
        last = Signal()
        with m.Switch(opcode):
            for layout in FORMATS.values():
                with m.Case(layout.opcode):
                    m.d.comb += [known.eq(1), last.eq(place[layout.instruction_words - 1])]
        with m.If(self.i.valid):
            m.d.sync += place.eq(place << 1)
            with m.If(~known):
                m.d.sync += awaiting.eq(0)
                m.next = "Unknown"
            with m.Elif(last):
                m.d.sync += [place.eq(0), awaiting.eq(0), whole.eq(1)]
                m.next = "Look"
        with m.Elif(self.exhausted):
            m.d.sync += awaiting.eq(0)
            m.next = "Cut-Within"
            with m.If(place[0]):
                m.next = "Cut-Short"

    def _waits_before_start(self, m: Module, targets):
        """Return, one cycle late, whether an instruction waits for one that was never issued.

        `targets` has, for each unit, the number that its completions must exceed: negative in that
        case.
        """
        unissued = Signal()
        early = []
        for number, unit in enumerate(UNITS):
            # Saturates at the longest wait; the counts themselves wrap.
            enough = Signal(name=f"enough_{unit.name.lower()}")
            longest = LONGEST_WAIT.bit_length()
            m.d.sync += enough.eq(enough | self.issued[number][longest:].any())
            early.append(~enough & targets[number][-1])
        m.d.sync += unissued.eq(Cat(early).any())
        return unissued

    def _wait(self, word, unit: Opcode):
        """Return the field of an instruction's first word that says what it waits for in `unit`."""
        # The head of the instruction has the same layout for all opcodes.
        return slice_field(word, Opcode.END, f"wait_{unit.name.lower()}")

    def _queues(self, m: Module, word, whole, issue):
        """Give a whole instruction to its queue, and issue it in the cycle after `issue`.

        Return whether the queue has it, whether an instruction is issued in this cycle, and for
        each unit the completions that its wait requires the unit to exceed.
        """
        mine = Signal(len(UNITS))
        given = Signal()
        queues = [getattr(self, unit.name.lower()) for unit in UNITS]
        # Decoded and subtracted from the first word, a cycle before the instruction is complete:
        # time allows it, and the path requires it.
        waits = Signal(len(UNITS))
        targets = Signal.like(self.issued, reset_less=True)
        m.d.sync += [
            mine.eq(Cat(word[:4] == unit for unit in UNITS)),
            self.issue.eq(Mux(issue, mine, 0)),
            waits.eq(Cat(self._wait(word, unit) != 0 for unit in UNITS)),
            *(
                targets[other].eq(self.issued[other] - self._wait(word, waited))
                for other, waited in enumerate(UNITS)
            ),
        ]
        with m.If(Cat(queue.valid & queue.ready for queue in queues).any()):
            m.d.sync += given.eq(1)
        with m.If(issue):
            m.d.sync += [given.eq(0), whole.eq(0)]
        for number, queue in enumerate(queues):
            m.d.comb += [
                queue.valid.eq(whole & ~given & mine[number]),
                queue.payload.waits.eq(waits),
                queue.payload.targets.eq(targets),
            ]
            with m.If(self.issue[number]):
                m.d.sync += self.issued[number].eq(self.issued[number] + 1)
        return given, self.issue.any(), targets
