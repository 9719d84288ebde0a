"""The firmware's end of the host link, compared with the host's and with one in Python."""

import os
import pty
import random
import subprocess
import tty

import numpy as np
import pytest

import matloom
from matloom.arch.link import HELLO_BYTES, Request
from matloom.data.digits import NETWORK
from matloom.device.frames import request_frame
from matloom.device.link import Link
from matloom.device.link_transport import LinkTransport
from support.link_device import LinkDevice
from support.link_line import NOISES, Line, Target, campaign
from support.noisy_line import Noise

SOURCES = ("link/link.c",)


class Twins:
    """The firmware's device and Python's, which must answer the same."""

    def __init__(self, process):
        self.target, self.process = Target(), process
        self.python = LinkDevice(self.target, interrupt=self.target.wait_interrupt)

    def feed(self, data):
        """Send bytes to both; return their answer."""
        answer = self.process.feed(data)
        assert answer == self.python.feed(data)
        return answer

    def restart(self):
        """Forget the session."""
        self.python.restart()
        self.process.restart()


@pytest.fixture
def twins(start_device):
    """Return a function that starts both devices."""
    return lambda *words: Twins(start_device("link_device", *SOURCES, arguments=words))


def opened(twins, name, seed):
    noises = [Noise(seed=seed + k, **NOISES[name]) for k in (1, 2)]
    line = Line(twins, *noises)
    return line, LinkTransport(Link(line, silence=0.03))


@pytest.mark.parametrize("name", NOISES)
def test_nothing_is_lost_and_nothing_twice(twins, name, seed):
    both = twins()
    _, transport = opened(both, name, seed)
    assert campaign(transport, both.target, 15, seed) == both.python.writes
    assert (transport.line_cost.repeats > 0) == (name != "quiet")


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_ten_thousand_frames(twins, name, seed):
    both = twins("functions")
    _, transport = opened(both, name, seed)
    assert campaign(transport, both.target, 1700, seed) == both.python.writes


def any_request(chooser):
    """Return kind, length, address and data of a request, sometimes invalid."""
    kind = chooser.choice([*Request, *Request, 5, 7, 8, 15])
    length = chooser.choice([0, 4, 4, 8, 12, 3, 1024])
    registers = kind in (Request.READ_REGISTERS, Request.WRITE_REGISTERS)
    # An access that ends in an error is the last of its request, in whatever order it is done.
    places = [0, 0x10, 0x14, 0x800, 2] if registers else [0x1000, 0x1003, 0x4FFC, 0xFFF, 0]
    writes = kind in (Request.WRITE_REGISTERS, Request.WRITE_MEMORY)
    data = chooser.randbytes(length if chooser.random() < 0.9 else 5) if writes else b""
    length = {Request.HELLO: HELLO_BYTES, Request.WAIT: 4}.get(kind, length)
    return kind, length, chooser.choice(places), data


def ago(chooser, done):
    """Return how many sequence numbers ago a request was sent; 17 and more mean never."""
    draw = chooser.random()
    if draw < 0.2 and done:
        return chooser.randrange(1, min(done, 16) + 1)
    return chooser.randrange(17, 256) if draw > 0.9 else 0


def test_any_request_is_answered_as_the_page_says(twins, seed):
    """All statuses: requests in and out of order, repeated, cut, and after restarts."""
    chooser, both = random.Random(seed), twins("functions")
    done, statuses = 0, set()
    for count in range(2000):
        kind, *rest = any_request(chooser)
        if kind == Request.HELLO and chooser.random() < 0.8:
            continue
        due = both.python._due
        number = due - ago(chooser, done) & 255
        frame = request_frame(kind, number, *rest)
        if chooser.random() < 0.05:
            frame = frame[: chooser.randrange(len(frame))] + b"\0"
        answer = both.feed(frame)
        done = 0 if kind == Request.HELLO else done + (both.python._due != due)
        statuses |= {answer[-5]} if answer else set()
        if count % 300 == 299:
            both.restart()
            done = 0
    assert statuses == {0, 1, 2, 3, 4, 5}


def test_bytes_that_are_no_request(twins, seed):
    both = twins()
    chooser = random.Random(seed)
    for size in (1, 10, 1035, 1036, 1037, 3000, 20_000):
        both.feed(chooser.randbytes(size))
        both.feed(b"\0" + bytes(chooser.randrange(1, 256) for _ in range(size)) + b"\0")
    line = Line(both)
    LinkTransport(Link(line, silence=0.03)).write32(0, 1)
    assert len(both.python.writes) == 1


def test_a_network_runs_over_the_line_of_a_board(board):
    """From the host's `uart:` through the link in C to the chip's Verilog."""
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    image = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), np.int8)
    with matloom.load(NETWORK, device="rtl", config="nano") as session:
        expected = session.run(image)
        cycles = session.report().cycles
    line, end = pty.openpty()
    tty.setraw(end)
    command = [board("link_board", "tests/link_board.c", *SOURCES), str(line)]
    with subprocess.Popen(command, pass_fds=[line]) as process:
        try:
            device = f"uart:{os.ttyname(end)}@115200"
            with matloom.load(NETWORK, device=device, config="nano") as session:
                assert session.run(image).tolist() == expected.tolist()
                assert session.report().cycles == cycles
        finally:
            process.kill()
