"""The link's hardware, simulated alone, with the host's own protocol, also over bad lines."""

import ctypes
import hashlib
import random
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import PRESETS
from matloom.arch.link import Request
from matloom.device.errors import DeviceError, DeviceTimeoutError
from matloom.device.frames import request_frame
from matloom.device.link import Link
from matloom.device.link_transport import LinkTransport
from matloom.toolchain.cache import cache_folder
from matloom.toolchain.verilator import build_library
from matloom_rtl.flat import connect_memory, memory_ports
from matloom_rtl.link import link as hardware
from matloom_rtl.link.settings import LinkSettings
from support.link_line import NOISES
from support.noisy_line import Noise

HARNESS = Path(__file__).with_name("link_bench.cpp")
HEADERS = Path(__file__).parents[2] / "matloom" / "device" / "harness" / "linked"
BASE, BYTES, DIVISOR = 0x8000_0000, 0x4000, 2
#: A clock of a megahertz, so that a second is a million cycles.
SETTINGS = LinkSettings(
    clock_hz=1_000_000, board="bench", memory_base=BASE, memory_bytes=BYTES, baud=500_000
)


class Flat(wiring.Component):
    """The link with its memory, under flat names."""

    def __init__(self):
        self.config = PRESETS["nano"]
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1),
                "irq": In(1),
                **{f"{channel}_valid": Out(1) for channel in ("ar", "aw", "w")},
                **{f"{channel}_ready": In(1) for channel in ("ar", "aw", "w")},
                **{f"{channel}_valid": In(1) for channel in ("r", "b")},
                **{f"{channel}_ready": Out(1) for channel in ("r", "b")},
                **{"ar_address": Out(12), "aw_address": Out(12), "w_data": Out(32)},
                **{"r_data": In(32), "r_resp": In(2), "b_resp": In(2)},
                **memory_ports(self.config),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.link = link = hardware.Link(self.config, SETTINGS)
        m.d.comb += [link.rx.eq(self.rx), link.irq.eq(self.irq), self.tx.eq(link.tx)]
        lite = link.axi_lite
        for name in ("ar", "aw", "w", "r", "b"):
            channel = getattr(lite, name)
            valid, ready = getattr(self, f"{name}_valid"), getattr(self, f"{name}_ready")
            if name in ("r", "b"):
                m.d.comb += [channel.valid.eq(valid), ready.eq(channel.ready)]
            else:
                m.d.comb += [valid.eq(channel.valid), channel.ready.eq(ready)]
        m.d.comb += [
            self.ar_address.eq(lite.ar.payload),
            self.aw_address.eq(lite.aw.payload),
            self.w_data.eq(lite.w.payload.data),
            lite.r.payload.data.eq(self.r_data),
            lite.r.payload.resp.eq(self.r_resp),
            lite.b.payload.eq(self.b_resp),
        ]
        connect_memory(m, self, self.config, link.axi_read, link.axi_write)
        return m


