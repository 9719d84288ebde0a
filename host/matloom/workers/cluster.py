"""Executors on the workers of a Dask scheduler."""

import re
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import partial
from typing import Any, TypeVar

from matloom.errors import HintedError, MissingPackageError

_Result = TypeVar("_Result")


class ClusterError(HintedError):
    """Error raised if a cluster does not answer or cannot be used; the hint says what to do."""


#: Seconds within which a scheduler must answer.
_ANSWER_SECONDS = 10

_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})")


def is_address(text: str) -> bool:
    """Return whether a text is the address of a scheduler, such as ``tcp://host:8786``."""
    match = _ADDRESS.fullmatch(text)
    return match is not None and 0 < int(match[3]) < 1 << 16


def cluster(address: str, resources: Mapping[str, float] | None = None) -> Executor:
    """Return an executor on the workers of a Dask scheduler (extra ``cluster``).

    A task whose worker dies runs again on another one.

    Parameters
    ----------
    resources:
        Resources of a worker that each task occupies, such as ``{"nextpnr": 1}``; a worker started
        with ``--resources nextpnr=1`` then runs one such task at a time.

    Raises
    ------
    ClusterError
        No scheduler answers at the address.
    MissingPackageError
        Dask's ``distributed`` is not installed.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise MissingPackageError("distributed", "a cluster") from error
    try:
        client: Any = Client(address, timeout=_ANSWER_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"no scheduler answers at {address}", hint="start one there: dask scheduler"
        ) from error
    return _Cluster(client, dict(resources or {}))


class _Cluster(Executor):
    """An executor on the workers of a Dask client; `shutdown` also closes the client."""

    def __init__(self, client: Any, resources: dict[str, float]) -> None:
        self._client = client
        # Dask merges equal calls; ours may be repeated, so calls are not pure.
        self._executor = client.get_executor(pure=False, resources=resources)

    def submit(
        self, function: Callable[..., _Result], /, *arguments: Any, **named: Any
    ) -> Future[_Result]:
        """Run a call on a worker; return its future, which fails if its worker is lost for good."""
        target: Future[_Result] = Future()
        source = self._executor.submit(function, *arguments, **named)
        source.add_done_callback(partial(_copy_result, target))
        return target

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect from the scheduler."""
        self._executor.shutdown(wait=wait)
        self._client.close()


def _copy_result(target: Future[_Result], source: Future[_Result]) -> None:
    """Set the result or the exception of a future to that of another one, which is done.

    If the task was lost with its worker, the exception is a `BrokenExecutor`.
    """
    if source.cancelled():
        target.set_exception(BrokenExecutor("the scheduler dropped a task"))
        return
    error = source.exception()
    if error is None:
        target.set_result(source.result())
    elif type(error).__name__ in ("KilledWorker", "CommClosedError", "FutureCancelledError"):
        target.set_exception(BrokenExecutor(str(error)))
    else:
        target.set_exception(error)
