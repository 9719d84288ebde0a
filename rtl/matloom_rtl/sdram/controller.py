"""SDRAM controller: AXI4 on one side, the pins of an SDRAM on the other."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.sdram import SdramPart
from matloom.arch.sdram_timing import SdramTiming
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.sdram.banks import Banks
from matloom_rtl.sdram.columns import Columns
from matloom_rtl.sdram.datapath import DataPath
from matloom_rtl.sdram.opener import Opener
from matloom_rtl.sdram.pins import ControllerPlan, SdramPinsSignature
from matloom_rtl.sdram.port import Port
from matloom_rtl.sdram.sequence import Sequence

__all__ = ["SdramController"]

#: Commands as cs, ras, cas, we, active high.
_NOP, _ACTIVATE, _READ, _WRITE = 0b0000, 0b0011, 0b0101, 0b1101
_PRECHARGE, _REFRESH, _MODE = 0b1011, 0b0111, 0b1111

#: Address bit that makes PRECHARGE apply to all banks.
_ALL = 10


class SdramController(wiring.Component):
    """SDRAM controller with an AXI4 port: initialises and refreshes the SDRAM, keeps rows open.

    Accepts bursts of any length with aligned addresses, as defined in `bus.axi`. A bus address
    consists of row, bank, column and byte, from the highest bit down; bits above the SDRAM's size
    are ignored. All responses are OKAY. Reads return in address order, as do write responses. A
    read sees every write whose response came before its address; its order with other writes is
    undefined.

    Latency: in an open row, the first beat of a read follows its address by 10 + CAS latency +
    columns per beat + `pin_cycles` cycles. Throughput: `part.data_bits` per cycle, less about 20
    cycles for each refresh; `docs/sdram.md` gives the cost of changes of direction and row.
    Stalls: bursts wait until `ready`. Reset aborts bursts in flight and repeats the initialisation;
    the contents are then undefined, because refresh was interrupted.

    Parameters
    ----------
    part:
        The SDRAM.
    clock_hz:
        Clock of the domain `sync` and of the SDRAM. Determines the waits in cycles, and the minimum
        CAS latency.
    bus_bits:
        Width of the bus: 32, 64 or 128, and at least that of the SDRAM.
    burst_beats:
        Maximum number of beats in a chunk, preferably the engine's `burst_beats`.
    pin_cycles:
        Cycles of the registers that the board adds at the pins, outward plus inward, plus the whole
        cycles by which the SDRAM's clock is late: 0 without such registers, if the SDRAM takes a
        command at the next edge.
    timing:
        Timing in SDRAM cycles, instead of that of `part` at `clock_hz`.
    gear:
        SDRAM cycles per cycle of `sync`. With 2, `dq` and `dqm` have two words, the SDRAM's clock
        is twice `clock_hz`, its CAS latency is 3, and commands are issued in the first of both
        cycles. The logic at the pins serialises the words (`matloom_rtl.board.pin_registers`).

    Members
    -------
    axi_read, axi_write: AxiReadSignature(bus_bits), AxiWriteSignature(bus_bits), in
        The bus, from the initiator's view.
    pins: SdramPinsSignature(part, gear), out
        To the SDRAM; all outputs and inputs are registered.
    ready: out
        Initialisation is complete.
    """

    def __init__(
        self,
        part: SdramPart,
        *,
        clock_hz: int,
        bus_bits: int,
        burst_beats: int = 32,
        pin_cycles: int = 0,
        timing: SdramTiming | None = None,
        gear: int = 1,
    ):
        self.plan = ControllerPlan(
            part=part,
            timing=timing or part.timing_of_gear(clock_hz, gear),
            bus_bits=bus_bits,
            chunk_beats=burst_beats,
            pin_cycles=pin_cycles,
            gear=gear,
        )
        super().__init__(
            {
                "axi_read": In(AxiReadSignature(bus_bits)),
                "axi_write": In(AxiWriteSignature(bus_bits)),
                "pins": Out(SdramPinsSignature(part, gear)),
                "ready": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: bus port, row opener, column issuer, refresh, banks and data path."""
        m = Module()
        plan = self.plan
        m.submodules.port = port = Port(plan)
        m.submodules.opener = opener = Opener(plan)
        m.submodules.columns = columns = Columns(plan)
        m.submodules.banks = banks = Banks(plan)
        m.submodules.sequence = sequence = Sequence(plan)
        m.submodules.datapath = datapath = DataPath(plan)
        connect(m, flipped(self.axi_read), port.axi_read)
        connect(m, flipped(self.axi_write), port.axi_write)
        connect(m, port.chunks, opener.i)
        connect(m, opener.o, columns.i)
        self._rows(m, opener, columns, banks, sequence)
        self._data(m, port, columns, datapath, sequence)
        self._command(m, opener, columns, banks, sequence)
        return m

    def _rows(self, m: Module, opener, columns, banks, sequence):
        """Choose between a row and a column command in each cycle, and connect the banks."""
        wants_row = opener.want_activate | opener.want_precharge
        if self.plan.burst == 1:
            # Column commands may come in every cycle, so row commands must interrupt them.
            m.d.comb += [opener.grant.eq(wants_row), columns.hold.eq(wants_row)]
        else:
            m.d.comb += opener.grant.eq(wants_row & ~columns.want)
        m.d.comb += [
            opener.run.eq(sequence.run),
            opener.open.eq(banks.open),
            opener.same.eq(banks.same),
            opener.settled.eq(banks.row_settled),
            opener.free.eq(banks.row_free),
            opener.busy.eq(columns.active & (columns.bank == opener.bank)),
            columns.settled.eq(banks.column_settled),
            sequence.idle.eq(~columns.active),
            sequence.free.eq(banks.all_free),
            banks.activate.eq(opener.want_activate & opener.grant),
            banks.precharge.eq(opener.want_precharge & opener.grant),
            banks.precharge_all.eq(sequence.precharge_all),
            banks.read.eq(columns.read),
            banks.write.eq(columns.write),
            banks.row_bank.eq(opener.bank),
            banks.row.eq(opener.row),
            banks.column_bank.eq(columns.bank),
            self.ready.eq(sequence.ready),
        ]

    def _data(self, m: Module, port, columns, datapath, sequence):
        """Connect the data path to the port, the READ and WRITE commands, and the data pins."""
        m.d.comb += [
            port.take.eq(columns.write),
            port.written.eq(columns.write & columns.final),
            port.written_id.eq(columns.id),
            datapath.write.eq(columns.write),
            datapath.write_data.eq(port.write_data),
            datapath.read.eq(columns.read),
            datapath.final.eq(columns.final),
            datapath.id.eq(columns.id),
            datapath.ready.eq(sequence.ready),
            port.give.eq(datapath.give),
            port.read_data.eq(datapath.read_data),
            datapath.dq_i.eq(self.pins.dq.i),
            self.pins.dq.o.eq(datapath.dq_o),
            self.pins.dq.oe.eq(datapath.oe),
            self.pins.dqm.eq(datapath.dqm),
        ]

    def _command(self, m: Module, opener, columns, banks, sequence):
        """Drive the registers of the command pins."""
        plan, pins = self.plan, self.pins
        command = Signal(4)
        bank = Signal(plan.bank_bits)
        address = Signal(len(pins.a))
        shift = (plan.columns - 1).bit_length()
        column = Cat(Const(0, shift), columns.beat) if shift else columns.beat
        mode = plan.timing.cas_latency << 4 | shift
        m.d.comb += [pins.clk_en.eq(1), Cat(pins.cs, pins.ras, pins.cas, pins.we).eq(command)]
        m.d.comb += [pins.ba.eq(bank), pins.a.eq(address)]
        m.d.sync += [command.eq(_NOP), bank.eq(opener.bank), address.eq(opener.row)]
        with m.If(columns.read | columns.write):
            m.d.sync += [bank.eq(columns.bank), address.eq(column)]
        with m.If(banks.precharge):
            m.d.sync += address.eq(0)
        with m.If(sequence.precharge_all):
            m.d.sync += address.eq(1 << _ALL)
        with m.If(sequence.mode):
            m.d.sync += [address.eq(mode), bank.eq(0)]
        given = (
            (columns.read, _READ),
            (columns.write, _WRITE),
            (banks.activate, _ACTIVATE),
            (banks.precharge | sequence.precharge_all, _PRECHARGE),
            (sequence.refresh, _REFRESH),
            (sequence.mode, _MODE),
        )
        for event, code in given:
            with m.If(event):
                m.d.sync += command.eq(code)
