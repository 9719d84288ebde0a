"""Devices on which the open tools can place a chip, and the tools' names for their resources."""

from dataclasses import dataclass, field, replace

from matloom_rtl.fpga.floorplan import Blocks
from matloom_rtl.fpga.tools import ECPPACK, GOWIN_PACK, NEXTPNR_ECP5, NEXTPNR_GOWIN, YOSYS, Tool

__all__ = ["DEVICES", "FAMILIES", "Device"]

#: Yosys' synthesis command for each family, without the top and the output.
FAMILIES = {
    "ecp5": "synth_ecp5",
    "ice40": "synth_ice40 -dsp",
    "gowin": "synth_gowin -family gw2a",
    "xilinx": "synth_xilinx -flatten",
}


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device on which the open tools can place and route a chip.

    Members
    -------
    options:
        nextpnr options other than design, seed, pins and report.
    capacity, cells:
        Amount of each resource that reports count, and how much of it each type of cell takes, by
        nextpnr's names for the cells.
    pins:
        Locations of pins of the wrapper (`wrap`). On ECP5, only the clock is given, because nextpnr
        may choose a pin that cannot reach the clock tree; it places the others itself. On Gowin,
        all must be given.
    pin_line, pin_file, pin_options:
        Format of a line with a pin's location, name of the file of these lines, and nextpnr options
        that read it.
    continues:
        Whether nextpnr can route a design that it placed in an earlier run.
    soft_multiplier:
        Whether columns of the array can multiply in lookup tables if there are too few multipliers.
    blocks:
        Sites of hard blocks, assigned before placement (`fpga.floorplan`); empty if nextpnr's own
        choice is good enough.
    margin:
        Factor by which to overstate a board's clock to nextpnr, whose router ignores the delay of
        branches.
    settings:
        nextpnr settings, by its own names, that no option sets; they are stored in the netlist
        (`fpga.hints`).
    routed_option, routed_suffix:
        Option with which nextpnr writes the packer's input, and suffix of that file.
    packer, pack_options, bitstream_suffix:
        Tool that makes the bitstream, its options, and suffix of the bitstream's file.
    """

    name: str
    family: str
    nextpnr: Tool
    options: tuple[str, ...]
    capacity: dict[str, int]
    cells: dict[str, dict[str, float]]
    pins: dict[str, str] = field(default_factory=dict)
    pin_line: str
    pin_file: str
    pin_options: tuple[str, ...]
    continues: bool
    soft_multiplier: bool
    blocks: Blocks = field(default_factory=dict)
    margin: float = 1.0
    settings: dict[str, str] = field(default_factory=dict)
    routed_option: str
    routed_suffix: str
    packer: Tool
    pack_options: tuple[str, ...]
    bitstream_suffix: str

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools that a bitstream needs, in order of use."""
        return (YOSYS, self.nextpnr, self.packer)

    @property
    def clock_mhz(self) -> float:
        """Clock in MHz that `options` request from nextpnr."""
        return float(self.options[self.options.index("--freq") + 1])

    def with_options(self, values: dict[str, str]) -> "Device":
        """Return this device with new values of options that `options` contains already."""
        options = list(self.options)
        for name, value in values.items():
            options[options.index(name) + 1] = value
        return replace(self, options=tuple(options))

    def pack(self, routed: str, bitstream: str) -> list[str]:
        """Return the packer's arguments, given the file names of its input and output."""
        names = {"routed": routed, "bitstream": bitstream}
        return [option.format(**names) for option in self.pack_options]

    def constraints(self) -> str:
        """Return the text of the pin constraint file."""
        places = self.pins.items()
        return "".join(self.pin_line.format(pin=pin, site=site) + "\n" for pin, site in places)


#: Options for an ECP5. router2: the default router does not finish on large arrays. `static`:
#: spreads cells that the default placer packs too tightly for the router (decision 0003).
#: tmg-ripup: reroutes connections that miss the requested clock because of a detour; without it,
#: they keep their detour once they share no wire.
_ECP5_OPTIONS = (
    *("--package", "CABGA381", "--speed", "6", "--router", "router2", "--tmg-ripup"),
    *("--placer", "static", "--freq", "85"),
)


#: Factor for the cost of a shared wire in each routing iteration; nextpnr's default is 2. With a
#: lower factor nets make shorter detours but need more iterations; with 2, a chip that is more than
#: half full never finishes.
_ECP5_SETTINGS = {"router2/currCongWeightMult": "0.5"}

