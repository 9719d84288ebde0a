"""Splitter of the beats of a spread row into writes with gaps between bytes."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.dma.bursts import SPREAD_BITS, beat_address_bits
from matloom_rtl.ports import mark_bits

__all__ = ["Spread", "beat_layout", "piece_layout"]


def piece_layout(config: Config) -> data.StructLayout:
    """Return the layout of a masked write as wide as a beat, with `last` and `timestamp`."""
    return data.StructLayout(
        {
            "address": beat_address_bits(config),
            "data": config.bus_bits,
            "mask": config.bus_bytes,
            "last": 1,
            "timestamp": mark_bits(config),
        }
    )


def beat_layout(config: Config) -> data.StructLayout:
    """Return the layout of a beat: a write, and how to spread it.

    Bytes are written 1 << `spread` apart; `spread` is at least 1. Bytes above byte `top` are not
    part of the row; `mask` selects among the others. `address` is that of the beat's byte 0, and is
    used only for the first beat of a row (`begin`).
    """
    return data.StructLayout(
        {
            **piece_layout(config).members,
            "begin": 1,
            "spread": SPREAD_BITS,
            "top": (config.bus_bytes - 1).bit_length(),
        }
    )


class Spread(wiring.Component):
    """Spread the bytes of each beat over several writes of a beat's `width`.

    A write takes ``width >> spread`` bytes of the beat, at least one. The writes of a row are
    contiguous, and the last beat of a row has none beyond the row's last byte.

    Latency: one cycle from a beat to its first write. Throughput: one write per cycle, so 1 <<
    spread cycles for a full beat. Stalls: a beat is accepted when the last write of the previous
    beat is taken.

    Members
    -------
    i: stream of `beat_layout(config)`, in
        Beats.
    o: stream of `piece_layout(config)`, out
        Writes.
    """

    def __init__(self, config: Config):
        self._config = config
        self._width = config.bus_bytes
        self._last_spread = config.last_spread
        super().__init__(
            {
                "i": In(stream.Signature(beat_layout(config))),
                "o": Out(stream.Signature(piece_layout(config))),
            }
        )

    def elaborate(self, platform):
        """Return the module: the current beat, and a multiplexer of its bytes for each write."""
        m = Module()
        width, beat, piece = self._width, self.i.payload, self.o.payload
        spreads = range(1, self._last_spread + 1)
        current = Signal(beat_layout(self._config), reset_less=True)
        left = Signal(self._last_spread, reset_less=True)
        working = Signal()
        end = Signal()
        sent, taken = self.o.valid & self.o.ready, self.i.valid & self.i.ready

        m.d.comb += [
            end.eq(left == 0),
            self.o.valid.eq(working),
            self.i.ready.eq(~working | (end & self.o.ready)),
            piece.address.eq(current.address),
            # Bytes that the mask excludes are undefined.
            piece.data.eq(current.data),
            piece.mask.eq(
                Cat(
                    Cat(
                        (current.spread == spread) & current.mask[place >> spread]
                        for spread in spreads
                        if place % (1 << spread) == 0
                    ).any()
                    for place in range(width)
                )
            ),
            piece.last.eq(current.last & end),
            piece.timestamp.eq(current.timestamp),
        ]
        with m.Switch(current.spread):
            for spread in spreads:
                with m.Case(spread):
                    for index, place in enumerate(range(0, width, 1 << spread)):
                        m.d.comb += piece.data.word_select(place, 8).eq(
                            current.data.word_select(index, 8)
                        )

        with m.If(sent):
            m.d.sync += [
                working.eq(~end),
                left.eq(left - 1),
                current.address.eq(current.address + width),
            ]
            with m.Switch(current.spread):
                for spread in spreads:
                    with m.Case(spread):
                        m.d.sync += [
                            current.data.eq(current.data >> (8 * width >> spread)),
                            current.mask.eq(current.mask >> (width >> spread)),
                        ]
        with m.If(taken):
            m.d.sync += working.eq(1)
            m.d.sync += [
                current[name].eq(beat[name]) for name in beat.shape().members if name != "address"
            ]
            with m.If(beat.begin):
                m.d.sync += current.address.eq(beat.address)
            with m.Switch(beat.spread):
                for spread in spreads:
                    with m.Case(spread):
                        m.d.sync += left.eq(beat.top[len(beat.top) - spread :])
        return m
