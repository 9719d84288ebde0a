"""The whole chip without a mutant, with one that streams notice, and with an equivalent one."""

import dataclasses

import pytest

from matloom.arch.config import PRESETS, Config
from mutation import chip
from mutation.units import RTL

UNIT = "memory/rotate"
SOURCE = (RTL / f"{UNIT}.py").read_text()


def changed(before, after):
    assert before in SOURCE
    return SOURCE.replace(before, after)


def test_every_knob_is_on_somewhere():
    """Mutants of what a knob builds would otherwise change no netlist, and count as equivalent."""
    nano = PRESETS["nano"]
    off = {
        item.name
        for item in dataclasses.fields(Config)
        if getattr(nano, item.name) == 0 and isinstance(getattr(nano, item.name), int)
    }
    assert {"softmax", "parity", "transposed_weights"} <= off
    configs = [chip.config_of(name) for name in chip.CONFIGS]
    assert {name for name in off if not any(getattr(each, name) for each in configs)} == set()


@pytest.mark.slow
def test_netlist_digests_distinguish_hardware():
    sound = chip.digests_of(UNIT, None, {})
    assert list(sound) == [*chip.CONFIGS, *chip.AROUND]
    assert "" not in sound.values()
    assert len(set(sound.values())) == len(sound)
    assert chip.digests_of(UNIT, SOURCE + "\n# The same.\n", sound) == sound
    other = chip.digests_of(UNIT, changed("value.rotate_left(", "value.rotate_right("), sound)
    assert list(other) == [chip.CONFIGS[0]]
    assert other[chip.CONFIGS[0]] not in ("", sound[chip.CONFIGS[0]])


@pytest.mark.slow
def test_streams_are_equal_only_without_a_mutant():
    assert chip.judge(UNIT, None, "nano", 10) == ("survived", "10 streams equal")
    turned = changed("value.rotate_left(", "value.rotate_right(")
    verdict, found = chip.judge(UNIT, turned, "nano", 10)
    assert verdict == "killed"
    assert found.startswith(("stream ", "after stream ", "bus rule "))
