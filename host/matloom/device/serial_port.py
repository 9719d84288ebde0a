"""A serial port as the stream of a link, through pyserial."""

import errno
import time
from typing import Any

from matloom.arch.link import BAUD
from matloom.device.errors import DeviceError

__all__ = ["SerialStream", "parse_address"]

#: Seconds that the operating system may take to accept bytes: then nobody is at the other end.
_WRITE_TIMEOUT = 30.0

_SCHEME = "uart:"


def parse_address(device: str) -> tuple[str, int]:
    """Return port and bits a second of ``uart:PORT[@BAUD]``.

    Errors
    ------
    ValueError
        It has another form.
    """
    port, at, baud = device.removeprefix(_SCHEME).partition("@")
    if not port or (at and not (baud.isascii() and baud.isdigit() and int(baud))):
        raise ValueError(f"a serial device must be uart:PORT[@BAUD], not {device!r}")
    return port, int(baud) if at else BAUD


def _pyserial() -> Any:
    try:
        import serial
        import serial.tools.list_ports
    except ModuleNotFoundError:
        raise DeviceError(
            "a serial device must have pyserial, which is not installed: "
            "pip install 'matloom[uart]'"
        ) from None
    return serial


class SerialStream:
    """Bytes to and from a serial port, which nobody else can open meanwhile.

    Errors
    ------
    DeviceError
        No such port, a port in use, or one that may not be opened; one that went away.
    """

    def __init__(self, port: str, baud: int = BAUD) -> None:
        self.name, self.baud = port, baud
        self._serial = _pyserial()
        self._port: Any = None
        try:
            self._port = self._serial.Serial(
                port, baud, exclusive=True, timeout=0, write_timeout=_WRITE_TIMEOUT
            )
        except (OSError, ValueError) as error:
            raise DeviceError(self._refused(error)) from None
        self._port.reset_input_buffer()

    def _refused(self, error: Exception) -> str:
        """Return why the port could not be opened, in a sentence."""
        number = getattr(error, "errno", None)
        if number == errno.ENOENT:
            ports = [item.device for item in self._serial.tools.list_ports.comports()]
            there = f"there are {', '.join(ports)}" if ports else "there is none"
            return f"a serial port must exist, not {self.name}: {there}"
        if number in (errno.EBUSY, errno.EAGAIN):
            return f"port {self.name} must be free, and another program uses it"
        if number in (errno.EACCES, errno.EPERM):
            return (
                f"port {self.name} must be readable and writable by this user, and is not: on "
                "Linux, join its group (dialout or uucp)"
            )
        return f"port {self.name} must be a serial port of {self.baud} bits a second: {error}"

    def write(self, data: bytes) -> None:
        """Send bytes; returns when the operating system has them."""
        try:
            self._port.write(data)
        except OSError as error:
            raise self._gone(error) from None

    def read(self, timeout: float) -> bytes:
        """Return what has come, after `timeout` seconds at the latest."""
        try:
            self._port.timeout = timeout
            first = self._port.read(1)
            return bytes(first + self._port.read(self._port.in_waiting)) if first else b""
        except OSError as error:
            raise self._gone(error) from None

    def _gone(self, error: OSError) -> DeviceError:
        return DeviceError(f"port {self.name} must stay there while it is used: {error}")

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def close(self) -> None:
        """Give the port back; a second time does nothing."""
        self._port.close()