#: Layout of each group of hard blocks of an ECP5, by offset from its first column.
_ECP5_GROUPS = {
    "MULT18X18D": {0: "MULT18_0", 1: "MULT18_1", 4: "MULT18_4", 5: "MULT18_5"},
    "DP16KD": {0: "EBR0", 2: "EBR1", 4: "EBR2", 6: "EBR3"},
}


def _ecp5_blocks(columns: tuple[int, ...], rows: dict[str, tuple[int, ...]]) -> Blocks:
    """Return the sites of hard blocks, which are in groups at `columns` and in `rows` by type."""
    return {
        kind: tuple(
            f"X{column + right}/Y{row}/{place}"
            for row in rows[kind]
            for column in columns
            for right, place in _ECP5_GROUPS[kind].items()
        )
        for kind in rows
    }


def _ecp5(name: str, option: str, capacity: dict[str, int], blocks: Blocks) -> Device:
    """Return an ECP5 device; `option` is nextpnr's option for its size."""
    return Device(
        name=name,
        family="ecp5",
        nextpnr=NEXTPNR_ECP5,
        options=(option, *_ECP5_OPTIONS),
        capacity=capacity,
        cells={
            "LUT4": {"TRELLIS_COMB": 1},
            "FF": {"TRELLIS_FF": 1},
            "DSP": {"MULT18X18D": 1},
            "BRAM": {"DP16KD": 1},
        },
        # Clock pin of most boards with this package, which connects to the clock tree.
        pins={"clk": "G2"},
        pin_line='LOCATE COMP "{pin}" SITE "{site}";',
        pin_file="pins.lpf",
        pin_options=("--lpf", "pins.lpf", "--lpf-allow-unconstrained"),
        continues=True,
        soft_multiplier=True,
        blocks=blocks,
        # When 90 MHz was requested, the result was 88.7.
        margin=1.02,
        settings=_ECP5_SETTINGS,
        routed_option="--textcfg",
        routed_suffix=".config",
        packer=ECPPACK,
        pack_options=("--compress", "--input", "{routed}", "--bit", "{bitstream}"),
        bitstream_suffix=".bit",
    )


_GW2AR_18 = Device(
    name="gw2ar-18",
    family="gowin",
    nextpnr=NEXTPNR_GOWIN,
    # Device of the Tang Nano 20K; its database has the name of the plain GW2A.
    options=(
        *("--device", "GW2AR-LV18QN88C8/I7", "--vopt", "family=GW2A-18C"),
        *("--freq", "54"),
    ),
    capacity={"LUT4": 20736, "FF": 15552, "DSP": 48, "BRAM": 46, "LUTRAM": 648},
    cells={
        # A carry cell occupies the site of a table.
        "LUT4": {"LUT4": 1, "ALU": 1},
        "FF": {"DFF": 1},
        "DSP": {"MULT18X18": 1, "MULT9X9": 0.5},
        "BRAM": {"BSRAM": 1},
        "LUTRAM": {"RAM16SDP4": 1},
    },
    # Oscillator, first button, and the two wires to the board's USB bridge.
    pins={"clk": "4", "rst": "88", "si": "70", "so": "69"},
    pin_line='IO_LOC "{pin}" {site};',
    pin_file="pins.cst",
    pin_options=("--vopt", "cst=pins.cst"),
    # nextpnr 0.11 raises an exception when it reads such a design.
    continues=False,
    soft_multiplier=False,
    routed_option="--write",
    routed_suffix=".pnr.json",
    packer=GOWIN_PACK,
    pack_options=("-d", "GW2A-18C", "-o", "{bitstream}", "{routed}"),
    bitstream_suffix=".fs",
)

_85K = _ecp5(
    "ecp5-85k",
    "--85k",
    {"LUT4": 83640, "FF": 83640, "DSP": 156, "BRAM": 208},
    _ecp5_blocks(
        (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114),
        {"MULT18X18D": (10, 34, 58), "DP16KD": (22, 46, 70, 82)},
    ),
)
_25K = _ecp5(
    "ecp5-25k",
    "--25k",
    {"LUT4": 24288, "FF": 24288, "DSP": 28, "BRAM": 56},
    _ecp5_blocks((4, 13, 22, 33, 42, 51, 60), {"MULT18X18D": (13,), "DP16KD": (25, 37)}),
)

DEVICES = {device.name: device for device in (_85K, _25K, _GW2AR_18)}
