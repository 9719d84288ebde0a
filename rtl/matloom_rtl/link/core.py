"""Engine and host link on one port of external memory."""

from amaranth.hdl import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.config import Config
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.core import Core
from matloom_rtl.link.link import Link
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.link.share import Share
from matloom_rtl.reset import near_reset

__all__ = ["LinkedCore"]


class LinkedCore(wiring.Component):
    """Engine and host link, which serves requests from a serial line; both share external memory.

    Members
    -------
    reset: in
        As in `Core`; the link and the memory arbiter follow one cycle later.
    rx, tx: in, out
        Serial line (docs/link.md).
    axi_read, axi_write: AxiReadSignature, AxiWriteSignature, out
        External memory.
    """

    def __init__(self, config: Config, settings: LinkSettings):
        self._config, self._settings = config, settings
        super().__init__(
            {
                "reset": In(1),
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "axi_read": Out(AxiReadSignature(config.bus_bits)),
                "axi_write": Out(AxiWriteSignature(config.bus_bits)),
            }
        )

    def elaborate(self, platform):
        """Return the module: the engine, the host link, and their shared memory port."""
        m = Module()
        m.submodules.core = core = Core(self._config)
        link, share = Link(self._config, self._settings), Share(self._config)
        m.submodules.link = ResetInserter(near_reset(m, self.reset, "link"))(link)
        m.submodules.share = ResetInserter(near_reset(m, self.reset, "share"))(share)
        m.d.comb += [
            core.reset.eq(self.reset),
            link.rx.eq(self.rx),
            link.irq.eq(core.irq),
            self.tx.eq(link.tx),
        ]
        connect(m, link.axi_lite, core.axi_lite)
        connect(m, core.axi_read, share.engine_read)
        connect(m, core.axi_write, share.engine_write)
        connect(m, link.axi_read, share.link_read)
        connect(m, link.axi_write, share.link_write)
        connect(m, share.axi_read, flipped(self.axi_read))
        connect(m, share.axi_write, flipped(self.axi_write))
        return m
