"""A mutant as a whole chip: whether the chip differs at all, and whether random streams notice.

    python -m mutation.chip digests UNIT '{...}' # of the netlists, up to the first that differs
    python -m mutation.chip streams CONFIG 200   # against the functional model; 1: a difference

`matloom_rtl` is the package on the path, mutated or not.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mutation.units import ENGINE, ROOT, RTL

#: Where equal hardware counts as equal, the smallest first. Every part is built in one of them, and
#: every knob that is off in `nano` is on in one of them.
CONFIGS = (
    "nano",
    "nano+i8xi4+tables=1+products=1",
    "nano+i16xi8+bf16+fp16+float_rows=2+weight_rows=2+tables=1+products=1",
    "nano+i16xi8+tables=1+products=4+curves=1",
    (
        "nano+tables=1+products=3+softmax=2+pooling=1+channel_tables=1+parity=1+time_limit=1"
        "+transposed_weights=1+zero_points=1+result_sums=1+address_first=1"
    ),
    "8x16",
)

#: What has the parts around the engine, after the configurations. No random streams run on these.
AROUND = ("linked", "soc", "slice", "sdram", "sdram of two gears", "merge")

#: Seconds that one mutant may take on the chip, its build included.
_LIMIT = 1800


def config_of(name: str):
    """Return a configuration of `CONFIGS`."""
    from matloom.arch.config import Config, load_config

    if name == "8x16":
        return Config(rows=8, columns=16, broadcast_group=4, lanes=4, weight_rows=4, bus_bits=128)
    return load_config(name)


def _design(name: str):
    """Return the hardware with a name: the chip of a configuration, or a unit around an engine."""
    from matloom.arch.sdram import load_sdram
    from matloom_rtl.bus.slice import BusSlice
    from matloom_rtl.link.core import LinkedCore
    from matloom_rtl.link.settings import LinkSettings
    from matloom_rtl.sdram.controller import SdramController
    from matloom_rtl.sdram.merge import Merge
    from matloom_rtl.soc.core import SocCore
    from matloom_rtl.soc.settings import SocSettings
    from matloom_rtl.top import Top

    if name not in AROUND:
        return Top(config_of(name))
    part, nano = load_sdram("IS42S16160"), config_of("nano")
    link = LinkSettings(
        clock_hz=50_000_000, board="mutant", memory_base=0x8000_0000, memory_bytes=1 << 25
    )
    return {
        "linked": lambda: LinkedCore(nano, link),
        "soc": lambda: SocCore(nano, SocSettings(link=link, rom=bytes(64))),
        "slice": lambda: BusSlice(64),
        "sdram": lambda: SdramController(part, clock_hz=85_000_000, bus_bits=64, burst_beats=32),
        "sdram of two gears": lambda: SdramController(
            part, clock_hz=71_000_000, bus_bits=64, burst_beats=32, gear=2
        ),
        "merge": lambda: Merge(64),
    }[name]()


def digests_of(unit: str, source: str | None, sound: dict[str, str]) -> dict[str, str]:
    """Return netlist digests by design, up to the first that differs from the original's.

    `source` is a mutant of the unit, or None for the original; `sound` has the original's digests.
    A design that cannot be built has the digest "", and the ones after it are tried, too.
    """
    done = _run(unit, source, "digests", unit, json.dumps(sound))
    if done.returncode:
        raise RuntimeError(f"netlists of a mutant of {unit}: {done.stderr}")
    return json.loads(done.stdout)


def judge(unit: str, source: str | None, config: str, streams: int) -> tuple[str, str]:
    """Return "killed", "survived" or "timeout", and the difference that random streams found.

    A mutant that Verilator cannot build counts as killed. `source` None means no mutant.
    """
    try:
        done = _run(unit, source, "streams", config, str(streams))
    except subprocess.TimeoutExpired:
        return "timeout", f"beyond {_LIMIT} s"
    said = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return ("killed" if done.returncode else "survived"), said[-1] if said else ""


def _run(unit: str, source: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this module as a program, with a mutant in a copy of the package; return the process."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "matloom_rtl"
        shutil.copytree(RTL, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if source is not None:
            (copy / f"{unit}.py").write_text(source)
        path = os.pathsep.join((folder, str(ROOT / "host"), str(ROOT / "bench")))
        return subprocess.run(
            [sys.executable, "-m", "mutation.chip", *arguments],
            env={**os.environ, "PYTHONPATH": path, "MATLOOM_CACHE": f"{folder}/cache"},
            capture_output=True,
            text=True,
            timeout=_LIMIT,
        )


def _print_digests(unit: str, sound: dict[str, str]) -> int:
    """Print hashes of the netlists that contain a unit, by configuration; return exit status 0.

    It stops at the first that differs from `sound`, the hashes without a mutation. The hash of a
    configuration that cannot be built is empty.
    """
    from matloom_rtl.convert import to_rtlil

    digests = {}
    # What contains the unit is built first: the rest is not built if that differs.
    for name in (*CONFIGS, *AROUND) if unit in ENGINE else (*AROUND, *CONFIGS):
        try:
            text = to_rtlil(_design(name), "top")
        except Exception:  # any error of a fault in the source means: no hardware
            digests[name] = ""
        else:
            digests[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
            if digests[name] != sound.get(name, digests[name]):
                break
    print(json.dumps(digests))
    return 0


def _run_streams(name: str, count: int) -> int:
    """Compare chip and model on random instruction streams; return 1 if they differ, else 0."""
    from matloom.device.errors import DeviceError
    from matloom.device.rtl import RtlTransport
    from matloom.verification.checks import MismatchError, check_streams
    from matloom.verification.pair import MEMORY_BYTES, Pair

    config = config_of(name)
    chip = RtlTransport(config, MEMORY_BYTES, check_bus=True)
    try:
        # Streams are short: what takes longer hangs.
        check_streams(Pair.start(chip, config, timeout=20.0), 0, count)
    except (MismatchError, DeviceError) as error:
        print(str(error).splitlines()[0])
        return 1
    finally:
        chip.close()
    print(f"{count} streams equal")
    return 0


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "digests":
        sys.exit(_print_digests(rest[0], json.loads(rest[1])))
    sys.exit(_run_streams(rest[0], int(rest[1])))
