"""Tables of area, clock and number formats of the engines, from bitstreams/reports."""

import json
import tomllib
from typing import Any

from report_table import ROOT, Column, count, megahertz, report, table, text_table

_REPORTS = ROOT / "bitstreams" / "reports"
_NETLISTS = ROOT / "bitstreams" / "netlists.json"
_BOARD_FILES = ROOT / "rtl" / "matloom_rtl" / "board" / "boards"
_AREA = {"LUT4": "tables", "FF": "FF", "DSP": "multipliers", "BRAM": "block RAMs"}


def _placed_reports() -> dict[str, dict[str, Any]]:
    """Return the reports of designs that were placed and routed, by name."""
    paths = sorted(_REPORTS.glob("*.json"))
    kept = [path for path in paths if not path.stem.endswith("_units")]
    return {path.stem: {"name": path.stem, **json.loads(path.read_text())} for path in kept}


def netlist_of(row: dict[str, Any]) -> str:
    """Return "today" if a report is of the netlist that is generated today, else "earlier".

    Its digest is compared with that in ``bitstreams/netlists.json``, which `bench/netlists.py`
    writes; a report without a digest is from before digests were stored.
    """
    today = json.loads(_NETLISTS.read_text()).get(row.get("name") or row["board"])
    return "today" if today is not None and today == row.get("netlist_digest") else "earlier"


_NETLIST = Column("netlist", netlist_of)


def _earlier() -> str:
    """Return a sentence that names the reports of an earlier netlist, or says there are none."""
    names = [f"`{name}`" for name, row in _placed_reports().items() if netlist_of(row) == "earlier"]
    if not names:
        return "All reports are of the current netlist.\n"
    return (
        "**From an earlier netlist, to be routed again:** the reports of "
        f"{', '.join(names)}. Area and clock of the current netlist may differ.\n"
    )


def _area_column(name: str) -> Column:
    """Return a column that shows a design's number of one resource, such as flip-flops."""
    return Column(_AREA[name], lambda row: row["area"][name]["used"], count)


_AREA_COLUMNS = [_area_column(name) for name in _AREA]


