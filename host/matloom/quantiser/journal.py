"""Keeps the results of trials in a file, so that an interrupted search can continue."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


class Journal:
    """Results of trials by name; results are mappings of JSON types.

    A file may hold several searches. Lines of other searches, and damaged ones, are ignored.

    Parameters
    ----------
    path:
        File with a line for each trial, which need not exist; None keeps results in memory only.
    search:
        Identity of the search: all that results depend on, except the name of the trial.
    """

    def __init__(self, path: str | Path | None, search: bytes) -> None:
        self._path = None if path is None else Path(path)
        self._search = hashlib.sha256(search).hexdigest()[:16]
        self._known = dict(self._read())

    def get_or_run(self, name: str, trial: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the result of a trial; if it is unknown, call `trial` and keep its result."""
        if name not in self._known:
            self._known[name] = trial()
            if self._path is not None:
                line = {"search": self._search, "name": name, "result": self._known[name]}
                with self._path.open("a", encoding="utf-8") as file:
                    # The previous line may be cut short.
                    file.write("\n" * bool(file.tell()) + json.dumps(line))
        return self._known[name]

    def _read(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield name and result of each trial of this search in the file; skip broken lines."""
        if self._path is None or not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
                if entry["search"] == self._search:
                    yield str(entry["name"]), dict(entry["result"])
            except (ValueError, KeyError, TypeError):
                continue
