"""Random networks on random engines: the case of each seed, and its verdict."""

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from matloom.arch.config import PRESETS, Config
from matloom.compiler import CheckError, Compiled, CompileError, CompileOptions, compile_unchecked
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.graph import Graph
from matloom.program import Program
from matloom.program.verify import VerifyError, verify_program
from matloom.tools.compare import compare
from support.random_network import MOST_OPERATORS, Size, random_network

__all__ = ["Case", "case_of", "compile_case", "digest", "digests", "engine_of"]
__all__ += ["failure_of", "operators_of", "tflm_failure_of"]

#: Median of the operators of a network, and the share and the least of the large ones.
_MEDIAN, _LARGE_SHARE, _LARGE = 15, 0.05, 80

#: Share of the networks that remember something from call to call.
_STATE_SHARE = 0.25

#: Share of those that may multiply computed matrices.
_PRODUCTS_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Case:
    """A network, an engine, and compiler options."""

    seed: int
    graph: Graph
    config: Config
    options: CompileOptions
    precision: str | None


def operators_of(seed: int) -> int:
    """Return a seed's number of operators: 5 to 150, median 15, one in twenty 80 or more."""
    draw = random.Random(f"operators {seed}")
    if draw.random() < _LARGE_SHARE:
        return draw.randint(_LARGE, MOST_OPERATORS)
    if draw.random() < 0.5 / (1 - _LARGE_SHARE):
        return draw.randint(5, _MEDIAN)
    return min(_LARGE - 1, _MEDIAN + round(draw.expovariate(1 / 10)))


def engine_of(seed: int) -> Config:
    """Return a seed's engine: 4x4 to 32x32, one to eight banks, at least 16 KiB of scratchpad."""
    draw = random.Random(f"engine {seed}")
    rows, columns = (draw.choice((4, 8, 8, 12, 16, 16, 24, 32)) for _ in range(2))
    weight_rows = draw.choice([n for n in (1, 2, 4) if rows % n == 0])
    bus_bits = draw.choice((32, 64, 64, 128))
    banks = draw.randint(1, 8)
    word = 1 << (max(rows, columns, bus_bits // 8, weight_rows * columns) - 1).bit_length()
    bank = max(32 * word, 1 << draw.randint(11, 15))
    while bank * banks < 16 * 1024:
        bank *= 2
    entries = 1 << draw.randint(5, 10)
    modes = ["i8xi8"]
    modes += [mode for mode in ("i8xi4", "i16xi8") if draw.random() < 0.4]
    return Config(
        rows=rows,
        columns=columns,
        broadcast_group=draw.choice((columns, 4)),
        weight_rows=weight_rows,
        lanes=draw.choice([n for n in (1, 2, 4, columns) if columns % n == 0]),
        spad_banks=banks,
        spad_bytes=banks * bank,
        acc_bytes=4 * columns * entries,
        bus_bits=bus_bits,
        mac_modes=tuple(modes),
        tables=draw.choice((0, 1, 2)),
        products=draw.choice((0, 1, 1)),
    )


def _size(rng: random.Random, operators: int, config: Config) -> Size:
    """Return a size: mostly small maps, some as large as the scratchpad, few eight times that."""
    chosen = rng.random()
    largest = rng.choice((256, 1024, 2048))
    if chosen < 0.02 and config.spad_bytes <= 2**15:
        # Such maps take hundreds of tiles, and as long to compile.
        largest, operators = round(config.spad_bytes * rng.uniform(2, 8)), min(operators, 6)
    elif chosen < 0.1 and operators <= _MEDIAN:
        largest = round(min(2**15, config.spad_bytes * rng.uniform(0.2, 1)))
    return Size(operators=operators, tensor_bytes=largest, macs=1_500_000)


def case_of(seed: int, config: Config | None = None) -> Case:
    """Return a seed's case, on its own engine or a given one."""
    draw = random.Random(f"network {seed}")
    config = engine_of(seed) if config is None else config
    size = _size(draw, operators_of(seed), config)
    words = config.has_words and draw.random() < 0.5
    precision = "i8xi4" if "i8xi4" in config.mac_modes and draw.random() < 0.5 else None
    options = CompileOptions(
        tiling_seed=seed if draw.random() < 0.3 else None,
        resident=draw.choice((None, None, False)),
    )
    state = random.Random(f"state {seed}").random() < _STATE_SHARE
    products = random.Random(f"pairs {seed}").random() < _PRODUCTS_SHARE
    graph = random_network(seed, size, words=words, state=state, products=products)
    narrow = any(node.op in ("CONV_2D", "FULLY_CONNECTED") for node in graph.nodes)
    return Case(
        seed=seed,
        graph=graph,
        config=config,
        options=options,
        precision=precision if narrow and not words else None,
    )


def compile_case(case: Case) -> Compiled:
    """Return the program of a case, unchecked."""
    return compile_unchecked(case.graph, case.config, case.options, case.precision)


def failure_of(case: Case) -> str | None:
    """Return the failure of a case, or None.

    The program must be free of hazards, survive its file, and compute the network: first and
    repeated calls, random and extreme inputs (`selfcheck.check_program`).
    """
    try:
        made = compile_case(case)
        verify_program(Program.from_bytes(made.program.to_bytes()))
        made.check("full", seed=case.seed)
    except CompileError as error:
        return f"CompileError: {error}"
    except (CheckError, VerifyError) as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        # A defect of the compiler may raise anything.
        return f"{type(error).__name__}: {error!r}"
    return None


def tflm_failure_of(case: Case) -> str | None:
    """Return how the network's definition differs from TensorFlow Lite Micro, or None.

    Networks that the library refuses count as equal.
    """
    try:
        comparison = compare(write_tflite(case.graph), seed=case.seed)
    except ValueError:
        return None
    return None if comparison.equal else str(comparison)


def digest(seed: int, preset: str = "") -> str:
    """Return the SHA-256 of a seed's program."""
    case = case_of(seed, PRESETS[preset] if preset else None)
    return hashlib.sha256(compile_case(case).program.to_bytes()).hexdigest()


def digests(seeds: Sequence[int], hash_seed: int) -> list[str]:
    """Return the digests in another process, which orders sets differently."""
    script = (
        "import sys; from support.network_campaign import digest\n"
        "print(*(digest(int(seed)) for seed in sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, *map(str, seeds)]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()
