"""The table of proofs: which claims a configuration needs."""

from matloom.arch.config import Config
from matloom_rtl.formal.proof import Proof
from matloom_rtl.formal.queues import queue_proofs

__all__ = ["KINDS", "proofs_of"]

#: Each kind returns its proofs for a configuration.
KINDS = (queue_proofs,)


def proofs_of(config: Config) -> list[Proof]:
    """Return the proofs of all kinds for the units of a configuration's chip."""
    return [proof for kind in KINDS for proof in kind(config)]
