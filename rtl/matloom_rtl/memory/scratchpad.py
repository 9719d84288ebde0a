"""Scratchpad: its banks, their arbiters, and the ports of the units."""

from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.memory.bank import PARITY_LATENCY, Bank
from matloom_rtl.memory.bank_select import align_down, crosses_bank
from matloom_rtl.memory.gather import Gather
from matloom_rtl.memory.scatter import Scatter
from matloom_rtl.memory.select import Select, span_of
from matloom_rtl.ports import SpadReadSignature, SpadWriteSignature

__all__ = ["ReadPort", "Scratchpad"]


class ReadPort(IntEnum):
    """Read ports of the core's scratchpad, in order of priority."""

    INPUT = 0
    WEIGHTS = 1
    POST = 2
    STORE = 3


class Scratchpad(wiring.Component):
    """Scratchpad memory with several ports; each bank serves one read and one write per cycle.

    Accesses may start at any byte. Aligned read ports ignore the lower address bits.

    A port's index is its priority, 0 the highest. A request selects the bank of its first byte and,
    if it continues there, the next bank. It is granted in a cycle in which no valid request of
    higher priority selects one of its banks. Read ports that share an alignment unit also exclude
    each other. Apart from that, a request that selects no bank is always granted. `ready` depends
    on the request's banks and on the other requests, never on its own `valid`.

    Read data is valid `SPAD_READ_LATENCY` cycles after the grant and stays until the next data of
    the port, or of the ports that share its unit. A write is visible to reads granted
    `SPAD_WRITE_LATENCY` or more cycles later; otherwise reads and writes are independent.
    Reset discards accesses in progress and keeps the contents.

    With `Config.parity`, both words that a read accesses in a bank are checked. `wrong` is valid
    six cycles after the grant and stalls nothing.

    Parameters
    ----------
    read_widths, write_widths:
        Width of each port in bytes: at most `word_bytes`, or for an aligned read port at most
        `word_bytes` plus its boundary and at most a line.
    read_boundaries:
        Alignment of each read port, a power of two; 1 for any byte. By default, all are 1.
    read_groups:
        For each read port, an identifier of its alignment unit; ports with the same one share it,
        and must not be aligned. By default none is shared.

    Members
    -------
    read_0, ...: SpadReadSignature, in
    write_0, ...: SpadWriteSignature, in
    wrong: out
        A bit for each read port: parity error in a word that it read. Only with `Config.parity`.
    """

    def __init__(
        self,
        config: Config,
        *,
        read_widths: list[int],
        write_widths: list[int],
        read_boundaries: list[int] | None = None,
        read_groups: list[int] | None = None,
    ):
        boundaries = read_boundaries or [1] * len(read_widths)
        for name, widths, units in (
            ("read_widths", read_widths, boundaries),
            ("write_widths", write_widths, [1] * len(write_widths)),
        ):
            for width, unit in zip(widths, units, strict=True):
                widest = config.word_bytes
                if unit > 1:
                    widest = min(widest + unit, config.line_bytes)
                if not 1 <= width <= widest:
                    raise ValueError(f"{name} must be 1 to {widest}, not {width}")
        self._config = config
        #: Banks, once elaborated, for simulations to inspect.
        self.banks: list[Bank] = []
        self._read_widths = read_widths
        self._boundaries = boundaries
        self._groups = read_groups or list(range(len(read_widths)))
        self._span = span_of(
            max(width for width, unit in zip(read_widths, boundaries, strict=True) if unit == 1)
        )
        self._write_widths = write_widths
        banks = config.spad_banks
        reads = {f"read_{i}": In(SpadReadSignature(w, banks)) for i, w in enumerate(read_widths)}
        writes = {
            f"write_{i}": In(SpadWriteSignature(w, banks)) for i, w in enumerate(write_widths)
        }
        wrong = {"wrong": Out(len(read_widths))} if config.parity else {}
        super().__init__(reads | writes | wrong)

    def read_port(self, port: ReadPort):
        """Return the interface of a read port."""
        return getattr(self, f"read_{port.value}")

    def elaborate(self, platform):
        m = Module()
        config = self._config
        lines = config.bank_bytes // config.line_bytes
        self.banks = banks = [
            Bank(word_bytes=config.word_bytes, lines=lines, parity=bool(config.parity))
            for _ in range(config.spad_banks)
        ]
        for index, bank in enumerate(banks):
            m.submodules[f"bank_{index}"] = bank
        self._read(m, banks)
        self._write(m, banks)
        return m

    def _read(self, m: Module, banks):
        """Connect the read ports to the banks, each group of ports through a `Gather`."""
        ports = [getattr(self, f"read_{index}") for index in range(len(self._read_widths))]
        places = [
            _locate(m, align_down(port.address, unit), width, self._config)
            for port, width, unit in zip(ports, self._read_widths, self._boundaries, strict=True)
        ]
        grants = _arbitrate(m, ports, self._groups)
        lines = [Cat(bank.even, bank.odd) for bank in banks]
        selects = self._select(m, banks)
        for group in dict.fromkeys(self._groups):
            members = [index for index, each in enumerate(self._groups) if each == group]
            width = max(self._read_widths[index] for index in members)
            wide = width > self._span
            m.submodules[f"gather_{group}"] = gather = Gather(
                width=width,
                span=self._config.line_bytes if wide else self._span,
                banks=len(banks),
                boundary=self._boundaries[members[0]],
                bank_latency=3 if wide else 4,
            )
            m.d.comb += [
                gather.valid.eq(Cat(grants[index] for index in members).any()),
                *(
                    found.eq(lines[number] if wide else selects[number].o)
                    for number, found in enumerate(gather.banks)
                ),
                *(ports[index].data.eq(gather.data) for index in members),
            ]
            # The first valid request, granted or not: if it is refused, so are the others.
            for index in reversed(members):
                place = places[index]
                with m.If(ports[index].valid if index != members[-1] else 1):
                    m.d.comb += [
                        gather.request.turn.eq(place.offset),
                        gather.request.even_bank.eq(place.bank + place.crosses),
                        gather.request.odd_bank.eq(place.bank),
                    ]

        wrong = []
        for number, (bank, select) in enumerate(zip(banks, selects, strict=True)):
            granted = Cat(
                grant & port.bank_select[number] for grant, port in zip(grants, ports, strict=True)
            )
            m.d.comb += bank.read_valid.eq(granted.any())
            if self._config.parity:
                reader = _delay(m, granted, PARITY_LATENCY, reset=True)
                wrong.append(reader & bank.wrong.replicate(len(reader)))
            # Of the first request that selects the bank, even if not granted: a shorter path.
            for port, place in reversed(list(zip(ports, places, strict=True))):
                with m.If(port.valid & port.bank_select[number]):
                    m.d.comb += [
                        bank.read_line.eq(place.line),
                        bank.read_carry.eq(place.carry),
                        select.offset.eq(place.offset),
                    ]
        if self._config.parity:
            m.d.sync += self.wrong.eq(reduce(or_, wrong))

    def _select(self, m: Module, banks):
        """Add a byte selector for narrow read ports behind each bank; return the selectors."""
        selects = [Select(span=self._span, word_bytes=self._config.word_bytes) for _ in banks]
        for number, (bank, select) in enumerate(zip(banks, selects, strict=True)):
            m.submodules[f"select_{number}"] = select
            m.d.comb += [select.even.eq(bank.even), select.odd.eq(bank.odd)]
        return selects

    def _write(self, m: Module, banks):
        """Connect the write ports to the banks, each through a `Scatter`."""
        config = self._config
        ports = [getattr(self, f"write_{index}") for index in range(len(self._write_widths))]
        places = [
            _locate(m, port.address, width, config)
            for port, width in zip(ports, self._write_widths, strict=True)
        ]
        grants = _arbitrate(m, ports, range(len(ports)))
        for index, (port, place, grant) in enumerate(zip(ports, places, grants, strict=True)):
            m.submodules[f"scatter_{index}"] = scatter = Scatter(
                width=self._write_widths[index], word_bytes=config.word_bytes
            )
            m.d.comb += [
                scatter.offset.eq(place.offset),
                scatter.data.eq(port.data),
                scatter.mask.eq(port.mask),
            ]
            line, carry = _delay(m, place.line), _delay(m, place.carry)
            even = _delay(m, Mux(grant, place.even, 0), reset=True)
            odd = _delay(m, Mux(grant, place.odd, 0), reset=True)
            even_mask, odd_mask = (
                scatter.o_mask.word_select(half, config.word_bytes) for half in range(2)
            )
            for number, bank in enumerate(banks):
                # At most one write is granted per bank.
                with m.If(even[number] | odd[number]):
                    m.d.comb += [
                        bank.write_valid.eq(1),
                        bank.write_line.eq(line),
                        bank.write_carry.eq(carry),
                        bank.write_data.eq(scatter.o_data),
                        bank.write_mask.eq(
                            Cat(
                                even_mask & even[number].replicate(config.word_bytes),
                                odd_mask & odd[number].replicate(config.word_bytes),
                            )
                        ),
                    ]


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Position of an access in banks, lines and words.

    Members
    -------
    bank, line, carry, offset:
        Of the first byte: its bank, its line in the bank, whether it is in the odd word, and its
        position in the line. With `carry`, the even word of the access is in the next line.
    crosses:
        The access continues in the next bank.
    even, odd:
        The bank that holds the even word, and that of the odd word, both one-hot.
    """

    bank: Value
    line: Value
    carry: Value
    offset: Value
    crosses: Value
    even: Value
    odd: Value


def _locate(m: Module, address, width: int, config: Config) -> _Place:
    """Return the position of `width` bytes at an address; bank indices wrap with the addresses."""
    offset_bits = (config.line_bytes - 1).bit_length()
    bank_bits = (config.bank_bytes - 1).bit_length()
    bank = address[bank_bits:]
    crosses = Signal(name="crosses")
    even, odd = (Signal(config.spad_banks, name=name) for name in ("even", "odd"))
    m.d.comb += crosses.eq(crosses_bank(address, width, config))
    for number in range(config.spad_banks):
        before = (number - 1) % (1 << len(bank))
        m.d.comb += [
            odd[number].eq(bank == number),
            even[number].eq(Mux(crosses, bank == before, bank == number)),
        ]
    return _Place(
        bank=bank,
        line=address[offset_bits:bank_bits],
        carry=address[offset_bits - 1],
        offset=address[:offset_bits],
        crosses=crosses,
        even=even,
        odd=odd,
    )


def _arbitrate(m: Module, ports, groups):
    """Drive `ready`: earlier ports win if ports share a bank or a group; return the grants."""
    for index, port in enumerate(ports):
        blocked = Cat(
            other.valid & (group == groups[index] or (other.bank_select & port.bank_select).any())
            for other, group in zip(ports[:index], groups, strict=False)
        )
        m.d.comb += port.ready.eq(~blocked.any())
    return [port.valid & port.ready for port in ports]


def _delay(m: Module, value, cycles=2, *, reset=False):
    """Return the value `cycles` cycles later; the default is the latency of `Scatter`."""
    for _cycle in range(cycles):
        later = Signal(len(value), name="followed", reset_less=not reset)
        m.d.sync += later.eq(value)
        value = later
    return value
