"""Compiles the driver for processors next to an engine, and measures it: `make firmware`.

ziglang, of the extra ``firmware``, brings a compiler and a linker for all of them.
"""

import argparse
import importlib.util
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_network
from matloom.data.digits import NETWORK
from matloom.toolchain.soc_firmware import boot_rom, link_server
from matloom.tools.soc_app import network_image

ROOT = Path(__file__).resolve().parents[1]
FIRMWARE = ROOT / "firmware"
REPORT = ROOT / "docs" / "results" / "firmware.json"

#: For small code on RV32: the linker shortens calls (`relax`; else each takes 8 bytes), and two
#: functions of firmware/support save registers (`-msave-restore`), but not where a function ends by
#: a jump to another one.
SIZE_FEATURES = "+relax+save_restore"
CALLS = "-fno-optimize-sibling-calls"
RV32 = ("-target", "riscv32-freestanding-none", CALLS)

#: Processors by name: the compiler's options.
TARGETS = {
    "rv32imc": (*RV32, f"-mcpu=generic_rv32+m+c{SIZE_FEATURES}"),
    "rv32im": (*RV32, f"-mcpu=generic_rv32+m{SIZE_FEATURES}"),
    "aarch64": ("-target", "aarch64-freestanding-none"),
}
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
FLAGS = (
    *("-ffreestanding", "-fno-builtin", "-Os", "-ffunction-sections", "-fdata-sections"),
    *("-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fno-sanitize=all", "-nostdlib"),
)
#: What an example leaves to its board: addresses, so that it can be linked.
BOARD = ("network", "port", "memory", "tensors")


def available() -> bool:
    """Return whether the compiler (package ziglang) is installed."""
    return importlib.util.find_spec("ziglang") is not None


def link(target: str, folder: Path, *, linked: bool, extra: tuple[str, ...] = ()) -> Path:
    """Build the driver and start code that calls it as a program; return the program's path.

    Parameters
    ----------
    target:
        A key of `TARGETS`.
    linked:
        The network is part of the firmware, so that only its checksum is checked.
    extra:
        More compiler options for the driver; not for the board file, whose data stand for flash.

    Raises
    ------
    CalledProcessError
        The compiler failed, and has printed the reason.
    """
    name = f"{target}-{'linked' if linked else 'checked'}{''.join(extra)}"
    output = folder / f"{name}.elf"
    compiler = [sys.executable, "-m", "ziglang", "cc", *TARGETS[target], *WARNINGS, *FLAGS]
    board = _board(compiler, folder)
    sources = [
        *sorted((FIRMWARE / "driver").glob("*.c")),
        *support(target),
        FIRMWARE / "examples" / "size.c",
    ]
    command = [*compiler, *(["-DLINKED"] if linked else []), *extra]
    command += ["-I", FIRMWARE / "include", "-Wl,--gc-sections", "-Wl,--entry=start"]
    subprocess.run([str(word) for word in (*command, *sources, board, "-o", output)], check=True)
    return output


def support(target: str) -> list[Path]:
    """Return the source files of functions that compilers call implicitly, such as memcpy.

    Targets without a C library need them.
    """
    folder = FIRMWARE / "support"
    return [folder / "memory.c", *([folder / "save_restore.S"] if "rv32" in target else [])]


def _board(compiler: list[str], folder: Path) -> Path:
    """Return the compiled board file of the example."""
    source = folder / "board.c"
    source.write_text("".join(f"char {name}[4096] = {{1}};\n" for name in BOARD))
    target = source.with_suffix(".o")
    subprocess.run([*compiler, "-c", source, "-o", target], check=True)
    return target


def application(folder: Path) -> Path:
    """Return the firmware of examples/make: digits as C, driver, kernels and start, for rv32imc."""
    matloom = f"{sys.executable} -c 'from matloom.cli import main; main()'"
    variables = [f"PYTHON={sys.executable}", f"MATLOOM={matloom}", f"BUILD={folder}"]
    make = [
        "make",
        "--quiet",
        "--always-make",
        "-C",
        str(FIRMWARE / "examples" / "make"),
        *variables,
    ]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    return folder / "firmware.elf"


