"""Options for where independent tasks run: --workers and --cluster."""

import functools
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

#: Number of tasks at a time on a cluster, whose workers come and go.
_CLUSTER_TASKS = 64


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Processes of this machine, or the workers of a cluster."""

    workers: int = 1
    cluster: str | None = None

    @property
    def at_once(self) -> int:
        """Number of tasks to submit at a time, enough to keep all workers busy."""
        return _CLUSTER_TASKS if self.cluster else (1 if self.workers == 1 else 2 * self.workers)

    def spread(self, resources: dict[str, float]) -> Any:
        """Return a function that runs tasks on the cluster (`TaskRunner.in_order`).

        `resources` maps names of Dask resources to the amount that each task needs on its worker.
        Returns None without a cluster.
        """
        from matloom.workers import TaskRunner

        if self.cluster is None:
            return None
        return TaskRunner(make=partial(self.make, resources), at_once=self.at_once).in_order

    def make(self, resources: dict[str, float] | None = None) -> Executor:
        """Return an executor of `concurrent.futures` that runs tasks on these workers.

        `resources` maps names of Dask resources to the amount that each task needs on its worker of
        a cluster; processes of this machine ignore them.
        """
        from matloom import workers

        if self.cluster is None:
            return workers.processes(self.workers)
        return workers.cluster(self.cluster, resources)


#: One process of this machine.
ALONE = Workers()


class _Cluster(click.ParamType[str]):
    """The address of a Dask scheduler."""

    name = "tcp://HOST:PORT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address; end with a usage error if it is not one."""
        from matloom.workers import is_address

        if not is_address(value):
            self.fail(f"it must be tcp://HOST:PORT or tls://HOST:PORT, not {value!r}", param, ctx)
        return value


_WORKERS = click.option(
    "--workers",
    "worker_count",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes; it does not change the result.",
)
_CLUSTER = click.option(
    "--cluster",
    type=_Cluster(),
    metavar="tcp://HOST:PORT",
    help="Use the workers of this Dask scheduler instead (docs/cluster.md).",
)


def worker_options(command: Callable[..., Any]) -> Any:
    """Add the options --workers and --cluster to a command, which gets them as one `Workers`."""

    @_WORKERS
    @_CLUSTER
    @functools.wraps(command)
    def wrapper(worker_count: int, cluster: str | None, **values: Any) -> Any:
        """Call the command with these options as one `Workers`."""
        if cluster is not None and worker_count != 1:
            raise click.UsageError("either --workers or --cluster must be given, not both")
        return command(workers=Workers(workers=worker_count, cluster=cluster), **values)

    return wrapper
