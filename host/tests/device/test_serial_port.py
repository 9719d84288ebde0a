"""A board on a serial port: a network runs on it, and each fault of a line has its message."""

import os
import re
import select
import sys
import threading
import tty
from contextlib import contextmanager

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.link import BAUD
from matloom.device.errors import DeviceError, DeviceTimeoutError
from matloom.device.model.transport import ModelTransport
from matloom.device.open import open_device
from matloom.device.serial_port import SerialStream, parse_address
from matloom.errors import MissingPackageError
from matloom.runtime import load
from support.link_device import LinkDevice

NANO = PRESETS["nano"]


@contextmanager
def board(device):
    """Serve a device at one end of a pseudo-terminal; yield the name of the other end."""
    far, near = os.openpty()
    tty.setraw(near)
    stop = threading.Event()

    def serve():
        while not stop.is_set():
            if select.select([far], [], [], 0.01)[0]:
                os.write(far, device.feed(os.read(far, 4096)))

    server = threading.Thread(target=serve)
    server.start()
    yield os.ttyname(near)
    stop.set()
    server.join()
    os.close(far)
    os.close(near)


@pytest.fixture
def serial():
    return pytest.importorskip("serial", reason="pyserial is absent: extra uart")


@pytest.fixture
def port(serial):
    device = LinkDevice(ModelTransport(NANO), config_digest=NANO.digest, board="pty")
    with board(device) as name:
        yield name


def test_a_network_runs(port, small_product, small_inputs):
    with load(small_product, device=f"uart:{port}@1000000", config="nano") as session:
        output = session.run(small_inputs)
        assert session.report().device == f"uart:{port}@1000000"
    with load(small_product, device="model", config="nano") as session:
        expected = session.run(small_inputs)
    assert output.keys() == expected.keys()
    for name, value in output.items():
        assert (value == expected[name]).all()


def test_another_configuration(port):
    with pytest.raises(DeviceError) as caught:
        open_device(f"uart:{port}", "small")
    assert str(caught.value) == (
        f"the bitstream of board pty is of configuration nano ({NANO.digest:08x}), "
        f"and the program of small ({PRESETS['small'].digest:08x})"
    )
    # The port was given back.
    open_device(f"uart:{port}", "nano").close()


def test_a_port_in_use(port):
    driver = open_device(f"uart:{port}", "nano")
    with pytest.raises(DeviceError, match=f"another program uses port {port}"):
        open_device(f"uart:{port}", "nano")
    driver.close()
    driver.close()


def test_no_such_port(serial, monkeypatch):
    ports = [type("Port", (), {"device": "/dev/ttyACM0"})]
    monkeypatch.setattr(serial.tools.list_ports, "comports", lambda: ports)
    sentence = "there is no serial port /dev/nowhere"
    with pytest.raises(DeviceError, match=sentence):
        SerialStream("/dev/nowhere")
    ports.clear()
    with pytest.raises(DeviceError, match="there is no serial port"):
        SerialStream("/dev/nowhere")


def test_no_permission(serial, monkeypatch):
    def refuse(*arguments, **options):
        raise serial.SerialException(13, "denied")

    monkeypatch.setattr(serial, "Serial", refuse)
    with pytest.raises(DeviceError, match="this user may not use port"):
        SerialStream("/dev/ttyUSB0")


def test_no_serial_port(serial, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DeviceError, match="cannot be opened at 3000000 bits per second"):
        SerialStream(str(tmp_path / "file"))


def test_nothing_answers(serial, monkeypatch):
    monkeypatch.setattr("matloom.device.link._SILENCE_SECONDS", 0.005)
    silent = type("Silent", (), {"feed": lambda self, data: b""})()
    with board(silent) as name, pytest.raises(DeviceTimeoutError, match="no answer from"):
        open_device(f"uart:{name}", "nano")


def test_a_port_that_goes_away(serial):
    far, near = os.openpty()
    stream = SerialStream(os.ttyname(near))
    os.close(near)
    os.close(far)
    with pytest.raises(DeviceError, match="went away while it was used"):
        stream.read(1.0)
    with pytest.raises(DeviceError, match="went away while it was used"):
        stream.write(b"a")
    stream.close()


def test_without_pyserial(monkeypatch):
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(MissingPackageError, match="needs the package pyserial"):
        SerialStream("/dev/ttyUSB0")


@pytest.mark.parametrize(
    ("device", "parts"),
    [("uart:/dev/ttyUSB0", ("/dev/ttyUSB0", BAUD)), ("uart:COM3@115200", ("COM3", 115_200))],
)
def test_addresses(device, parts):
    assert parse_address(device) == parts


@pytest.mark.parametrize("device", ["uart:", "uart:@9600", "uart:COM3@", "uart:COM3@fast"])
def test_bad_addresses(device):
    with pytest.raises(ValueError, match=re.escape(f"must be uart:PORT[@BAUD], not '{device}'")):
        parse_address(device)


def test_options_of_a_simulation_are_refused():
    with pytest.raises(ValueError, match="check_bus must go with device 'rtl', not 'uart:COM3'"):
        open_device("uart:COM3", "nano", check_bus=True)
