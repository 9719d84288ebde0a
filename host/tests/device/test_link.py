"""The host's side of the link against a device in Python, written from the page."""

import random
import zlib
from dataclasses import replace

import pytest

from matloom.arch import link as numbers
from matloom.arch.config import PRESETS
from matloom.arch.link import Request, Status
from matloom.arch.memory import MEMORIES
from matloom.device.driver import Driver
from matloom.device.errors import DeviceError, DeviceTimeoutError
from matloom.device.frames import ReplyParser, request_frame
from matloom.device.link import Link
from matloom.device.link_transport import LinkTransport
from matloom.device.model.transport import ModelTransport
from matloom.device.window import LinkRequest
from matloom.runtime import Session, compile
from support.link_device import LinkDevice
from support.link_line import NOISES, Line, PacedLine, Target, campaign
from support.noisy_line import Noise


def opened(there=None, back=None, target=None, line=Line, **details):
    line = line(LinkDevice(target or Target(), **details), there, back)
    return line, LinkTransport(Link(line, silence=0.03))


def test_requests_match_the_page():
    frame = request_frame(Request.WRITE_MEMORY, 7, 3, 0x80000001, b"\1\0\2", attempt=5)
    body = bytes([0x53, 7, 3, 0, 1, 0, 0, 0x80, 1, 0, 2])
    body += zlib.crc32(body).to_bytes(4, "little")
    stuffed = bytes([4]) + body[:3] + bytes([2, 1, 1, 3, 0x80, 1])
    assert frame[:10] == bytes([0]) + stuffed[:4] + bytes([2, 1, 1, 3, 0x80])
    assert frame[-1] == 0
    assert 0 not in frame[1:-1]


@pytest.mark.parametrize("size", [0, 1, 240, 241, 242, 243, 253, 254, 255, 508, 1024])
@pytest.mark.parametrize("fill", [b"\0", b"\xff", b"\xa5"])
def test_data_of_any_size_arrive(size, fill):
    line, transport = opened()
    transport.write_block(0x1003, fill * size)
    assert transport.read_block(0x1003, size) == fill * size
    assert bytes(line.device._target.memory[3 : 3 + size + 1]) == fill * size + b"\0"


def test_hello_says_who_answers():
    _, transport = opened(clock_hz=85_000_000, config_digest=0x12345678, board="ulx3s-85f")
    hello = transport.hello
    assert (hello.clock_hz, hello.config_digest, hello.board) == (
        85_000_000,
        0x12345678,
        "ulx3s-85f",
    )
    assert (transport.memory_base, transport.memory_bytes, hello.fresh) == (0x1000, 0x4000, 1)


def test_registers_and_errors():
    line, transport = opened()
    transport.write32(0x44, 0xDEADBEEF)
    assert transport.read32(0x44) == 0xDEADBEEF
    with pytest.raises(DeviceError, match="failed with BUS_ERROR: the bus answered"):
        transport.read32(0x900)
    # The session goes on.
    assert transport.read32(0x44) == 0xDEADBEEF
    assert line.time < 0.01
    with pytest.raises(DeviceError, match="2 bytes at 0x4fff are outside external memory"):
        transport.write_block(0x4FFF, b"ab")


def test_blocks_use_nine_tenths_of_the_line():
    line, transport = opened()
    before = line.sent
    transport.write_block(0x1000, random.Random(1).randbytes(0x4000))
    assert 0x4000 / (line.sent - before) > 0.97


@pytest.mark.parametrize(
    ("size", "frames", "sent"),
    # Of the page: header 8, checksum 4, two delimiters, a byte of stuffing for each 254 begun.
    [(1, 1, 16), (100, 1, 115), (1024, 1, 1043), (4096, 4, 4 * 1043), (1025, 2, 1043 + 16)],
)
def test_traffic_of_a_block(size, frames, sent):
    line, transport = opened()
    before, time = transport.line_cost, line.now()
    transport.write_block(0x1000, b"\x55" * size)
    wrote = transport.line_cost.since(before)
    assert (wrote.sent, wrote.received, wrote.requests) == (sent, 10 * frames, frames)
    assert wrote.seconds == pytest.approx(line.now() - time)
    assert wrote.line_seconds == pytest.approx(sent * 10 / line.baud)
    before = transport.line_cost
    transport.read_block(0x1000, size)
    read = transport.line_cost.since(before)
    # A zero in a request is no longer than another byte.
    assert (read.sent, read.received) == (15 * frames, size + 10 * frames)
    assert (wrote.repeats, read.repeats) == (0, 0)


