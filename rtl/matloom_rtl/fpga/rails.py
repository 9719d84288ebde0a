"""Verilog of registers, memories and checks of outputs around the logic of a dual-rail design.

Each bit has two rails: `d` is its value, and `x` is 1 if it is undefined.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

__all__ = ["RailMemory", "Register", "WritePort", "write_module"]

#: A port of an AXI channel: payloads are meaningful only while the channel's VALID is high.
_CHANNEL = re.compile(r"(?P<channel>[ms]_axil?_(?:aw|w|b|ar|r))(?P<name>[a-z]+)")

_HANDSHAKES = ("valid", "ready")

_CLOCK, _RESET = "clk", "rst"

_PROBE = """\
  import "DPI-C" function void matloom_probe(input longint cycle, input int kind, input int units);
  longint cycle = 0;
  reg begun = 1'b0;
  reg [{last}:0] told = '0;
  wire [{last}:0] undefined;
  integer check;
  always @(posedge clk) begin
    cycle <= cycle + 1;
    begun <= begun | rst;
    if (begun && |(undefined & ~told)) begin
      told <= told | undefined;
      for (check = 0; check <= {last}; check = check + 1)
        if (undefined[check] & ~told[check]) matloom_probe(cycle, check, 0);
    end
  end
"""


@dataclass(frozen=True, kw_only=True)
class Register:
    """A register; `<prefix>_now` is its value, an input of the logic, `<prefix>_next` the next."""

    prefix: str
    name: str
    width: int


@dataclass(frozen=True, kw_only=True)
class WritePort:
    """Write port of a memory, with the wire that enables it for each bit of a word."""

    enables: tuple[Any, ...]

    def lanes(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last bit of each group of adjacent bits with the same enable."""
        for _enable, bits in groupby(range(len(self.enables)), lambda bit: self.enables[bit]):
            places = list(bits)
            yield places[0], places[-1]


@dataclass(frozen=True, kw_only=True)
class RailMemory:
    """A memory with asynchronous reads: the logic has ports `<prefix>_rd_addr` and so on.

    Members
    -------
    table:
        Words of a read-only memory, in digits 0, 1 and x, the highest bit first; else empty.
    """

    prefix: str
    name: str
    width: int
    words: int
    address_bits: int
    readers: int
    writers: tuple[WritePort, ...]
    table: tuple[str, ...]


def write_module(
    top: str,
    ports: Mapping[str, tuple[str, int]],
    memories: Sequence[RailMemory],
    registers: Sequence[Register],
) -> tuple[str, tuple[str, ...]]:
    """Return Verilog of a module `top` around `<top>_logic`, and the names of its checks.

    `ports` gives direction and width of the module's ports by name; `clk` and `rst` must be among
    them.
    """
    checks = _undefined_outputs(ports)
    text = [f"module {top} ({', '.join(ports)});\n"]
    for name, (direction, width) in ports.items():
        text.append(f"  {direction} [{width - 1}:0] {name};\n".replace(" [0:0]", ""))
        if direction == "output":
            text.append(f"  wire [{width - 1}:0] {name}_x;\n")
    text += [_register(register) for register in registers]
    text += [_memory(memory) for memory in memories]
    text += [_instance(top, ports, memories, registers), _PROBE.format(last=len(checks) - 1)]
    text += [
        f"  assign undefined[{place}] = {condition};\n"
        for place, condition in enumerate(checks.values())
    ]
    return "".join(text) + "endmodule\n", tuple(checks)


