"""Timeline of EXEC and POST, kept while instructions are being emitted."""

from math import inf

from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode
from matloom.arch.machine import Machine
from matloom.cost.timing import HANDOVER, Timing

#: Reads per cycle of EXEC from a bank above which POST cannot read its parameters there.
_BUSY_RATE = 0.9


class ArithmeticTimeline:
    """Timeline of the EXECs and POSTs of a program so far, ignoring waits for transfers.

    If the parameters of a POST share a bank with an EXEC that reads in nearly every cycle, the POST
    has to wait until EXEC pauses, which never happens in this model.
    """

    def __init__(self, machine: Machine):
        self._latency = machine.exec_latency
        self._half = machine.config.acc_entries // 2
        self._seen = 0
        self._done: dict[Opcode, list[int]] = {Opcode.EXEC: [], Opcode.POST: []}
        self._free = dict.fromkeys(self._done, 0)
        #: End of POST's last read of each half of the accumulators; reads per cycle of the last
        #: EXEC from each bank.
        self._read, self._reads = [0.0, 0.0], dict[int, float]()

    def add_emitted(self, instructions: list[Instruction], costs: list[Timing]) -> None:
        """Add the instructions emitted since the last call.

        Both lists start at the beginning of the program; `costs` has one entry per instruction.
        """
        seen = slice(self._seen, None)
        for instruction, timing in zip(instructions[seen], costs[seen], strict=True):
            opcode, get = instruction.opcode, instruction.values.get
            if opcode not in self._done:
                continue
            work, more = timing.durations[0]
            start = self._free[opcode]
            for unit, wait in ((Opcode.EXEC, "wait_exec"), (Opcode.POST, "wait_post")):
                if get(wait):
                    start = max(start, self._done[unit][-get(wait, 0)] + HANDOVER)
            self._free[opcode] = start + work
            self._done[opcode].append(start + work + more)
            if opcode is Opcode.EXEC:
                self._reads = timing.reads
                continue
            half = get("acc_addr", 0) // (self._half >> get("pairs", 0))
            busy = max((self._reads.get(bank, 0.0) for bank, _ in timing.params.parts), default=0.0)
            starves = timing.param_reads > 0 and busy > _BUSY_RATE
            self._read[half] = inf if starves else start + timing.cycles
        self._seen = len(instructions)

    def post_has_read(self, half: int) -> bool:
        """Return whether POST has read a half of the accumulators when the next EXEC writes to it.

        `half` is the index, 0 or 1, of the half of the accumulators.
        """
        return self._read[half] <= self._free[Opcode.EXEC] + self._latency
