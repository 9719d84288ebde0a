"""The functional model and the simulated chip of one configuration, side by side."""

from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.arch.csr import register
from matloom.device.driver import Driver
from matloom.device.model.transport import ModelTransport
from matloom.device.rtl import MemoryTiming, RtlTransport
from matloom.verification.random_programs import clear_state

#: External memory of each device.
MEMORY_BYTES = 1 << 22

#: Time limits of a run. A hang is detected by cycles: the widest layers take some six million, in a
#: time that depends on the machine's load. The seconds are for simulators that stop.
_CYCLES, _TIMEOUT = 20_000_000, 3600.0


class MismatchError(AssertionError):
    """The chip behaved differently from the functional model; the message says how and where."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The functional model and a chip, each with its own driver, for the same programs."""

    config: Config
    model: Driver
    rtl: Driver
    chip: RtlTransport

    @classmethod
    def of(cls, chip: RtlTransport, config: Config, timeout: float = _TIMEOUT) -> "Pair":
        """Return a pair in its initial state: a new model, and the chip reset and cleared.

        A run of the chip may take `timeout` seconds.
        """
        chip.set_timing(MemoryTiming())
        chip.memory[:] = 0
        pair = cls(
            config=config,
            model=Driver(ModelTransport(config, MEMORY_BYTES), config),
            rtl=Driver(chip, config, timeout=timeout, timeout_cycles=_CYCLES),
            chip=chip,
        )
        pair.rtl.reset()
        pair.rtl.write("TIMEOUT", register("TIMEOUT").reset)
        # A reset does not clear the memories on the chip.
        clear_state(pair.rtl)
        return pair

    def __iter__(self) -> Iterator[Driver]:
        return iter((self.model, self.rtl))

    def disturb(self, number: int) -> None:
        """Stall the chip's external memory at random."""
        timing = MemoryTiming(stall_per_1024=300, latency_jitter=40, seed=number)
        self.chip.set_timing(timing)

    def calm(self) -> None:
        """Let the chip's external memory answer without stalls."""
        self.chip.set_timing(MemoryTiming())