@pytest.mark.parametrize("name", NOISES)
def test_nothing_is_lost_and_nothing_twice(name, seed):
    line, transport = opened(
        Noise(seed=seed + 1, **NOISES[name]), Noise(seed=seed + 2, **NOISES[name])
    )
    assert campaign(transport, line.device._target, 40, seed) == line.device.writes
    assert (transport.line_cost.repeats > 0) == (name != "quiet")


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_ten_thousand_frames(name, seed):
    line, transport = opened(
        Noise(seed=seed + 1, **NOISES[name]), Noise(seed=seed + 2, **NOISES[name])
    )
    assert campaign(transport, line.device._target, 1700, seed) == line.device.writes
    assert len(line.device.writes) > 3400


def test_a_host_that_begins_in_the_middle_of_a_frame(seed):
    line, transport = opened()
    chooser = random.Random(seed)
    for count in range(50):
        frame = request_frame(Request.WRITE_MEMORY, count, 40, 0x1000, chooser.randbytes(40))
        line.write(frame[: chooser.randrange(len(frame) - 1)])
        transport = LinkTransport(Link(line, silence=0.03))
        transport.write32(0, count)
        assert transport.read32(0) == count
    assert all(kind is Request.WRITE_REGISTERS for kind, *_ in line.device.writes)


def test_garbage_is_ignored(seed):
    line, transport = opened()
    for _ in range(50):
        line.write(random.Random(seed).randbytes(3000))
        transport.write32(0, 1)
    assert len(line.device.writes) == 50


def test_a_restarted_device_is_an_error_until_it_is_opened_again():
    line, transport = opened()
    transport.write32(0, 1)
    line.device.restart()
    line.device.feed(b"\0")
    for _ in range(2):
        with pytest.raises(DeviceError, match="the device at line restarted"):
            transport.write32(0, 2)
    assert len(line.device.writes) == 1
    LinkTransport(Link(line, silence=0.03)).write32(0, 2)
    assert len(line.device.writes) == 2


def test_a_restart_during_silence_is_noticed():
    line, transport = opened()
    line.back.dropped = 1.0
    with pytest.raises(DeviceTimeoutError):
        transport.write32(0, 1)
    line.device.restart()
    line.back.dropped = 0.0
    with pytest.raises(DeviceError, match="restarted"):
        transport.read32(0)


def test_contact_lost_and_found():
    line, transport = opened()
    line.back.dropped = 1.0
    with pytest.raises(DeviceTimeoutError, match="from line to WRITE_REGISTERS in 6 attempts"):
        transport.write32(0, 1)
    assert len(line.device.writes) == 1
    line.back.dropped = 0.0
    assert transport.read32(0) == 1
    assert line.time < 60


def test_a_hello_whose_first_reply_is_lost_still_says_fresh():
    device = LinkDevice(Target())
    hello = request_frame(Request.HELLO, 9, numbers.HELLO_BYTES, 0)
    first, again = device.feed(hello), device.feed(hello)
    assert first == again
    assert device.feed(request_frame(Request.HELLO, 99, numbers.HELLO_BYTES, 0)) != first


def test_the_memory_of_a_board_is_known_by_its_name():
    assert opened(board="ulx3s-25f")[1].external_memory is MEMORIES["ulx3s-sdram"]
    assert opened(board="mine")[1].external_memory is None


def test_nothing_answers():
    line = Line(LinkDevice(Target()), back=Noise(dropped=1.0))
    with pytest.raises(DeviceTimeoutError, match="from line to HELLO in 4 attempts"):
        LinkTransport(Link(line))
    assert line.time < 10


def test_a_line_that_babbles_ends_in_time():
    class Babbler(Line):
        def read(self, timeout):
            self.time += 1e-2
            return bytes([numbers.SYNC] * 100)

    line = Babbler(LinkDevice(Target()))
    with pytest.raises(DeviceTimeoutError):
        LinkTransport(Link(line))
    assert line.time < 20


@pytest.mark.parametrize("name", NOISES)
def test_a_busy_line_is_not_silent(name, seed):
    """Replies that follow a lost one arrive after the time of silence; none is asked for again."""
    noise = NOISES[name]
    there, back = Noise(seed=2 * seed, **noise), Noise(seed=2 * seed + 1, **noise)
    line = PacedLine(LinkDevice(Target()), there, back)
    # Two blocks and a half; up to 16 are on the line.
    transport = LinkTransport(Link(line, silence=0.025))
    line.device._target.memory[:] = random.Random(seed).randbytes(0x4000)
    rounds = 4
    for _ in range(rounds):
        assert transport.read_block(0x1000, 0x4000) == line.device._target.memory
    # Of 1,040 bytes, one in a thousand of which is hit, a third of the blocks arrive: two repeats.
    assert transport.line_cost.repeats < 3.5 * rounds * 16


