"""The functional model and the simulated chip of one configuration, to be compared."""

from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.arch.csr import register
from matloom.device.driver import Driver
from matloom.device.model.transport import ModelTransport
from matloom.device.rtl import MemoryTiming, RtlTransport
from matloom.verification.random_programs import clear_state

#: Size of the model's external memory in bytes.
MEMORY_BYTES = 1 << 22

#: Limits of a run on the chip, in cycles and in seconds. A hang exceeds the cycles: the widest
#: layers take some six million. The seconds are for a simulator that stops.
_CYCLES, _TIMEOUT = 20_000_000, 3600.0


class MismatchError(AssertionError):
    """Error raised if the chip differs from the model; the message says in what."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The functional model and a chip, each with its own driver, for running the same programs.

    Iterating yields the driver of the model, then that of the chip.
    """

    config: Config
    model: Driver
    rtl: Driver
    chip: RtlTransport

    @classmethod
    def start(cls, chip: RtlTransport, config: Config, timeout: float = _TIMEOUT) -> "Pair":
        """Return a pair in its initial state: a new model, and the chip reset and cleared.

        `timeout` is the time limit of a run of the chip in seconds.
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

    def start_stalls(self, seed: int) -> None:
        """Let the chip's external memory stall at random from now on."""
        timing = MemoryTiming(stall_per_1024=300, latency_jitter=40, seed=seed)
        self.chip.set_timing(timing)

    def stop_stalls(self) -> None:
        """Let the chip's external memory answer without stalls from now on."""
        self.chip.set_timing(MemoryTiming())