def sections(path: Path) -> dict[str, int]:
    """Return the sizes of an ELF file's sections in bytes, by name."""
    data = path.read_bytes()
    wide = data[4] == 2
    offset = struct.unpack_from("<Q" if wide else "<I", data, 40 if wide else 32)[0]
    size, count, names = struct.unpack_from("<HHH", data, 58 if wide else 46)
    layout = "<IIQQQQ" if wide else "<IIIIII"
    rows = [struct.unpack_from(layout, data, offset + size * at) for at in range(count)]
    start = rows[names][4]
    return {re.match(rb"[^\0]*", data[start + row[0] :])[0].decode(): row[5] for row in rows}


def measure(folder: Path) -> dict[str, dict[str, int]]:
    """Return the bytes of code and of constants of each program, by target and use."""
    files = {
        f"{target}, {'linked network' if linked else 'any file'}": link(
            target, folder, linked=linked
        )
        for target in TARGETS
        for linked in (False, True)
    }
    found = {name: _size(path) for name, path in files.items()}
    for name, linked in (("any file", False), ("linked network", True)):
        for option, extra in (("-Oz", ("-Xclang", "-Oz")), ("-flto", ("-flto",))):
            path = link("rv32imc", folder, linked=linked, extra=extra)
            found[f"rv32imc, {name}, {option}"] = _size(path)
    found["rv32imc, application"] = _size(application(folder))
    return found | _system(folder) | _files(folder)


def _system(folder: Path) -> dict[str, dict[str, int]]:
    """Write the images of the system on chip; return their sizes and the constants in them.

    For the digits, the network's file counts as constants.
    """
    found = {}
    program = compile_network(frontend.load(NETWORK), PRESETS["nano"], CompileOptions(tuned=False))
    for name, data, constants in (
        ("boot ROM", boot_rom(), 0),
        ("link server", link_server(), 0),
        ("digits", network_image(program), len(program.to_bytes())),
    ):
        (folder / f"soc_{name.replace(' ', '_').lower()}.bin").write_bytes(data)
        sizes = {"code": len(data) - constants, "constants": constants}
        found[f"rv32im, system on chip, {name}"] = sizes
    return found


def _files(folder: Path) -> dict[str, dict[str, int]]:
    """Return the sizes of the source files, before the linker drops unused functions."""
    compiler = [sys.executable, "-m", "ziglang", "cc", *TARGETS["rv32imc"], *WARNINGS, *FLAGS]
    found = {}
    folders = ("driver", "kernels", "link")
    sources = [path for name in folders for path in FIRMWARE.glob(f"{name}/*.c")]
    for source in (*sources, FIRMWARE / "soc" / "loader.c"):
        output = folder / f"{source.stem}.o"
        include = ["-I", FIRMWARE / "include"]
        subprocess.run([*compiler, *include, "-c", source, "-o", output], check=True)
        sizes = sections(output).items()
        parts = {"code": (".text",), "constants": (".rodata", ".srodata")}
        found[f"rv32imc, {source.parent.name}/{source.name}"] = {
            part: sum(size for name, size in sizes if name.startswith(starts))
            for part, starts in parts.items()
        }
    return dict(sorted(found.items()))


def _size(path: Path) -> dict[str, int]:
    """Return the bytes of code and of constants of an ELF file."""
    sizes = sections(path)
    return {"code": sizes[".text"], "constants": sizes.get(".rodata", 0)}


def main() -> None:
    """Build for every target; write the report if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help=f"write {REPORT.relative_to(ROOT)}")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "firmware")
    options = parser.parse_args()
    if not available():
        sys.exit("the firmware needs a compiler: pip install ziglang")
    options.output.mkdir(parents=True, exist_ok=True)
    found = measure(options.output)
    for name, sizes in found.items():
        print(f"{name:30} {sizes['code']:6} bytes of code {sizes['constants']:6} of constants")
    if options.report:
        REPORT.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
