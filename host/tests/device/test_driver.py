"""The driver on the functional model: handshake, runs, faults, recovery, limits."""

import dataclasses
import random
import re

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.config_name import describe_config
from matloom.arch.csr import IDENTITY, Fault, register
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.device.driver import Driver
from matloom.device.errors import DeviceError, DeviceFaultError, DeviceTimeoutError
from matloom.device.model.transport import ModelTransport
from matloom.verification.random_programs import random_stream

CONFIG = PRESETS["nano"]
END = pack(Instruction(Opcode.END))


def opened(commands, regions=()):
    driver = Driver(ModelTransport(CONFIG, 1 << 20), CONFIG)
    sizes = {Region.PROGRAM: len(commands), **dict.fromkeys(regions, 4096)}
    driver.place_regions(sizes)
    driver.write_region(Region.PROGRAM, 0, commands)
    return driver


def test_runs_and_counts_instructions():
    driver = opened(END)
    assert driver.run(0, 16).values["instructions"] == 1


def test_regions_do_not_share_bytes():
    driver = opened(END, (Region.INPUT, Region.OUTPUT))
    driver.write_region(Region.INPUT, 5, b"abc")
    driver.write_region(Region.OUTPUT, 5, b"xyz")
    assert driver.read_region(Region.INPUT, 5, 3) == b"abc"
    assert driver.read_region(Region.PROGRAM, 0, 16) == END


def test_another_configuration():
    other = PRESETS["small"]
    sentence = (
        f"the device is of configuration {describe_config(CONFIG)}, not {describe_config(other)}"
    )
    with pytest.raises(DeviceError, match=re.escape(sentence)):
        Driver(ModelTransport(CONFIG), other)


def test_the_limit_of_an_instruction_is_set_when_opened():
    config = dataclasses.replace(CONFIG, time_limit=1)
    transport = ModelTransport(config)
    assert Driver(transport, config, limit=12345).read("LIMIT") == 12345
    driver = Driver(transport, config)
    assert driver.read("LIMIT") == 0, "what another driver had set"
    driver.set_limit(2**32 - 1)
    assert driver.read("LIMIT") == 2**32 - 1
    for bad in (-1, 2**32):
        with pytest.raises(DeviceError, match=rf"limit must be 0 to .* not {bad}"):
            driver.set_limit(bad)


def test_no_limit_without_one():
    transport = ModelTransport(CONFIG)
    assert Driver(transport, CONFIG, limit=0)
    with pytest.raises(DeviceError, match="limit must be 0 if the engine has no `time_limit`"):
        Driver(transport, CONFIG, limit=7)
    with pytest.raises(OSError, match="there is no register at 0x30"):
        transport.write32(register("LIMIT").offset, 7)


def test_another_device():
    transport = ModelTransport(CONFIG)
    transport._registers[register("ID").offset] = 5
    with pytest.raises(DeviceError, match=f"its ID is 0x00000005, not {IDENTITY:#010x}"):
        Driver(transport, CONFIG)


def test_too_little_memory():
    driver = Driver(ModelTransport(CONFIG, 8192), CONFIG)
    with pytest.raises(DeviceError, match=r"needs 12288 bytes .* the device has 8192"):
        driver.place_regions({Region.PROGRAM: 4097, Region.ARENA: 1})


def legal(**values):
    return {"region": 1, "row_bytes": 1, "rows": 1, "planes": 1, **values}


@pytest.mark.parametrize(
    ("commands", "cause"),
    [
        (b"", Fault.COMMAND_RANGE),
        (bytes([7]) + bytes(15), Fault.ILLEGAL_OPCODE),
        (pack(Instruction(Opcode.LOAD)), Fault.ILLEGAL_FIELD),
        (bytes(15) + b"\x80", Fault.ILLEGAL_FIELD),
        (pack(Instruction(Opcode.STORE, legal())), Fault.READ_ONLY_REGION),
        (pack(Instruction(Opcode.LOAD, legal(wait_exec=1))), Fault.DEPENDENCY),
        (pack(Instruction(Opcode.LOAD, legal(spad_addr=2**15 - 1, row_bytes=2))), Fault.SPAD_RANGE),
        (pack(Instruction(Opcode.LOAD, legal(dram_offset=4096))), Fault.DRAM_RANGE),
    ],
)
def test_faults_and_recovery(commands, cause):
    driver = opened(commands + END, (Region.INPUT,))
    size = len(commands + END) if commands else 0
    with pytest.raises(DeviceFaultError, match=cause.name) as caught:
        driver.run(0, size)
    assert caught.value.cause is cause
    assert caught.value.index == 0
    # A start at fault does nothing; a reset makes the device usable again.
    driver.write("CONTROL", 1)
    assert driver.read("STATUS") & 4
    driver.reset()
    assert driver.read("STATUS") == 0
    driver.write_region(Region.PROGRAM, 0, END)
    assert driver.run(0, 16).values["instructions"] == 1