def test_a_hello_waits_for_replies_to_an_earlier_session():
    line, transport = opened(line=PacedLine)
    frame = request_frame(Request.READ_MEMORY, transport._link._sequence, 1024, 0x1000)
    for _ in range(100):
        line.write(frame)
    again = LinkTransport(Link(line, silence=0.025))
    assert again.hello == replace(transport.hello, fresh=0)
    again.write32(0, 1)
    assert again.read32(0) == 1


def test_bytes_received_while_suspended_are_read():
    """The machine repeatedly suspends this program for longer than the time-out."""

    class Busy(Line):
        def now(self):
            self.time += 10.0
            return self.time

    line = Busy(LinkDevice(Target()))
    transport = LinkTransport(Link(line))
    transport.write_block(transport.memory_base, bytes(5000))
    assert transport.read_block(transport.memory_base, 5000) == bytes(5000)
    assert transport.line_cost.repeats == 0


def test_somebody_else_answers():
    class Other(LinkDevice):
        def _answer(self, kind, sequence, request):
            data, status = super()._answer(kind, sequence, request)
            return b"\2" + data[1:], status

    with pytest.raises(DeviceError, match=r"another version .* 0x4d4c4c02, not 0x4d4c4c01"):
        LinkTransport(Link(Line(Other(Target()))))


def test_a_request_that_is_late_is_not_done_twice():
    line, transport = opened()
    link = transport._link
    number = link._sequence
    for value in range(20):
        transport.write32(0, value)
    late = request_frame(Request.WRITE_REGISTERS, number + 10 & 255, 4, 0, b"late")
    line.write(late)
    assert transport.read32(0) == 19
    assert len(line.device.writes) == 20


def test_the_kept_status_is_that_of_the_write():
    device = LinkDevice(Target())
    device.feed(b"\0" + request_frame(Request.HELLO, 0, 40, 0))
    wrong = request_frame(Request.WRITE_REGISTERS, 1, 3, 0, b"abc")
    parser = ReplyParser()
    parser.feed(device.feed(wrong) + device.feed(wrong))
    assert [parser.next().status for _ in range(2)] == [Status.BAD_REQUEST] * 2
    ahead = request_frame(Request.WRITE_REGISTERS, 3, 4, 0, b"abcd")
    parser.feed(device.feed(ahead))
    assert parser.next().status == Status.SEQUENCE


def test_a_driver_runs_a_network_through_noise(small_product, small_inputs, seed):
    config = PRESETS["nano"]
    program = compile(small_product, "nano")
    expected = Session(program, Driver(ModelTransport(config), config), "model").run(small_inputs)
    noise = {"changed": 2e-4, "dropped": 2e-4}
    _, transport = opened(
        Noise(seed=seed + 1, **noise),
        Noise(seed=seed + 2, **noise),
        ModelTransport(config),
        config_digest=config.digest,
    )
    outputs = Session(program, Driver(transport, config), "uart").run(small_inputs)
    assert {name: value.tolist() for name, value in outputs.items()} == {
        name: value.tolist() for name, value in expected.items()
    }


def test_a_session_reports_link_traffic(small_product, small_inputs):
    config = PRESETS["nano"]
    program = compile(small_product, "nano")
    line, transport = opened(target=ModelTransport(config), config_digest=config.digest)
    driver, before = Driver(transport, config), line.sent
    session = Session(program, driver, "uart")
    uploaded = line.sent - before
    size = len(program.image)
    for _call in range(2):
        before = line.sent
        session.run(small_inputs)
        report = session.report()
        # Once a session; the registers of four regions, two each, at 19 bytes a request.
        assert size < report.upload.sent == uploaded < 1.02 * size + 19 * 9
        # Input; five registers, WAIT, status, counters, timestamps; output: 11 requests, 19 bytes.
        data = sum(each.nbytes for each in small_inputs.values())
        assert report.link.requests == 11
        assert data < report.link.sent == line.sent - before < data + 19 * 11
        (cost,) = (each for each in report.lines() if "link: " in each)
        assert cost.startswith(f"  link: {report.link.sent:,} bytes out and ")
        assert '"received"' in report.to_json()


def test_windows_hold_what_the_device_keeps():
    line, transport = opened()
    line.back.dropped = 1.0
    asked = [LinkRequest(length=4, address=0, data=bytes(4)) for _ in range(100)]
    with pytest.raises(DeviceTimeoutError):
        transport._link.exchange(Request.WRITE_REGISTERS, asked)
    assert len(line.device.writes) == numbers.WINDOW_REQUESTS