@pytest.fixture(scope="module")
def library():
    """The simulation, from the cache or built in some seconds."""
    text = verilog.convert(Flat(), name="link", emit_src=False, strip_internal_attrs=True)
    key = hashlib.sha256(text.encode())
    for path in (HARNESS, *sorted(HEADERS.glob("*.h"))):
        key.update(path.read_bytes())
    folder = cache_folder() / "simulators" / f"link-{key.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "link.v").write_text(text)
    flags = ["-CFLAGS", f"-I{HEADERS}"]
    path = build_library([folder / "link.v"], "link", [HARNESS], folder / "link.so", flags=flags)
    loaded = ctypes.CDLL(str(path))
    word, size, handle = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
    for name, result, arguments in (
        ("create", handle, [handle, size, size, word]),
        ("destroy", None, [handle]),
        ("reset", None, [handle]),
        ("send", None, [handle, ctypes.c_char_p, word]),
        ("receive", word, [handle, handle, word, size]),
        ("cycles", size, [handle]),
        ("writes", size, [handle]),
        ("log", word, [handle, handle, word]),
        ("memory", None, [handle, word, word, word]),
        ("interrupt", None, [handle, size]),
    ):
        function = getattr(loaded, f"bench_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


class Chip:
    """The simulated link as a stream whose time is the simulation's."""

    name, baud = "chip", SETTINGS.baud

    def __init__(self, library, there=None, back=None):
        self.library, self.there, self.back = library, there or Noise(), back or Noise()
        self.memory = np.zeros(BYTES, np.uint8)
        self.handle = library.bench_create(self.memory.ctypes.data, BASE, BYTES, DIVISOR)
        self.came = ctypes.create_string_buffer(4096)

    def write(self, data):
        data = self.there.pass_on(data)
        self.library.bench_send(self.handle, data, len(data))

    def read(self, timeout):
        cycles = int(timeout * SETTINGS.clock_hz) + 1
        count = self.library.bench_receive(self.handle, self.came, len(self.came), cycles)
        return self.back.pass_on(self.came.raw[:count])

    def now(self):
        return self.library.bench_cycles(self.handle) / SETTINGS.clock_hz

    @property
    def register_writes(self):
        log = np.zeros(1 << 20, np.uint32)
        count = self.library.bench_log(self.handle, log.ctypes.data, log.size)
        return log[:count].reshape(-1, 2).tolist()

    def close(self):
        self.library.bench_destroy(self.handle)


@pytest.fixture
def open_chip(library):
    """Open chips on noisy lines; the time-out allows for the longest frame."""
    chips = []

    def opened(noise=None, seed=0):
        there, back = (Noise(seed=seed + k, **(noise or {})) for k in (1, 2))
        chips.append(Chip(library, there, back))
        return chips[-1], LinkTransport(Link(chips[-1], silence=0.05))

    yield opened
    for chip in chips:
        chip.close()


def test_hello(open_chip):
    _, transport = open_chip()
    hello = transport.hello
    assert (hello.board, hello.clock_hz, hello.fresh) == ("bench", 1_000_000, 1)
    assert hello.config_digest == PRESETS["nano"].digest
    assert (transport.memory_base, transport.memory_bytes) == (BASE, BYTES)


@pytest.mark.parametrize("fill", [b"\0", b"\xff", b"\xa5"])
def test_any_bytes_at_any_place(open_chip, fill):
    chip, transport = open_chip()
    expected = np.zeros(BYTES, np.uint8)
    for start, size in [(0, 1), (1, 1), (2, 1), (3, 1), (5, 2), (7, 9), (31, 33), (1001, 1500)]:
        transport.write_block(BASE + start, fill * size)
        expected[start : start + size] = fill[0]
        assert (chip.memory == expected).all()
        assert transport.read_block(BASE + start, size) == fill * size
        around = transport.read_block(BASE + max(start - 1, 0), size + 2)
        assert around == expected[max(start - 1, 0) :][: size + 2].tobytes()


def test_registers_and_bus_errors(open_chip):
    chip, transport = open_chip()
    transport.write32(0x7FC, 0x89ABCDEF)
    assert transport.read32(0x7FC) == 0x89ABCDEF
    assert chip.register_writes == [[0x7FC, 0x89ABCDEF]]
    for address in (0x800, 0x1000, 0x8000_0000):
        with pytest.raises(DeviceError, match="BUS_ERROR"):
            transport.read32(address)
        with pytest.raises(DeviceError, match="BUS_ERROR"):
            transport.write32(address, 1)
    with pytest.raises(DeviceError, match="BAD_REQUEST"):
        transport.read32(2)
    transport.memory_bytes *= 2
    with pytest.raises(DeviceError, match="BUS_ERROR"):
        transport.write_block(BASE + BYTES - 4, bytes(8))
    with pytest.raises(DeviceError, match="BUS_ERROR"):
        transport.read_block(BASE + BYTES - 4, 8)
    assert transport.read32(0x7FC) == 0x89ABCDEF


def test_a_bus_that_does_not_answer(open_chip):
    chip, transport = open_chip()
    chip.library.bench_memory(chip.handle, 32, 0, 1)
    for _ in range(2):
        with pytest.raises(DeviceError, match="failed with TIMEOUT: the bus did not"):
            transport.read_block(BASE, 100)
    chip.library.bench_memory(chip.handle, 32, 0, 0)
    # What was asked first ends now, and nothing of it is left.
    transport.write_block(BASE + 8, b"later")
    assert transport.read_block(BASE + 8, 5) == b"later"


def test_waiting_for_the_interrupt(open_chip):
    chip, transport = open_chip()
    assert transport.wait_interrupt(1000) == 1000
    chip.library.bench_interrupt(chip.handle, 20_000)
    waited = transport.wait_interrupt(1 << 20)
    assert 18_500 < waited < 20_000
    assert transport.wait_interrupt(1 << 20) == 0


@pytest.mark.parametrize("stall", [0, 500])
def test_nine_tenths_of_the_line(open_chip, stall):
    """With two cycles per bit, memory must answer within 80 cycles a word; with 18, within 720."""
    chip, transport = open_chip()
    chip.library.bench_memory(chip.handle, 8, stall, 0)
    data = random.Random(1).randbytes(BYTES)
    least = BYTES * 10 / SETTINGS.baud
    started = chip.now()
    transport.write_block(BASE, data)
    written = chip.now()
    assert transport.read_block(BASE, BYTES) == data
    assert chip.memory.tobytes() == data
    assert least / (written - started) > 0.9
    assert least / (chip.now() - written) > 0.9


def _campaign(chip, transport, rounds, seed):
    """Write, read back and count; return the number of requests."""
    chooser, requests = random.Random(seed), 0
    shadow, beats = bytearray(BYTES), 0
    for count in range(rounds):
        start, size = chooser.randrange(BYTES - 600), chooser.randrange(1, 600)
        data = chooser.randbytes(size)
        transport.write_block(BASE + start, data)
        shadow[start : start + size] = data
        beats += (start + size + 3) // 4 - start // 4
        transport.write32(8, count)
        first = chooser.randrange(BYTES - 200)
        assert transport.read_block(BASE + first, 200) == shadow[first : first + 200]
        assert transport.read32(8) == count
        requests += 4
    assert chip.memory.tobytes() == shadow
    assert chip.register_writes == [[8, count] for count in range(rounds)]
    # Each beat once: what is written twice is the same, but is counted.
    assert chip.library.bench_writes(chip.handle) == beats
    return requests


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", NOISES)
def test_nothing_is_lost_and_nothing_twice(open_chip, name, seed):
    chip, transport = open_chip(NOISES[name], seed)
    assert _campaign(chip, transport, 40, seed) == 160
    assert (transport.line_cost.repeats > 0) == (name != "quiet")


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_ten_thousand_frames(open_chip, name, seed):
    chip, transport = open_chip(NOISES[name], seed)
    assert _campaign(chip, transport, 2500, seed) == 10_000


def _restarts_of_the_host(chip, rounds, seed):
    chooser = random.Random(seed)
    for count in range(rounds):
        frame = request_frame(Request.WRITE_MEMORY, count & 255, 40, BASE, chooser.randbytes(40))
        chip.write(frame[: chooser.randrange(len(frame) - 1)])
        transport = LinkTransport(Link(chip, silence=0.05))
        transport.write32(0, count)
        assert transport.read32(0) == count
    assert chip.register_writes == [[0, count] for count in range(rounds)]
    assert not chip.memory.any()


def _restarts_of_the_chip(chip, rounds, seed):
    """Reset during a request or its reply: an error, and then everything works as before."""
    chooser, lost = random.Random(seed), 0
    for count in range(rounds):
        transport = LinkTransport(Link(chip, silence=0.05))
        transport.write32(0, count)
        frame = request_frame(Request.READ_MEMORY, transport._link._sequence, 200, BASE)
        chip.write(frame)
        chip.library.bench_receive(chip.handle, chip.came, 4096, chooser.randrange(1, 4000))
        chip.library.bench_reset(chip.handle)
        with pytest.raises(DeviceError, match="restarted"):
            transport.write32(0, 12345)
        lost += 1
    assert lost == rounds
    assert chip.register_writes == [[0, count] for count in range(rounds)]


@pytest.mark.parametrize("restarts", [_restarts_of_the_host, _restarts_of_the_chip])
def test_restarts_in_mid_frame(open_chip, restarts, seed):
    restarts(open_chip()[0], 60, seed)


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [_restarts_of_the_host, _restarts_of_the_chip])
def test_ten_thousand_restarts_in_mid_frame(open_chip, restarts, seed):
    restarts(open_chip()[0], 10_000, seed)


def test_garbage(open_chip, seed):
    chip, transport = open_chip()
    for count in range(20):
        chip.write(random.Random(seed + count).randbytes(3000))
        transport.write32(0, count)
    assert chip.register_writes == [[0, count] for count in range(20)]
    assert not chip.memory.any()


def test_a_line_that_is_cut(open_chip):
    chip, transport = open_chip()
    chip.there.dropped = 1.0
    with pytest.raises(DeviceTimeoutError, match="no answer from"):
        transport.write32(0, 1)
    chip.there.dropped = 0.0
    transport.write32(0, 2)
    assert chip.register_writes == [[0, 2]]
