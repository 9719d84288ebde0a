"""A mapped engine: files as registers and memory, and an engine that runs while the host sleeps."""

import socket
import threading

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.arch.csr import IDENTITY, REGISTERS, WINDOW_BYTES, Access, register
from matloom.device.driver import Driver
from matloom.device.errors import DeviceError, DeviceFaultError, DeviceTimeoutError
from matloom.device.mapped import Interrupt, MappedTransport, parse_mapped
from matloom.device.model.transport import ModelTransport
from matloom.device.open import open_device
from matloom.runtime import load

CONFIG = load_config("nano")

#: Of the memory: address on the bus, and size; and where the registers begin in their page.
BASE, BYTES, OFFSET = 0x1F40_0000, 1 << 20, 0x200


def tree(root, registers="uio0", memory="udmabuf0", **changes):
    """Create device files and the kernel's description of them."""
    told = {
        f"sys/class/uio/{registers}/maps/map0/size": "0x1000",
        f"sys/class/uio/{registers}/maps/map0/offset": f"{OFFSET:#x}",
        f"sys/class/u-dma-buf/{memory}/size": f"{BYTES}",
        f"sys/class/u-dma-buf/{memory}/phys_addr": f"{BASE:#010x}",
    }
    for path, text in told.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(changes.get((root / path).name, text) + "\n")
    (root / "dev").mkdir()
    (root / "dev" / registers).write_bytes(bytes(0x1000 + OFFSET))
    (root / "dev" / memory).write_bytes(bytes(BYTES))
    return root


class FakeEngine:
    """The functional model on the same files; it ends each sleep with an interrupt."""

    def __init__(self, root, *, interrupts=True):
        self._registers, self._memory = root / "dev/uio0", root / "dev/udmabuf0"
        self._interrupts = interrupts
        # One for all runs: weights may stay on chip.
        self._model = ModelTransport(CONFIG, BYTES)
        self.host, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        with self._registers.open("r+b") as file:
            for name, value in (("ID", IDENTITY), ("DIGEST", CONFIG.digest)):
                file.seek(OFFSET + register(name).offset)
                file.write(value.to_bytes(4, "little"))

    def _serve(self):
        while asked := self._end.recv(4):
            assert asked == b"\1\0\0\0"
            if self._interrupts:
                self._work()
                self._end.send(b"\1\0\0\0")

    def _work(self):
        model = self._model
        words = np.memmap(self._registers, np.uint32, "r+", OFFSET, (WINDOW_BYTES // 4,))
        memory = np.memmap(self._memory, np.uint8, "r+")
        model.memory[:] = memory
        control = register("CONTROL").offset // 4
        assert words[control] == 1
        for item in REGISTERS:
            if item.access is Access.RW:
                value = int(words[item.offset // 4])
                # Addresses of the bus are the model's own, from 0 on.
                base = BASE if item.name.endswith("_BASE") else 0
                model.write32(item.offset, value - base)
        model.write32(4 * control, 1)
        memory[:] = model.memory
        for name in ("STATUS", "INSTRUCTIONS", "FAULT", "FAULT_INDEX", "FAULT_ADDRESS"):
            words[register(name).offset // 4] = model.read32(register(name).offset)
        words[control] = 0

    def close(self):
        self.host.close()
        self._thread.join()
        self._end.close()


@pytest.fixture
def engine(tmp_path):
    running = FakeEngine(tree(tmp_path))
    yield running
    running.close()


def opened(engine, root, **limits):
    interrupt = Interrupt(engine.host.fileno())
    return Driver(MappedTransport(root=root, interrupt=interrupt), CONFIG, **limits)


def test_a_network_runs(engine, tmp_path, small_product, small_inputs):
    with load(small_product, device="model", config=CONFIG) as session:
        expected = session.run(small_inputs)
    driver = opened(engine, tmp_path, timeout=20)
    with load(small_product, driver, CONFIG) as session:
        for _ in range(2):
            outputs = session.run(small_inputs)
            assert outputs.keys() == expected.keys()
            assert all((outputs[name] == expected[name]).all() for name in expected)
    driver.close()
    driver.close()


def test_a_fault_ends_the_sleep(engine, tmp_path, small_product):
    driver = opened(engine, tmp_path, timeout=20)
    with load(small_product, driver, CONFIG) as session:
        driver.place_regions(session.program.region_bytes)
        with pytest.raises(DeviceFaultError, match="COMMAND_RANGE"):
            driver.run(8, 16)
    driver.close()


def test_no_interrupt_ends_in_time(tmp_path):
    engine = FakeEngine(tree(tmp_path), interrupts=False)
    driver = opened(engine, tmp_path, timeout=0.1)
    with pytest.raises(DeviceTimeoutError, match=r"a run timed out after 0\.1 s"):
        driver.run(0, 16)
    driver.close()
    engine.close()


def test_registers_and_memory_are_where_the_kernel_says(tmp_path):
    transport = MappedTransport(root=tree(tmp_path))
    transport.write32(0x18, 0x1234_5678)
    assert (tmp_path / "dev/uio0").read_bytes()[OFFSET + 0x18 :][:4] == b"\x78\x56\x34\x12"
    assert transport.read32(0x18) == 0x1234_5678
    transport.write_block(BASE + BYTES - 3, b"end")
    transport.write_block(BASE, b"")
    assert (tmp_path / "dev/udmabuf0").read_bytes()[-3:] == b"end"
    assert transport.read_block(BASE + BYTES - 4, 4) == b"\0end"
    for address, size in ((BASE - 1, 1), (BASE + BYTES - 3, 4)):
        with pytest.raises(DeviceError, match=r"outside external memory.* at 0x1f400000"):
            transport.read_block(address, size)
    for address in (2, WINDOW_BYTES, -4):
        with pytest.raises(OSError, match="there is no register at"):
            transport.read32(address)
    with pytest.raises(DeviceError, match=r"another program uses .*uio0"):
        MappedTransport(root=tmp_path)
    transport.close()
    MappedTransport(root=tmp_path).close()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"size": "0x400"}, "its registers are 1024 bytes at"),
        ({"offset": "2"}, "not 2048 at a multiple of 4"),
        ({"phys_addr": "0xfffff000"}, "memory of udmabuf0 must end within 32 bits of address"),
        ({"phys_addr": "0x10"}, "begin at a multiple of 64, not be 1048576 bytes at 0x10"),
        ({"phys_addr": "none"}, "cannot read .*phys_addr: "),
        ({"size": "0x4000000"}, r"cannot map 67109376 bytes of .*uio0: mmap"),
    ],
)
def test_unusable_inputs(changes, sentence, tmp_path):
    with pytest.raises(DeviceError, match=sentence):
        MappedTransport(root=tree(tmp_path, **changes))


def test_names():
    assert parse_mapped("uio:") == ("uio0", "udmabuf0")
    assert parse_mapped("uio:uio3") == ("uio3", "udmabuf0")
    assert parse_mapped("uio:uio1,my_buffer-2") == ("uio1", "my_buffer-2")
    for wrong in ("uio:uio0,", "uio:../x", "uio:a,b,c"):
        with pytest.raises(ValueError, match=r"must be uio:\[UIO\[,DMABUF\]\]"):
            parse_mapped(wrong)


def test_it_opens_by_its_name():
    with pytest.raises(DeviceError, match=r"cannot read .*uio99/maps/map0/size: no such file"):
        open_device("uio:uio99", "nano")
    with pytest.raises(ValueError, match="waves must go with device 'rtl', not 'uio:uio99'"):
        open_device("uio:uio99", "nano", waves="waves.vcd")
