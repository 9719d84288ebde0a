"""Executors that run tasks in processes of this machine."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

_Result = TypeVar("_Result")


class _Inline(Executor):
    """An executor without processes, which runs each task when it is submitted."""

    def submit(
        self, function: Callable[..., _Result], /, *arguments: Any, **named: Any
    ) -> Future[_Result]:
        """Run a call, and return its result as a future."""
        future: Future[_Result] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:  # The future raises it when its result is read.
            future.set_exception(error)
        return future


def processes(workers: int) -> Executor:
    """Return an executor with `workers` processes; if 1, tasks run in this process instead.

    Processes are spawned rather than forked, because NumPy's threads do not survive a fork.
    """
    if workers == 1:
        return _Inline()
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


class _ReusableExecutor(Executor):
    """An executor that outlives its ``with`` blocks, unless an exception leaves one."""

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
        """Run a call on the executor, which is started first if necessary."""
        self._executor = self._executor or self._make()
        return self._executor.submit(function, *arguments, **named)

    def close(self) -> None:
        """Shut the executor down; the next task starts a new one."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = None


@contextmanager
def reused_executor(make: Callable[[], Executor]) -> Iterator[Callable[[], Executor]]:
    """Yield a function that returns the same executor each time, for several rounds of tasks.

    The workers keep their caches from one round to the next. `make` is called for the first task,
    and again after an exception has ended a round; the executor is shut down at the end.
    """
    executor = _ReusableExecutor(make)
    try:
        yield lambda: executor
    finally:
        executor.close()
