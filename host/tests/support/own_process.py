"""Calls in processes of their own, whose limits and signals are nobody else's."""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["in_own_process"]

#: Reads a pickled call, and writes its pickled result into a file.
_CHILD = """
import pickle, sys
function, arguments = pickle.load(sys.stdin.buffer)
result = function(*arguments)
with open(sys.argv[1], "wb") as file:
    pickle.dump(result, file)
"""


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a call in a new process, wherever this is: workers may be threads.

    Raises
    ------
    RuntimeError
        The process failed; the message is the end of what it printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result"
        ran = subprocess.run(
            [sys.executable, "-c", _CHILD, str(path)],
            input=pickle.dumps((function, arguments)),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=subprocess.PIPE,
            check=False,
        )
        if ran.returncode or not path.exists():
            end = ran.stderr.decode(errors="replace")[-2000:]
            raise RuntimeError(f"status {ran.returncode} of {function!r}: {end}")
        return pickle.loads(path.read_bytes())
