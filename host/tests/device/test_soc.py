"""The system on chip in Verilator runs compiled C: what its processor sees of everything else."""

import subprocess
import sys
from pathlib import Path

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.csr import IDENTITY, Fault
from matloom.arch.soc import MEMORY_BASE, SOC_IDENTITY, region
from matloom.device.soc import SOC_CLOCK_HZ, SocChip

pytest.importorskip("pythondata_cpu_vexriscv", reason="needs a processor: extra soc")
pytest.importorskip("ziglang", reason="needs a compiler: extra firmware")

pytestmark = pytest.mark.slow

FIRMWARE = Path(__file__).resolve().parents[3] / "firmware"
CONFIG = PRESETS["nano"]
MEMORY_BYTES = 1 << 24
WORD = 1 << 32
LETTERS = b"abcde"

#: lui t0, 0x40000; jr t0: to the first byte of external memory.
ROM = b"".join(word.to_bytes(4, "little") for word in (0x4000_02B7, 0x0002_8067))

COMPILE = (
    *(sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-freestanding-none"),
    *("-mcpu=generic_rv32+m+zicsr", "-std=c11", "-O2", "-ffreestanding", "-nostdlib"),
    *("-fno-builtin", "-mcmodel=medany", "-Wall", "-Wextra", "-Wconversion", "-Werror"),
)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Return the compiled check as the bytes of external memory."""
    folder = tmp_path_factory.mktemp("soc")
    tests = FIRMWARE / "tests"
    command = [*COMPILE, "-I", FIRMWARE / "include", f"-Wl,-T,{tests / 'soc_check.ld'}"]
    command += [tests / "soc_start.S", tests / "soc_check.c", "-o", folder / "check.elf"]
    objcopy = [sys.executable, "-m", "ziglang", "objcopy", "-O", "binary"]
    for words in (command, [*objcopy, folder / "check.elf", folder / "check.bin"]):
        done = subprocess.run([str(word) for word in words], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
    return (folder / "check.bin").read_bytes()


@pytest.fixture(scope="module")
def lines(image):
    """Return the numbers that the check says of each thing, by its name."""
    said = b""
    with SocChip(CONFIG, ROM, MEMORY_BYTES, optimise=False) as chip:
        chip.memory[: len(image)] = list(image)
        while not said.endswith(b"\nend\n"):
            assert chip.cycles < 1_000_000, said
            chip.run(10_000)
            said += chip.take()
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


def test_the_data_cache_keeps_lines_until_it_is_flushed(lines):
    assert lines["caches"] == [1, 1, 2]


def test_arithmetic(lines):
    one, other = 0xFEDC_BA98, 0x1235
    negative = one - WORD
    quotient = -negative // 7
    assert lines["arithmetic"] == [
        *(one * other % WORD, one * other // WORD, one // other, one % other),
        quotient,
    ]


def test_cycles_of_memory(lines):
    lines_read, words_read, words_written = (cycles / 64 for cycles in lines["cycles"])
    # 32 cycles of latency and a beat of 4 bytes a cycle; hits; 8 cycles to a write's response.
    assert 32 + 8 < lines_read < 32 + 8 + 16
    assert words_read < 8
    assert 8 < words_written < 8 + 8


def test_interrupts(lines):
    assert LETTERS.upper() in lines["said"]
    timer, engine, causes, fault = lines["interrupts"]
    assert (timer, engine) == (3, 1)
    assert causes == 1 << 7 | 1 << 11
    assert fault == Fault.COMMAND_RANGE


def test_failed_accesses_are_told(lines):
    end = region("UNCACHED").base + MEMORY_BYTES
    assert lines["errors"] == [0, 1, MEMORY_BASE + 16, 0, end]
