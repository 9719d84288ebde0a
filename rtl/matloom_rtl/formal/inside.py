"""A unit as it is built, with its registers and memories in sight of a lemma."""

from amaranth.hdl import Const, Fragment, Signal
from amaranth.lib.memory import Memory

__all__ = ["Inside", "owners"]


class Inside:
    """Elaborate a unit once; find its registers by name, and read its memories.

    A lemma speaks of registers that are no ports. The unit itself is unchanged: a read port more is
    all that `peek` adds. `fragment` is what goes into the module of the proof.
    """

    def __init__(self, unit):
        self.fragment = Fragment.get(unit, None)
        self._peeks = 0

    def register(self, *, name: str = "", bits: int = 0) -> Signal:
        """Return the only register of the unit with that name, or else of so many bits.

        Registers that are made in one assignment have no names. KeyError where there are none or
        several.
        """
        found = {
            id(signal): signal
            # Amaranth has no public way to look into an elaborated unit.
            for signal in self.fragment.statements["sync"]._lhs_signals()
            if (signal.name == name if name else len(signal) == bits)
        }
        if len(found) != 1:
            raise KeyError(f"{name or bits!r} must be one register of the unit, not {len(found)}")
        return next(iter(found.values()))

    def addresses(self, name: str) -> tuple:
        """Return the addresses at which the memory of a name is read first, and written."""
        memory = self.fragment.find_subfragment(name)
        return memory._read_ports[0]._addr, memory._write_ports[0]._addr

    def peek(self, name: str, address) -> Signal:
        """Return what the memory of a name holds at an address, in the same cycle."""
        memory = self.fragment.find_subfragment(name)
        self._peeks += 1
        place = Signal(len(memory._read_ports[0]._addr), name=f"peek_{self._peeks}_place")
        word = Signal(len(memory._read_ports[0]._data), name=f"peek_{self._peeks}")
        memory.read_port(domain="comb", addr=place, data=word, en=Const(1), transparent_for=())
        self.fragment.add_statements("comb", place.eq(address))
        return word


def owners(fragment: Fragment):
    """Yield every component of an elaborated design, from the top down."""
    for origin in fragment.origins or ():
        if not isinstance(origin, Fragment | Memory):
            yield origin
    for child, _name, _place in fragment.subfragments:
        yield from owners(child)
