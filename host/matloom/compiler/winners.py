"""Winners of `matloom tune`: choices kept for a network, engine, memory and compiler.

They are files in the folder ``tuned`` of the cache, or in `MATLOOM_TUNED`, each named after the
digest of everything that its choices depend on. Compilations use them unless `CompileOptions.tuned`
is off, or other options ask for another schedule.
"""

import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import matloom
from matloom.arch.config import Config
from matloom.arch.memory import Memory
from matloom.ir.graph import Graph
from matloom.passes.choose_modes import Precision
from matloom.schedule import Choices, CompileOptions
from matloom.schedule.choices.record import from_json, to_json
from matloom.toolchain.cache import chosen_folder

#: Environment variable that names the folder of winners.
VARIABLE = "MATLOOM_TUNED"

#: Packages whose sources decide the meaning and the cost of choices.
_COMPILER = ("arch", "cost", "passes", "select", "schedule", "compiler")


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The best choices that `matloom tune` found for a network.

    Members
    -------
    choices:
        Choices of each run of the engine, in order; None for a run that is searched.
    left_out:
        Names of the stage passes that are left out.
    before, after:
        Cycles of a first and of a later call: by default, and with these choices.
    counted:
        Whether a simulated chip counted these cycles; otherwise they are predicted.
    """

    choices: tuple[Choices | None, ...]
    left_out: frozenset[str] = frozenset()
    before: tuple[int, int]
    after: tuple[int, int]
    counted: bool

    @property
    def gain(self) -> float:
        """Fraction of cycles saved, over a first and a later call together."""
        return 1 - sum(self.after) / sum(self.before)

    @property
    def sentence(self) -> str:
        """Sentence that states the gain in cycles."""
        how = "counted by the simulated chip" if self.counted else "predicted"
        return (
            f"tuned: {self.before[1]:,} to {self.after[1]:,} cycles per call, first call "
            f"{self.before[0]:,} to {self.after[0]:,}, {how} (matloom tune)"
        )


def winners_folder() -> Path:
    """Return the folder in which `matloom tune` keeps the best choices it found.

    The folder need not exist.
    """
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).absolute() if chosen else chosen_folder() / "tuned"


def winner_digest(graph: Graph, config: Config, memory: Memory, precision: Precision | None) -> str:
    """Return the digest that names a winner: of network, engine, memory, precision and compiler."""
    digest = hashlib.sha256(_compiler_digest().encode())
    for part in (repr(config), repr(memory), repr(precision), *_graph_contents(graph)):
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:32]


def with_winner(
    graph: Graph, config: Config, options: CompileOptions, precision: Precision | None
) -> tuple[CompileOptions, str]:
    """Return options that use a network's winner, and a sentence about the winner's gain.

    The options are unchanged and the sentence is empty if there is no winner, or if the options ask
    for another schedule.
    """
    asked = options.plain or options.tiling_seed is not None or options.resident is not None
    if asked or options.choices or not options.tuned or not winners_folder().is_dir():
        return options, ""
    found = load_winner(winner_digest(graph, config, options.memory, precision))
    if found is None:
        return options, ""
    return replace(options, choices=found.choices, left_out=found.left_out), found.sentence


def load_winner(digest: str) -> Winner | None:
    """Return the winner that was kept under a digest; None if there is none, or it is damaged."""
    try:
        found = json.loads((winners_folder() / f"{digest}.json").read_bytes())
        return Winner(
            choices=tuple(None if each is None else from_json(each) for each in found["choices"]),
            left_out=frozenset(map(str, found["left_out"])),
            before=(int(found["before"][0]), int(found["before"][1])),
            after=(int(found["after"][0]), int(found["after"][1])),
            counted=bool(found["counted"]),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def save_winner(digest: str, winner: Winner) -> Path:
    """Write a winner to the folder of winners, for later compilations.

    Return the path of its file.
    """
    content = {
        "choices": [None if each is None else to_json(each) for each in winner.choices],
        "left_out": sorted(winner.left_out),
        "before": winner.before,
        "after": winner.after,
        "counted": winner.counted,
    }
    folder = winners_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{digest}.json"
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as stream:
        json.dump(content, stream, indent=1)
    Path(stream.name).replace(path)
    return path


def delete_winner(digest: str) -> bool:
    """Delete the winner kept under a digest; return whether there was one."""
    path = winners_folder() / f"{digest}.json"
    known = path.is_file()
    path.unlink(missing_ok=True)
    return known


def _graph_contents(graph: Graph) -> Iterator[str | bytes]:
    """Yield everything in a graph that a program can depend on."""
    yield repr((graph.inputs, graph.outputs, graph.nodes, sorted(graph.remarks.items())))
    for number, tensor in sorted(graph.tensors.items()):
        yield repr((number, tensor.name, tensor.shape, tensor.dtype, tensor.quantisation))
        yield b"" if tensor.data is None else tensor.data.tobytes()
    for variable in graph.variables:
        yield repr((variable.name, variable.before, variable.after))
        yield variable.initial.tobytes()


@functools.cache
def _compiler_digest() -> str:
    """Return a digest of the compiler's sources and of the version of Matloom."""
    digest = hashlib.sha256(matloom.__version__.encode())
    home = Path(__file__).parents[1]
    for package in _COMPILER:
        for path in sorted((home / package).rglob("*.py")):
            digest.update(path.relative_to(home).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
