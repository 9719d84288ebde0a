"""Devices by name: their limits and their memory."""

import pytest

from matloom.device.open import memory_for, open_device


def test_a_run_may_take_minutes():
    assert open_device("model", "nano").timeout == 600
    assert open_device("model", "nano", timeout=5).timeout == 5


@pytest.mark.parametrize(
    ("size", "wanted"), [(0, 1 << 24), (1 << 23, 1 << 24), ((1 << 23) + 1, 1 << 25)]
)
def test_memory_for_regions(size, wanted):
    assert memory_for(size) == wanted


@pytest.mark.parametrize("option", ["waves", "timing", "check_bus"])
def test_what_the_model_has_not(option):
    with pytest.raises(ValueError, match=f"{option} must go with device 'rtl', not 'model'"):
        open_device("model", "nano", **{option: object()})
