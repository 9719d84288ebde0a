"""Host side of the link (docs/link.md): every request is executed exactly once, or raises an error.

The line may lose or corrupt bytes, but must keep their order.
"""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from matloom.arch.link import (
    HELLO_BYTES,
    MAX_DATA_BYTES,
    WINDOW_REQUESTS,
    Request,
    Status,
)
from matloom.device.errors import DeviceClosedError, DeviceError, DeviceTimeoutError
from matloom.device.frames import Hello, Reply, ReplyParser
from matloom.device.line_cost import LineCost
from matloom.device.transport import never
from matloom.device.window import LinkRequest, RequestWindow

#: Seconds between checks of whether to stop waiting.
_POLL_SECONDS = 0.1

#: Number of attempts without any answer before giving up; each waits twice as long as the previous
#: one.
_MAX_ATTEMPTS = 6

#: Number of attempts of a hello, fewer because the port may be the wrong one.
_HELLO_ATTEMPTS = 4

#: Factor for the number of attempts if something is received, but no answer: the line is bad.
_NOISY_FACTOR = 5

#: Number of attempts that received something, but no answer, after which each waits twice as long:
#: the device may pause within a reply for longer than the silence.
_PATIENT_AFTER = 8

#: Number of replies that answer no request after which the line must belong to something else.
_FRUITLESS_REPLIES = 5000

#: Seconds allowed for a bridge, an operating system and a busy machine to answer.
_SILENCE_SECONDS = 0.25

#: Bytes of the longest request or reply, plus a margin.
_REPLY_BYTES = MAX_DATA_BYTES + 32

#: Bits on the line of all requests or replies in flight.
_WINDOW_BITS = 10 * WINDOW_REQUESTS * _REPLY_BYTES

_REASONS = {
    Status.BAD_REQUEST: "the link does not know such a request",
    Status.BUS_ERROR: "the bus answered with an error",
    Status.TIMEOUT: "the bus did not answer",
}


class Stream(Protocol):
    """Byte stream to and from a device.

    Members
    -------
    name:
        Name in messages.
    baud:
        Bits per second.
    """

    name: str
    baud: int

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def read(self, timeout: float) -> bytes:
        """Return bytes as soon as some are received; b"" after `timeout` seconds."""

    def now(self) -> float:
        """Return the current time in seconds, from an arbitrary start."""

    def close(self) -> None:
        """Release the line."""


