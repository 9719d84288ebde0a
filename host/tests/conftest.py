"""Fixtures of the host's tests: the model collection, and networks small enough for every test."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from matloom.arch.config import PRESETS, Config
from matloom.bench import collection
from matloom.device.driver import Driver
from matloom.device.model.transport import ModelTransport
from matloom.device.rtl import MemoryTiming, RtlTransport
from matloom.ir.graph import Graph
from matloom.products import product_graph


@pytest.fixture(scope="session")
def models():
    """Return the folder of the model collection, or skip."""
    folder = collection()
    if folder is None:
        pytest.skip("the model collection is absent: set MATLOOM_MODELS")
    return folder


@pytest.fixture
def small_product() -> Graph:
    """Return a network of one dense layer: 3 samples of 20 values to 10."""
    return product_graph(3, 20, 10)


@pytest.fixture
def small_inputs():
    """Return inputs of `small_product` by name."""
    return {"a": np.random.default_rng(1).integers(-128, 128, (3, 20), np.int8)}


CONFIGS = {**PRESETS, "8x16": Config(rows=8, columns=16, bus_bits=128)}


@dataclass(frozen=True)
class Pair:
    """The functional model and the chip in Verilator, of one configuration."""

    config: Config
    model: Driver
    chip: Driver

    def __iter__(self) -> Iterator[Driver]:
        return iter((self.model, self.chip))

    def disturb(self, seed: int) -> None:
        """Let the chip's memory stall and vary its latency at random."""
        timing = MemoryTiming(stall_per_1024=300, latency_jitter=40, seed=seed)
        self.chip.transport.set_timing(timing)


@pytest.fixture(scope="session")
def pair(request) -> Iterator[Pair]:
    """Return both devices of the configuration that a test names."""
    config = CONFIGS[request.param]
    chip = RtlTransport(config, 1 << 22)
    yield Pair(config, Driver(ModelTransport(config, 1 << 22), config), Driver(chip, config))
    chip.close()
