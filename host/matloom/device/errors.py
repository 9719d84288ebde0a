"""Errors of devices."""

from matloom.arch.bus_rules import describe_broken_rule
from matloom.arch.csr import Fault
from matloom.errors import HintedError

#: Names of units; the index of each is its number in the fault record.
UNIT_NAMES = ("dispatch", "LOAD", "EXEC", "POST", "STORE")


class DeviceError(HintedError, OSError):
    """A device that cannot be used; the message names the thing, the rule and the value."""


class DeviceClosedError(DeviceError):
    """A device or session that was closed, before or during a call."""

    hint = "open it again to use it"


class DeviceTimeoutError(DeviceError):
    """A device that did not answer in time."""


class BusError(DeviceError):
    """A bus rule that a simulated chip or its memory broke, because of a defect in either.

    Members
    -------
    rule, channel, cycle:
        Names of the rule and the channel (`matloom.arch.bus_rules`), and cycle of the simulation.
    """

    hint = "please report it with the program; --waves shows the cycles before it"

    def __init__(self, *, rule: str, channel: str, cycle: int, value: int, limit: int):
        super().__init__(describe_broken_rule(rule, channel, cycle, value, limit))
        self.rule, self.channel, self.cycle = rule, channel, cycle


class DeviceFaultError(DeviceError):
    """The engine stopped with a fault record.

    Members
    -------
    cause, unit, opcode, index, address:
        As in registers FAULT, FAULT_INDEX and FAULT_ADDRESS.
    """

    hint = "compile the network again, and report it if it stays; docs/registers.md has the causes"

    def __init__(self, *, cause: Fault, unit: str, opcode: int, index: int, address: int):
        super().__init__(
            f"the engine stopped: {cause.name} in {unit}, instruction {index} "
            f"(opcode {opcode}), address {address:#x}"
        )
        self.cause, self.unit, self.opcode = cause, unit, opcode
        self.index, self.address = index, address