class Link:
    """Requests and their answers over a stream.

    `stopped` (see `matloom.device.transport.Stoppable`) ends an exchange with `DeviceClosedError`.
    After an error or interruption, the next exchange starts with a hello, so that both ends agree
    on the sequence number of the next request; requests that were in flight were executed once or
    not at all.

    Parameters
    ----------
    stream:
        The line.
    silence:
        Seconds without an answer after which a request is sent again; None for a time that suits
        the line.

    Raises
    ------
    DeviceTimeoutError
        Nothing answers.
    DeviceClosedError
        `stopped` returned True.
    DeviceError
        A request was refused, or the device was restarted meanwhile.
    """

    def __init__(self, stream: Stream, silence: float | None = None) -> None:
        self.stream = stream
        self.stopped: Callable[[], bool] = never
        self._silence = (
            _SILENCE_SECONDS + _WINDOW_BITS / stream.baud if silence is None else silence
        )
        self._parser = ReplyParser()
        self._sequence = random.randrange(256)
        self._session = self._restarted = False
        self._lock = threading.RLock()
        #: Whether anything was received while waiting for the last reply.
        self._heard = False
        #: Cost of all exchanges so far.
        self.cost = LineCost(baud=stream.baud)

    def hello(self) -> Hello:
        """Start a session with the device; return its identity."""
        with self._lock:
            self._restarted = False
            self._session = False
            # Answers to earlier requests must not be mistaken for new ones.
            self._sequence = self._sequence + 4 * WINDOW_REQUESTS & 255
            window = RequestWindow(
                Request.HELLO, [LinkRequest(length=HELLO_BYTES, address=0)], self._take_numbers(1)
            )
            data = self._run(window, _HELLO_ATTEMPTS)[0]
            self._session = True
        return Hello.from_bytes(data)

    def _take_numbers(self, count: int) -> int:
        """Return the next sequence number, and reserve `count` numbers from it on."""
        first = self._sequence
        self._sequence = first + count & 255
        return first

    def exchange(
        self, kind: Request, requests: Sequence[LinkRequest], seconds: float = 0.0
    ) -> list[bytes]:
        """Send requests of one kind; return the data of their answers, in order.

        The device may take `seconds` to execute a request. Raises DeviceError if a request fails.
        """
        with self._lock:
            self._resume()
            self._session = False
            first = self._sequence
            window = RequestWindow(kind, requests, first)
            answers = self._run(window, _MAX_ATTEMPTS, seconds)
            self._sequence = first + len(answers) & 255
            self._session = True
        if window.error is not None:
            item, status = window.error
            raise DeviceError(
                f"{kind.name} of {item.length} bytes at {item.address:#x} failed with "
                f"{status.name}: {_REASONS[status]}",
                hint="matloom check-board uart:PORT identifies the board and tests its memory",
            )
        return answers

    def _resume(self) -> None:
        """Start a session again after an error; raise DeviceError if the device was restarted."""
        if not self._session and not self._restarted:
            self._restarted = bool(self.hello().fresh)
        if self._restarted:
            raise self._lost_error()

    def _lost_error(self) -> DeviceError:
        """Return the error for a device that was restarted."""
        return DeviceError(
            f"the device at {self.stream.name} restarted, and its contents are lost",
            hint="open it again",
        )

    def _run(self, window: RequestWindow, attempts: int, seconds: float = 0.0) -> list[bytes]:
        """Send the requests of a window until all are answered; return the data of the answers.

        After a request that fails, those that were not yet sent are dropped. `attempts` is the
        number of consecutive silent attempts after which DeviceTimeoutError is raised.
        """
        self._parser.lengths = window.lengths
        began = self.stream.now()
        silent = noisy = fruitless = 0
        while not window.is_complete:
            self._require_running()
            frames = window.frames()
            if frames:
                self.stream.write(frames)
                self.cost = self.cost.plus(sent=len(frames))
            patience = self._silence * 2**silent * (2 if noisy >= _PATIENT_AFTER else 1)
            reply = self._receive(seconds + patience)
            if reply is None:
                noisy += self._heard
                silent = 0 if self._heard else silent + 1
                window.mark_all_lost()
            elif reply.status == Status.NO_SESSION and window.kind is not Request.HELLO:
                self._restarted = True
                raise self._lost_error()
            elif window.accept(reply):
                silent = noisy = fruitless = 0
            else:
                fruitless += 1
            if (
                silent == attempts
                or noisy == _NOISY_FACTOR * attempts
                or fruitless == _FRUITLESS_REPLIES
            ):
                raise self._timeout_error(window.kind, attempts, silent == attempts)
        count, seconds_taken = len(window.answers), self.stream.now() - began
        self.cost = self.cost.plus(requests=count, repeats=window.repeats, seconds=seconds_taken)
        return [answer for answer in window.answers if answer is not None]

    def _timeout_error(self, kind: Request, attempts: int, silent: bool) -> DeviceTimeoutError:
        """Return the error for a request without a valid answer, or without any if `silent`."""
        heard = "no answer" if silent else "no valid answer"
        return DeviceTimeoutError(
            f"{heard} from {self.stream.name} to {kind.name} in {attempts} attempts at "
            f"{self.stream.baud} bits per second",
            hint="check port, rate and power, and reset the board (docs/boards.md, When it fails)",
        )

    def _require_running(self) -> None:
        """Raise `DeviceClosedError` if calls are to end."""
        if self.stopped():
            raise DeviceClosedError(f"the device at {self.stream.name} was closed while in use")

    def _receive(self, timeout: float) -> Reply | None:
        """Return the next reply, or None if nothing arrives for `timeout` seconds.

        Replies to other requests or to an earlier session may precede it. So the wait is extended
        while bytes arrive, by at most the time of all replies that may be in flight.
        """
        heard = self.stream.now()
        end = heard + timeout + _WINDOW_BITS / self.stream.baud
        self._heard, late = False, 0
        while True:
            reply = self._parser.next()
            if reply is not None:
                return reply
            left = min(heard + timeout, end) - self.stream.now()
            # Bytes that arrived while this machine was busy are read after the timeout, up to one
            # reply.
            data = self._read(max(left, 0.0)) if late < _REPLY_BYTES else b""
            late += len(data) if left <= 0 else 0
            if data:
                self._heard, heard = True, self.stream.now()
            self.cost = self.cost.plus(received=len(data))
            self._parser.feed(data)
            # Noise that looked like a reply may contain a real one.
            if not data and not self._parser.skip():
                return None

    def _read(self, timeout: float) -> bytes:
        """Return bytes as soon as some are received; b"" after `timeout` seconds.

        Raises DeviceClosedError if `stopped` returns True meanwhile.
        """
        while timeout > _POLL_SECONDS:
            before = self.stream.now()
            data = self.stream.read(_POLL_SECONDS)
            if data:
                return data
            self._require_running()
            timeout -= max(self.stream.now() - before, _POLL_SECONDS)
        return self.stream.read(max(timeout, 0.0))

    def close(self) -> None:
        """Release the line."""
        self._session = False
        self.stream.close()
