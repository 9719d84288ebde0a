"""Functions that connect look-up tables, and a queue of bytes to be added, to the lanes."""

from amaranth.hdl import Module

from matloom.arch.isa import Addend, RowFunction, Table
from matloom_rtl.post.softmax import Softmax
from matloom_rtl.post.tables import Tables
from matloom_rtl.post.waiting_bytes import WaitingBytes

__all__ = ["add_tables", "add_waiting"]


def add_tables(m: Module, unit, lanes, softmax: Softmax | None) -> Tables:
    """Add `Tables` to `unit`, to look up the result byte of each lane; return them."""
    m.submodules.tables = tables = Tables(unit._config)
    m.d.comb += [
        tables.start.eq(unit.start),
        tables.fill.eq(unit.rows.valid),
        tables.row.eq(unit.rows.payload),
        unit.rows.ready.eq(tables.ready),
    ]
    if unit._config.has_channel_tables:
        m.d.comb += tables.each.eq(unit.command.table == Table.FILL_EACH)
    if softmax is not None:
        with m.If(unit.command.softmax == RowFunction.FILL):
            m.d.comb += [tables.fill.eq(0), unit.rows.ready.eq(softmax.rows.ready)]
    m.d.comb += [tables.index[number].eq(lane.result[:8]) for number, lane in enumerate(lanes)]
    return tables


def add_waiting(m: Module, unit, tables: Tables, takes) -> None:
    """Add a queue of bytes to `unit`, and let `tables` add them to results.

    `takes` is set in each cycle in which the results of a vector leave the lanes.
    """
    m.submodules.waiting = waiting = WaitingBytes(unit._config)
    m.d.comb += [
        waiting.arrives.eq(unit.bytes_arrive),
        waiting.arriving.eq(unit.bytes),
        waiting.takes.eq(takes),
        tables.adds.eq(unit.command.addend == Addend.RESULT),
        tables.other.eq(waiting.oldest),
    ]
