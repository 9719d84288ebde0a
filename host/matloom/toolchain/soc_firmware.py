"""Compiles firmware of the system on chip from the package's C sources, with ziglang."""

import hashlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from matloom.errors import MissingPackageError
from matloom.terminal.progress import set_activity
from matloom.toolchain.cache import cache_folder, entry
from matloom.toolchain.firmware import FIRMWARE
from matloom.toolchain.process import run
from matloom.toolchain.workspace import workspace

_COMPILE = (
    *("cc", "-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+zicsr+zifencei"),
    *("-std=c11", "-O2", "-ffreestanding", "-fno-builtin", "-nostdlib", "-mcmodel=medany"),
    *("-ffunction-sections", "-fdata-sections", "-fno-sanitize=all", "-Wl,--gc-sections"),
    *("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"),
)

_IMAGE = "image.bin"

#: Sources of every image; the linker drops functions that are not called.
_COMMON = (
    *("soc/start.S", "soc/trap.c", "soc/line.c"),
    *("support/memory.c", "driver/checksum.c"),
)


def boot_rom() -> bytes:
    """Return the contents of the boot ROM, compiled if not cached."""
    return compile_image(("soc/rom.c", "soc/loader.c"), "soc/rom.ld")


def link_server() -> bytes:
    """Return the image of the program that serves the host link, compiled if not cached."""
    return compile_image(("soc/server.c", "soc/port.c", "link/link.c"))


def compile_image(
    sources: Sequence[str | Path], script: str = "soc/image.ld", flags: Sequence[str] = ()
) -> bytes:
    """Return the bytes of an image compiled from C files; compile it unless it is cached.

    Parameters
    ----------
    sources:
        Files in the firmware folder, or full paths, with a header of the same name next to each if
        it has one.
    script:
        Linker script in the firmware folder: `soc/image.ld`, or `soc/app.ld` for images above
        64 KiB.
    flags:
        Additional compiler flags.

    Raises
    ------
    MissingPackageError
        The package ziglang is not installed (extra ``firmware``).
    ToolError
        The compiler rejects the sources.
    """
    if importlib.util.find_spec("ziglang") is None:
        raise MissingPackageError("ziglang", "compiling a system on chip's firmware")
    files = [FIRMWARE / name for name in (*_COMMON, *sources)]
    version = importlib.metadata.version("ziglang")
    names = [path.name for path in files]
    key = hashlib.sha256(repr((_COMPILE, version, names, tuple(flags))).encode())
    own = [header for path in files if (header := path.with_suffix(".h")).is_file()]
    # Sources may include any of these files.
    for path in (*files, *own, FIRMWARE / script, *sorted(FIRMWARE.rglob("*.[ch]"))):
        key.update(path.read_bytes())

    def make(folder: Path) -> None:
        """Compile the image into an entry of the cache."""
        _compile(files, script, folder / _IMAGE, flags)

    return (entry(f"firmware/{key.hexdigest()[:16]}", make) / _IMAGE).read_bytes()


def _compile(files: Sequence[Path], script: str, output: Path, flags: Sequence[str]) -> None:
    """Compile and link C files with a linker script, and write the plain image to `output`."""
    set_activity("compiling firmware")
    zig = (sys.executable, "-m", "ziglang")
    zig_cache = cache_folder() / "zig"
    zig_cache.mkdir(exist_ok=True)
    with workspace() as work:
        sources = work.folder(FIRMWARE)
        elf, binary = work.path / "image.elf", work.path / "image.bin"
        named = [
            sources / path.relative_to(FIRMWARE) if FIRMWARE in path.parents else work.file(path)
            for path in files
        ]
        folders = [sources / name for name in ("include", "soc")]
        folders += dict.fromkeys(path.parent for path in named if sources not in path.parents)
        search = [word for folder in folders for word in ("-I", folder)]
        environment = {
            "ZIG_GLOBAL_CACHE_DIR": str(work.folder(zig_cache)),
            "ZIG_LOCAL_CACHE_DIR": str(work.path / "zig"),
        }
        run(
            [*zig, *_COMPILE, *flags, *search, f"-Wl,-T,{sources / script}", *named, "-o", elf],
            environment=environment,
            folder=work.path,
        )
        run([*zig, "objcopy", "-O", "binary", elf, binary], environment=environment)
        output.write_bytes(binary.read_bytes())