def test_the_fault_record_is_decoded():
    """Each field is decoded from its bits, in the exception and in its message."""
    driver = opened(END)
    transport = driver.transport
    for name, value in (("FAULT", 0x349), ("FAULT_INDEX", 12), ("FAULT_ADDRESS", 0xABC0)):
        transport._registers[register(name).offset] = value
    fault = driver.fault()
    assert (fault.cause, fault.unit, fault.opcode) == (Fault.AXI_READ, "STORE", 3)
    assert (fault.index, fault.address) == (12, 0xABC0)
    assert str(fault) == (
        "the engine stopped: AXI_READ in STORE, instruction 12 (opcode 3), address 0xabc0"
    )


class Silent(ModelTransport):
    """A device whose status never changes."""

    def write32(self, address, value):
        if address != register("CONTROL").offset:
            super().write32(address, value)


def test_every_wait_has_a_limit():
    driver = Driver(Silent(CONFIG), CONFIG, timeout=0.05)
    driver.place_regions({Region.PROGRAM: 16})
    with pytest.raises(DeviceTimeoutError, match=r"a run timed out after 0\.05 s"):
        driver.run(0, 16)
    driver.transport._registers[register("STATUS").offset] = 8
    with pytest.raises(DeviceTimeoutError, match=r"a reset timed out after 0\.05 s"):
        driver.reset()


class Sleeping(Silent):
    """A device that can sleep until its interrupt, and counts its cycles."""

    def wait_interrupt(self, cycles):
        return cycles


def test_cycles_have_a_limit():
    driver = Driver(Sleeping(CONFIG), CONFIG, timeout=60, timeout_cycles=3 << 20)
    driver.place_regions({Region.PROGRAM: 16})
    with pytest.raises(DeviceTimeoutError, match=f"status 0x0 after {4 << 20} cycles"):
        driver.run(0, 16)


def test_garbage_never_hangs(seed):
    """Random bytes and streams with a flipped bit end, or fault, and the device stays usable."""
    generator = random.Random(seed)
    for number in range(60):
        stream = random_stream(seed + number, CONFIG, length=4)
        commands = bytearray(stream.commands)
        place = generator.randrange(len(commands))
        commands[place] ^= 1 << generator.randrange(8)
        if number % 3 == 0:
            commands = bytearray(generator.randbytes(256))
        driver = opened(bytes(commands), (Region.INPUT, Region.OUTPUT, Region.ARENA))
        try:
            driver.run(0, len(commands) // 16 * 16)
        except DeviceFaultError:
            driver.reset()
        driver.write_region(Region.PROGRAM, 0, END)
        assert driver.run(0, 16).values["instructions"] == 1


def test_a_fault_does_not_stay():
    """The next user of the device is not affected."""
    driver = opened(bytes([7]) + bytes(15))
    with pytest.raises(DeviceFaultError, match="ILLEGAL_OPCODE"):
        driver.run(0, 16)
    driver.write_region(Region.PROGRAM, 0, END)
    assert driver.run(0, 16).values["instructions"] == 1


class Interrupted(ModelTransport):
    """A device whose user interrupts a run."""

    def wait_interrupt(self, cycles):
        raise KeyboardInterrupt


def test_an_interrupted_run_is_not_left_at_work(monkeypatch):
    driver = Driver(Interrupted(CONFIG), CONFIG)
    driver.place_regions({Region.PROGRAM: 16})
    driver.write_region(Region.PROGRAM, 0, END)
    resets = []
    monkeypatch.setattr(driver, "reset", lambda: resets.append(1))
    with pytest.raises(KeyboardInterrupt):
        driver.run(0, 16)
    assert not resets
    driver.place_regions({Region.PROGRAM: 16})
    assert resets


def test_a_device_that_was_closed():
    driver = opened(END)
    driver.close()
    driver.close()
    for use in (
        lambda: driver.read("STATUS"),
        lambda: driver.run(0, 16),
        lambda: driver.place_regions({Region.PROGRAM: 16}),
        lambda: driver.read_region(Region.PROGRAM, 0, 16),
    ):
        with pytest.raises(DeviceError, match="the device was closed"):
            use()
