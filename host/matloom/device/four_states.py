"""The chip in Verilator with a second rail that says which bits are undefined."""

import ctypes
import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matloom.arch.config import Config
from matloom.device.rtl import RtlTransport
from matloom.device.simulator import (
    Probe,
    arguments,
    load_probes,
    remembered,
    simulator_of,
    source_digest,
)

__all__ = ["FourStateTransport", "Undefined", "build"]

#: The list of a simulator's checks, beside its library.
_CHECKS = "checks.json"

#: What a build takes, more or less.
_MINUTES = 6.0


@dataclass(frozen=True, kw_only=True)
class Undefined:
    """An output that has a meaning and is undefined: which, and the first cycle."""

    output: str
    cycle: int


def build(
    config: Config,
    change: Callable[[str], str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Path:
    """Return the simulator library of a configuration in two rails, from the cache or built now.

    `change` makes another text of the Verilog as it is shipped: mutants, which an input chooses.

    Errors
    ------
    matloom_rtl.fpga.progress.FlowError
        Yosys is absent, which the extra ``fpga`` brings, or fails.
    """
    from matloom_rtl.fpga.netlist import yosys_version

    changed = Path(inspect.getfile(change)).read_text() if change else ""
    digest = f"two rails {yosys_version()} {source_digest(config, '', 'events')} {changed}"
    key = hashlib.sha256(digest.encode()).hexdigest()
    return remembered(key, config, lambda: _build(config, change, on_line), _MINUTES)


def _build(
    config: Config, change: Callable[[str], str] | None, on_line: Callable[[str], None] | None
) -> Path:
    from matloom_rtl.fpga.dual_rail import MUTANT_CHOICE, dual_rail
    from matloom_rtl.generate import TOP_NAME, generate

    chip = generate(config)
    shipped = change(chip.verilog) if change else chip.verilog
    rails = dual_rail(shipped, TOP_NAME, on_line or (lambda _line: None))
    flags = arguments(config, "", "events")
    if MUTANT_CHOICE in shipped:
        flags += ["-CFLAGS", "-DMATLOOM_MUTANTS"]
    checks = {_CHECKS: json.dumps(rails.checks)}
    return simulator_of(chip, rails.verilog, flags, "events", on_line, checks)


class FourStateTransport(RtlTransport):
    """As `RtlTransport`, with all registers and memories undefined before the first reset.

    It takes minutes to build, once. `state_seed` changes nothing.

    Parameters
    ----------
    mutants, mutant:
        A function from the shipped Verilog to a text of mutants, which an input `mutsel` chooses,
        and the number of one; 0 is none.
    """

    def __init__(
        self,
        config: Config,
        *arguments: Any,
        mutants: Callable[[str], str] | None = None,
        mutant: int = 0,
        **options: Any,
    ) -> None:
        self._mutants, self._mutant = mutants, mutant
        self._found: list[Undefined] = []
        super().__init__(config, *arguments, **options)

    def _load(
        self, config: Config, trace: str, on_line: Callable[[str], None] | None
    ) -> ctypes.CDLL:
        if trace:
            raise ValueError("waves must be of device 'rtl', not of a chip in two rails")
        path = build(config, self._mutants, on_line)
        self._checks: list[str] = json.loads(path.with_name(_CHECKS).read_text())
        library = load_probes(path)
        # What another simulation of this thread told, and nobody took.
        library.matloom_take_events(ctypes.addressof((Probe * library.matloom_events())()))
        if self._mutants:
            library.matloom_choose(self._mutant)
        return library

    @property
    def undefined(self) -> list[Undefined]:
        """Outputs that were undefined where they have a meaning, each once, since it was opened.

        VALID, READY and the interrupt have a meaning in every cycle, payloads where they are valid,
        data where they are strobed. One simulation of a thread at a time may be asked.
        """
        probes = (Probe * self._library.matloom_events())()
        self._library.matloom_take_events(ctypes.addressof(probes))
        self._found += [
            Undefined(output=self._checks[each.kind], cycle=each.cycle) for each in probes
        ]
        return list(self._found)
