"""Sequencer of post-processing: starts commands, and reports their completion."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.ports import SPAD_WRITE_LATENCY, CommandSignature, body_layout

__all__ = ["Sequencer"]


class Sequencer(wiring.Component):
    """Take a command, stream its vectors, and report it when its results are visible.

    Latency: `command`, `start` and `streaming` follow one cycle after a command is taken; `done`
    comes ``Config.acc_update_latency + 1`` cycles after the last write is granted. Throughput: one
    command at a time.
    Stalls: none of its own. Reset discards the command.

    Members
    -------
    unit: CommandSignature(POST), in
        `progress` is driven elsewhere.
    fetched: in
        Parameters of the command at the head are being fetched, so it may be taken.
    command: out
        The current command; constant from `start` until `done`.
    start: out
        First cycle of a command.
    streaming: out
        Vectors of the command may be requested.
    asked_all: in
        The last vector is requested in this cycle.
    finished: in
        The last result leaves the queue in this cycle.
    waiting: in
        A request to write a result is not yet granted.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "unit": In(CommandSignature(Opcode.POST, config)),
                "fetched": In(1),
                "command": Out(body_layout(Opcode.POST, config)),
                "start": Out(1),
                "streaming": Out(1),
                "asked_all": In(1),
                "finished": In(1),
                "waiting": In(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: a state machine from taking a command to its completion."""
        m = Module()
        unit = self.unit
        command = Signal(self.command.shape(), reset_less=True)
        m.d.comb += self.command.eq(command)
        settling = Signal(range(max(SPAD_WRITE_LATENCY, self._config.acc_update_latency) + 1))
        all_written = Signal()
        with m.If(self.finished):
            m.d.sync += all_written.eq(1)
        # One register per state, because each drives hundreds of others.
        idle = Signal(init=1)
        streams = Signal()
        m.d.sync += self.start.eq(0)
        with m.If(idle):
            m.d.sync += command.eq(unit.command.payload)
        m.d.comb += self.streaming.eq(streams & ~self.asked_all)
        m.d.sync += streams.eq(self.streaming)
        with m.FSM() as states:
            with m.State("Idle"):
                m.d.comb += unit.command.ready.eq(self.fetched)
                m.d.sync += all_written.eq(0)
                with m.If(unit.command.valid & self.fetched):
                    m.d.sync += [self.start.eq(1), idle.eq(0)]
                    m.next = "Begin"
            with m.State("Begin"):
                m.d.comb += self.streaming.eq(1)
                m.next = "Stream"
            with m.State("Stream"):
                m.d.sync += settling.eq(self._config.acc_update_latency)
                with m.If(all_written & ~self.waiting):
                    m.next = "Settle"
            with m.State("Settle"):
                m.d.sync += settling.eq(settling - 1)
                with m.If(settling == 1):
                    m.d.comb += [unit.done.eq(1), unit.done_mark.eq(command.timestamp)]
                    m.d.sync += idle.eq(1)
                    m.next = "Idle"
        m.d.comb += unit.busy.eq(~states.ongoing("Idle"))
        return m
