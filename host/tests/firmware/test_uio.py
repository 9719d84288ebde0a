"""Access from Linux by UIO, against a tree of files."""

import os
import shutil

WRAPPED = ("poll", "read", "write")
#: What sysfs says of an engine at the middle of a page, and of a buffer.
SYSFS = {
    "sys/class/uio/uio0/maps/map0/size": "0x800\n",
    "sys/class/uio/uio0/maps/map0/offset": "0x40\n",
    "sys/class/u-dma-buf/udmabuf0/size": "65536\n",
    "sys/class/u-dma-buf/udmabuf0/phys_addr": "0x0000000080000000\n",
    "sys/class/u-dma-buf/udmabuf1/size": "65536\n",
    "sys/class/u-dma-buf/udmabuf1/phys_addr": "0x0000000080000000\n",
}


def test_calls(build, engine_files, tmp_path):
    for name, text in SYSFS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for other in ("uio2", "uio3"):
        shutil.copytree(tmp_path / "sys/class/uio/uio0", tmp_path / "sys/class/uio" / other)
    (tmp_path / "dev" / "uio2").mkdir(parents=True)
    os.mkfifo(tmp_path / "dev" / "uio3")
    (tmp_path / "dev" / "uio0").write_bytes(bytes(4096))
    (tmp_path / "dev" / "udmabuf0").write_bytes(bytes(65536))
    flags = [f"-Wl,--wrap={name}" for name in WRAPPED]
    program = build.program("test_uio", "tests/test_uio.c", "support/linux_uio.c", flags=flags)
    build.run([program, tmp_path, engine_files[0]])
