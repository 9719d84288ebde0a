"""Bus checks of the simulated chip: on and off, and what they find on a defective chip."""

import numpy as np
import pytest

import matloom
from matloom.arch.config import PRESETS
from matloom.arch.csr import register
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.device.driver import Driver
from matloom.device.errors import BusError
from matloom.device.rtl import CHECK_VARIABLE, MemoryTiming, RtlTransport
from matloom_rtl import generate

CONFIG = PRESETS["nano"]
SIZE = 512
STALLS = MemoryTiming(stall_per_1024=300, seed=1)


def copy(driver):
    """Start a run that copies the input region to the output region."""
    fields = {"row_bytes": SIZE, "rows": 1, "planes": 1}
    instructions = (
        Instruction(Opcode.LOAD, {**fields, "region": Region.INPUT}),
        Instruction(Opcode.STORE, {**fields, "region": Region.OUTPUT, "wait_load": 1}),
        Instruction(Opcode.END),
    )
    commands = b"".join(map(pack, instructions))
    driver.place_regions({Region.PROGRAM: len(commands), Region.INPUT: SIZE, Region.OUTPUT: SIZE})
    data = np.random.default_rng(0).bytes(SIZE)
    driver.write_region(Region.PROGRAM, 0, commands)
    driver.write_region(Region.INPUT, 0, data)
    driver.run(0, len(commands))
    assert driver.read_region(Region.OUTPUT, 0, SIZE) == data


def chip(**options):
    return RtlTransport(CONFIG, 1 << 16, **options)


def test_switches_of_the_bus_check(monkeypatch):
    assert chip().check_bus, "in every test"
    assert not chip(check_bus=False).check_bus
    monkeypatch.setenv(CHECK_VARIABLE, "0")
    assert not chip().check_bus
    assert chip(check_bus=True).check_bus
    monkeypatch.delenv(CHECK_VARIABLE)
    assert not chip().check_bus
    driver = matloom.open_device("rtl", CONFIG, memory_bytes=1 << 16, check_bus=True)
    assert driver.transport.check_bus


def test_a_session_checks_its_bus(small_product, small_inputs):
    with matloom.load(small_product, config="nano", check_bus=True) as session:
        session.run(small_inputs)
        assert session.driver.transport.check_bus


def allow_bursts_of(transport, beats):
    """Check the chip as if its bursts could be at most this long, if it is checked."""
    transport._library.matloom_check(transport._handle, beats, CONFIG.outstanding)


def test_a_broken_rule_stops_the_simulation():
    transport = chip(check_bus=True)
    allow_bursts_of(transport, 1)
    driver = Driver(transport, CONFIG)
    with pytest.raises(BusError, match=r"bus rule burst_length broken in cycle \d+ on m_axi_ar"):
        copy(driver)
    for use in (lambda: driver.read("STATUS"), lambda: driver.write("TIMEOUT", 5)):
        with pytest.raises(BusError) as broken:
            use()
        assert (broken.value.rule, broken.value.channel) == ("burst_length", "m_axi_ar")
        assert 0 < broken.value.cycle < transport.elapsed
    # A reset of everything begins again.
    transport.reset()
    allow_bursts_of(transport, CONFIG.burst_beats)
    assert transport.read32(register("STATUS").offset) == 0
    copy(Driver(transport, CONFIG))


def test_the_bus_is_not_checked_unless_asked():
    transport = chip(check_bus=False)
    copy(Driver(transport, CONFIG))
    assert not transport.check_bus


def test_regions_stay_where_they_are_while_the_chip_runs():
    """The write is refused, and the monitor keeps the old regions."""
    transport = chip(check_bus=True)
    driver = Driver(transport, CONFIG)
    copy(driver)
    transport.set_timing(MemoryTiming(frozen=True))
    driver.write("IRQ_STATUS", 3)
    driver.write("CONTROL", 1)
    transport.wait_interrupt(200)
    place = driver.read("PROGRAM_BASE")
    with pytest.raises(OSError, match="failed with response 2"):
        driver.write("PROGRAM_BASE", place + 4096)
    transport.set_timing(MemoryTiming())
    assert transport.wait_interrupt(10_000)
    assert driver.read("PROGRAM_BASE") == place
    assert driver.read("STATUS") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("good", "bad", "rule", "channel"),
    [
        ("m_axi_arqos = 4'h0;", "m_axi_arqos = 4'h1;", "burst_attributes", "m_axi_ar"),
        (
            "m_axi_wdata = axi_write__w__payload[31:0];",
            "m_axi_wdata = axi_write__w__payload[31:0] ^ {32{~m_axi_wready}};",
            "payload_stays",
            "m_axi_w",
        ),
    ],
)
def test_a_defective_chip(good, bad, rule, channel, tmp_path, monkeypatch):
    """Its results are right, so only the bus check notices."""
    made = generate.generate(CONFIG)
    assert made.verilog.count(good) == 1
    defective = generate.Chip(
        config=CONFIG, verilog=made.verilog.replace(good, bad), sidecar=made.sidecar
    )
    monkeypatch.setattr(generate, "generate", lambda _config: defective)
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    copy(Driver(chip(check_bus=False, timing=STALLS), CONFIG))
    with pytest.raises(BusError) as broken:
        copy(Driver(chip(check_bus=True, timing=STALLS), CONFIG))
    assert (broken.value.rule, broken.value.channel) == (rule, channel)
