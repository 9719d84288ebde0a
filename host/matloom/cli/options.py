"""Options shared by several commands, grouped into arguments."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from matloom.pre.preprocessing import Preprocessing
    from matloom.program import Program

#: Range of a seed that all tools accept.
SEED = click.IntRange(0, 2**31 - 1)

CONFIG = click.option(
    "--config",
    default="reference",
    show_default=True,
    metavar="PRESET[+CHANGE...]|FILE",
    help="Configuration of the engine.",
)
DEVICE = click.option(
    "--device",
    default="rtl",
    show_default=True,
    metavar="DEVICE",
    help="rtl (the simulated chip), netlist, soc, model or fast (at once, cycles predicted), "
    "uart:PORT[@BAUD] or uio:[UIO[,DMABUF]].",
)
PREPROCESS = click.option(
    "--preprocess",
    metavar="FILE.json|JSON",
    help="Preprocessing that turns raw images or sound into NET's input: docs/preprocessing.md.",
)
_PRECISION = click.option(
    "--precision",
    multiple=True,
    metavar="[LAYER=]MODE",
    help="bf16 or fp16 for float32 layers, i8xi4 for int8 layers; float32 or i8xi8 leaves a layer "
    "unchanged. Without LAYER, applies to all others.",
)
_CHECK = click.option(
    "--check",
    type=click.Choice(["full", "sample", "none"]),
    help="Extent of the comparison with the operators' definitions. [default: sample, or "
    "MATLOOM_CHECK]",
)
_EFFORT = click.option(
    "--effort",
    type=click.IntRange(0, 2),
    default=1,
    show_default=True,
    help="Effort to find a fast program: 0 takes the first, 2 compares whole programs.",
)


OUTPUT_FOLDER = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the files; created if it does not exist.",
)
MEMORY = click.option(
    "--memory",
    metavar="NAME|FILE.json",
    help="The memory on the bus (reference, on-chip, sdram-16, ..., or a board). Default: the "
    "board's on uart:, the program's own for a .mloom.",
)


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """Options of a compilation, named as on the command line."""

    config: str = "reference"
    precision: tuple[str, ...] = ()
    check: str | None = None
    effort: int = 1
    #: As in `matloom.arch.memory.load_memory`.
    memory: Any = None
    #: JSON, or a JSON file, as written by `matloom.pre.dumps`.
    preprocess: str | None = None

    def preprocessing(self) -> "Preprocessing | None":
        """Return the preprocessing that --preprocess describes; None without that option."""
        from matloom.pre import loads

        if self.preprocess is None:
            return None
        named = self.preprocess.lstrip()[:1] != "{"
        return loads(Path(self.preprocess).read_text() if named else self.preprocess)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Device to run a network on, and how to observe it."""

    device: str
    waves: Path | None
    waves_from: int
    waves_cycles: int | None
    check_bus: bool


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """Inputs of a run: an .npz file, or random arrays from a seed."""

    source: str
    seed: int

    def read(self) -> Any:
        """Return the arrays of the file by name, or its only array; None for random arrays."""
        from matloom.tools.arrays import read_arrays
        from matloom.tools.raw_files import SUFFIXES, read_raw

        if self.source == _RANDOM:
            return None
        source = Path(self.source)
        read = read_raw if source.suffix.lower() in SUFFIXES else read_arrays
        return read("--input", source)

    def by_name(self, arrays: Any, program: "Program") -> dict[str, Any]:
        """Return arrays by the names of a program's inputs, from what `read` returned."""
        if arrays is None:
            return self.random(program)
        named: dict[str, Any] = arrays if isinstance(arrays, dict) else arrays.by_name(program)
        return named

    def random(self, program: "Program") -> dict[str, Any]:
        """Return random arrays by the names of a program's inputs."""
        from matloom.tools.interface import random_arrays

        return random_arrays(program, self.seed)


@dataclass(frozen=True, kw_only=True)
class Routing:
    """Options of placement and routing, named as on the command line."""

    freq: float | None
    seed: int
    seeds: int
    checkpoints: bool


