"""Claims about pipelines with a fixed latency: each output is a function of an earlier input."""

from amaranth.hdl import Assert, Assume, Cover, Module, Signal

__all__ = ["Pipeline"]


class Pipeline:
    """Relates the outputs of a pipeline to its inputs `latency` cycles earlier.

    A pipeline starts with unknown contents, and a reset does not clear all of it. So nothing is
    claimed until `latency` cycles have passed without a reset. From then on all contents are from
    known inputs, and an induction as deep as the pipeline needs no lemmas.
    """

    def __init__(self, m: Module, latency: int):
        self._m, self._latency = m, latency
        self._delays = 0
        age = Signal(range(latency + 1))
        self._settled = Signal()
        m.d.comb += self._settled.eq(age == latency)
        with m.If(~self._settled):
            m.d.sync += age.eq(age + 1)

    @property
    def depth(self) -> int:
        """Depth of the induction, in cycles."""
        return self._latency + 2

    def before(self, value, cycles: int | None = None):
        """Return the value of a signal `cycles` earlier, by default the latency."""
        for _cycle in range(self._latency if cycles is None else cycles):
            self._delays += 1
            later = Signal.like(value, name=f"before_{self._delays}", reset_less=True)
            self._m.d.sync += later.eq(value)
            value = later
        return value

    def constant(self, *values) -> None:
        """Assume that values have been constant since the last reset."""
        started = Signal()
        self._m.d.sync += started.eq(1)
        for value in values:
            self._m.d.comb += Assume(~started | (value == self.before(value, 1)))

    def claim(self, condition) -> None:
        """Claim a condition in all cycles at least the latency after a reset."""
        self._m.d.comb += Assert(~self._settled | condition)

    def reach(self, condition) -> None:
        """Add a cover: a run must reach a condition, at least the latency after a reset."""
        self._m.d.comb += Cover(self._settled & condition)
