"""The system on chip in Verilator runs compiled C, which checks everything around its processor."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.arch.csr import IDENTITY, Fault, register
from matloom.arch.soc import MEMORY_BASE, SOC_IDENTITY, region
from matloom.data.digits import NETWORK
from matloom.device.boot import send_image
from matloom.device.errors import DeviceError
from matloom.device.link import Link
from matloom.device.link_transport import LinkTransport
from matloom.device.serial_port import SerialStream, parse_address
from matloom.device.soc import IMAGE_BYTES, SOC_CLOCK_HZ, SocChip, SocTerminal
from matloom.runtime import load as load_network
from matloom.toolchain.soc_firmware import compile_image, link_server

pytest.importorskip("pythondata_cpu_vexriscv", reason="needs a processor: extra soc")
pytest.importorskip("ziglang", reason="needs a compiler: extra firmware")

pytestmark = pytest.mark.slow

CONFIG = PRESETS["nano"]
MEMORY_BYTES = (1 << 24) + IMAGE_BYTES
WORD = 1 << 32
LETTERS = b"abcde"


@pytest.fixture(scope="module", params=["default", "lite"])
def cpu(request):
    """Return the name of a processor."""
    return request.param


@pytest.fixture(scope="module")
def lines(cpu):
    """Return the numbers that the check program prints, by name."""
    said = b""
    with SocChip(CONFIG, MEMORY_BYTES, cpu=cpu) as chip:
        chip.load(compile_image(("tests/soc_check.c",)))
        started = chip.cycles
        while not said.endswith(b"\nend\n"):
            assert chip.cycles < started + 1_000_000, said
            chip.run(10_000)
            said += chip.receive()
            if said.endswith(b"\nready\n"):
                chip.send(LETTERS)
    text = [line.split() for line in said.decode().splitlines()]
    return {words[0]: [int(word, 16) for word in words[1:]] for words in text if words[1:]} | {
        "said": said
    }


def test_system(lines):
    name = int.from_bytes(b"simu", "little")
    assert lines["system"] == [
        *(SOC_IDENTITY, SOC_CLOCK_HZ, MEMORY_BYTES, name),
        *(IDENTITY, CONFIG.digest),
    ]


def test_memories(lines):
    word = [i * 2654435761 % WORD for i in range(0, 4096, 4)]
    assert lines["memories"] == [
        sum(word) % WORD,
        (word[1] & 0xFFFF_00FF) | 0xAB00,
        (word[2] & 0x0000_FFFF) | 0xCDEF_0000,
        (~4 % WORD & 0xFF00_FFFF) | 0x0055_0000,
        ~1020 % WORD,
    ]


def test_the_data_cache_keeps_lines_until_it_is_flushed(lines, cpu):
    assert lines["caches"] == ([1, 1, 2] if cpu == "default" else [1, 2, 2])


def test_arithmetic(lines):
    one, other = 0xFEDC_BA98, 0x1235
    negative = one - WORD
    quotient = -negative // 7
    assert lines["arithmetic"] == [
        *(one * other % WORD, one * other // WORD, one // other, one % other),
        quotient,
    ]


def test_cycles_of_memory(lines, cpu):
    lines_read, words_read, words_written = (cycles / 64 for cycles in lines["cycles"])
    # 32 cycles of latency and a beat of 4 bytes per cycle; hits; 8 cycles to a write's response.
    if cpu == "default":
        assert 32 + 8 < lines_read < 32 + 8 + 16
        assert words_read < 8
    else:
        assert 32 + 1 < lines_read < 32 + 1 + 16
        assert 32 + 1 < words_read < 32 + 1 + 16
    assert 8 < words_written < 8 + 8


def test_interrupts(lines):
    assert LETTERS.upper() in lines["said"]
    timer, engine, causes, fault = lines["interrupts"]
    assert (timer, engine) == (3, 1)
    assert causes == 1 << 7 | 1 << 11
    assert fault == Fault.COMMAND_RANGE


def test_failed_accesses_are_reported(lines):
    end = region("UNCACHED").base + MEMORY_BYTES
    assert lines["errors"] == [0, 1, MEMORY_BASE + 16, 0, end]


def test_two_chips_at_once_end_in_any_order():
    with SocChip(CONFIG, MEMORY_BYTES) as one:
        with SocChip(CONFIG, MEMORY_BYTES) as other:
            other.run(1000)
        one.run(1000)
        assert one.cycles > 0


def test_it_boots_over_a_pseudo_terminal():
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    with SocTerminal(CONFIG, MEMORY_BYTES) as terminal:
        stream = SerialStream(*parse_address(terminal.device))
        send_image(stream, link_server(), silence=5.0)
        transport = LinkTransport(Link(stream))
        assert transport.read32(register("DIGEST").offset) == CONFIG.digest
        transport.close()


@pytest.fixture(scope="module")
def session():
    """Return a session on the system, after its processor has booted and answers the host link."""
    with load_network(NETWORK, device="soc", config="nano") as running:
        yield running


def test_a_network_runs_in_the_cycles_of_the_engine(session):
    picture = np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 1), np.int8)
    outputs, cycles = {}, {}
    with load_network(NETWORK, device="rtl", config="nano") as alone:
        for name, each in (("soc", session), ("rtl", alone)):
            outputs[name] = each.run(picture)
            cycles[name] = each.report().cycles
    assert (outputs["soc"] == outputs["rtl"]).all()
    # The processor's code comes from the same memory.
    assert cycles["soc"] == pytest.approx(cycles["rtl"], rel=0.03)


def test_memory_and_errors_over_the_link(session):
    transport = session.driver.transport
    data = np.random.default_rng(2).integers(0, 256, 2501, np.uint8).tobytes()
    end = transport.memory_base + transport.memory_bytes
    transport.write_block(end - len(data), data)
    assert transport.read_block(end - len(data), len(data)) == data
    with pytest.raises(DeviceError, match="failed with BUS_ERROR"):
        transport.read32(0x7FC)
    assert transport.read32(register("ID").offset) == IDENTITY
    assert transport.hello.board == "simulation"


def test_keyword_spotting(models):
    network, outputs, cycles = next(models.rglob("kws_ref_model.tflite")), {}, {}
    for device in ("rtl", "soc"):
        with load_network(network, device=device, config="nano") as running:
            info = running.program.inputs[0]
            values = np.random.default_rng(4).integers(-128, 128, info.shape)
            (outputs[device],) = running.run({info.name: values.astype(info.dtype)}).values()
            cycles[device] = running.report().cycles
    assert (outputs["soc"] == outputs["rtl"]).all()
    assert cycles["soc"] == pytest.approx(cycles["rtl"], rel=0.03)
