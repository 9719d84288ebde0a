"""Lemmas about the SDRAM controller: its registers, by the commands at the pins."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal

from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox
from matloom_rtl.formal.sdram.pin_rules import Rules

__all__ = ["Parts", "lemmas"]


class Parts:
    """Registers of the controller's units, by name."""

    def __init__(self, whitebox: Whitebox):
        names = ("opener", "columns", "banks", "sequence", "datapath")
        children = {name: whitebox.child(name) for name in names}
        self.columns = columns = children["columns"].unit
        self.opener, self.sequence = children["opener"].unit, children["sequence"].unit
        self.opener_in, self.sequence_in = (
            children["opener"].in_states,
            children["sequence"].in_states,
        )
        layout = whitebox.unit.plan.chunk_layout
        self.next, self.chunk = (
            layout(children[name].register(name="chunk")) for name in ("opener", "columns")
        )
        self.free, self.turned = (
            children["columns"].register(name=name) for name in ("since_column", "since_read")
        )
        self.active = columns.active
        banks, count = children["banks"], whitebox.unit.plan.part.banks
        self.banks = banks
        self.opens, self.settling, self.held = (
            [banks.register(name=f"{name}_{n}") for n in range(count)]
            for name in ("open", "settling", "held")
        )
        sequence = children["sequence"]
        self.timer, self.due, self.pause = (
            sequence.register(name=name) for name in ("timer", "due", "pause")
        )
        self.owed, self.wait, self.left, self.ready = (
            sequence.register(name=name) for name in ("owed", "wait", "left", "ready")
        )
        data = children["datapath"]
        self.oe = data.register(name="oe")
        self.words = data.register(name="left") if whitebox.unit.plan.burst > 1 else Const(0, 0)


def _item_of_bank(bank, values: list):
    """Return the item of `values`, one per bank, that belongs to a bank."""
    found = values[0]
    for number, value in enumerate(values[1:], start=1):
        found = Mux(bank == number, value, found)
    return found


def lemmas(m: Module, parts: Parts, rules: Rules) -> None:
    """Assert all invariants for the induction, about the controller's registers."""
    _rows(m, parts, rules)
    _waits(m, parts, rules)
    _sequence(m, parts, rules)
    _deadline(m, parts, rules)


def _rows(m: Module, parts: Parts, rules: Rules) -> None:
    """Assert invariants: whether the bank is open, with which row, and which access uses it."""
    is_open = Mux(rules.opens, 1, rules.is_open & ~rules.closes)
    row = Mux(rules.opens, rules.pins.a[: len(rules.row)], rules.row)
    next_, chunk, which = parts.next.place, parts.chunk.place, rules.which
    running, look = parts.sequence_in("Run"), parts.opener_in("Idle", "Look")
    mine = next_.bank == which
    paused = parts.sequence_in("Close", "Refresh", "Mode", "Settle", "Wait")
    m.d.comb += [
        Assert(_item_of_bank(which, parts.opens) == is_open),
        implies(is_open, parts.banks.peek("rows", which) == row),
        implies(parts.active & (chunk.bank == which), is_open & (row == chunk.row)),
        implies(parts.opener_in("Pass") & mine, is_open & (row == next_.row)),
        implies(parts.opener_in("Open") & mine, ~is_open),
        implies(paused, look & ~parts.active),
        implies(parts.sequence_in("Refresh", "Mode", "Settle"), ~is_open),
        implies(~parts.ready, ~running & ~parts.sequence_in("Drain")),
        implies(running | parts.sequence_in("Drain"), parts.ready),
    ]


def _waits(m: Module, parts: Parts, rules: Rules) -> None:
    """Assert invariants for the induction: a remaining wait is long enough for its cause."""
    plan, timing, which = rules.plan, rules.waits, rules.which
    burst = plan.burst
    since = {name: each.now for name, each in rules.since.items()}
    settling, held = _item_of_bank(which, parts.settling), _item_of_bank(which, parts.held)
    is_open = _item_of_bank(which, parts.opens)
    m.d.comb += [
        implies(is_open, since["activate"] + settling >= timing.rcd - 1),
        implies(~is_open, since["precharge"] + settling >= timing.rp - 1),
        Assert(since["activate"] + held >= rules.longest_row - 1),
        implies(parts.sequence_in("Wait", "Close"), held == 0),
        Assert(since["read"] + held >= plan.read_held - 1),
        Assert(since["write"] + held >= plan.write_held - 1),
        implies(~is_open, since["activate"] >= rules.longest_row + since["precharge"]),
        implies(
            parts.active | (since["any_column"] < burst),
            since["any_column"] + parts.free >= burst - 1,
        ),
        Assert(since["any_read"] + parts.turned >= timing.cas_latency + burst),
        *(Assert(since["any_column"] <= since[f"any_{name}"]) for name in ("read", "write")),
    ]
    m.d.comb += [
        Assert((rules.up <= timing.power_up) & (rules.refreshed <= timing.initial_refreshes))
    ]
    # The opener itself takes the time from ACTIVATE to ACTIVATE.
    ago = rules.since["any_activate"].now
    running = parts.sequence_in("Run")
    for cycles, states in ((1, ("Idle",)), (2, ("Look",)), (3, ("Open", "Close"))):
        least = min(cycles, timing.rrd)
        m.d.comb += implies(running & parts.opener_in(*states), ago >= least)
    for cycles, states in ((1, ("Close",)), (2, ("Refresh", "Mode")), (3, ("Settle",))):
        m.d.comb += implies(parts.sequence_in(*states), ago >= min(cycles, timing.rrd))
    value = ((1 << burst) - 1) >> since["any_write"]
    m.d.comb += Assert(Cat(parts.oe, parts.words) == value[:burst])


