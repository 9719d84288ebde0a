"""The mutants of all units, their verdicts so far, and the score."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from matloom.workers import TaskRunner
from mutation import chip
from mutation.rules import Mutant
from mutation.trial import Outcome, Trial, as_record, run_tests, try_mutant
from mutation.units import ROOT, UNITS, candidates, shares, source_of, tests_of

#: As `try_mutant`.
Run = Callable[[Trial], Outcome]

EQUIVALENT = Path(__file__).with_name("equivalent.json")
_SECONDS = ROOT / "build" / "mutation" / "seconds.json"

#: Verdicts of mutants that say something of the tests; the first two are good ones.
COUNTED = ("killed", "timeout", "survived")

#: Processor time for a mutant: this many seconds, plus this multiple of the time of its tests.
_LEAST, _TIMES = 60, 4

#: Processor time for a file of tests without a mutant.
_TEST_FILE_SECONDS = 3600


class Campaign:
    """Draws mutants of the hardware's source, runs tests on them, and keeps the report.

    Parameters
    ----------
    total:
        Approximate number of mutants; units get shares by size, with a minimum. Mutants that are
        not valid hardware, or equivalent to the original, are replaced.
    seed:
        Seed of the draw.
    path:
        Path of the report.
    tasks, run:
        Workers on which tests run, and the function that runs the tests on a mutant.
    """

    def __init__(
        self, *, total: int, seed: int, path: Path, tasks: TaskRunner, run: Run = try_mutant
    ):
        self._seed, self._shares, self._path = seed, shares(total), path
        self._tasks, self._run = tasks, run
        self.report = _read(path, {"seed": seed, "total": total, "mutants": {}})
        if (self.report["seed"], self.report["total"]) != (seed, total):
            self.report = {"seed": seed, "total": total, "mutants": {}}
        records = self.report["mutants"].items()
        self.report["mutants"] = {key: item for key, item in records if item["unit"] in UNITS}
        self._seconds = _read(_SECONDS, {})
        self._sound: set[str] = set()
        known = _read(EQUIVALENT, {})
        self._equivalent = {key: item["reason"] for key, item in known.items()}

    @property
    def _records(self) -> dict[str, dict]:
        """Entries of the mutants in the report, by key."""
        return self.report["mutants"]

    def run_unit(self, unit: str, *, retry: bool, quick: bool) -> None:
        """Run the unit tests on mutants of a unit until its share of mutants has verdicts.

        Survivors with the same netlist as the original are recognised and replaced. With `quick`,
        they are not, and only the unit's own tests run.
        """
        drawn, counted = candidates(unit, self._seed), 0
        source = hashlib.sha256(source_of(unit).read_bytes()).hexdigest()[:16]
        wanted = set()
        untried = {
            each.key for each in drawn if self._wants_trial(each, source, retry=retry, quick=quick)
        }
        files = tuple(tests_of(unit)[: 1 if quick else None])
        outcomes = self._outcomes(unit, [each for each in drawn if each.key in untried], files)
        for mutant in drawn:
            if counted == self._shares[unit]:
                break
            record = self._records.get(mutant.key)
            wanted.add(mutant.key)
            if mutant.key in self._equivalent:
                record = self._keep(unit, mutant, source, {"verdict": "equivalent"})
                record["reason"] = self._equivalent[mutant.key]
            elif mutant.key in untried:
                outcome = next(outcomes)
                record = self._keep(unit, mutant, source, as_record(outcome))
                if quick and outcome.verdict == "survived":
                    record["quick"] = True
                _print_verdict(unit, record)
            if not quick and record["verdict"] == "survived" and "differs" not in record:
                record |= self._compare(unit, mutant)
                _print_verdict(unit, record)
            counted += record["verdict"] in COUNTED
        for key in [key for key, item in self._records.items() if item["unit"] == unit]:
            if key not in wanted:
                del self._records[key]
        self._write()

    def _wants_trial(self, mutant: Mutant, source: str, *, retry: bool, quick: bool) -> bool:
        """Return whether a mutant must be tried, because it has no valid verdict or needs another.

        `source` is the digest of the unit's current source; verdicts for other sources are invalid.
        """
        if mutant.key in self._equivalent:
            return False
        record = self._records.get(mutant.key)
        if record is None or record["source"] != source:
            return True
        return (retry and record["verdict"] == "survived") or (
            bool(record.get("quick")) and not quick
        )

    def run_survivors(self, unit: str, streams: int) -> None:
        """Run random instruction streams on mutants of a unit that survived its tests."""
        mutants = {mutant.key: mutant for mutant in candidates(unit, self._seed)}
        for key, record in self._records.items():
            if record["unit"] != unit or record["verdict"] != "survived" or "streams" in record:
                continue
            if record["differs"] in chip.AROUND:
                # Not a part of what streams run on.
                continue
            if record["differs"] not in self._sound:
                verdict, found = chip.judge(unit, None, record["differs"], streams)
                if verdict != "survived":
                    raise RuntimeError(f"streams must be equal without a mutant: {found}")
                self._sound.add(record["differs"])
            verdict, found = chip.judge(unit, mutants[key].source, record["differs"], streams)
            record |= {"verdict": verdict, "streams": f"{record['differs']}: {found}"}
            _print_verdict(unit, record)
            self._write()

    def _compare(self, unit: str, mutant: Mutant) -> dict:
        """Return the verdict on a survivor from its netlists, or the first design that differs."""
        sound = self.report.get("netlists")
        if sound is None or sound["source"] != _digest_of_all():
            sound = {"source": _digest_of_all(), "digests": chip.digests_of(unit, None, {})}
            self.report["netlists"] = sound
        found = chip.digests_of(unit, mutant.source, sound["digests"])
        other = [name for name, digest in found.items() if digest != sound["digests"][name]]
        if not other:
            return {"verdict": "equivalent", "reason": "the same netlists"}
        if not found[other[-1]]:
            return {"verdict": "invalid", "reason": "no netlist"}
        return {"differs": other[-1]}

    def _outcomes(
        self, unit: str, mutants: Iterable[Mutant], files: tuple[str, ...]
    ) -> Iterator[Outcome]:
        """Yield the outcome of each mutant in order, running tests of later mutants ahead."""
        known, limit = dict(self._seconds), self._limit(files)
        trials = (
            Trial(unit=unit, source=each.source, files=files, known=known, limit=limit)
            for each in mutants
        )
        for outcome in self._tasks.in_order(self._run, trials):
            self._seconds |= outcome.seconds
            if outcome.by:
                self._require_sound(unit, outcome.by)
            yield outcome

    def _limit(self, files: Iterable[str]) -> int:
        """Return the time limit in seconds of test files on a mutant, from their time without one.

        Files without a known time are run on the original first.
        """
        for file in files:
            if file not in self._seconds:
                outcome = run_tests("", None, [file], self._seconds, _TEST_FILE_SECONDS)
                if outcome.verdict != "survived":
                    raise RuntimeError(f"{file} must pass without a mutant: {outcome.reason}")
                self._seconds |= {**outcome.seconds, file: outcome.cpu}
                self._sound |= outcome.seconds.keys()
        return round(max(_LEAST, _TIMES * sum(self._seconds[file] for file in files)))

    def _require_sound(self, unit: str, test: str) -> None:
        """Raise RuntimeError unless a test that noticed a mutant passes on the original source.

        For a test file, only the collection of its tests must succeed.
        """
        if test not in self._sound:
            collect = [] if "::" in test else ["--collect-only"]
            outcome = run_tests(unit, None, [*collect, test], self._seconds, 600)
            if outcome.verdict != "survived":
                raise RuntimeError(f"{test} must pass without a mutant: {outcome.reason}")
            self._sound.add(test)

    def _keep(self, unit: str, mutant: Mutant, source: str, verdict: dict) -> dict:
        """Store the verdict on a mutant in the report file, and return its record."""
        place = {"line": mutant.line, "before": mutant.before, "after": mutant.after}
        record = {"unit": unit, "source": source, "rule": mutant.rule, **place, **verdict}
        self._records[mutant.key] = record
        self._write()
        return record

    def _write(self) -> None:
        """Write the report, sorted by unit, and the durations of tests."""
        order = {unit: number for number, unit in enumerate(UNITS)}
        self.report["mutants"] = dict(
            sorted(self._records.items(), key=lambda item: (order[item[1]["unit"]], item[0]))
        )
        self._path.write_text(json.dumps(self.report, indent=1) + "\n")
        _SECONDS.parent.mkdir(parents=True, exist_ok=True)
        _SECONDS.write_text(json.dumps(self._seconds))

    def print_table(self) -> None:
        """Print the score by unit and every survivor."""
        for unit, counts in score(self.report).items():
            good = counts["killed"] + counts["timeout"]
            whole = good + counts["survived"]
            print(f"{unit:24} {good:4} of {whole:4}  {good / whole if whole else 1:6.1%}")
        for key, item in self._records.items():
            if item["verdict"] == "survived":
                print(f"{key} {item['unit']}:{item['line']}: {item['before']} -> {item['after']}")


def score(report: dict) -> dict[str, Counter]:
    """Return the number of mutants by verdict, for each unit and for all of them together."""
    counts: dict[str, Counter] = {}
    for item in report["mutants"].values():
        counts.setdefault(item["unit"], Counter())[item["verdict"]] += 1
    return {**counts, "all": sum(counts.values(), Counter())}


def _digest_of_all() -> str:
    """Return the digest of all hardware sources and of the architecture that they use."""
    files = sorted((ROOT / "rtl" / "matloom_rtl").rglob("*.py"))
    files += sorted((ROOT / "host" / "matloom" / "arch").rglob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _read(path: Path, otherwise: dict) -> dict:
    """Return the contents of a JSON file, or `otherwise` if it does not exist."""
    return json.loads(path.read_text()) if path.is_file() else otherwise


def _print_verdict(unit: str, record: dict) -> None:
    """Print the verdict on a mutant, its change, and the test that noticed it."""
    what = " ".join(f"{record['before']} -> {record['after']}".split())
    by = record.get("streams") or record.get("by", "").rpartition("/")[2]
    print(f"{record['verdict']:9} {unit}:{record['line']} {what[:70]} [{by}]", flush=True)