def _board_file(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a report's board file, and of its section `soc` if it has a CPU."""
    found = tomllib.loads((_BOARD_FILES / f"{row['board']}.toml").read_text())
    return found | (found.get("soc", {}) if "cpu" in row else {})


def _engine(row: dict[str, Any]) -> str:
    """Return array size and configuration of a board's engine, and its processor if it has one."""
    found, processor = _board_file(row), ", VexRiscv" if "cpu" in row else ""
    return f"{row['config']['rows']}x{row['config']['columns']}, {found['config']}{processor}"


def _memory(row: dict[str, Any]) -> str:
    """Return kind and size or clock of a board's external memory."""
    memory = row["memory"]
    if memory["kind"] == "block":
        return f"{memory['bytes'] // 1024} KiB of block RAM"
    gear = memory.get("gear", 1)
    clock = f" at {gear * row['clock_asked_mhz']:.0f} MHz" if gear > 1 else ""
    return f"SDRAM{clock}"


def _routed_boards() -> str:
    """Return a table of the boards that were routed: area, clock, seed, and minutes."""
    return table(
        (row for row in _placed_reports().values() if "board" in row),
        (
            Column("board", lambda row: f"`{row['name']}`"),
            *(Column("engine", _engine), Column("memory", _memory), *_AREA_COLUMNS),
            Column("asked", lambda row: row["clock_asked_mhz"], megahertz),
            Column("reached", lambda row: row["fmax_mhz"], megahertz),
            *(
                Column("seed", lambda row: row["seed"]),
                Column("minutes", lambda row: row["minutes"]),
                _NETLIST,
            ),
        ),
    )


def _build_lines() -> str:
    """Return the last line that `matloom build` prints for each board with a report."""
    from matloom.cli.boards import summary

    lines = []
    for name, row in _placed_reports().items():
        if "board" in row:
            kind = "fs" if row["device"].startswith("gw") else "bit"
            lines.append(f"build/{name}/{name}.{kind}: {summary(row)}\n")
    return f"```text\n{''.join(lines)}```\n"


def _in_vivado() -> str:
    """Return a table of the cells that Yosys counts for the boards built with Vivado."""
    rows = [
        json.loads(path.read_text()) for path in sorted((_REPORTS / "synthesis").glob("*.json"))
    ]
    area = list(dict.fromkeys(name for row in rows for name in row["area"]))
    return text_table(
        ["board", *area, "netlist"],
        (
            [
                f"`{row['board']}`",
                *(
                    f"{row['area'][name]['used']:,} of {row['area'][name]['available']:,}"
                    for name in area
                ),
                netlist_of(row),
            ]
            for row in rows
        ),
    )


def _best(row: dict[str, Any]) -> dict[str, Any]:
    """Return the run of a placed design that reached the highest clock."""
    return max(row["runs"], key=lambda run: run["fmax_mhz"] or 0.0)


def _arrays() -> str:
    """Return a table of engines without a board: area and clock by array size."""
    alone = [row for row in _placed_reports().values() if "board" not in row]
    return table(
        sorted(alone, key=lambda row: int(row["area"]["FF"]["used"])),
        (
            Column("array", lambda row: f"{row['config']['rows']}x{row['config']['columns']}"),
            Column("engine", lambda row: f"`{row['name'].partition('_')[2]}`"),
            Column("in tables", lambda row: row["columns_in_tables"]),
            *_AREA_COLUMNS,
            Column("rounds", lambda row: _best(row)["rounds"]),
            Column("estimated", lambda row: _best(row)["estimated_mhz"], megahertz),
            Column("asked", lambda row: _best(row).get("routed_for_mhz"), megahertz),
            Column("reached", lambda row: _best(row)["fmax_mhz"], megahertz),
            _NETLIST,
        ),
    )


def _designs() -> str:
    """Return a table of area per multiply-accumulate unit, for Matloom and published designs."""
    rows = []
    for preset in ("nano", "small"):
        found = _placed_reports()[f"ecp5-85k_{preset}"]
        area, config = found["area"], found["config"]
        rows.append(
            {
                "design": f"`{preset}`, ECP5, placed",
                "macs": config["rows"] * config["columns"],
                "tables": area["LUT4"]["used"],
                "kind": "LUT4",
                "ff": area["FF"]["used"],
                "from": "here",
            }
        )
    rows += report("designs.json")["designs"]
    return table(
        rows,
        (
            Column("design", lambda row: row["design"]),
            Column("MACs per cycle", lambda row: row["macs"]),
            Column("tables", lambda row: f"{row['tables']:,} {row['kind']}"),
            Column("FF", lambda row: row.get("ff"), count),
            Column("tables each", lambda row: round(row["tables"] / row["macs"]), count),
            Column(
                "FF each",
                lambda row: row["ff"] / row["macs"] if "ff" in row else None,
                "{:,.0f}".format,
            ),
            Column("from", lambda row: row["from"]),
        ),
    )


def _boards() -> str:
    """Return a table of the cycles and times of networks on boards with a routed bitstream."""
    rows = []
    for board, found in _placed_reports().items():
        for name, network in found.get("networks", {}).items():
            rows += _board_network(f"{board}, {name}", network, found)
    headings = ("ms at the bitstream's clock", "ms on the line", "frames per second")
    return text_table(["board, network", "cycles", *headings], rows)


def _board_network(name: str, calls: dict[str, Any], report: dict[str, Any]) -> list[list[str]]:
    """Return the rows of a network in the table of boards.

    There is a row for each call that was measured, or one that says how much memory is missing.
    """
    if "needs_bytes" in calls:
        return [[name, f"needs {calls['needs_bytes']:,} bytes of memory", "", "", ""]]
    # A request waits for the answer to the one before it: both ways count.
    crossing = calls["link"]["sent"] + calls["link"]["received"]
    line = crossing * 10_000 / report["link"]["baud"]
    rows = []
    for call in ("first", "later"):
        if call in calls:
            cycles = calls[call]["cycles"]
            engine = cycles / report["clock_asked_mhz"] / 1000
            shown = name if call == "first" else f"{name}, resident"
            times = (f"{engine:.2f}", f"{line:.1f}", f"{1000 / (engine + line):.0f}")
            rows.append([shown, count(cycles), *times])
    return rows


def _macs_per_cycle(row: dict[str, Any]) -> str:
    """Return the multiply-accumulates per cycle in each mode, separated by commas."""
    return ", ".join(map(str, row["macs_per_cycle"].values()))


def _modes() -> str:
    """Return a table of the array's area and clock for each set of number formats (modes)."""
    counts = ("lut4", "ccu2c", "ff", "mult18x18d", "dp16kd")
    return table(
        report("modes.json")["results"],
        (
            Column("modes", lambda row: ", ".join(f"`{mode}`" for mode in row["modes"])),
            Column("tables in all", lambda row: row["comb"], count),
            *(Column(name.upper(), lambda row, name=name: row[name], count) for name in counts),
            Column("Fmax", lambda row: row["fmax_mhz"], megahertz),
            Column("latency, cycles", lambda row: row["latency_cycles"]),
            Column("MACs per cycle", _macs_per_cycle),
        ),
    )


def _board_files() -> str:
    """Return a table of all board files: engine, clock, memory, and baud rate of the line."""
    from matloom_rtl.board.definition import board_names, load_board

    def memory(board: Any) -> str:
        """Return size and kind of a board's external memory."""
        kind = {"block": "block RAM", "sdram": "SDRAM"}[board.memory.kind]
        kibibytes = board.memory.bytes // 1024
        size = f"{kibibytes // 1024} MiB" if kibibytes % 1024 == 0 else f"{kibibytes} KiB"
        return f"{size} of {kind}"

    return table(
        map(load_board, board_names()),
        (
            Column("board", lambda board: f"`{board.name}`"),
            Column("what it is", lambda board: board.title),
            Column("engine", lambda board: f"`{board.config}`"),
            Column("clock", lambda board: board.clock_hz / 1e6, megahertz),
            Column("memory", memory),
            Column("line", lambda board: f"{board.baud / 1e6:g} Mbaud"),
        ),
    )


BLOCKS = {
    "board files": _board_files,
    "arrays": _arrays,
    "boards": _boards,
    "modes": _modes,
    "routed boards": _routed_boards,
    "build lines": _build_lines,
    "earlier netlists": _earlier,
    "in vivado": _in_vivado,
    "designs": _designs,
}
