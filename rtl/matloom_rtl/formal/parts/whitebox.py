"""Opens a unit for lemmas about its registers and memories."""

from contextlib import suppress

from amaranth.hdl import Cat, Const, Fragment, Signal, Value
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Whitebox", "inputs_of", "owners"]


class Whitebox:
    """A unit elaborated once, with access to its registers by name and to its memories.

    Lemmas refer to registers that are not ports. The unit itself is unchanged, except for the read
    ports that `peek` adds. `fragment` is the submodule for the proof.
    """

    def __init__(self, unit):
        self.fragment = Fragment.get(unit, None)
        self._peeks = 0

    @property
    def unit(self):
        """The component itself, with its ports."""
        # The component, possibly wrapped in others that insert a reset.
        return self.fragment.origins[-2]

    def child(self, name: str) -> "Whitebox":
        """Return a submodule of this unit."""
        return Whitebox(self.fragment.find_subfragment(name))

    def free(self, name: str, *outputs: str) -> tuple:
        """Remove a submodule, and return its outputs as free inputs of the proof.

        For a unit without a signature, such as Amaranth's queues, the outputs must be named.
        """
        unit = self.child(name).unit
        parts = self.fragment.subfragments
        parts[:] = [part for part in parts if part[1] != name]
        if outputs:
            return tuple(getattr(unit, output) for output in outputs)
        ports = unit.signature.flatten(unit)
        return tuple(Value.cast(value) for _path, member, value in ports if member.flow is Out)

    def register(self, *, name: str) -> Signal:
        """Return the only register with that name; KeyError if there is none, or several."""
        found = {}
        for statement in self.fragment.statements["sync"]:
            # Amaranth has no public way to look into an elaborated unit.
            for signal in statement._lhs_signals():
                if signal.name == name:
                    found[id(signal)] = signal
        if len(found) != 1:
            raise KeyError(f"{name!r} must be one register of the unit, not {len(found)}")
        return next(iter(found.values()))

    def source(self, name: str) -> Signal:
        """Return the only signal of a name that the unit's registers read; else KeyError."""
        found = {}
        for statement in self.fragment.statements["sync"]:
            found |= {id(each): each for each in statement._rhs_signals() if each.name == name}
        if len(found) != 1:
            raise KeyError(f"{name!r} must be one signal that the unit reads, not {len(found)}")
        return next(iter(found.values()))

    def in_states(self, *names: str):
        """Return whether the unit's only state machine is in one of these states."""
        state = self.register(name="fsm_state")
        # The decoder names states "Name/3", and fails for numbers without a state.
        found = []
        for number in range(1 << len(state)):
            with suppress(KeyError):
                name = state.decoder(number).split("/")[0]
                found += [state == number] if name in names else []
        return Cat(found).any()

    def addresses(self, name: str) -> tuple:
        """Return the first read address and the write address of a named memory."""
        memory = self.fragment.find_subfragment(name)
        return memory._read_ports[0]._addr, memory._write_ports[0]._addr

    def peek(self, name: str, address) -> Signal:
        """Return what a named memory holds at an address, in the same cycle."""
        memory = self.fragment.find_subfragment(name)
        self._peeks += 1
        place = Signal(len(memory._read_ports[0]._addr), name=f"peek_{self._peeks}_place")
        word = Signal(len(memory._read_ports[0]._data), name=f"peek_{self._peeks}")
        memory.read_port(domain="comb", addr=place, data=word, en=Const(1), transparent_for=())
        self.fragment.add_statements("comb", place.eq(address))
        return word


def inputs_of(component: Component) -> tuple:
    """Return all inputs of a component, which a proof leaves free."""
    ports = component.signature.flatten(component)
    return tuple(Value.cast(value) for _path, member, value in ports if member.flow is In)


def owners(fragment: Fragment):
    """Yield every component of an elaborated design, top down."""
    for origin in fragment.origins or ():
        if not isinstance(origin, Fragment | Memory):
            yield origin
    for child, _name, _place in fragment.subfragments:
        yield from owners(child)
