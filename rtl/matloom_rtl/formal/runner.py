"""Proves the claims of a configuration, each distinct claim once, and caches the verdicts."""

import json
import os
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from pathlib import Path

from matloom.arch.config import Config
from matloom.sealed import intact, seal
from matloom_rtl.formal.durations import expected_seconds
from matloom_rtl.formal.engine import (
    FAILED,
    NOT_PROVEN,
    NOT_RUN,
    PROVEN,
    Result,
    digest_of,
    missing,
    prove,
)
from matloom_rtl.formal.proof import Proof
from matloom_rtl.formal.table import proofs_of

__all__ = ["cache_folder", "estimate_seconds", "run", "run_proofs"]

#: Longest time of one proof, in seconds.
_MAX_PROOF_SECONDS = 900


def cache_folder() -> Path:
    """Return the folder of verdicts and logs: in `MATLOOM_CACHE`, else in the user's cache."""
    chosen = os.environ.get("MATLOOM_CACHE")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "matloom") / "formal"


def estimate_seconds(config: Config) -> float:
    """Return the approximate seconds that all proofs of a configuration take on an idle core."""
    return sum(map(expected_seconds, proofs_of(config)))


def run(
    config: Config,
    minutes: float = 120.0,
    *,
    quick: bool = False,
    only: Container[tuple[str, str]] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Result]:
    """Prove as many claims of a configuration as time allows, quickest first; return the results.

    Cached verdicts are reused. A proof that would take longer than the remaining time gets the
    verdict NOT RUN, with the expected seconds; if a tool is missing, all proofs without a cached
    verdict do. `only` selects proofs by pairs of kind and unit. `say` receives a line for each
    proof.
    """
    proofs = [proof for proof in proofs_of(config) if proof.quick or not quick]
    if only is not None:
        proofs = [proof for proof in proofs if (proof.kind, proof.unit) in only]
    return run_proofs(proofs, minutes, say=say)


def run_proofs(
    proofs: Iterable[Proof],
    minutes: float,
    *,
    folder: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Result]:
    """Prove the given claims like `run`; `folder` caches results and logs (`cache_folder()`)."""
    proofs = sorted(proofs, key=lambda proof: (not proof.quick, expected_seconds(proof)))
    folder = folder or cache_folder()
    end = time.monotonic() + 60 * minutes
    lacks = missing()
    results: dict[str, Result] = {}
    listed = []
    for number, proof in enumerate(proofs, start=1):
        text = proof.build().text()
        digest = digest_of(proof, text)
        result = results.get(digest) or _stored_result(folder, digest)
        left, needed = int(end - time.monotonic()), expected_seconds(proof)
        if result is not None:
            result = result.for_proof(proof)
        elif lacks or left < max(1.0, needed):
            why = lacks or f"it takes about {needed:.0f} s, and {max(left, 0)} s were left"
            result = replace(_not_run(proof, digest, why), seconds=0.0 if lacks else needed)
        else:
            result = prove(proof, text, folder / digest, min(left, _MAX_PROOF_SECONDS))
            _store_result(result, folder)
        results[digest] = result
        listed.append(result)
        told = f": {result.detail}" if result.detail else ""
        say(f"[{number}/{len(proofs)}] {result.verdict} {proof.unit} ({result.seconds} s){told}")
    return listed


def _not_run(proof: Proof, digest: str, why: str) -> Result:
    """Return the result of a claim that was not run, for a reason `why`."""
    return Result(
        kind=proof.kind,
        unit=proof.unit,
        statement=proof.statement,
        verdict=NOT_RUN,
        detail=why,
        digest=digest,
    )


def _files(folder: Path, digest: str) -> tuple[Path, Path]:
    """Return the paths of a stored verdict and of the file of digests that seals it."""
    return folder / f"{digest}.json", folder / f"{digest}.digests"


def _stored_result(folder: Path, digest: str) -> Result | None:
    """Return the result that the cache holds for a claim, if its file is intact; else None."""
    kept, sealed = _files(folder, digest)
    return Result(**json.loads(kept.read_text())) if intact(sealed, [kept]) else None


def _store_result(result: Result, folder: Path) -> None:
    """Store a result in the cache, if more time would not change its verdict."""
    if result.verdict in (PROVEN, FAILED, NOT_PROVEN):
        kept, sealed = _files(folder, result.digest)
        kept.write_text(json.dumps(result.as_dict(), indent=2))
        seal(sealed, [kept])
