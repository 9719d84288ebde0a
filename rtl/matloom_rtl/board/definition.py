"""Board files: hardware of a board, and the design to build for it."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from matloom.arch.sdram import SDRAMS, InvalidSdramError, load_sdram
from matloom.errors import UserError, unknown_name_error
from matloom_rtl.fpga.place import SEED
from matloom_rtl.fpga.vivado import BOARD_DEVICES

__all__ = ["BOARD_FOLDER", "Board", "BoardError", "board_names", "load_board"]

#: Board files that come with the package.
BOARD_FOLDER = Path(__file__).with_name("boards")

#: Ports of the top that every board has.
PORTS = ("clk", "uart_rx", "uart_tx")

#: Kinds of external memory, and the fields that a board file must give for each.
MEMORIES = {"block": {"kind", "bytes"}, "sdram": {"kind", "part", "pins"}}

#: Signals of an SDRAM that a board may tie off: clk_en high, cs and dqm low.
WIRED = ("clk_en", "cs", "dqm")


class BoardError(UserError):
    """A board file is wrong, or a board cannot be built or programmed."""

    hint = "docs/boards.md lists the fields of a board's file and their values"


@dataclass(frozen=True, kw_only=True)
class Memory:
    """External memory of a board: its `kind`, a key of `MEMORIES`, and its size in `bytes`.

    An SDRAM has a `part`, as in `matloom.arch.sdram`, and `pins`: its resource in the definition,
    or a table with the sites of each signal and the attributes of their buffers. Signals in
    `wired`, a subset of `WIRED`, have no pins. With a `gear` of 2 the SDRAM's clock is twice as
    fast as the engine's, and its pins carry two words per engine cycle. With `sliced` there is a
    `BusSlice` between engine and memory, for devices on which these are far apart.
    """

    kind: str
    bytes: int
    part: str = ""
    pins: str | dict[str, Any] = ""
    wired: tuple[str, ...] = ()
    sliced: bool = False
    gear: int = 1


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board, as defined by its file.

    Members
    -------
    name, title:
        Name used in commands, and title for people.
    device, package, speed:
        Key of `matloom_rtl.fpga.vivado.BOARD_DEVICES`; package and speed grade as nextpnr names
        them, empty if the device implies them.
    config:
        Configuration of the engine to build by default.
    input_hz, clock_hz:
        Frequency of the oscillator, and frequency requested from the PLL.
    seed:
        First placement seed to try, one that has reached the clock.
    baud:
        Bit rate of the serial line.
    memory:
        External memory.
    definition:
        Class of amaranth-boards, ``module.Class``, whose resources `pins` refers to; "" for none.
    pins:
        For each port of the top module, a resource of the definition, ``"name"`` or
        ``"name.signal"``, or a table with its `site` and the attributes of its buffer.
    programmer:
        Arguments for openFPGALoader, before the file; empty if the board has no programmer.
    soc:
        `config`, `clock_hz` and `seed` of the system on chip, as far as they differ.
    """

    name: str
    title: str
    device: str
    package: str = ""
    speed: str = ""
    config: str
    input_hz: int
    clock_hz: int
    seed: int = SEED
    baud: int
    memory: Memory
    definition: str = ""
    pins: dict[str, Any] = field(default_factory=dict)
    programmer: tuple[str, ...] = ()
    soc: dict[str, Any] = field(default_factory=dict)

    def with_processor(self) -> "Board":
        """Return the board with the settings of its system on chip, given in `soc`."""
        return replace(self, **self.soc)


def board_names() -> list[str]:
    """Return the names of the boards that come with the package."""
    return sorted(path.stem for path in BOARD_FOLDER.glob("*.toml"))


def load_board(name: str) -> Board:
    """Return a board by its name, or by the path of its file.

    Raises
    ------
    BoardError
        The board or file does not exist, the file is not TOML, or a field is unknown, missing or
        wrong.
    """
    path = Path(name) if name.endswith(".toml") else BOARD_FOLDER / f"{name}.toml"
    if not path.is_file():
        raise unknown_name_error(
            BoardError,
            "a board",
            name,
            board_names(),
            " or a file.toml",
            hint="matloom build --list describes the boards",
        )
    try:
        values = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BoardError(f"{path} must be TOML: {error}") from None
    return _board(path, values)


