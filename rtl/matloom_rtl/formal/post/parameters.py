"""Proof of POST's parameters: the bytes that are read for each block of channels, in order."""

from types import SimpleNamespace

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal

from matloom_rtl.formal.parts.channel import implies, stays
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.post.positions import touched_banks
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.parameters import Parameters

__all__ = ["Reads", "parameters", "parameters_proofs", "reads_lemmas"]

#: Bytes of a channel's bias, and of its multiplier and shift: a block has one read for each byte.
_BIAS_BYTES, _SCALE_BYTES = 4, 5


class Reads:
    """Reference for the reads of an instruction: block by block, at consecutive addresses.

    Members
    -------
    task, begun:
        The last instruction taken, and whether there is one.
    wanted, address:
        Number of reads of each block, and address of the next read.
    block, index:
        Index of the next read's block, and of the read in its block.
    granted:
        Whether a read is granted in this cycle.
    asked:
        Number of granted reads whose data have not arrived.
    """

    def __init__(self, m: Module, unit: Parameters):
        i, read, columns = unit.i, unit.read, unit._columns
        self.task = Signal(i.payload.shape(), reset_less=True)
        self.begun = Signal()
        self.block = Signal(len(i.payload.blocks) + 1)
        self.index = Signal(4)
        self.asked = Signal(5)
        self.wanted = Signal(4)
        self.address = Signal(unit._config.spad_size_bits, reset_less=True)
        task, reads, takes = self.task, read.valid & read.ready, i.valid & i.ready
        self.granted = reads
        scale = Mux(task.channel_scale, _SCALE_BYTES, 0)
        ends = self.index + 1 == self.wanted
        m.d.comb += self.wanted.eq(Mux(task.channel_bias, _BIAS_BYTES, 0) + scale)
        m.d.sync += self.asked.eq(self.asked + reads - unit.arriving)
        with m.If(takes):
            m.d.sync += [
                *(task.eq(i.payload), self.begun.eq(1), self.address.eq(i.payload.address)),
                *(self.block.eq(0), self.index.eq(0)),
            ]
        with m.Elif(reads):
            m.d.sync += [
                self.address.eq(self.address + columns),
                self.block.eq(self.block + ends),
                self.index.eq(Mux(ends, 0, self.index + 1)),
            ]
        m.d.comb += [
            Assume(~i.valid | (i.payload.blocks != 0)),
            # Data arrives only for granted reads.
            Assume(~unit.arriving | (self.asked != 0)),
        ]


def parameters(unit: Parameters) -> Claim:
    """Claim that an instruction's blocks are read in order, each byte once, and nothing else.

    So all reads are in the extent that the dispatcher checks. Assumes that data arrive only for
    granted reads.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    walk, read = Reads(m, unit), unit.read
    task, wanted = walk.task, walk.wanted
    request = Cat(read.address, read.bank_select)
    stays(m, SimpleNamespace(valid=read.valid, ready=read.ready, payload=request))
    m.d.comb += [
        implies(read.valid, walk.begun & (walk.block < task.blocks) & (walk.index < wanted)),
        implies(read.valid, read.address == walk.address),
        implies(
            read.valid, read.bank_select == touched_banks(walk.address, unit._columns, unit._config)
        ),
        # The next instruction is taken when all data of all blocks has arrived.
        implies(unit.i.ready, (walk.asked == 0) & ~read.valid),
        implies(unit.i.ready & walk.begun & (wanted != 0), walk.block == task.blocks),
        Cover(unit.i.ready & (walk.block == 2) & (wanted == _BIAS_BYTES + _SCALE_BYTES)),
    ]
    reads_lemmas(m, whitebox, walk)
    return Claim(module=m, ports=inputs_of(unit))


def reads_lemmas(m: Module, whitebox: Whitebox, walk: Reads) -> None:
    """Assert invariants: the remaining blocks and reads, by the state of the unit."""
    unit, states = whitebox.unit, whitebox.in_states
    read, task, wanted = unit.read, walk.task, walk.wanted
    arrived, left, load = (whitebox.register(name=name) for name in ("arrived", "wanted", "load"))
    kept = task.shape()(whitebox.register(name="task"))
    missing, fetched = (whitebox.register(name=name) for name in ("missing", "fetched"))
    address, some = whitebox.register(name="address"), wanted != 0
    fetches, busy = states("Fetch"), ~states("Idle")
    passed = fetches & (left != 0)
    m.d.comb += [
        Assert(states("Idle", "Wait", "Load", "Fetch", "End")),
        Assert(load == states("Load")),
        implies(busy, walk.begun & (address == walk.address)),
        *(implies(busy, kept[name] == task[name]) for name in ("channel_bias", "channel_scale")),
        implies(~fetches, ~read.valid & (walk.asked == 0)),
        implies(~fetches, (walk.index == 0) | ~walk.begun),
        implies(fetches, (read.valid == (left != 0)) & (left <= wanted)),
        implies(fetches, missing == left + walk.asked + arrived),
        implies(fetches, missing <= wanted),
        implies(fetches, fetched == (missing == 0)),
        implies(fetches & (left != 0), walk.index + left == wanted),
        implies(fetches & (left == 0), walk.index == 0),
        # Remaining blocks, excluding the one being fetched.
        implies(busy & some & ~states("End"), walk.block + kept.blocks + passed == task.blocks),
        implies(busy & some & ~fetches & ~states("End"), walk.block < task.blocks),
        implies(passed, walk.block < task.blocks),
        implies((states("End") | states("Idle")) & some & walk.begun, walk.block == task.blocks),
    ]


def parameters_proofs(units: list) -> list[Proof]:
    """Return a proof for each parameter reader of a chip."""
    return [
        Proof(
            kind="addresses",
            unit="Parameters",
            statement="the reader reads exactly the parameters in an instruction's extent, block "
            "by block, each once and in order; all arrive before those of the next instruction",
            build=lambda unit=unit: parameters(unit),
            depth=2,
            cover_depth=60,
        )
        for unit in units
        if isinstance(unit, Parameters)
    ]
