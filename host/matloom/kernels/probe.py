"""Asks a reference interpreter, in a process of its own, which networks it runs."""

import hashlib
import json
import pickle
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from matloom.ir.graph import Array
from matloom.kernels import interpreters
from matloom.kernels.interpreters import Cut

__all__ = ["failure", "refusals", "tensor_shapes"]

#: What is remembered of networks that were tried: a process takes a good part of a second.
_MOST = 1024
_known: OrderedDict[tuple[str, bytes], str] = OrderedDict()

_CRASH = "the library crashes"
#: Unlike a script's, a path that is run so adds no folder to those that modules are looked up in.
_PROGRAM = str(Path(interpreters.__file__).with_name("attempts.py"))
_COMMAND = f"import runpy; runpy.run_path({_PROGRAM!r}, run_name='__main__')"


def refusals(package: str, cuts: Sequence[Cut]) -> list[str]:
    """Return of each network why an interpreter does not run it; empty where it does.

    All that are new are tried in one process.
    """
    keys = [(package, hashlib.sha256(cut.content).digest()) for cut in cuts]
    new = {key: cut for key, cut in zip(keys, cuts, strict=True) if key not in _known}
    if new:
        _known.update(zip(new, _ask(package, [(cut, None) for cut in new.values()]), strict=True))
    found = [_known[key] for key in keys]
    while len(_known) > _MOST:
        _known.popitem(last=False)
    return found


def failure(package: str, cut: Cut, inputs: Sequence[Array]) -> str:
    """Return why a run on these inputs fails; empty where it does not, by itself."""
    (reason,) = _ask(package, [(cut, inputs)])
    return reason


def tensor_shapes(
    content: bytes, given: Mapping[int, tuple[int, ...]], wanted: Sequence[int]
) -> tuple[dict[int, tuple[int, ...]], dict[int, Array]]:
    """Return the shapes of a network's tensors where its inputs have these, from LiteRT.

    Also the values of some tensors, by number, in a run on zeros.

    Raises
    ------
    ValueError
        LiteRT refuses the shapes, or the network: the message is its reason.
    """
    done = _run(("shapes", (content, dict(given), list(wanted))))
    if done is None:
        raise ValueError(_CRASH)
    answer = pickle.loads(done)
    if "refusal" in answer:
        raise ValueError(answer["refusal"])
    shapes = {number: tuple(shape) for number, shape in answer["shapes"].items()}
    return shapes, answer["values"]


def output_shapes(package: str, cut: Cut) -> list[tuple[int, ...]]:
    """Return the shapes of a network's outputs in a run on zeros.

    Raises
    ------
    ValueError
        The interpreter refuses the network, or the run: the message is its reason.
    """
    done = _run(("outputs", (package, asdict(cut))))
    if done is None:
        raise ValueError(_CRASH)
    answer = pickle.loads(done)
    if "refusal" in answer:
        raise ValueError(answer["refusal"])
    return [tuple(shape) for shape in answer["shapes"]]


def _ask(package: str, attempts: Sequence[tuple[Cut, Sequence[Array] | None]]) -> list[str]:
    done = _run((package, [(asdict(cut), given) for cut, given in attempts]))
    if done is None:
        return [_CRASH] * len(attempts)
    answers: list[str] = json.loads(done.splitlines()[-1])
    return answers


def _run(request: object) -> bytes | None:
    """Return what the process writes for a request; None where it fails."""
    command = [sys.executable, "-c", _COMMAND]
    content = pickle.dumps(request)
    done = subprocess.run(command, input=content, capture_output=True, check=False)
    return None if done.returncode != 0 else done.stdout
