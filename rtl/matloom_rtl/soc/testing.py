"""Bus initiator for simulations: reads and writes words and lines, and measures cycles."""

from matloom.arch.soc import LINE_BYTES
from matloom_rtl.soc.wishbone import CTI_CLASSIC, CTI_END, CTI_INCREMENTING

__all__ = ["LINE", "BusInitiator", "word_at"]

#: Number of words of a cache line.
LINE = LINE_BYTES // 4


class BusInitiator:
    """Wishbone initiator for simulations.

    Members
    -------
    cycles:
        Number of cycles of the last access, up to its response.
    gaps:
        Number of cycles of each word of the line read last.

    Parameters
    ----------
    bus: WishboneSignature
    """

    def __init__(self, bus):
        self.bus, self.cycles, self.gaps = bus, 0, []

    async def access(self, ctx, address, word=None, sel=15, cti=CTI_CLASSIC):
        """Write `word`, or read if it is None; return the word read, and whether the access failed.

        `address` is in bytes. Within a burst (`cti`), `cyc` and `stb` remain set for the next word.
        """
        bus = self.bus
        for name, value in (
            ("adr", address >> 2),
            ("sel", sel),
            ("we", word is not None),
            ("dat_w", word or 0),
            ("cti", cti),
            ("cyc", 1),
            ("stb", 1),
        ):
            ctx.set(getattr(bus, name), value)
        self.cycles = 0
        while True:
            _, _, ack, err, value = await ctx.tick().sample(bus.ack, bus.err, bus.dat_r)
            self.cycles += 1
            assert ack + err < 2
            if ack or err:
                if cti != CTI_INCREMENTING:
                    ctx.set(bus.cyc, 0)
                    ctx.set(bus.stb, 0)
                return value, bool(err)

    async def line(self, ctx, address):
        """Read the line at a byte address in a burst; return its words, and whether one failed."""
        words, gaps, failed = [], [], False
        for k in range(LINE):
            cti = CTI_END if k == LINE - 1 else CTI_INCREMENTING
            word, bad = await self.access(ctx, address + 4 * k, cti=cti)
            words.append(word)
            gaps.append(self.cycles)
            failed |= bad
        self.gaps = gaps
        return words, failed

    async def half_requests(self, ctx, address, *, write=False):
        """Check that the target ignores `cyc` or `stb` alone, for a few cycles each."""
        bus = self.bus
        for name, value in (("adr", address >> 2), ("sel", 15), ("we", write), ("dat_w", ~0)):
            ctx.set(getattr(bus, name), value)
        for half in (bus.cyc, bus.stb):
            ctx.set(half, 1)
            for _ in range(12):
                _, _, ack, err = await ctx.tick().sample(bus.ack, bus.err)
                assert not ack | err
            ctx.set(half, 0)


def word_at(contents: bytes, address: int) -> int:
    """Return the little-endian word of the four bytes at an address of `contents`."""
    return int.from_bytes(contents[address : address + 4], "little")
