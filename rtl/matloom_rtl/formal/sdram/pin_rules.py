"""Rules of an SDRAM's pins, as assertions about an arbitrary bank."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal

from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.sdram.controller import SdramController

__all__ = ["Commands", "Elapsed", "Rules"]

#: Address bit that makes PRECHARGE apply to all banks.
_ALL_BANKS_BIT = 10


class Elapsed:
    """Count of cycles since an event, which starts at its maximum `most` and saturates there.

    Members
    -------
    before, now:
        Cycles since the last event before this cycle; the same, but 0 if there is an event in this
        cycle.
    """

    def __init__(self, m: Module, name: str, event, most: int):
        self.before = Signal(range(most + 1), name=f"since_{name}", init=most)
        self.now = Mux(event, 0, self.before)
        m.d.sync += self.before.eq(Mux(self.now == most, most, self.now + 1))
        m.d.comb += Assert(self.before <= most)


class Commands:
    """The command at the pins, decoded by the truth table of a data sheet.

    Claims that a selected SDRAM gets one of these commands, and that its clock is enabled.
    """

    def __init__(self, m: Module, pins):
        given = []

        def decode(name: str, code: int) -> Signal:
            """Return whether CS, RAS, CAS and WE have the code of a command; list it in `given`."""
            given.append(Signal(name=f"pins_{name}"))
            m.d.comb += given[-1].eq(Cat(pins.cs, pins.ras, pins.cas, pins.we) == code)
            return given[-1]

        self.activate = decode("activate", 0b0011)
        self.read = decode("read", 0b0101)
        self.write = decode("write", 0b1101)
        self.precharge = decode("precharge", 0b1011)
        self.refresh = decode("refresh", 0b0111)
        self.mode = decode("mode", 0b1111)
        self.any = pins.cs
        self.column = self.read | self.write
        m.d.comb += [
            Assert(~pins.cs | Cat(given).any()),
            Assert(pins.clk_en),
        ]


class Rules:
    """Checks every command against the rules: times, order, open rows, refreshes, data pins.

    `timing` is in SDRAM cycles; a controller cycle has `plan.gear` of these, with the command in
    the first. `waits` is in controller cycles.

    Members
    -------
    which:
        Index of the bank, a free input that is constant, so that claims hold for every bank.
    given:
        The command at the pins.
    is_open:
        Whether a row of the bank is open.
    row:
        The open row.
    mine:
        Whether the bank address at the pins is that of the bank.
    opens, closes:
        Whether the command opens or closes the bank.
    since:
        `Elapsed` by the name of an event: at the bank, at any bank (`any_`), or of the device.
    """

    def __init__(self, m: Module, unit: SdramController):
        plan, pins = unit.plan, unit.pins
        self.plan, self.pins, self.timing, self.waits = plan, pins, plan.timing, plan.waits
        self.which = Signal(plan.bank_bits)
        was = Signal(plan.bank_bits)
        begun = Signal(plan.bank_bits)
        m.d.sync += [was.eq(self.which), begun.eq(1)]
        m.d.comb += Assume(~begun.any() | (self.which == was))
        self.given = given = Commands(m, pins)
        self.is_open = Signal()
        self.row = Signal(plan.row_bits)
        self.mine = pins.ba == self.which
        self.opens = given.activate & self.mine
        self.closes = given.precharge & (self.mine | pins.a[_ALL_BANKS_BIT])
        with m.If(self.opens):
            m.d.sync += [self.is_open.eq(1), self.row.eq(pins.a)]
        with m.Elif(self.closes):
            m.d.sync += self.is_open.eq(0)
        self.since = self._count(m)
        self._times(m)
        self._order(m)
        self._refreshes(m, unit)
        self._data(m)

    def _count(self, m: Module) -> dict:
        """Return counts of cycles since each kind of command, by name."""
        timing, given, burst = self.waits, self.given, self.plan.burst
        self.longest_row = max(timing.ras, timing.rc - timing.rp)
        events = {
            "activate": (self.opens, self.longest_row + timing.rp),
            "precharge": (self.closes, timing.rp),
            "read": (given.read & self.mine, self.plan.read_held + 1),
            "write": (given.write & self.mine, self.plan.write_held + 1),
            "any_activate": (given.activate, timing.rrd),
            "any_column": (given.column, burst),
            "any_read": (given.read, timing.cas_latency + 2 * burst + 2),
            "any_write": (given.write, burst),
            "refresh": (given.refresh, timing.rfc),
            "mode": (given.mode, timing.mrd),
        }
        return {name: Elapsed(m, name, *event) for name, event in events.items()}

    def _times(self, m: Module) -> None:
        """Claim the minimum cycles between commands."""
        timing, columns, gear = self.timing, self.plan.columns, self.plan.gear
        since = {name: gear * each.before for name, each in self.since.items()}
        column = self.given.column & self.mine
        m.d.comb += [
            # tRCD, tRP, tRC, tRRD, tRFC.
            implies(column, since["activate"] >= timing.rcd),
            implies(self.opens, since["precharge"] >= timing.rp),
            implies(self.opens, since["activate"] >= timing.rc),
            implies(self.given.activate, since["any_activate"] >= timing.rrd),
            implies(self.opens | self.given.refresh, since["refresh"] >= timing.rfc),
            implies(self.given.refresh | self.given.mode, since["precharge"] >= timing.rp),
            # tRAS, tWR, and the end of a READ.
            implies(self.closes & self.is_open, since["activate"] >= timing.ras),
            implies(self.closes, since["write"] >= columns - 1 + timing.wr),
            implies(self.closes, since["read"] >= columns - 1 + timing.read_precharge),
            # tMRD, and a burst that is not cut short.
            implies(self.given.any, since["mode"] >= timing.mrd),
            implies(self.given.column, since["any_column"] >= columns),
        ]

    def _order(self, m: Module) -> None:
        """Claim the commands that need an open or a closed row, and the initialisation."""
        given, timing = self.given, self.waits
        self.up = Signal(range(timing.power_up + 1))
        self.refreshed = Signal(range(16))
        self.mode_set = Signal()
        shift = (self.plan.columns - 1).bit_length()
        m.d.sync += self.up.eq(Mux(self.up == timing.power_up, self.up, self.up + 1))
        with m.If(given.refresh & (self.refreshed != timing.initial_refreshes)):
            m.d.sync += self.refreshed.eq(self.refreshed + 1)
        with m.If(given.mode):
            m.d.sync += self.mode_set.eq(1)
        value = self.timing.cas_latency << 4 | shift
        m.d.comb += [
            implies(given.column & self.mine, self.is_open),
            implies(self.opens, ~self.is_open),
            implies(given.refresh | given.mode, ~self.is_open),
            # No row is closed with a READ or WRITE.
            implies(given.column, ~self.pins.a[_ALL_BANKS_BIT]),
            implies(given.any, self.up == timing.power_up),
            implies(given.mode, self.refreshed == timing.initial_refreshes),
            implies(given.mode, (self.pins.a == value) & (self.pins.ba == 0)),
            implies(given.activate | given.column, self.mode_set),
            implies(given.mode, ~self.mode_set),
        ]

    def _refreshes(self, m: Module, unit: SdramController) -> None:
        """Claim that each due refresh is done before the next is due."""
        distance = self.waits.refresh_due
        assert self.plan.gear * distance <= self.timing.refresh_due
        self.clock = Signal(range(distance))
        late = Signal()
        self.wraps = self.clock == distance - 1
        m.d.sync += self.clock.eq(Mux(self.wraps, 0, self.clock + 1))
        with m.If(self.wraps):
            m.d.sync += late.eq(1)
        with m.Elif(self.given.refresh):
            m.d.sync += late.eq(0)
        self.owed = late & ~self.given.refresh
        m.d.comb += implies(self.wraps & unit.ready, ~self.owed)

    def _data(self, m: Module) -> None:
        """Claim when words are driven, and that words of a READ have left the pins by then."""
        since, burst, gear = self.since, self.plan.burst, self.plan.gear
        least = self.timing.cas_latency + self.plan.columns
        read, written = since["any_read"].now, since["any_write"].now
        m.d.comb += [
            Assert(self.pins.dq.oe == (written < burst)),
            # The last word that was read has left the pins when WRITE comes, a cycle before.
            implies(self.pins.dq.oe, gear * (read - written) > least),
        ]

    def reach(self) -> list:
        """Return covers: a WRITE to the bank, two READs without a gap, a refresh after the mode."""
        given = self.given
        return [
            Cover(given.write & self.mine & (self.row != 0)),
            Cover(given.read & (self.since["any_column"].before == self.plan.burst)),
            Cover(given.refresh & self.mode_set),
        ]
