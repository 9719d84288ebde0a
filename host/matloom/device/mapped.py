"""An engine in the memory map of Linux: registers and interrupt by UIO, memory by u-dma-buf.

`matloom_uio.h` does the same in C; docs/firmware.md describes the device tree.
"""

import fcntl
import mmap
import os
import select
from pathlib import Path

from matloom.arch.csr import WINDOW_BYTES
from matloom.device.errors import DeviceError
from matloom.errors import UserError, reason

_SCHEME = "uio:"

#: Default names of the devices.
_REGISTERS, _MEMORY = "uio0", "udmabuf0"

#: Maximum seconds of a sleep, after which the driver checks its own limit.
_MAX_SLEEP_SECONDS = 0.5

#: Alignment of regions, and therefore of memory.
_ALIGNMENT = 64

#: Bytes of UIO's interrupt count.
_COUNT_BYTES = 4


def parse_mapped(device: str) -> tuple[str, str]:
    """Return the names of the UIO and the u-dma-buf device in ``uio:[UIO[,DMABUF]]``.

    They default to uio0 and udmabuf0.

    Raises
    ------
    ValueError
        The text does not have this form.
    """
    registers, comma, memory = device.removeprefix(_SCHEME).partition(",")
    names = (registers or _REGISTERS, memory if comma else _MEMORY)
    if not all(name.replace("-", "").replace("_", "").isalnum() for name in names):
        raise UserError(
            f"a mapped device must be uio:[UIO[,DMABUF]], not {device!r}",
            hint="write uio: alone for the first engine",
        )
    return names


class Interrupt:
    """Interrupt of a UIO device; the caller owns the file and closes it."""

    def __init__(self, file: int) -> None:
        self._file = file

    def wait(self, seconds: float) -> bool:
        """Enable the interrupt and sleep until it occurs; return whether it did within `seconds`.

        The kernel masks the line when it fires, and the level stays high, so an interrupt that
        occurred before the call ends the sleep at once.
        """
        os.write(self._file, (1).to_bytes(4, "little"))
        ready, _, _ = select.select([self._file], [], [], seconds)
        return bool(ready) and len(os.read(self._file, _COUNT_BYTES)) == _COUNT_BYTES


