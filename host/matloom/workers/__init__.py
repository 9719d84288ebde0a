"""Runs independent tasks on several processes or machines, with the same results as on one.

Tasks run on a `concurrent.futures.Executor`: `processes` makes one from processes of this machine,
`cluster` one from the workers of a Dask scheduler.
"""

from matloom.workers.cluster import ClusterError, cluster, is_address
from matloom.workers.executors import processes, reused_executor
from matloom.workers.order import LostWorkersError, TaskRunner, in_order, ordered, run_as_completed

__all__ = [
    "ClusterError",
    "LostWorkersError",
    "TaskRunner",
    "cluster",
    "in_order",
    "is_address",
    "ordered",
    "processes",
    "reused_executor",
    "run_as_completed",
]
