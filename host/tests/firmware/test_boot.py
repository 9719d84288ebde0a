"""The boot loader in C against the host's side, over lines that lose, change and repeat bytes."""

import random

import pytest

from matloom.arch.boot import BOOT_MAGIC, BOOT_REPLY, BootStatus
from matloom.device.boot import send_image
from matloom.device.errors import DeviceError, DeviceTimeoutError
from support.link_line import Line
from support.noisy_line import Noise

MOST = 4096


@pytest.fixture
def boot(start_device):
    """Return a function that starts a loader on a line with noise."""

    def start(**noise):
        device = start_device("boot_device", "soc/loader.c")
        assert device.restart() == b"MLBR"
        return Line(device, Noise(**noise))

    return start


def started(line):
    """Return the memory in which an image started."""
    return line.device.feed(b"?")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("size", [1, 3, 64, MOST])
def test_an_image_arrives(boot, size, seed):
    image = random.Random(seed).randbytes(size)
    line = boot()
    assert send_image(line, image) == 1
    assert started(line)[:size] == image


@pytest.mark.parametrize("kind", ["changed", "dropped", "repeated"])
def test_a_damaged_image_is_sent_again(boot, kind, seed):
    """An image starts only if complete; a few of a hundred bytes are damaged in first attempts."""
    attempts = []
    for k in range(12):
        image = random.Random(k).randbytes(300)
        line = boot(seed=seed + k, **{kind: 2e-3})
        try:
            attempts.append(send_image(line, image, silence=0.01))
        except DeviceError:
            continue
        assert started(line)[:300] == image
    assert len(attempts) >= 10
    assert max(attempts) > 1


def test_misfits_are_refused(boot):
    with pytest.raises(DeviceError, match="refused an image of 4,097 bytes: LENGTH"):
        send_image(boot(), bytes(MOST + 1))


def test_a_wrong_checksum_is_refused(boot):
    line = boot()
    line.write(BOOT_MAGIC.to_bytes(4, "little") + bytes([2, 0, 0, 0, 1, 2, 3, 4]) + b"ab")
    assert line.read(1) + line.read(1) + line.read(1) == BOOT_REPLY + bytes([BootStatus.CHECKSUM])
    assert send_image(line, b"cd") == 1


def test_an_empty_image_is_refused(boot):
    with pytest.raises(DeviceError, match="refused an image of 0 bytes: LENGTH"):
        send_image(boot(), b"")


def test_a_host_that_ended_in_the_middle_of_an_image(boot, seed):
    line = boot()
    line.write(BOOT_MAGIC.to_bytes(4, "little") + (2000).to_bytes(4, "little") + bytes(500))
    image = random.Random(seed).randbytes(1000)
    assert send_image(line, image) > 1
    assert started(line)[:1000] == image


def test_nothing_answers(boot):
    line = boot(dropped=1.0)
    with pytest.raises(DeviceTimeoutError, match=r"nothing answers at line \(4 attempts\)"):
        send_image(line, b"image")
    assert line.time < 10