def _board(path: Path, values: dict[str, Any]) -> Board:
    """Return the board of a file, given its parsed `values`; raise BoardError if they are wrong."""
    known = {item.name: item for item in fields(Board)}
    for name in values:
        if name not in known:
            raise unknown_name_error(BoardError, f"a field of {path}", name, known)
    needed = ("name", "title", "device", "config", "input_hz", "clock_hz", "baud", "memory")
    for name in needed:
        if name not in values:
            raise BoardError(f"{path} must have the field {name!r}, which is missing")
    for name, value in values.items():
        _check_type(path, name, value, known[name].type)
    _check_values(path, values)
    changed = {
        "memory": _memory(**values["memory"]),
        "programmer": tuple(values.get("programmer", ())),
    }
    return Board(**(values | changed))


def _memory(
    kind: str, part: str = "", bytes: int = 0, wired: Sequence[str] = (), **others: Any
) -> Memory:
    """Return the memory of a board file's entry; with an SDRAM `part`, the part gives the size."""
    size = load_sdram(part).bytes if part else bytes
    return Memory(kind=kind, bytes=size, part=part, wired=tuple(wired), **others)


def _check_type(path: Path, name: str, value: Any, kind: Any) -> None:
    """Raise BoardError unless the value of a field has the type `kind`, as annotated in `Board`."""
    wanted = {str: str, int: int, tuple[str, ...]: list}.get(kind, dict)
    if type(value) is not wanted:
        raise BoardError(f"{name} in {path} must be of type {wanted.__name__}, not {value!r}")


def _check_values(path: Path, values: dict[str, Any]) -> None:
    """Raise BoardError if the value of any field of a board file is invalid."""

    def require(name: str, good: bool, rule: str, value: Any) -> None:
        """Raise BoardError unless `good`; `rule` says what the value must do: "be positive"."""
        if not good:
            raise BoardError(f"{name} in {path} must {rule}, not {value!r}")

    device, memory, pins = values["device"], values["memory"], values.get("pins", {})
    require("device", device in BOARD_DEVICES, f"be one of {', '.join(BOARD_DEVICES)}", device)
    kind = memory.get("kind")
    require("memory.kind", kind in MEMORIES, f"be one of {', '.join(MEMORIES)}", kind)
    fields_ = MEMORIES[kind]
    may = {"sliced"} | ({"wired", "gear"} if kind == "sdram" else set())
    good = fields_ <= set(memory) <= fields_ | may
    require("memory", good, f"have {', '.join(sorted(fields_))}", sorted(memory))
    sliced = memory.get("sliced", False)
    require("memory.sliced", type(sliced) is bool, "be true or false", sliced)
    if kind == "block":
        size = memory["bytes"]
        require("memory.bytes", type(size) is int and size > 0, "be a positive integer", size)
    else:
        part, places, wired = memory["part"], memory["pins"], memory.get("wired", [])
        rule = f"be one of {', '.join(SDRAMS)}, or '2 x' one of 16 bits"
        require("memory.part", _is_part(part), rule, part)
        good = isinstance(wired, list) and all(name in WIRED for name in wired)
        require("memory.wired", good, f"list some of {', '.join(WIRED)}", wired)
        named_pins = isinstance(places, str) and bool(values.get("definition"))
        good = named_pins or (
            isinstance(places, dict) and all(map(_is_sites_or_table, places.values()))
        )
        require("memory.pins", good, "be a resource of the definition or lists of sites", places)
        gear = memory.get("gear", 1)
        require("memory.gear", gear in (1, 2) and type(gear) is int, "be 1 or 2", gear)
    soc = values.get("soc", {})
    changes = ("config", "clock_hz", "seed")
    require("soc", set(soc) <= set(changes), f"have {', '.join(changes)}", sorted(soc))
    for name, value in soc.items():
        wanted = type(values.get(name, SEED))
        require(f"soc.{name}", type(value) is wanted, "be as without it", value)
    for name in ("input_hz", "clock_hz", "baud", "seed"):
        require(name, values.get(name, SEED) > 0, "be positive", values.get(name))
    require("pins", set(pins) == set(PORTS), f"name {', '.join(PORTS)}", sorted(pins))
    for port, place in pins.items():
        named = isinstance(place, str) and bool(values.get("definition"))
        sited = isinstance(place, dict) and isinstance(place.get("site"), str)
        require(f"pins.{port}", named or sited, "be a resource or have a site", place)


def _is_part(name: Any) -> bool:
    """Return whether a value is the name of a known SDRAM part."""
    try:
        return isinstance(name, str) and bool(load_sdram(name))
    except InvalidSdramError:
        return False


def _is_sites_or_table(value: Any) -> bool:
    """Return whether a value in a table of pins is valid: a list of sites, or a nested table."""
    return isinstance(value, dict) or (
        isinstance(value, list) and all(isinstance(site, str) for site in value)
    )