def _undefined_outputs(ports: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """Return Verilog conditions under which an output is undefined though it is read, by name.

    Outputs of a channel are read while its `valid` is set, and others from the end of the reset on.
    `ports` has the direction and the width of each port, by name.
    """
    checks: dict[str, str] = {}
    for name, (direction, width) in ports.items():
        if direction != "output":
            continue
        undefined, channel = f"|{name}_x", _CHANNEL.fullmatch(name)
        if channel and channel["name"] not in _HANDSHAKES:
            undefined = f"{channel['channel']}valid & ({undefined})"
        elif not channel or channel["name"] != "valid":
            undefined = f"~{_RESET} & ({undefined})"
        if channel and channel["name"] == "data" and f"{channel['channel']}strb" in ports:
            strobes, valid = f"{channel['channel']}strb", f"{channel['channel']}valid"
            for lane in range(width // 8):
                byte = f"|{name}_x[{8 * lane + 7}:{8 * lane}]"
                checks[f"{name} byte {lane}"] = f"{valid} & {strobes}[{lane}] & ({byte})"
        else:
            checks[name] = undefined
    return checks


def _register(register: Register) -> str:
    """Return the Verilog of a register with a value rail `d` and an undefined rail `x`."""
    name, word = register.prefix, f"[{register.width - 1}:0]"
    rails = "".join(
        f"  reg {word} {name}_now_{rail} = {start};\n  wire {word} {name}_next_{rail};\n"
        for rail, start in (("d", "'0"), ("x", "'1"))
    )
    return (
        f"  // {register.name}\n{rails}  always @(posedge {_CLOCK}) begin\n"
        f"    {name}_now_d <= {name}_next_d;\n    {name}_now_x <= {name}_next_x;\n  end\n"
    )


def _memory(memory: RailMemory) -> str:
    """Return the Verilog of a memory with a value rail `d` and an undefined rail `x`."""
    name, word = memory.prefix, f"[{memory.width - 1}:0]"
    wires = [("rd_addr", memory.address_bits * memory.readers)]
    wires += [("rd_data", memory.width * memory.readers)]
    if memory.writers:
        writers = len(memory.writers)
        wires += [("wr_addr", memory.address_bits * writers)]
        wires += [(port, memory.width * writers) for port in ("wr_data", "wr_en")]
    text = [f"  // {memory.name}\n"]
    for rail in "dx":
        text.append(f"  reg {word} {name}_{rail} [{memory.words - 1}:0];\n")
        text += [f"  wire [{width - 1}:0] {name}_{port}_{rail};\n" for port, width in wires]
    text += [f"  integer {name}_i;\n", _first_contents(memory)]
    text += [_read(memory, port) for port in range(memory.readers)]
    if memory.writers:
        text.append(f"  always @(posedge {_CLOCK}) begin\n")
        text += [_write(memory, port) for port in range(len(memory.writers))]
        text.append("  end\n")
    return "".join(text)


def _first_contents(memory: RailMemory) -> str:
    """Return the Verilog of a memory's initial contents: those of its table, the rest undefined."""
    name, width = memory.prefix, memory.width
    at = f"[{name}_i]"
    lines = [
        f"    {_loop(memory)} begin\n      {name}_d{at} = '0;\n      {name}_x{at} = '1;\n    end\n"
    ]
    for place, word in enumerate(memory.table):
        value, undefined = word.replace("x", "0"), re.sub("[01]", "0", word).replace("x", "1")
        lines.append(f"    {name}_d[{place}] = {width}'b{value};\n")
        lines.append(f"    {name}_x[{place}] = {width}'b{undefined};\n")
    return "  initial begin\n" + "".join(lines) + "  end\n"


def _loop(memory: RailMemory) -> str:
    """Return the head of a Verilog loop over all words of a memory."""
    place = f"{memory.prefix}_i"
    return f"for ({place} = 0; {place} < {memory.words}; {place} = {place} + 1)"


def _port_slice(wire: str, place: int, width: int) -> str:
    """Return the slice of port `place`, of `width` bits, in a wire shared by all ports."""
    return f"{wire}[{width * place + width - 1}:{width * place}]"


def _beyond(memory: RailMemory, port: str, place: int) -> str:
    """Return the Verilog condition that a port's address is not below the number of words."""
    if memory.words == 1 << memory.address_bits:
        return "1'b0"
    address = _port_slice(f"{memory.prefix}_{port}_addr_d", place, memory.address_bits)
    return f"({address} >= {memory.address_bits}'d{memory.words})"


def _read(memory: RailMemory, place: int) -> str:
    """Return the Verilog of read port `place` of a memory.

    Its data are undefined if its address is undefined, or not below the number of words.
    """
    name, bits = memory.prefix, memory.address_bits
    address = _port_slice(f"{name}_rd_addr_d", place, bits)
    lost = f"(|{_port_slice(f'{name}_rd_addr_x', place, bits)} | {_beyond(memory, 'rd', place)})"
    return "".join(
        f"  assign {_port_slice(f'{name}_rd_data_{rail}', place, memory.width)} = "
        f"{lost} ? {lose} : {name}_{rail}[{address}];\n"
        for rail, lose in (("d", "'0"), ("x", "'1"))
    )


def _write(memory: RailMemory, place: int) -> str:
    """Return the Verilog statements of write port `place` of a memory.

    Writing to an undefined address makes all words undefined.
    """
    name, bits, width = memory.prefix, memory.address_bits, memory.width
    address, unknown = (_port_slice(f"{name}_wr_addr_{rail}", place, bits) for rail in "dx")
    lines = []
    for first, last in memory.writers[place].lanes():
        low, high = width * place + first, width * place + last
        sure, perhaps = (f"{name}_wr_en_{rail}[{low}]" for rail in "dx")
        lane, at = f"[{last}:{first}]", f"[{name}_i]"
        lines.append(
            f"    if (|{unknown}) begin\n      if ({sure} | {perhaps})\n"
            f"        {_loop(memory)} begin\n"
            f"          {name}_d{at}{lane} <= '0;\n          {name}_x{at}{lane} <= '1;\n"
            f"        end\n    end else if (~{_beyond(memory, 'wr', place)}) begin\n"
            f"      if ({sure}) begin\n"
            f"        {name}_d[{address}]{lane} <= {name}_wr_data_d[{high}:{low}];\n"
            f"        {name}_x[{address}]{lane} <= {name}_wr_data_x[{high}:{low}];\n"
            f"      end else if ({perhaps}) begin\n"
            f"        {name}_d[{address}]{lane} <= '0;\n        {name}_x[{address}]{lane} <= '1;\n"
            f"      end\n    end\n"
        )
    return "".join(lines)


def _undefined_bits(name: str, width: int) -> str:
    """Return Verilog for rail `x` of an input: all ones for a payload that is not valid."""
    channel = _CHANNEL.fullmatch(name)
    if not channel or channel["name"] in _HANDSHAKES:
        return f"{width}'b0"
    return f"{{{width}{{~{channel['channel']}valid}}}}"


def _instance(
    top: str,
    ports: Mapping[str, tuple[str, int]],
    memories: Sequence[RailMemory],
    registers: Sequence[Register],
) -> str:
    """Return the Verilog instance of the dual-rail logic, with all connections."""
    links = list[str]()
    for name, (direction, width) in ports.items():
        other = f"{name}_x" if direction == "output" else _undefined_bits(name, width)
        links += [f".{name}_d({name})", f".{name}_x({other})"]
    inner = [f"{each.prefix}_{port}" for each in registers for port in ("now", "next")]
    for memory in memories:
        read, write = ("rd_addr", "rd_data"), ("wr_addr", "wr_data", "wr_en")
        inner += [f"{memory.prefix}_{port}" for port in read + (write if memory.writers else ())]
    links += [f".{name}_{rail}({name}_{rail})" for name in inner for rail in "dx"]
    return f"  {top}_logic logic_of_two_rails (" + ",\n    ".join(links) + ");\n"
