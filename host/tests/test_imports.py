"""Imports follow data: arch needs only errors, hardware needs arch, the host needs no hardware."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from matloom.device.simulator import UNSIMULATED_FOLDERS

ROOT = Path(__file__).parents[2]
RTL = sorted((ROOT / "rtl" / "matloom_rtl").rglob("*.py"))
HOST = sorted((ROOT / "host" / "matloom").rglob("*.py"))
ARCH = [path for path in HOST if path.is_relative_to(ROOT / "host" / "matloom" / "arch")]
#: The rooms of the host package in the order of imports: each imports none that comes after it.
ROOMS = (
    *(
        "printable",
        "errors",
        "sealed",
        "arch",
        "cost",
        "ir",
        "program",
        "kernels",
        "pre",
        "frontend",
        "passes",
        "select",
        "schedule",
        "terminal",
        "pages",
        "workers",
        "toolchain",
    ),
    "coverage",
    *(
        "device",
        "meaning",
        "selfcheck",
        "compiler",
        "report",
        "state",
        "intermediates",
        "engine_steps",
        "loop",
        "session",
        "runtime",
        "profile",
    ),
    *("compat", "ops", "data", "tools", "tuner", "quantiser", "plugins", "verification", "cli"),
    "__main__",
)
#: Modules and sub-packages of rooms that have parts, in the order of imports.
PARTS = {
    "matloom.schedule": (
        *("tuning", "image", "segment", "params", "tiling", "plan", "memory", "commands"),
        *("scheduled", "choices", "options", "cache", "cut", "check", "text", "pipeline"),
        *("alternatives", "clear_gains", "distinct", "replay", "residency"),
        "search",
    ),
    "matloom_rtl.formal": (
        *("proof", "parts", "memory", "dma", "control", "post", "array", "link", "sdram", "table"),
        *("durations", "engine", "runner", "choice"),
    ),
}
#: The only host files that ask for hardware: the simulated devices and the command line.
GENERATORS = {
    *("device/simulator.py", "device/linked.py", "device/simulated_board.py", "device/soc.py"),
    "device/netlist.py",
    *("cli/chips.py", "cli/boards.py", "cli/firmware.py", "cli/fitting.py", "cli/room.py"),
    "cli/confirming.py",
    "cli/verify.py",
}


#: What the host and the generator share.
SHARED = ("matloom.arch", "matloom.errors", "matloom.printable", "matloom.sealed")

#: What a file of the generator asks for beyond it: libraries of extras.
OF_EXTRAS = {
    "fpga/floorplan.py": ("numpy", "scipy"),
    "integration/matloom_litex.py": ("litex", "migen"),
}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


def names_of(nodes, path):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports must be absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported(path):
    return list(names_of(ast.walk(parsed(path)), path))


def imported_at_run_time(path):
    """Return a file's imports, except those for type checkers."""
    tests = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.If))
    types = [node for node in tests if getattr(node.test, "id", "") == "TYPE_CHECKING"]
    skipped = {each for node in types for each in ast.walk(node)}
    return list(names_of((each for each in ast.walk(parsed(path)) if each not in skipped), path))


def strangers(path, friends):
    allowed = tuple(f"{name}." for name in (*friends, *sys.stdlib_module_names))
    return [name for name in imported(path) if not f"{name}.".startswith(allowed)]


def test_arch_needs_the_standard_library_only():
    friends = ["matloom.arch", "matloom.errors", "matloom.printable"]
    found = {path.name: strangers(path, friends) for path in ARCH}
    assert {name: names for name, names in found.items() if names} == {}


def test_no_hardware_imports_rooms_that_simulators_are_not_rebuilt_for():
    """Such a package is in no simulator, so the digest of simulators leaves it out."""
    apart = tuple(f"matloom_rtl.{room}." for room in UNSIMULATED_FOLDERS)
    for path in RTL:
        if path.relative_to(ROOT / "rtl" / "matloom_rtl").parts[0] not in UNSIMULATED_FOLDERS:
            assert not any(f"{name}.".startswith(apart) for name in imported(path)), path


def test_hardware_needs_arch_and_amaranth_only():
    found = {}
    for path in RTL:
        name = path.relative_to(ROOT / "rtl" / "matloom_rtl").as_posix()
        friends = [*SHARED, "matloom_rtl", "amaranth", *OF_EXTRAS.get(name, ())]
        if names := strangers(path, friends):
            found[name] = names
    assert found == {}