class MappedTransport:
    """Registers and contiguous memory of an engine, mapped into this process.

    Members
    -------
    memory_base, memory_bytes:
        Bus address and size of the u-dma-buf.

    Parameters
    ----------
    registers, memory:
        Names below ``/dev``, such as ``"uio0"`` and ``"udmabuf0"``.
    root:
        Folder that contains ``dev`` and ``sys``.
    interrupt:
        Interrupt to use instead of that of the registers' device.

    Raises
    ------
    DeviceError
        A device is missing, in use, too small or beyond 32 bits, or may not be opened.
    """

    def __init__(
        self,
        registers: str = _REGISTERS,
        memory: str = _MEMORY,
        *,
        root: Path = Path("/"),
        interrupt: Interrupt | None = None,
    ) -> None:
        self._root, self._files, self._maps = root, list[int](), list[mmap.mmap]()
        try:
            self._open_registers(registers)
            self._open_memory(memory)
        except BaseException:
            self.close()
            raise
        self._interrupt = interrupt or Interrupt(self._files[0])

    def _open_registers(self, name: str) -> None:
        """Map the registers of a UIO device."""
        folder = self._root / "sys/class/uio" / name / "maps/map0"
        size, offset = self._number(folder / "size"), self._number(folder / "offset")
        if size < WINDOW_BYTES or offset % 4:
            raise DeviceError(
                f"{name} is not a Matloom engine: its registers are {size} bytes at {offset}, not "
                f"{WINDOW_BYTES} at a multiple of 4",
                hint="ls /sys/class/uio lists the devices; docs/boards.md says how to declare one",
            )
        pages = self._map(name, size + offset)
        # An item of this view is one 32-bit access; a slice of the map would be several byte
        # accesses.
        self._words = memoryview(pages)[offset : offset + size].cast("I")

    def _open_memory(self, name: str) -> None:
        """Map the memory of a u-dma-buf device."""
        folder = self._root / "sys/class/u-dma-buf" / name
        size, base = self._number(folder / "size"), self._number(folder / "phys_addr")
        if not 0 < size <= (1 << 32) - base or base % _ALIGNMENT:
            raise DeviceError(
                f"memory of {name} must end within 32 bits of address and begin at a multiple of "
                f"{_ALIGNMENT}, not be {size} bytes at {base:#x}",
                hint="declare its memory otherwise in the device tree (docs/boards.md)",
            )
        self.memory_base, self.memory_bytes = base, size
        self._memory = self._map(name, size)

    def _number(self, path: Path) -> int:
        """Return the number in a sysfs file: decimal, or hexadecimal after 0x."""
        try:
            return int(path.read_text(), 0)
        except (OSError, ValueError) as error:
            raise DeviceError(
                f"cannot read {path}: {reason(error)}",
                hint="ls /sys/class/uio lists the devices; the engine must be one (docs/boards.md)",
            ) from None

    def _map(self, name: str, size: int) -> mmap.mmap:
        """Map the first `size` bytes of a device, uncached by O_SYNC, and lock the device."""
        path = self._root / "dev" / name
        try:
            self._files.append(os.open(path, os.O_RDWR | os.O_SYNC | os.O_CLOEXEC))
            fcntl.flock(self._files[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._maps.append(mmap.mmap(self._files[-1], size))
        except BlockingIOError:
            raise DeviceError(
                f"another program uses {path}", hint="end it, and try again"
            ) from None
        except (OSError, ValueError) as error:
            raise DeviceError(
                f"cannot map {size} bytes of {path}: {reason(error)}",
                hint="check its rights, and the size in the device tree (docs/boards.md)",
            ) from None
        return self._maps[-1]

    def read32(self, address: int) -> int:
        """Return the value of the register at a byte offset."""
        return self._words[self._index(address)]

    def write32(self, address: int, value: int) -> None:
        """Write the register at a byte offset."""
        self._words[self._index(address)] = value

    def _index(self, address: int) -> int:
        """Return the index of a register's 32-bit word; raise `OSError` if it does not exist."""
        if address % 4 or not 0 <= address < WINDOW_BYTES:
            raise OSError(f"there is no register at {address:#x}")
        return address // 4

    def read_block(self, address: int, size: int) -> bytes:
        """Return `size` bytes of external memory from a bus address on."""
        start = self._offset_in_memory(address, size)
        return self._memory[start : start + size]

    def write_block(self, address: int, data: bytes) -> None:
        """Write bytes to external memory from a bus address on, and wait until they are there."""
        start = self._offset_in_memory(address, len(data))
        self._memory[start : start + len(data)] = data
        if data:
            # A read waits for earlier writes, so none is still buffered when the engine starts.
            self._memory[start + len(data) - 1]

    def _offset_in_memory(self, address: int, size: int) -> int:
        """Return the offset of a bus address in the mapped memory.

        Raises DeviceError if any of the `size` bytes from there on are outside.
        """
        start = address - self.memory_base
        if not 0 <= start <= self.memory_bytes - size:
            raise DeviceError(
                f"{size} bytes at {address:#x} are outside external memory, which has "
                f"{self.memory_bytes} bytes at {self.memory_base:#x}",
                hint="reserve more memory for it in the device tree, or take a smaller network",
            )
        return start

    def wait_interrupt(self, cycles: int) -> int:
        """Sleep until the interrupt, at most half a second; return 0, as cycles are not counted."""
        del cycles  # The engine's clock is unknown here.
        self._interrupt.wait(_MAX_SLEEP_SECONDS)
        return 0

    def close(self) -> None:
        """Unmap and close the devices; a second call does nothing. The engine must be idle."""
        if hasattr(self, "_words"):
            self._words.release()
        for pages in self._maps:
            pages.close()
        for file in self._files:
            os.close(file)
        self._maps, self._files = [], []
