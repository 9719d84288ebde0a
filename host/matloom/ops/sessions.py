"""Cache of sessions and devices for operations on arrays."""

import hashlib
from functools import lru_cache
from threading import Lock

from matloom.arch.config import Config
from matloom.compiler import compile_network
from matloom.device.driver import Driver
from matloom.device.open import memory_size_for, open_device
from matloom.ir.graph import Graph
from matloom.program import Program
from matloom.runtime import Session

#: Maximum number of cached sessions.
_MAX_SESSIONS = 32


class _Sessions:
    """Cache of sessions by graph, configuration and device; the least recently used is dropped."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | int], Session] = {}
        self._lock = Lock()

    def find(self, graph: Graph, config: Config, device: str | Driver) -> Session:
        """Return the session of a graph on a device; compile the graph if it is not cached."""
        digest = hashlib.sha256("\0".join((config.to_json(), repr(graph))).encode())
        for tensor in graph.tensors.values():
            digest.update(b"" if tensor.data is None else tensor.data.tobytes())
        key = digest.hexdigest(), device if isinstance(device, str) else id(device)
        with self._lock:
            session = self._known.pop(key, None) or _open_session(
                compile_network(graph, config), device
            )
            self._known[key] = session
            while len(self._known) > _MAX_SESSIONS:
                del self._known[next(iter(self._known))]
            return session


SESSIONS = _Sessions()


def _open_session(program: Program, device: str | Driver) -> Session:
    """Return a session that runs a program on a device, opened by name or as a driver."""
    driver = _driver_of(device, program.config, program.memory_bytes)
    name = device if isinstance(device, str) else type(driver.transport).__name__
    return Session(program, driver, name)


def _driver_of(device: str | Driver, config: Config, size: int) -> Driver:
    """Return the given driver, or for a name an open device with room for `size` bytes.

    Devices are shared among sessions.
    """
    if isinstance(device, Driver):
        return device
    return _open_device(device, config, memory_size_for(size))


@lru_cache(maxsize=4)
def _open_device(device: str, config: Config, memory_bytes: int) -> Driver:
    """Return the driver of a device that is opened by name."""
    return open_device(device, config, memory_bytes=memory_bytes)
