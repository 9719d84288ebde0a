"""Opens a device by its name."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from matloom.arch.config import Config, load_config
from matloom.device.driver import Driver
from matloom.device.errors import DeviceError
from matloom.device.model.transport import ModelTransport

__all__ = ["DEVICES", "open_device"]

#: Names that `open_device` knows.
DEVICES = ("rtl", "model")


@contextmanager
def _building() -> Iterator[None]:
    """Show on a terminal that the simulator is being built: it takes a minute, once."""
    console = Console(stderr=True)
    if not sys.stderr.isatty():
        yield
        return
    with console.status("building the simulator of this configuration (once)"):
        yield


def open_device(
    name: str,
    config: Config | str | Path = "reference",
    *,
    memory_bytes: int = 1 << 24,
    waves: Path | None = None,
    timing: Any = None,
) -> Driver:
    """Return the driver of a device.

    Parameters
    ----------
    name:
        ``"rtl"``, the generated chip in Verilator, or ``"model"``, the functional model.
    config:
        A preset, a JSON file or a Config.
    memory_bytes:
        External memory of the device.
    waves, timing:
        For ``"rtl"``: a VCD file to write, and a `matloom.device.rtl.MemoryTiming`.

    Errors
    ------
    DeviceError
        No such device.
    """
    config = load_config(config)
    if name == "model":
        return Driver(ModelTransport(config, memory_bytes), config)
    if name != "rtl":
        raise DeviceError(f"a device must be one of {', '.join(DEVICES)}, not {name!r}")
    from matloom.device.rtl import RtlTransport

    with _building():
        transport = RtlTransport(config, memory_bytes, timing=timing, waves=waves)
    return Driver(transport, config)
