"""Priority of faults: selects which of several simultaneous faults is recorded."""

from amaranth.hdl import Module, Mux, Signal

from matloom.arch.csr import UNIT_INDEX_BITS, Fault
from matloom.arch.isa import UNITS, Opcode
from matloom_rtl.control.choose import choose

__all__ = ["offer_fault", "parity_faults"]

_NAMES = ("cause", "address", "unit", "opcode", "index")


def parity_faults(completed, memories):
    """Return the parity faults by memory and unit, in the form that `offer_fault` takes as `late`.

    The address of a fault is the index of the memory. Its index is that of the unit's oldest
    instruction; if the unit reads ahead, a later instruction may have caused the fault.

    Parameters
    ----------
    completed:
        Number of instructions that each unit has completed, in the order of `UNITS`.
    memories:
        For the scratchpad and for the accumulators, the parity errors by the unit that found them:
        EXEC, POST and, only for the scratchpad, STORE.
    """
    units = (Opcode.EXEC, Opcode.POST, Opcode.STORE)
    return [
        (wrong, Fault.PARITY, memory, 1 + number, unit, completed[number])
        for memory, memory_wrong in enumerate(memories)
        for unit, wrong in zip(units, memory_wrong, strict=False)
        for number in [UNITS.index(unit)]
    ]


def offer_fault(m: Module, supervisor, dispatch, completed, ports, late):
    """Report one fault to the supervisor, if there is any.

    Priority: a faulty instruction, bus faults of fetch, LOAD and STORE, then `late`.

    Parameters
    ----------
    completed:
        As in `parity_faults`.
    ports:
        `fetch_fault`, `load_fault`, `store_fault` and `load_fault_ahead` of `Control`.
    late:
        Faults of lowest priority; the last that is valid wins. Each is a tuple: valid, cause,
        address, unit, opcode and index.
    """
    fetch, load, store, ahead = ports
    # Completions lag a LOAD's last beat by some cycles, and a STORE's response not at all.
    loaded = completed[UNITS.index(Opcode.LOAD)] + ahead
    stored = completed[UNITS.index(Opcode.STORE)]
    # Selected in every cycle, with or without a fault. Without a fault of the dispatcher its
    # address is zero, or the end of the last extent: the watchdog's record does not define it.
    own = (dispatch.fault, dispatch.fault_address, 0, dispatch.fault_opcode, dispatch.index)
    bus = (
        (fetch, 0, 0, dispatch.index),
        (load, 1 + UNITS.index(Opcode.LOAD), Opcode.LOAD, loaded[:UNIT_INDEX_BITS]),
        (store, 1 + UNITS.index(Opcode.STORE), Opcode.STORE, stored),
    )
    sources = [own, *((port.cause, port.address, *rest) for port, *rest in bus)]
    # Binary number of the source, so that a choice of four takes two tables per bit.
    number = Mux(fetch.valid, 1, Mux(load.valid, 2, Mux(store.valid, 3, 0)))
    source = Signal(2)
    m.d.comb += source.eq(Mux(dispatch.fault == 0, number, 0))
    for name, *values in zip(_NAMES, *sources, strict=True):
        m.d.comb += getattr(supervisor, f"fault_{name}").eq(choose(values, source))
    for valid, *values in late:
        with m.If(valid & (dispatch.fault == 0) & (source == 0)):
            m.d.comb += [
                getattr(supervisor, f"fault_{name}").eq(value)
                for name, value in zip(_NAMES, values, strict=True)
            ]
