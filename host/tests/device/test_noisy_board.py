"""A whole simulated board with the host's own protocol, over a bad line and through restarts.

test_link_gateware.py runs 10,000 frames on the link alone; these tests run 100 on everything that a
bitstream contains, through a pseudo-terminal. The SDRAM's pins count each byte that is written, so
a repeated write shows.
"""

import random
import time

import pytest

from matloom.arch.config import load_config
from matloom.arch.csr import register
from matloom.arch.link import Request
from matloom.device.driver import Driver
from matloom.device.errors import DeviceError
from matloom.device.frames import request_frame
from matloom.device.link import Link
from matloom.device.link_transport import LinkTransport
from matloom.device.serial_port import SerialStream, parse_address
from matloom.device.simulated_board import SimulatedBoard
from matloom.runtime import load
from support.link_line import NOISES
from support.noisy_line import Noise

BOARD = "ulx3s-85f"

#: The least engine there is, for the sake of the time in which its simulator is built.
LEAST = "nano+windows=0+maximum=0"

#: Requests of a case.
FRAMES = 100

#: Bytes of memory that the tests use.
SPAN = 0x4000

#: Cycles of a byte on the simulated line.
BYTE_CYCLES = 20

#: The board's clock, of which a second of the host's time is made.
CLOCK_HZ = 70_833_333

#: Cycles without an answer: more than two blocks on the line.
SILENCE = 50_000

#: Seconds without a cycle after which nothing is going to come: the clock stands still.
STILL = 0.3

#: A register that keeps what it is told, and that the driver writes before the engine uses it.
SCRATCH = register("PROGRAM_BYTES").offset


@pytest.fixture(scope="module")
def board():
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    with SimulatedBoard(BOARD, LEAST) as running:
        yield running


class NoisyStream(SerialStream):
    """The board's port behind a line that is noisy in both directions.

    Its time is the simulation's, so a busy machine does not matter.
    """

    def __init__(self, board, noise, seed):
        super().__init__(*parse_address(board.device))
        self._board = board
        self._there, self._back = (Noise(seed=2 * seed + k, **noise) for k in (0, 1))

    def now(self):
        return self._board.cycles / CLOCK_HZ

    def write(self, data):
        super().write(self._there.pass_on(data))

    def read(self, timeout):
        end, cycles, since = self.now() + timeout, 0, time.monotonic()
        while True:
            came = self._back.pass_on(super().read(0.005))
            if came or self.now() >= end:
                return came
            if self._board.cycles != cycles:
                cycles, since = self._board.cycles, time.monotonic()
            elif time.monotonic() - since > STILL:
                return b""


class DeafStream(NoisyStream):
    """A line that loses the answer to each register write the first time."""

    def __init__(self, board):
        super().__init__(board, {}, 0)
        self._deaf = False

    def write(self, data):
        # Delimiter, where the next zero is, then kind and attempt in one byte.
        self._deaf = data[2] == Request.WRITE_REGISTERS
        super().write(data)

    def read(self, timeout):
        came = super().read(timeout)
        return b"" if self._deaf else came


@pytest.fixture
def opened(board):
    """Open the board's port again and again; the last one is closed at the end."""
    streams = []

    def open_port(noise=None, seed=0):
        for stream in streams:
            stream.close()
        streams.append(NoisyStream(board, noise or {}, seed))
        return LinkTransport(Link(streams[-1], silence=SILENCE / CLOCK_HZ))

    open_port.streams = streams
    yield open_port
    for stream in streams:
        stream.close()