def _sequence(m: Module, parts: Parts, rules: Rules) -> None:
    """Assert invariants: initialisation and pauses, by the state of the sequencer."""
    timing, at, up = rules.waits, parts.sequence_in, rules.up
    since = {name: each.now for name, each in rules.since.items()}
    distance, refreshed = timing.refresh_due, rules.refreshed
    waited = parts.wait * distance + rules.clock
    first = timing.initial_refreshes
    done = Mux(refreshed == first, first, refreshed + rules.given.refresh)
    mode_set = rules.mode_set | rules.given.mode
    settle = max(timing.rfc - 3, 0)
    looks = parts.opener_in("Look", "Idle")
    m.d.comb += [
        Assert((parts.timer == rules.clock) & (rules.clock < distance)),
        Assert(parts.due == rules.wraps),
        Assert(at("Wait", "Drain", "Close", "Refresh", "Mode", "Settle", "Run")),
        Assert(parts.opener_in("Idle", "Look", "Close", "Open", "Pass")),
        implies(at("Wait"), up == Mux(waited > timing.power_up, timing.power_up, waited)),
        implies(at("Wait"), parts.wait <= timing.power_up // distance),
        implies(~at("Wait"), up == timing.power_up),
        implies(at("Wait"), ~parts.ready & ~rules.given.any),
        implies(at("Refresh"), since["precharge"] + parts.pause >= timing.rp - 1),
        implies(at("Refresh"), since["refresh"] + parts.pause >= timing.rfc - 1),
        implies(at("Mode"), (since["refresh"] + parts.pause >= timing.rfc - 1) & ~parts.ready),
        implies(at("Mode"), since["precharge"] >= timing.rp),
        implies(at("Settle") & parts.ready, since["refresh"] + parts.pause >= settle),
        implies(at("Settle") & ~parts.ready, since["refresh"] >= timing.rfc - 1),
        implies(at("Settle"), since["mode"] + parts.pause >= timing.mrd - 1),
        implies(at("Run") & looks, since["refresh"] >= timing.rfc - 2),
        implies(at("Run") & ~looks, since["refresh"] >= timing.rfc - 1),
        implies(~at("Settle"), since["mode"] >= timing.mrd - 1),
        implies(at("Wait", "Close", "Drain"), since["refresh"] >= timing.rfc - 1),
        # Refreshes of the initialisation, then the mode.
        Assert(mode_set == (parts.ready | (at("Settle")))),
        implies(at("Wait") | (at("Close") & ~parts.ready), parts.left == first - 1),
        implies(at("Wait") | (at("Close") & ~parts.ready), done == 0),
        implies(at("Refresh") & ~parts.ready, done + parts.left + 1 == first),
        implies(mode_set | at("Mode"), (done == first) & (parts.left == 0)),
    ]


def _deadline(m: Module, parts: Parts, rules: Rules) -> None:
    """Assert invariants for the induction: bounds on the cycles since a refresh was due."""
    timing, plan, clock, at = rules.waits, rules.plan, rules.clock, parts.sequence_in
    burst, chunk, ready = plan.burst, parts.chunk, parts.ready
    tail = 1 + max(plan.read_held, plan.write_held)
    longest = max(timing.rcd, timing.rp, burst, timing.cas_latency + burst + 1)
    limit = 3 + max(longest + plan.chunk_beats * burst + tail, rules.longest_row)
    settled = _item_of_bank(chunk.place.bank, parts.settling)
    left = Signal(range(2 * limit + 1))
    turned = Mux(chunk.write, parts.turned, 0)
    ends = _maximum(parts.free, settled, turned) + chunk.count * burst + tail
    m.d.comb += left.eq(_maximum(Mux(parts.active, ends, 0), *parts.held))
    initial = timing.initial_refreshes * timing.rfc + timing.rp + timing.mrd + 4
    todo = parts.left * timing.rfc + parts.pause + timing.mrd
    m.d.comb += [
        Assert(parts.owed == rules.owed),
        Assert((parts.free < burst) & (parts.turned <= timing.cas_latency + burst)),
        *(Assert(each < max(timing.rcd, timing.rp)) for each in parts.settling),
        *(Assert(each < max(tail - 1, rules.longest_row)) for each in parts.held),
        implies(at("Run") & parts.owed, clock == 0),
        implies(at("Drain"), parts.owed & (clock + left <= limit)),
        implies(at("Close") & ready, parts.owed & (clock <= limit + 1)),
        implies(at("Refresh") & ready, parts.owed & (clock + parts.pause <= limit + 1 + timing.rp)),
        implies(
            at("Settle") & ready,
            ~parts.owed & (clock + parts.pause <= limit + 2 + timing.rp + timing.rfc),
        ),
        # The initialisation begins when one is due, and ends before the next is.
        implies(at("Close") & ~ready, clock == 0),
        implies(at("Refresh") & ~ready, clock + todo <= initial),
        implies(at("Mode") & ~ready, clock + parts.pause + timing.mrd <= initial + timing.rfc),
        implies(at("Settle") & ~ready, clock + parts.pause <= initial + timing.rfc + 1),
        implies(at("Mode", "Settle"), ~parts.owed),
    ]
    assert limit + 2 + timing.rp + timing.rfc < timing.refresh_due - 1
    assert initial + timing.rfc + 2 < timing.refresh_due - 1


def _maximum(first, *others):
    """Return the maximum of some signals."""
    for each in others:
        first = Mux(first > each, first, each)
    return first
