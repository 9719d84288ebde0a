"""Workers: independent tasks on several processes or machines, with the same results as on one.

Tasks are written against `concurrent.futures.Executor`: `processes` makes one of processes of this
machine, `cluster` one of the workers of a Dask scheduler.
"""

import multiprocessing
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    as_completed,
)
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from matloom.errors import HintedError, MissingPackageError

__all__ = [
    "ClusterError",
    "LostWorkersError",
    "cluster",
    "completed",
    "is_address",
    "kept",
    "ordered",
    "processes",
]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

#: Workers that may die one after another before any task is finished.
_ATTEMPTS = 3


class LostWorkersError(HintedError):
    """Workers died again and again, so that a task was never finished."""

    hint = "try fewer workers: each needs memory of its own"


class ClusterError(HintedError):
    """A cluster that does not answer, or cannot be used: why, and what to do."""


#: Seconds until a scheduler must answer.
_ANSWER_SECONDS = 10

_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})")


class _Inline(Executor):
    """An executor without processes: a task runs when it is submitted."""

    def submit(
        self, function: Callable[..., _Result], /, *arguments: Any, **named: Any
    ) -> Future[_Result]:
        """Run a call, and return its result as a future."""
        future: Future[_Result] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:  # An executor hands over whatever its task raises.
            future.set_exception(error)
        return future


def processes(workers: int) -> Executor:
    """Return an executor of so many processes; of one, in this process.

    Processes are spawned rather than forked: threads of NumPy do not survive a fork.
    """
    if workers == 1:
        return _Inline()
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def is_address(text: str) -> bool:
    """Return whether a text is the address of a scheduler: ``tcp://host:8786``."""
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[3]) < 1 << 16


def cluster(address: str, resources: Mapping[str, float] | None = None) -> Executor:
    """Return an executor on the workers of a Dask scheduler (extra ``cluster``).

    A task whose worker dies runs again on another one.

    Parameters
    ----------
    resources:
        What a task takes of a worker's resources, such as ``{"nextpnr": 1}``; a worker started with
        ``--resources nextpnr=1`` then runs one such task at a time.

    Errors
    ------
    ClusterError
        There is no scheduler at the address.
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
    """An executor on the workers of a Dask client, which it closes at the end."""

    def __init__(self, client: Any, resources: dict[str, float]) -> None:
        self._client = client
        # Dask takes equal calls for one; ours may be repeated, and none needs it.
        self._executor = client.get_executor(pure=False, resources=resources)

    def submit(
        self, function: Callable[..., _Result], /, *arguments: Any, **named: Any
    ) -> Future[_Result]:
        """Run a call on a worker."""
        ours: Future[_Result] = Future()
        theirs = self._executor.submit(function, *arguments, **named)
        theirs.add_done_callback(partial(_pass_on, ours))
        return ours

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect from the scheduler."""
        self._executor.shutdown(wait=wait)
        self._client.close()


def _pass_on(ours: Future[_Result], theirs: Future[_Result]) -> None:
    """Finish a future like another; the loss of its worker is an error of the executor."""
    if theirs.cancelled():
        ours.set_exception(BrokenExecutor("the scheduler dropped a task"))
        return
    error = theirs.exception()
    if error is None:
        ours.set_result(theirs.result())
    elif type(error).__name__ in ("KilledWorker", "CommClosedError", "FutureCancelledError"):
        ours.set_exception(BrokenExecutor(str(error)))
    else:
        ours.set_exception(error)


class _Kept(Executor):
    """An executor that outlives its ``with`` blocks, unless it broke in one."""

    def __init__(self, make: Callable[[], Executor]) -> None:
        self._make = make
        self._executor: Executor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.close()

    def submit(
        self, function: Callable[..., _Result], /, *arguments: Any, **named: Any
    ) -> Future[_Result]:
        """Run a call on the executor, which is made first where there is none."""
        self._executor = self._executor or self._make()
        return self._executor.submit(function, *arguments, **named)

    def close(self) -> None:
        """End the executor; a further call makes another."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = None


@contextmanager
def kept(make: Callable[[], Executor]) -> Iterator[Callable[[], Executor]]:
    """Yield a function like `make` whose executor serves many rounds of tasks.

    Workers keep what they have cached from one round to the next.
    """
    executor = _Kept(make)
    try:
        yield lambda: executor
    finally:
        executor.close()


def completed(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    make: Callable[[], Executor],
    *,
    ahead: int = 64,
) -> Iterator[tuple[int, _Result]]:
    """Yield the index of each task and its result, in the order of completion.

    A function must give equal results for equal tasks, whichever worker takes them. If a worker
    dies, unfinished tasks run again on new ones.

    Parameters
    ----------
    make:
        Makes an executor: at the beginning, and again after a worker has died.
    ahead:
        Tasks that are submitted at a time.

    Errors
    ------
    LostWorkersError
        Workers died again and again without finishing a task.
    """
    left = list(range(len(tasks)))
    lost = 0
    while left:
        before = len(left)
        try:
            with make() as executor:
                while left:
                    yield from _batch(function, tasks, left, executor, ahead)
        except BrokenExecutor:
            lost = 1 if len(left) < before else lost + 1
            if lost == _ATTEMPTS:
                raise LostWorkersError(
                    f"workers died {lost} times in a row with {len(left)} tasks left"
                ) from None


def _batch(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    left: list[int],
    executor: Executor,
    ahead: int,
) -> Iterator[tuple[int, _Result]]:
    """Run the next tasks; take those that are done out of `left`."""
    batch = {executor.submit(function, tasks[at]): at for at in left[:ahead]}
    for future in as_completed(batch):
        result = future.result()
        left.remove(batch[future])
        yield batch[future], result


def ordered(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], make: Callable[[], Executor]
) -> list[_Result]:
    """Return the results of all tasks in the order of the tasks."""
    found = dict(completed(function, tasks, make))
    return [found[at] for at in range(len(tasks))]
