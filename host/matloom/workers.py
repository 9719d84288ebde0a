"""Workers: independent tasks on several processes, with the same results as on one.

Tasks are written against `concurrent.futures.Executor`, so that a cluster can take the place of the
processes of this machine.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from matloom.errors import HintedError

__all__ = ["LostWorkersError", "completed", "ordered", "processes"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

#: Workers that may die one after another before any task is finished.
_ATTEMPTS = 3


class LostWorkersError(HintedError):
    """Workers died again and again, so that a task was never finished."""

    hint = "try fewer workers: each needs memory of its own"


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
        with make() as executor:
            try:
                while left:
                    yield from _batch(function, tasks, left, executor, ahead)
            except BrokenProcessPool:
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