def _exchange(transport, chooser, shadow, count):
    """Write and read back memory and a register; return the number of bytes written."""
    base = transport.memory_base
    start, size = chooser.randrange(SPAN - 600), chooser.randrange(1, 600)
    data = chooser.randbytes(size)
    transport.write_block(base + start, data)
    shadow[start : start + size] = data
    transport.write32(SCRATCH, count)
    first = chooser.randrange(SPAN - 200)
    assert transport.read_block(base + first, 200) == shadow[first : first + 200]
    assert transport.read32(SCRATCH) == count
    return size


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_nothing_is_lost_and_nothing_twice(board, opened, name, seed):
    transport, chooser = opened(NOISES[name], seed), random.Random(seed)
    shadow = bytearray(chooser.randbytes(SPAN))
    transport.write_block(transport.memory_base, bytes(shadow))
    before, written, asked = board.written_bytes, 0, transport.line_cost.requests
    for count in range(FRAMES // 4):
        written += _exchange(transport, chooser, shadow, count)
    assert transport.line_cost.requests - asked == FRAMES
    assert transport.read_block(transport.memory_base, SPAN) == bytes(shadow)
    assert board.written_bytes - before == written
    assert transport.line_cost.repeats > 0 or name == "quiet"


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_a_network_runs_once_a_call(board, opened, name, small_product, small_inputs, seed):
    """The number of stored bytes shows that each call started the engine once."""
    with load(small_product, device="model", config=LEAST) as session:
        (expected,) = session.run(small_inputs).values()
    driver = Driver(opened(NOISES[name], seed), load_config(LEAST))
    with load(small_product, device=driver, config=LEAST) as session:
        session.run(small_inputs)
        before, written = board.written_bytes, []
        first = driver.transport.line_cost.requests
        while driver.transport.line_cost.requests - first < FRAMES:
            (found,) = session.run(small_inputs).values()
            assert (found == expected).all()
            written.append(board.written_bytes - before)
            before = board.written_bytes
    # Inputs by the host and outputs by the engine, each once.
    assert set(written) == {small_inputs["a"].nbytes + expected.nbytes}


@pytest.mark.slow
def test_a_network_runs_once_if_answers_are_lost(board, small_product, small_inputs):
    """Each register write is sent twice, also those that start the engine."""
    with load(small_product, device="model", config=LEAST) as session:
        (expected,) = session.run(small_inputs).values()
    link = Link(DeafStream(board), silence=SILENCE / CLOCK_HZ)
    driver = Driver(LinkTransport(link), load_config(LEAST))
    with load(small_product, device=driver, config=LEAST) as session:
        session.run(small_inputs)
        before, repeats = board.written_bytes, link.cost.repeats
        for _ in range(4):
            (found,) = session.run(small_inputs).values()
            assert (found == expected).all()
    driver.close()
    assert link.cost.repeats - repeats >= 4 * 5
    assert board.written_bytes - before == 4 * (small_inputs["a"].nbytes + expected.nbytes)


@pytest.mark.slow
def test_restarts_of_the_host_in_mid_frame(board, opened, seed):
    """Cut requests are not executed; complete ones are executed once, without an answer."""
    chooser = random.Random(seed)
    for count in range(FRAMES):
        transport, before = opened(), board.written_bytes
        number = transport._link._sequence
        data, whole = chooser.randbytes(40), count % 2
        frame = request_frame(Request.WRITE_MEMORY, number, len(data), transport.memory_base, data)
        end = len(frame) if whole else chooser.randrange(1, len(frame) - 1)
        opened.streams[-1].write(frame[:end])
        transport = opened()
        transport.write32(SCRATCH, count)
        assert transport.read32(SCRATCH) == count
        assert board.written_bytes - before == whole * len(data)


@pytest.mark.slow
def test_restarts_of_the_board_in_mid_frame(board, opened, seed):
    """The host gets an error, nothing runs twice, and then everything works as before."""
    chooser = random.Random(seed)
    for count in range(FRAMES):
        transport, starts = opened(), board.starts
        transport.write32(SCRATCH, count)
        data, before = chooser.randbytes(2048), board.written_bytes
        # While requests are under way, and the last of them is not complete.
        board.restart_after(chooser.randrange(1, len(data) * BYTE_CYCLES))
        with pytest.raises(DeviceError, match="restarted"):
            transport.write_block(transport.memory_base, data)
        assert board.starts == starts + 1
        assert board.written_bytes - before < len(data)
        with pytest.raises(DeviceError, match="restarted"):
            transport.write32(SCRATCH, 12345)
        transport, before = opened(), board.written_bytes
        assert transport.read32(SCRATCH) == register("PROGRAM_BYTES").reset
        transport.write_block(transport.memory_base, data)
        assert transport.read_block(transport.memory_base, len(data)) == data
        assert board.written_bytes - before == len(data)
