"""A serial port as the stream of a link, using pyserial."""

import errno
import time
from typing import Any

from matloom.arch.link import BAUD
from matloom.device.errors import DeviceError
from matloom.errors import MissingPackageError, UserError

#: Seconds in which the operating system must accept bytes; if it does not, nothing is connected.
_WRITE_TIMEOUT = 30.0

_SCHEME = "uart:"


def parse_address(device: str) -> tuple[str, int]:
    """Return the port and baud rate in ``uart:PORT[@BAUD]``.

    Raises
    ------
    ValueError
        The text does not have this form.
    """
    port, at, baud = device.removeprefix(_SCHEME).partition("@")
    if not port or (at and not (baud.isascii() and baud.isdigit() and int(baud))):
        raise UserError(
            f"a serial device must be uart:PORT[@BAUD], not {device!r}",
            hint="write it as uart:/dev/ttyUSB0, or uart:/dev/ttyUSB0@115200",
        )
    return port, int(baud) if at else BAUD


def _pyserial() -> Any:
    """Return the module `serial`; raise `MissingPackageError` if it is missing."""
    try:
        import serial
        import serial.tools.list_ports
    except ModuleNotFoundError:
        raise MissingPackageError("pyserial", "a board on a serial port") from None
    return serial


class SerialStream:
    """Byte stream to and from a serial port, which is locked against other users.

    Raises
    ------
    DeviceError
        The port does not exist, is in use, may not be opened, or has disappeared.
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
            raise self._open_error(error) from None
        self._port.reset_input_buffer()

    def _open_error(self, error: Exception) -> DeviceError:
        """Return the error that explains why the port could not be opened, with a hint."""
        number = getattr(error, "errno", None)
        if number == errno.ENOENT:
            ports = [item.device for item in self._serial.tools.list_ports.comports()]
            here = f"use one of the existing ports: {', '.join(ports)}"
            hint = here if ports else "plug in the board: there is no serial port"
            return DeviceError(f"there is no serial port {self.name}", hint=hint)
        if number in (errno.EBUSY, errno.EAGAIN):
            return DeviceError(
                f"another program uses port {self.name}", hint="end it, and try again"
            )
        if number in (errno.EACCES, errno.EPERM):
            return DeviceError(
                f"this user may not use port {self.name}",
                hint="on Linux, join its group: sudo usermod -aG dialout $USER, then log in again",
            )
        return DeviceError(
            f"port {self.name} cannot be opened at {self.baud} bits per second: {error}",
            hint="ls /dev/tty* lists the ports; is the board plugged in?",
        )

    def write(self, data: bytes) -> None:
        """Send bytes; return as soon as the operating system has accepted them."""
        try:
            self._port.write(data)
        except OSError as error:
            raise self._disconnected_error(error) from None

    def read(self, timeout: float) -> bytes:
        """Return bytes as soon as some are received; b"" after `timeout` seconds."""
        try:
            self._port.timeout = timeout
            first = self._port.read(1)
            return bytes(first + self._port.read(self._port.in_waiting)) if first else b""
        except OSError as error:
            raise self._disconnected_error(error) from None

    def _disconnected_error(self, error: OSError) -> DeviceError:
        """Return the error for a port that is gone."""
        return DeviceError(
            f"port {self.name} went away while it was used: {error}",
            hint="check the cable, and that no other program opened it",
        )

    def now(self) -> float:
        """Return the time of a monotonic clock in seconds."""
        return time.monotonic()

    def close(self) -> None:
        """Release the port; a second call does nothing."""
        self._port.close()
