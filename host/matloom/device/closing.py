"""Devices that threads share, and that any thread can close during a call."""

import atexit
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from matloom.device.errors import DeviceClosedError
from matloom.device.transport import Stoppable, never

#: Seconds that the interpreter's exit waits for a device in use by another thread.
_EXIT_SECONDS = 5.0

_Method = TypeVar("_Method", bound=Callable[..., Any])


class _Stop:
    """Flag that ends running calls.

    Transports hold the flag, because a bound method of `Closable` would keep the device alive.
    """

    def __init__(self) -> None:
        self.closed = False
        self.asked: Callable[[], bool] = never

    def __call__(self) -> bool:
        return self.closed or self.asked()


class Closable:
    """Object whose methods only one thread at a time can call, and that any thread can close.

    Closing waits only until the running call notices it; `Stoppable` transports check several times
    a second. The resource is closed as soon as no call uses it, by the closing thread or by the
    thread whose call ends. Objects still open when the interpreter exits are closed before daemon
    threads are cut off.

    A forked process may use its copy of a device, unless another thread of the parent was using it:
    then the copy is closed. The resource remains the parent's: only the parent closes it.

    Members
    -------
    lock:
        Held during each call; hold it to make several calls without interference.

    Parameters
    ----------
    resource:
        Object to close with its own `close` method, if any; closing it twice must be harmless.
    """

    def __init__(self, resource: Any) -> None:
        self._resource, self._process = resource, os.getpid()
        self.lock = threading.RLock()
        self._stop, self._depth = _Stop(), 0
        self._sentence = "the device was closed"
        if isinstance(resource, Stoppable):
            resource.stopped = self._stop
        _OPEN_DEVICES.add(self)

    def close(self, patience: float = -1) -> None:
        """Close the device, which ends a simulation; a second call does nothing.

        A call in another thread ends with `DeviceClosedError` within about a second; `close` waits
        for it, at most `patience` seconds unless that is negative. A call in this thread (a signal
        handler may close the device) ends with the error afterwards.
        """
        self._stop.closed = True
        if self.lock.acquire(timeout=patience):
            try:
                self._finish()
            finally:
                self.lock.release()

    def _finish(self) -> None:
        """Close the resource, unless a call still uses it; that call closes it when it ends."""
        close = getattr(self._resource, "close", None)
        if not self._depth and close is not None and self._process == os.getpid():
            close()

    def _inherit(self) -> None:
        """Close this copy of a device in a forked process if a thread of the parent was using it.

        That thread does not exist here, so it would never release the lock.
        """
        if self.lock.acquire(blocking=False):
            self.lock.release()
        else:
            self.lock, self._depth, self._stop.closed = threading.RLock(), 0, True
            self._sentence = "the device was in use by another thread when the process was forked"

    @contextmanager
    def stoppable(self, stopped: Callable[[], bool]) -> Iterator[None]:
        """Within the context, hold the lock and end calls once `stopped` returns True.

        Such calls end with `DeviceClosedError`, as if the device had been closed.
        """
        with self.lock:
            before, self._stop.asked = self._stop.asked, stopped
            try:
                yield
            finally:
                self._stop.asked = before

    @contextmanager
    def _call_context(self) -> Iterator[None]:
        """Return a context in which a method holds the lock; then close the device if asked to."""
        with self.lock:
            before = self._depth
            try:
                self._depth = before + 1
                self._require_open()
                yield
            finally:
                self._depth = before
                if self._stop.closed:
                    self._finish()

    def _require_open(self) -> None:
        """Raise `DeviceClosedError` if the device is closed or its calls are to end."""
        if self._stop():
            raise DeviceClosedError(self._sentence)


def exclusive(method: _Method) -> _Method:
    """Decorate a method of `Closable` that only one thread at a time may run.

    The method raises `DeviceClosedError` if the device is closed.
    """

    @functools.wraps(method)
    def wrapper(self: Closable, *arguments: Any, **named: Any) -> Any:
        """Run the method while holding the device's lock."""
        with self._call_context():
            return method(self, *arguments, **named)

    return cast("_Method", wrapper)


_OPEN_DEVICES: weakref.WeakSet[Closable] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all open devices, at the end of the interpreter."""
    for device in list(_OPEN_DEVICES):
        device.close(_EXIT_SECONDS)


def _inherit_all() -> None:
    """Close this process's copies of devices that other threads were using before a fork."""
    for device in list(_OPEN_DEVICES):
        device._inherit()


os.register_at_fork(after_in_child=_inherit_all)
