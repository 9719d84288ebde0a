"""Runs tasks on an executor, and runs them again if workers die."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from matloom.errors import HintedError

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

#: Number of executors in a row that may break without finishing a task.
_MAX_ATTEMPTS = 3


class LostWorkersError(HintedError):
    """Error raised if workers die several times in a row without finishing a task."""

    hint = "try fewer workers: each needs its own memory"


def run_as_completed(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    make: Callable[[], Executor],
    *,
    ahead: int = 64,
) -> Iterator[tuple[int, _Result]]:
    """Yield the index of each task and its result, in the order of completion.

    `function` must give equal results for equal tasks on any worker. If a worker dies, unfinished
    tasks run again on new workers.

    Parameters
    ----------
    make:
        Makes an executor; called at the beginning, and again after a worker has died.
    ahead:
        Number of tasks submitted at a time. The next ones are submitted when all of these are
        finished.

    Raises
    ------
    LostWorkersError
        Workers died three times in a row without finishing a task.
    """
    left = list(range(len(tasks)))
    lost = 0
    while left:
        before = len(left)
        try:
            with make() as executor:
                while left:
                    yield from _run_batch(function, tasks, left, executor, ahead)
        except BrokenExecutor:
            lost = 1 if len(left) < before else lost + 1
            if lost == _MAX_ATTEMPTS:
                raise _lost_workers_error(len(left)) from None


def _run_batch(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    unfinished: list[int],
    executor: Executor,
    ahead: int,
) -> Iterator[tuple[int, _Result]]:
    """Run the next `ahead` unfinished tasks; yield the index and the result of each.

    `unfinished` has the indices of the tasks to run; those that finish are removed in place.
    """
    batch: dict[Future[_Result], int] = {}
    for at in unfinished[:ahead]:
        future = executor.submit(function, tasks[at])
        if future.done():
            # Without processes, a task runs when it is submitted: the next one has to wait.
            result = future.result()
            unfinished.remove(at)
            yield at, result
        else:
            batch[future] = at
    for future in as_completed(batch):
        result = future.result()
        unfinished.remove(batch[future])
        yield batch[future], result


def in_order(
    function: Callable[[_Task], _Result],
    tasks: Iterable[_Task],
    make: Callable[[], Executor],
    *,
    ahead: int = 64,
) -> Iterator[_Result]:
    """Yield the results of tasks in the order of the tasks, which may have no end.

    If a worker dies, unfinished tasks run again, as in `run_as_completed`.

    Parameters
    ----------
    ahead:
        Maximum number of tasks that are submitted before the oldest of them is yielded.

    Raises
    ------
    LostWorkersError
        Workers died three times in a row without yielding a result.
    """
    source, left, lost = iter(tasks), deque[_Task](), 0
    while True:
        try:
            with make() as executor:
                running = deque(executor.submit(function, task) for task in left)
                while True:
                    for task in islice(source, ahead - len(left)):
                        left.append(task)
                        running.append(executor.submit(function, task))
                    if not left:
                        return
                    result = running.popleft().result()
                    left.popleft()
                    lost = 0
                    yield result
        except BrokenExecutor:
            lost += 1
            if lost == _MAX_ATTEMPTS:
                raise _lost_workers_error(len(left)) from None


@dataclass(frozen=True, kw_only=True)
class TaskRunner:
    """Settings for running tasks: `make` makes an executor; `at_once` tasks are submitted ahead."""

    make: Callable[[], Executor]
    at_once: int = 1

    def in_order(
        self, function: Callable[[_Task], _Result], tasks: Iterable[_Task]
    ) -> Iterator[_Result]:
        """Yield the results of tasks in the order of the tasks, as the function `in_order` does."""
        return in_order(function, tasks, self.make, ahead=self.at_once)


def ordered(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], make: Callable[[], Executor]
) -> list[_Result]:
    """Return the results of all tasks in the order of the tasks."""
    return list(in_order(function, tasks, make))


def _lost_workers_error(left: int) -> LostWorkersError:
    """Return the error for workers that died too often, with `left` tasks unfinished."""
    return LostWorkersError(f"workers died {_MAX_ATTEMPTS} times in a row with {left} tasks left")
