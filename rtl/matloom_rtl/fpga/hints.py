"""Hints for nextpnr that only a netlist can carry: sites of hard blocks, and router settings."""

import json
from collections.abc import Callable
from pathlib import Path

from matloom_rtl.fpga.devices import Device
from matloom_rtl.fpga.floorplan import assign_sites
from matloom_rtl.fpga.units import is_top

__all__ = ["add_hints"]


def add_hints(netlist: Path, device: Device, say: Callable[[str], None] = print) -> None:
    """Add a device's hints to a netlist file; without any, the file is unchanged.

    Parameters
    ----------
    netlist
        A flat netlist in the form of Yosys' `write_json`.
    device
        The sites in its `blocks` become attributes of cells, its `settings` those of the top
        module.
    say
        Called with the number of blocks, and again when their sites are found, which takes minutes
        for hundreds of blocks.

    Raises
    ------
    FlowError
        As for `floorplan.assign_sites`.
    """
    if not device.blocks and not device.settings:
        return
    design = json.loads(netlist.read_text())
    (top,) = (each for each in design["modules"].values() if is_top(each))
    if device.settings:
        top["settings"] = dict(device.settings)
    blocks = sum(cell["type"] in device.blocks for cell in top["cells"].values())
    if blocks:
        say(f"floorplan of {blocks} hard blocks")
        assign_sites(top["cells"], device.blocks)
        say("floorplan: all have their sites")
    netlist.write_text(json.dumps(design))
