"""Estimates of the cycles of tiles and stages, for choices made before instructions exist."""

from matloom.arch.config import Config


def step_cycles(vectors: int, config: Config, *, weights_fixed: bool = False) -> int:
    """Return the cycles of a step of EXEC, in which it uses one weight tile for all vectors.

    The step streams one vector per cycle while the weights of the next step are loaded, unless
    `weights_fixed`. No step is shorter than the latency of an accumulator update.
    """
    load = 0 if weights_fixed else config.tile_load_cycles
    return max(vectors, load, config.acc_update_latency)


def exec_cycles(
    vectors: int, steps: int, results: int, config: Config, *, weights_fixed: bool = False
) -> int:
    """Return the cycles that an EXEC or its POST keeps its unit busy, whichever is longer.

    Parameters
    ----------
    vectors, steps:
        Number of vectors per step of EXEC, and number of steps for all output blocks.
    results:
        Number of vectors of results, each of `columns` elements, of which POST makes `lanes` per
        cycle.
    """
    streamed = steps * step_cycles(vectors, config, weights_fixed=weights_fixed)
    return max(streamed, results * (config.columns // config.lanes))


def vector_cycles(results: int, passes: int, config: Config) -> int:
    """Return an estimate of the cycles that element-wise POSTs of `results` vectors add.

    Three quarters of their work are assumed to overlap with the array.

    Parameters
    ----------
    results:
        Number of vectors of results of all POSTs.
    passes:
        Bytes read or written for each element; no vector takes fewer cycles.
    """
    return results * max(config.columns // config.lanes, passes) // 4
