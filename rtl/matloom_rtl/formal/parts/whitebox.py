"""Access to the registers, memories and submodules of a unit, for lemmas about them."""

from contextlib import suppress

from amaranth.hdl import Cat, Const, Fragment, Signal, Value
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Whitebox", "inputs_of", "owners"]


class Whitebox:
    """An elaborated unit whose registers, memories and submodules are found by name.

    `fragment` is the elaborated unit, to be added to the module of a claim. It is unchanged, except
    for the read ports that `peek` adds and the submodules that `free` removes.
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
        """Return the submodule with this name."""
        return Whitebox(self.fragment.find_subfragment(name))

    def free(self, name: str, *outputs: str) -> tuple:
        """Remove a submodule, and return its outputs, to be free inputs of the claim.

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
        """Return the register with this name; raise KeyError if there is none, or several."""
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
        """Return the signal with this name that registers of the unit depend on.

        Raises
        ------
        KeyError
            There is no such signal, or several.
        """
        found = {}
        for statement in self.fragment.statements["sync"]:
            found |= {id(each): each for each in statement._rhs_signals() if each.name == name}
        if len(found) != 1:
            raise KeyError(f"{name!r} must be one signal that the unit reads, not {len(found)}")
        return next(iter(found.values()))

    def in_states(self, *names: str):
        """Return whether the unit's only state machine is in one of the states `names`."""
        state = self.register(name="fsm_state")
        # The decoder names states "Name/3", and fails for numbers without a state.
        found = []
        for number in range(1 << len(state)):
            with suppress(KeyError):
                name = state.decoder(number).split("/")[0]
                found += [state == number] if name in names else []
        return Cat(found).any()

    def addresses(self, name: str) -> tuple:
        """Return the addresses of the first read port and the first write port of a memory."""
        memory = self.fragment.find_subfragment(name)
        return memory._read_ports[0]._addr, memory._write_ports[0]._addr

    def peek(self, name: str, address) -> Signal:
        """Add a read port to a memory; return the word at an address, in the same cycle."""
        memory = self.fragment.find_subfragment(name)
        self._peeks += 1
        place = Signal(len(memory._read_ports[0]._addr), name=f"peek_{self._peeks}_place")
        word = Signal(len(memory._read_ports[0]._data), name=f"peek_{self._peeks}")
        memory.read_port(domain="comb", addr=place, data=word, en=Const(1), transparent_for=())
        self.fragment.add_statements("comb", place.eq(address))
        return word


def inputs_of(component: Component) -> tuple:
    """Return all inputs of a component as values, to be free inputs of a claim."""
    ports = component.signature.flatten(component)
    return tuple(Value.cast(value) for _path, member, value in ports if member.flow is In)


def owners(fragment: Fragment):
    """Yield every component of an elaborated design, parents before their submodules."""
    for origin in fragment.origins or ():
        if not isinstance(origin, Fragment | Memory):
            yield origin
    for child, _name, _place in fragment.subfragments:
        yield from owners(child)
