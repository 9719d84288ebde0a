"""Devices by name: their limits and their memory."""

import pytest

from matloom.arch.config import PRESETS
from matloom.device import netlist, simulator
from matloom.device.open import memory_size_for, open_device


def test_a_run_may_take_minutes():
    assert open_device("model", "nano").timeout == 600
    assert open_device("model", "nano", timeout=5).timeout == 5


@pytest.mark.parametrize(
    ("size", "wanted"), [(0, 1 << 24), (1 << 23, 1 << 24), ((1 << 23) + 1, 1 << 25)]
)
def test_memory_for_regions(size, wanted):
    assert memory_size_for(size) == wanted


@pytest.mark.parametrize("option", ["waves", "timing", "check_bus"])
def test_registers_that_the_model_lacks(option):
    with pytest.raises(ValueError, match=f"{option} must go with device 'rtl', not 'model'"):
        open_device("model", "nano", **{option: object()})


def test_a_netlist_is_a_simulation(monkeypatch):
    """The chip's simulator replaces the netlist's, whose build takes minutes."""
    built = []

    def build(*what):
        built.append(what)
        return simulator.build(*what)

    monkeypatch.setattr(netlist, "build", build)
    driver = open_device("netlist", "nano", memory_bytes=1 << 16, check_bus=True)
    assert isinstance(driver.transport, netlist.NetlistTransport)
    assert driver.transport.check_bus
    assert built == [(PRESETS["nano"], "", None)]
    driver.close()
