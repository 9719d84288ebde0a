"""The functional model and the simulated chip, side by side."""

import dataclasses

import pytest

from matloom.arch.config import PRESETS, Config, load_config
from matloom.arch.csr import register
from matloom.device.driver import Driver
from matloom.device.model.transport import ModelTransport
from matloom.device.rtl import MemoryTiming, RtlTransport
from matloom.streams import clear_state

MEMORY_BYTES = 1 << 22

CONFIGS = {
    "nano": PRESETS["nano"],
    "units": dataclasses.replace(PRESETS["nano"], tables=1, products=1),
    "8x16": dataclasses.replace(Config(), rows=8, columns=16, hop=4, bus_bits=128),
    "reference": PRESETS["reference"],
    "float": dataclasses.replace(
        PRESETS["nano"],
        weight_rows=2,
        mac_modes=("i8xi8", "i16xi8", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"),
        float_rows=2,
    ),
    "narrow": load_config("small+weight_rows=2+tables=1+products=1+i8xi4+i4xi4+i16xi8"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """The functional model and the simulated chip of one configuration."""

    config: Config
    model: Driver
    rtl: Driver

    def __iter__(self):
        return iter((self.model, self.rtl))

    def disturb(self, number):
        """Stall the chip's external memory at random."""
        timing = MemoryTiming(stall_per_1024=300, latency_jitter=40, seed=number)
        self.rtl.transport.set_timing(timing)


@pytest.fixture(scope="session")
def open_chip():
    """Return the one simulation of a configuration."""
    transports = {}

    def find(config):
        if config.digest not in transports:
            transports[config.digest] = RtlTransport(config, MEMORY_BYTES)
        return transports[config.digest]

    yield find
    for transport in transports.values():
        transport.close()


@pytest.fixture
def pair(request, open_chip):
    """Both devices, reset; the test names the configuration as an indirect parameter."""
    config = CONFIGS[request.param]
    chip = open_chip(config)
    chip.set_timing(MemoryTiming())
    chip.memory[:] = 0
    stray = chip.stray_accesses
    devices = Pair(
        config=config,
        model=Driver(ModelTransport(config, MEMORY_BYTES), config),
        # A hang is found in seconds.
        rtl=Driver(chip, config, timeout=20.0),
    )
    devices.rtl.reset()
    devices.rtl.write("TIMEOUT", register("TIMEOUT").reset)
    # A reset leaves the memories on the chip as they are.
    clear_state(devices.rtl)
    yield devices
    assert chip.stray_accesses == stray
