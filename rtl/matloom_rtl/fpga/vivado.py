"""Devices that only their vendor's tool can place: their resources and part names."""

from dataclasses import dataclass

from matloom_rtl.fpga.devices import DEVICES, Device

__all__ = ["BOARD_DEVICES", "VIVADO_DEVICES", "VivadoDevice"]


@dataclass(frozen=True, kw_only=True)
class VivadoDevice:
    """A device of the Xilinx 7 series.

    Members
    -------
    part:
        Vivado's part name, with package and speed grade.
    capacity:
        As in `Device`, but in block RAMs of 36 Kbit and lookup tables of six inputs.
    soft_multiplier, bitstream_suffix:
        As in `Device`.
    """

    name: str
    part: str
    capacity: dict[str, int]
    family: str = "xilinx"
    soft_multiplier: bool = False
    bitstream_suffix: str = ".bit"


_XC7A35T = VivadoDevice(
    name="xc7a35t",
    part="xc7a35ticsg324-1L",
    # Data sheet DS180, table of Artix-7.
    capacity={"LUT4": 20800, "FF": 41600, "DSP": 90, "BRAM": 50},
)

VIVADO_DEVICES = {_XC7A35T.name: _XC7A35T}

#: Every device that a board may have.
BOARD_DEVICES: dict[str, Device | VivadoDevice] = {**DEVICES, **VIVADO_DEVICES}
