"""Proof of scratchpad reads: each byte comes from the right bank and address."""

from amaranth.hdl import Array, Assume, Cat, Cover, Module, Signal

from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.memory.gather import LATENCY, Gather

__all__ = ["gather", "gather_proofs"]

#: Maximum width in bytes of a read whose proof belongs to the quick set.
_QUICK_BYTES = 16


def gather(unit: Gather) -> Claim:
    """Claim that the data of a read are valid `LATENCY` cycles after it, and until the next read's.

    Assumes that reads begin at a multiple of the unit's boundary.
    """
    m = Module()
    m.submodules.unit = Whitebox(unit).fragment
    valid, request = unit.valid, unit.request.as_value()
    m.d.comb += Assume(unit.request.turn % unit._boundary == 0)
    for cycle in range(unit._found):
        valid, request = _later(m, valid, f"valid_{cycle}"), _later(m, request, f"asked_{cycle}")
    wanted = _bytes(unit, unit._request(request))
    for cycle in range(unit._found, LATENCY):
        valid, wanted = _later(m, valid, f"valid_{cycle}"), _later(m, wanted, f"wanted_{cycle}")
    kept = Signal.like(wanted)
    known = Signal()
    with m.If(valid):
        m.d.sync += [kept.eq(wanted), known.eq(1)]
    m.d.comb += [
        implies(valid, unit.data == wanted),
        implies(known & ~valid, unit.data == kept),
        Cover(known & valid & (kept != wanted)),
    ]
    return Claim(module=m, ports=inputs_of(unit))


def _later(m: Module, value, name: str) -> Signal:
    """Return a register with a value of the previous cycle."""
    later = Signal(len(value), name=name)
    m.d.sync += later.eq(value)
    return later


def _bytes(unit: Gather, request):
    """Return the bytes of a read in order, taken from the current outputs of the banks.

    Byte k is in the line of the first byte, k bytes after it; beyond the end of the line, it is in
    the line of the request's other bank.
    """
    found = []
    for k in range(unit._width):
        at = request.turn + k
        beyond = at >= unit._span
        bank = Array((request.odd_bank, request.even_bank))[beyond]
        line = Array(unit.banks)[bank]
        found.append(line.word_select(at % unit._span, 8))
    return Cat(found)


def gather_proofs(units: list) -> list[Proof]:
    """Return a proof for each distinct gather unit of a chip."""
    made = {}
    for unit in units:
        if isinstance(unit, Gather):
            sizes = unit._width, unit._span, len(unit.banks), unit._boundary, unit._found
            width, span, banks, boundary, found = sizes
            made[sizes] = Proof(
                kind="scratchpad",
                unit=f"Gather, {width} of {span} bytes, {banks} banks, boundary {boundary}, "
                f"found {found}",
                statement="each byte of a read comes from its bank and address, six cycles after "
                "the grant, and stays until the next read",
                build=lambda unit=unit: gather(unit),
                depth=LATENCY + 2,
                quick=width <= _QUICK_BYTES,
                cover_depth=12,
            )
    return list(made.values())
