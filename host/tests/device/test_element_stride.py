"""A chip without LOAD's element stride: streams, a network, and instructions that are illegal."""

import numpy as np
import pytest

from matloom.arch.csr import Fault
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.data.digits import NETWORK
from matloom.device.errors import DeviceFaultError
from matloom.runtime import load
from matloom.verification.checks import check_streams

pytestmark = pytest.mark.parametrize("pair", ["limit"], indirect=True)


def test_streams(pair, seed):
    assert not pair.config.element_stride
    assert check_streams(pair, seed, 60)["streams"] == 60


def test_the_digits_network(pair):
    """Its first layer uses one channel here and rows as channels at `nano`; outputs are equal."""
    images = np.random.default_rng(1).integers(-128, 128, (5, 8, 8, 1), np.int8)
    found = load(NETWORK, device=pair.rtl, config=pair.config).run(images)
    assert (found == load(NETWORK, device="model", config="nano").run(images)).all()


@pytest.mark.parametrize("spread", [1, 2, 3])
def test_a_stride_is_illegal(pair, spread):
    body = {"region": Region.INPUT, "row_bytes": 8, "rows": 1, "planes": 1}
    # Packed where the field exists.
    commands = pack(Instruction(Opcode.LOAD, body | {"spread": spread}))
    commands += pack(Instruction(Opcode.END))
    for driver in (pair.rtl, pair.model):
        driver.place_regions({Region.PROGRAM: len(commands), Region.INPUT: 64})
        driver.write_region(Region.PROGRAM, 0, commands)
        with pytest.raises(DeviceFaultError) as fault:
            driver.run(0, len(commands))
        assert (fault.value.cause, fault.value.index) == (Fault.ILLEGAL_FIELD, 0)
        driver.reset()