_RANDOM = "random"

_OPTIONS = {
    "config": CONFIG,
    "precision": _PRECISION,
    "check": _CHECK,
    "effort": _EFFORT,
    "memory": MEMORY,
    "preprocess": PREPROCESS,
    "device": DEVICE,
    "waves": click.option(
        "--waves",
        type=click.Path(path_type=Path),
        help="Write waveforms as .vcd, or as .fst, in a twentieth of the space (device rtl).",
    ),
    "waves_from": click.option(
        "--waves-from",
        type=click.IntRange(0),
        default=0,
        metavar="CYCLE",
        help="First cycle of --waves.  [default: 0]",
    ),
    "waves_cycles": click.option(
        "--waves-cycles",
        type=click.IntRange(1),
        metavar="N",
        help="Number of cycles of --waves. [default: all]",
    ),
    "freq": click.option(
        "--freq",
        type=click.FloatRange(1, 2000),
        metavar="MHZ",
        help="Clock to route for; if routing fails, it is lowered by 5 %, up to four times. "
        "[default: 85, Gowin 54]",
    ),
    "seed": click.option(
        "--seed", type=SEED, default=4, show_default=True, help="First seed of placement."
    ),
    "seeds": click.option(
        "--seeds",
        type=click.IntRange(1, 1000),
        default=1,
        help="Number of seeds to try, from --seed upward.",
    ),
    "checkpoints": click.option(
        "--checkpoints", is_flag=True, help="Keep placements, which costs some clock speed."
    ),
    "check_bus": click.option(
        "--check-bus", is_flag=True, help="Check every cycle against the rules of AXI (device rtl)."
    ),
}


def _grouped_options(argument: str, kind: type, names: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return a decorator that adds options `names` to a command and passes them as a `kind`.

    `names` are keys of `_OPTIONS`, and fields of `kind`, the object's class; `argument` is the name
    of the command's parameter.
    """

    def decorate(command: Callable[..., Any]) -> Any:
        """Add the options to a command, which receives them as one object."""

        @functools.wraps(command)
        def wrapper(**values: Any) -> Any:
            """Call the command with the values of these options as one object."""
            given = {name: values.pop(name) for name in names}
            return command(**{argument: kind(**given)}, **values)

        for name in reversed(names):
            wrapper = _OPTIONS[name](wrapper)
        return wrapper

    return decorate


def compilation(*names: str) -> Callable[[Any], Any]:
    """Add the options `names` of `Compilation` to a command, or all of them if none is named.

    The command receives them as its argument `options`.
    """
    every = tuple(item.name for item in fields(Compilation))
    return _grouped_options("options", Compilation, names or every)


def run_inputs(default: str | None = None) -> Callable[[Any], Any]:
    """Add --input and --seed to a command, which receives them as its argument `inputs`.

    `default` is the default of --input, which is required without it.
    """
    # Of some versions of click, an option with the default None has a value.
    absent: dict[str, Any] = {"required": True} if default is None else {"default": default}

    def decorate(command: Callable[..., Any]) -> Any:
        """Add --input and --seed to a command."""

        @click.option(
            "--input",
            "source",
            metavar="FILE|random",
            show_default=True,
            help="An .npz with arrays by the names of the inputs, or random ones; for a network of "
            "one input also an .npy, a .wav or a picture.",
            **absent,
        )
        @click.option(
            "--seed", type=SEED, default=0, help="Seed of random arrays.", show_default=True
        )
        @functools.wraps(command)
        def wrapper(source: str, seed: int, **values: Any) -> Any:
            """Call the command with both options as one `RunInputs`."""
            return command(inputs=RunInputs(source=source, seed=seed), **values)

        return wrapper

    return decorate


#: A decorator for the options of a `Target`, the argument `target`.
target = _grouped_options("target", Target, tuple(item.name for item in fields(Target)))

#: A decorator for the options of a `Routing`, the argument `routing`.
routing = _grouped_options("routing", Routing, tuple(item.name for item in fields(Routing)))
