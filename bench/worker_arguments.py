"""Arguments --workers and --cluster of scripts that parse with argparse."""

import argparse

from matloom.cli.worker_options import Workers
from matloom.workers import is_address


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the options --workers and --cluster to a parser."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, default=1, help="processes")
    where.add_argument(
        "--cluster", type=_address, metavar="tcp://HOST:PORT", help="workers of Dask instead"
    )


def workers_of(options: argparse.Namespace) -> Workers:
    """Return the workers that the options --workers and --cluster select."""
    return Workers(workers=options.workers, cluster=options.cluster)


def _address(text: str) -> str:
    """Return an argument that is a cluster's address; reject any other text."""
    if not is_address(text):
        raise argparse.ArgumentTypeError(f"it must be tcp://HOST:PORT, not {text!r}")
    return text
