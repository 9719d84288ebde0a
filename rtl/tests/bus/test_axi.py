"""The channels: directions, and the widths that the chip's flat names need."""

import pytest
from amaranth.hdl import Shape
from amaranth.lib.wiring import Flow

from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature


def directions(signature):
    return {
        ".".join(path): member.flow for path, member, _ in signature.flatten(signature.create())
    }


def width(signature, channel):
    return Shape.cast(getattr(signature.create(), channel).payload.shape()).width


def test_initiator_drives_addresses_and_write_data():
    flows = directions(AxiReadSignature(64)) | directions(AxiWriteSignature(64))
    driven = {name for name, flow in flows.items() if flow == Flow.Out}
    assert driven == {
        *("ar.payload", "ar.valid", "aw.payload", "aw.valid", "w.payload", "w.valid"),
        *("r.ready", "b.ready"),
    }


@pytest.mark.parametrize("bus_bits", [32, 64, 128, 256])
def test_widths(bus_bits):
    read, write = AxiReadSignature(bus_bits), AxiWriteSignature(bus_bits)
    assert width(read, "ar") == width(write, "aw") == 1 + 32 + 8
    assert width(read, "r") == 1 + bus_bits + 2 + 1
    assert width(write, "w") == bus_bits + bus_bits // 8 + 1
    assert width(write, "b") == 1 + 2