def test_the_check_of_meaning_does_not_import_the_scheduler():
    friends = [f"matloom.{name}" for name in ("arch", "ir", "meaning")]
    friends += [
        f"matloom.kernels.{name}" for name in ("kernels", "softmax", "two_slopes", "result_sums")
    ]
    for path in HOST:
        if path.parent.name == "meaning":
            assert strangers(path, [*friends, "matloom.program", "numpy"]) == []


def room(module):
    """Return the package, or top-level module, of a dotted name under matloom."""
    parts = module.split(".")
    return parts[1] if parts[0] == "matloom" and len(parts) > 1 else None


def test_each_room_imports_only_rooms_before_it():
    assert {
        path.stem if path.parent.name == "matloom" else path.parts[len(ROOT.parts) + 2]
        for path in HOST
    } - {"__init__"} == set(ROOMS)
    upward = []
    for path in HOST:
        inside = path.relative_to(ROOT / "host" / "matloom")
        own = inside.parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        allowed = ROOMS[: ROOMS.index(own) + 1]
        upward += [
            f"{inside.as_posix()} imports {name}"
            for name in imported(path)
            if room(name) in ROOMS and room(name) not in allowed
        ]
    assert upward == []


def module_of(path):
    """Return the dotted name of a source file."""
    top = ROOT / ("host" if path in HOST else "rtl")
    return ".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("files", [HOST, RTL], ids=["host", "rtl"])
def test_modules_import_each_other_without_circles(files):
    """Imports inside functions count: they would hide circles."""
    modules = {module_of(path): path for path in files}
    graph = {}
    for module, path in modules.items():
        names = imported_at_run_time(path)
        # What is imported is a module, or a name of the module that is left without it.
        found = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = (found & set(modules)) - {module}
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("name", PARTS)
def test_each_part_of_a_room_imports_only_parts_before_it(name):
    top = "rtl" if name.startswith("matloom_rtl") else "host"
    folder = ROOT / top / Path(*name.split("."))
    parts = PARTS[name]
    assert {path.stem for path in folder.glob("[!_]*") if path.suffix != ".json"} == set(parts)
    upward = []
    for path in folder.rglob("*.py"):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        if own.startswith("__"):
            continue
        later = tuple(f"{name}.{part}." for part in parts[parts.index(own) + 1 :])
        upward += [
            f"{path.relative_to(folder)} imports {other}"
            for other in imported(path)
            if f"{other}.".startswith(later)
        ]
    assert upward == []


def test_formats_of_model_files_stay_in_their_rooms():
    """Use `matloom.frontend`; only tests and benchmarks import a format's reader."""
    formats = [path.parent.name for path in HOST if path.parent.parent.name == "frontend"]
    assert "tflite" in formats
    for path in HOST:
        if path.relative_to(ROOT / "host" / "matloom").parts[0] in ("frontend", "testing"):
            continue
        of_frontend = [name for name in imported(path) if name.startswith("matloom.frontend.")]
        assert not {name.split(".")[2] for name in of_frontend} & set(formats), path


def test_host_needs_no_hardware():
    guilty = {
        path.relative_to(ROOT / "host" / "matloom").as_posix()
        for path in HOST
        for name in imported(path)
        if name.split(".")[0] in ("matloom_rtl", "amaranth")
    }
    assert guilty <= GENERATORS


@pytest.mark.parametrize(("module", "light"), [("matloom", False), ("matloom.cli", True)])
def test_front_doors_load_nothing_heavy(module, light):
    script = f"import sys, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numpy", "amaranth", "rich", "tflite", *(() if light else ("click",))}
    assert not heavy & set(loaded)


@pytest.mark.parametrize("name", ["lode"])
def test_unknown_name_is_refused(name):
    import matloom

    with pytest.raises(AttributeError, match="module 'matloom' has no attribute 'lode'"):
        getattr(matloom, name)


def test_operations_come_with_the_package():
    script = "import matloom; print(matloom.ops.matmul.__module__)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "matloom.ops\n"


def lists_own_names(text):
    """Return whether a module has `__all__`, and passes on nothing that it imports."""
    tree = ast.parse(text)
    imports = (node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    imported = {name.asname or name.name for node in imports for name in node.names}
    listed = re.findall(r"^__all__\b.*?\]", text, re.M | re.S)
    return bool(listed) and not imported & set(re.findall(r'"(\w+)"', "".join(listed)))


def test_underscores_say_what_is_private():
    """Only packages, and modules that pass on what they import, have `__all__`."""
    modules = [path for path in HOST if path.name != "__init__.py"]
    assert not [path for path in modules if lists_own_names(path.read_text())]


def test_a_list_of_own_names_is_found():
    assert lists_own_names('import os\n__all__ = ["f"]\ndef f(): pass\n')
    assert not lists_own_names('from os import f\n__all__ = [\n    "f",\n]\n')
