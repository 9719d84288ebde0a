"""The functional model and the simulated chip, side by side."""

import dataclasses
from pathlib import Path

import pytest

from matloom.arch.config import PRESETS, Config, load_config
from matloom.device.rtl import RtlTransport
from matloom.verification.pair import MEMORY_BYTES, Pair

HERE = Path(__file__).parent

CONFIGS = {
    "nano": PRESETS["nano"],
    "units": load_config(
        "nano+tables=1+products=3+softmax=1+zero_points=1+pooling=1+transposed_weights=1"
    ),
    "8x16": dataclasses.replace(Config(), rows=8, columns=16, broadcast_group=4, bus_bits=128),
    "reference": PRESETS["reference"],
    "limit": load_config("nano+time_limit=1+element_stride=0"),
    "parity": load_config("nano+parity=1"),
    "float": dataclasses.replace(
        PRESETS["nano"],
        weight_rows=2,
        mac_modes=("i8xi8", "i16xi8", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"),
        float_rows=2,
    ),
    "wide": load_config("nano+rows=16+weight_rows=4+windows=2"),
    "narrow": load_config("small+weight_rows=2+tables=1+products=4+curves=1+i8xi4+i4xi4+i16xi8"),
}

#: Configurations that slow tests alone run: building the simulator of each takes half a minute or
#: more. The units of a limit, of narrow weights and of floating point have fast tests of their own.
SLOW = {"8x16", "reference", "limit", "float", "narrow", "wide"}


def _configuration(item):
    return item.callspec.params["pair"] if "pair" in getattr(item, "fixturenames", ()) else ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests in this folder as slow if their configuration is slow to simulate."""
    for item in items:
        if item.path.parent == HERE and _configuration(item) in SLOW:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def open_chip(request):
    """Open the single simulation of a configuration; the run's seed decides its first state."""
    seed = request.config.option.seed
    transports = {}

    def find(config):
        if config.digest not in transports:
            transports[config.digest] = RtlTransport(config, MEMORY_BYTES, state_seed=seed)
        return transports[config.digest]

    yield find
    for transport in transports.values():
        transport.close()


@pytest.fixture
def pair(request, open_chip):
    """Return both devices, reset; the test gives the configuration as an indirect parameter."""
    config = CONFIGS[request.param]
    chip = open_chip(config)
    stray = chip.stray_accesses
    devices = Pair.start(chip, config)
    yield devices
    assert chip.stray_accesses == stray
