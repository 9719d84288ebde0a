"""Search for a plan that fits the scratchpad, from the fastest choices to the smallest."""

from matloom.arch.config import Config
from matloom.schedule.options import CompileOptions
from matloom.schedule.params import Candidate
from matloom.schedule.plan import DoesNotFit, Plan
from matloom.schedule.planner import make_plan
from matloom.schedule.policies import first_policy, plain_policy, random_policy
from matloom.schedule.segment import Segment
from matloom.schedule.tighten import tightened

__all__ = ["fit"]

_ATTEMPTS = 400


def fit(
    segment: Segment, config: Config, options: CompileOptions, candidate: Candidate
) -> Plan | DoesNotFit:
    """Return a plan that fits, or why even the smallest does not."""
    policy = first_policy(segment, config, candidate)
    if options.plain:
        policy = plain_policy(segment, config)
    if options.tiling_seed is not None:
        policy = random_policy(segment, config, options.tiling_seed)
    for _ in range(_ATTEMPTS):
        plan = make_plan(segment, policy, config)
        if isinstance(plan, Plan):
            return plan
        tighter = tightened(segment, policy, plan, config, candidate)
        if tighter is None:
            full = plan[0]
            return DoesNotFit(
                reason=f"stage {segment.stages[full.stage].name} needs {full.size} bytes of "
                f"scratchpad for {full.kind} next to its other buffers, more than the "
                f"{config.spad_bytes} bytes there are leave free"
            )
        policy = tighter
    return DoesNotFit(reason=f"no plan in {_ATTEMPTS} attempts fits {config.spad_bytes} bytes")
