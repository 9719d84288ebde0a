"""Opens a device by its name."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from matloom.arch.config import Config, load_config
from matloom.arch.config_name import describe_config, digest_name
from matloom.arch.memory import Memory, load_memory
from matloom.device.driver import Driver
from matloom.device.errors import DeviceError
from matloom.device.fast import FastTransport
from matloom.device.model.transport import ModelTransport
from matloom.device.waves import Waves
from matloom.errors import UserError, unknown_name_error

if TYPE_CHECKING:
    from matloom.device.link_transport import LinkTransport

#: Names that `open_device` accepts.
DEVICES = ("rtl", "netlist", "model", "fast", "soc", "uart:PORT[@BAUD]", "uio:[UIO[,DMABUF]]")

#: Devices that are simulated cycle by cycle.
SIMULATED = ("rtl", "netlist")

#: Devices that compute results in Python, without cycles.
_IN_SOFTWARE = {"model": ModelTransport, "fast": FastTransport}

#: Default size of a device's external memory in bytes.
_MEMORY_BYTES = 1 << 24


def memory_size_for(size: int) -> int:
    """Return the external memory, in bytes, that a device needs for regions of `size` bytes.

    It is a power of two, at least twice `size` and at least 16 MiB.
    """
    return max(_MEMORY_BYTES, 1 << (2 * size - 1).bit_length())


def _device_kind(name: str) -> str:
    """Return the kind of a device, which is its name without a colon and what follows.

    Raises DeviceError if there is no such kind.
    """
    kind, colon, _ = str(name).partition(":")
    if kind not in (("uart", "uio") if colon else (*SIMULATED, *_IN_SOFTWARE, "soc")):
        raise unknown_name_error(
            DeviceError,
            "a device",
            name,
            DEVICES,
            hint="model and fast need neither a simulator nor a board",
        )
    return kind


def require_device(name: str) -> None:
    """Raise `DeviceError` if a device name is unknown; nothing is opened."""
    _device_kind(name)


def board_transport(name: str) -> "LinkTransport":
    """Open the board at ``uart:PORT[@BAUD]``; return its transport, after its hello."""
    from matloom.device.link import Link
    from matloom.device.link_transport import LinkTransport
    from matloom.device.serial_port import SerialStream, parse_address

    stream = SerialStream(*parse_address(name))
    try:
        return LinkTransport(Link(stream))
    except BaseException:
        stream.close()
        raise


def device_memory(device: str | Driver) -> Memory | None:
    """Return the external memory of a board on a serial port; None for other devices.

    A board on a serial port is asked for its identity; the port is released afterwards.

    Raises
    ------
    DeviceError
        The device does not exist, its port cannot be used, or nothing answers.
    """
    if isinstance(device, Driver):
        return getattr(device.transport, "external_memory", None)
    if _device_kind(device) != "uart":
        return None
    transport = board_transport(device)
    transport.close()
    found: Memory | None = transport.external_memory
    return found


def _open_board(name: str, config: Config, timeout: float) -> Driver:
    """Return the driver of a board on a serial port."""
    transport = board_transport(name)
    try:
        hello = transport.hello
        if hello.config_digest != config.digest:
            raise DeviceError(
                f"the bitstream of board {hello.board} is of configuration "
                f"{digest_name(hello.config_digest)}, and the program of {describe_config(config)}",
                hint="compile the network for the bitstream's configuration (--config), or build "
                "a bitstream of the program's",
            )
        return Driver(transport, config, timeout)
    except BaseException:
        transport.close()
        raise


def _open_mapped(name: str, config: Config, timeout: float) -> Driver:
    """Return the driver of an engine in the memory map of this system."""
    from matloom.device.mapped import MappedTransport, parse_mapped

    transport = MappedTransport(*parse_mapped(name))
    try:
        return Driver(transport, config, timeout)
    except BaseException:
        transport.close()
        raise


def _open_soc(config: Config, memory_bytes: int, timeout: float) -> Driver:
    """Return the driver of a simulated system on chip whose firmware implements the host link."""
    from matloom.device.soc import open_soc

    transport = open_soc(config, memory_bytes)
    return Driver(transport, config, timeout)


def _open_simulated(
    name: str, config: Config, memory_bytes: int, timeout: float, **options: Any
) -> Driver:
    """Return the driver of a chip or netlist in Verilator; `options` are as in `open_device`."""
    from matloom.device.covered import chip_class
    from matloom.device.netlist import NetlistTransport
    from matloom.device.rtl import MemoryTiming

    memory, timing = options.pop("memory"), options.pop("timing")
    if memory is not None and timing is not None:
        raise UserError(
            "memory must be None if timing is given, which contains one",
            hint="leave memory out, or put it into timing: MemoryTiming(memory=...)",
        )
    timing = timing or MemoryTiming(memory=load_memory(memory))
    simulated = NetlistTransport if name == "netlist" else chip_class()
    transport = simulated(config, memory_bytes, timing=timing, **options)
    return Driver(transport, config, timeout)


def open_device(
    name: str,
    config: Config | str | Path = "reference",
    *,
    memory_bytes: int = _MEMORY_BYTES,
    waves: Waves | Path | str | None = None,
    timing: Any = None,
    memory: Memory | str | Path | None = None,
    timeout: float = 600.0,
    check_bus: bool | None = None,
) -> Driver:
    """Return the driver of a device.

    Parameters
    ----------
    name:
        ``"rtl"``, the generated chip in Verilator; ``"netlist"``, its netlist as Yosys makes it for
        an ECP5, which is slower and takes minutes to build; ``"model"``, the functional model;
        ``"fast"``, the operators' kernels instead of a program's instructions, with predicted
        cycles (`matloom.device.fast`); ``"soc"``, the simulated system on chip, whose processor
        answers like a board; ``"uart:PORT[@BAUD]"``, a board on a serial port, such as
        ``"uart:/dev/ttyUSB0"``; or ``"uio:[UIO[,DMABUF]]"``, an engine in the memory map of this
        Linux system.
    config:
        A preset, a JSON file or a Config.
    memory_bytes:
        Size of the external memory; ignored by boards.
    waves, timing:
        For simulations: a waveform file, ``.fst`` or ``.vcd``, or a `matloom.Waves` with a window
        of cycles; and a `matloom.device.rtl.MemoryTiming`.
    memory:
        For simulations without `timing`: the external memory to simulate, as a name, a JSON file or
        a `matloom.arch.memory.Memory`; None for the reference memory.
    timeout:
        Seconds that a run may take; a simulation of some million cycles takes a minute.
    check_bus:
        For simulations: whether to check every cycle against the rules of AXI and raise
        `matloom.device.errors.BusError` if one is broken. None means the environment variable
        ``MATLOOM_CHECK_BUS``.

    Raises
    ------
    DeviceError
        The device does not exist, its port cannot be used, nothing answers, or the board has
        another configuration.
    ValueError
        `memory_bytes` is less than 1, `memory` and `timing` are both given, or options for
        simulations are given for another device.
    """
    config = load_config(config)
    if memory_bytes < 1:
        raise UserError(
            f"memory_bytes must be 1 or more, not {memory_bytes}",
            hint="leave it out for the bytes that the program needs",
        )
    kind = _device_kind(name)
    options = {"waves": waves, "timing": timing, "memory": memory, "check_bus": check_bus}
    if name in SIMULATED:
        return _open_simulated(name, config, memory_bytes, timeout, **options)
    for option, value in options.items():
        if value:
            raise UserError(
                f"{option} must go with device 'rtl', not {name!r}",
                hint=f"leave {option} out, or pass device='rtl'",
            )
    if kind == "uart":
        return _open_board(name, config, timeout)
    if kind == "uio":
        return _open_mapped(name, config, timeout)
    if kind == "soc":
        return _open_soc(config, memory_bytes, timeout)
    return Driver(_IN_SOFTWARE[kind](config, memory_bytes), config, timeout)
