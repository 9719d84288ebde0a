"""Watches the chip's bus in every cycle and fails the test at the first breach of AXI's rules."""

from collections import deque

from cocotb.triggers import RisingEdge

_INCR = 1
_PAGE = 4096


class Channel:
    """One channel that the chip drives: what is shown stays until it is taken."""

    def __init__(self, dut, prefix, names):
        self.prefix = prefix
        self._valid = getattr(dut, f"{prefix}valid")
        self._ready = getattr(dut, f"{prefix}ready")
        self._signals = [getattr(dut, prefix + name) for name in names]
        self._held = None

    def clear(self):
        self._held = None

    def step(self):
        """Look at one clock edge; return the payload where it was taken, else None."""
        if not int(self._valid.value):
            assert self._held is None, f"{self.prefix}valid fell before {self.prefix}ready"
            return None
        payload = tuple(int(signal.value) for signal in self._signals)
        assert self._held in (None, payload), (
            f"{self.prefix} changed from {self._held} to {payload} before it was taken"
        )
        taken = int(self._ready.value)
        self._held = None if taken else payload
        return payload if taken else None


class Monitor:
    """Checks every channel, and counts and remembers bursts.

    Members
    -------
    counts:
        Bursts and beats since `restart`, by the names of the chip's counters.
    reads, writes:
        (address, beats) of each burst since `restart`.
    """

    def __init__(self, dut, config):
        self._dut, self._config = dut, config
        address = ("addr", "len", "size", "burst", "id")
        self._ar, self._aw = (Channel(dut, f"m_axi_{name}", address) for name in ("ar", "aw"))
        self._w = Channel(dut, "m_axi_w", ("data", "strb", "last"))
        self._register_channels = (
            Channel(dut, "s_axil_b", ("resp",)),
            Channel(dut, "s_axil_r", ("data", "resp")),
        )
        self.restart()
        self._forget()

    def restart(self):
        names = ("read_bursts", "read_beats", "write_bursts", "write_beats")
        self.counts = dict.fromkeys(names, 0)
        self.reads, self.writes = [], []

    def _forget(self):
        for channel in (self._ar, self._aw, self._w, *self._register_channels):
            channel.clear()
        self._read_ids = {0: deque(), 1: deque()}
        self._owed_beats, self._sent_bursts, self._beats = deque(), deque(), 0
        self._owed_responses = 0

    @property
    def idle(self):
        """Nothing is owed by either side."""
        return not (
            any(self._read_ids.values())
            or self._owed_beats
            or self._sent_bursts
            or self._beats
            or self._owed_responses
        )

    async def run(self):
        edge, reset = RisingEdge(self._dut.clk), self._dut.rst
        while True:
            await edge
            if int(reset.value):
                self._forget()
                continue
            self._read()
            self._write()
            for channel in self._register_channels:
                channel.step()

    def _burst(self, channel, payload):
        """Check an address; return its number of beats."""
        address, length, size, kind, _id = payload
        width = self._config.bus_bytes
        beats = length + 1
        assert kind == _INCR, f"{channel.prefix}burst must be INCR, not {kind}"
        assert 1 << size == width, f"{channel.prefix}size must be the bus width, not {1 << size}"
        assert beats <= self._config.burst_beats, f"{channel.prefix}len is {length}"
        first = address // width * width
        assert first % _PAGE + beats * width <= _PAGE, (
            f"a burst must stay within 4 KiB: {address:#x} with {beats} beats"
        )
        return beats

    def _read(self):
        payload = self._ar.step()
        if payload is not None:
            beats = self._burst(self._ar, payload)
            self._read_ids[payload[4]].append(beats)
            self.reads.append((payload[0], beats))
            self.counts["read_bursts"] += 1
            on_way = sum(len(bursts) for bursts in self._read_ids.values())
            assert on_way <= self._config.outstanding, f"{on_way} reads are outstanding"
        dut = self._dut
        if int(dut.m_axi_rvalid.value) and int(dut.m_axi_rready.value):
            self.counts["read_beats"] += 1
            if int(dut.m_axi_rlast.value):
                self._read_ids[int(dut.m_axi_rid.value)].popleft()

    def _write(self):
        payload = self._aw.step()
        if payload is not None:
            beats = self._burst(self._aw, payload)
            self._owed_beats.append(beats)
            self.writes.append((payload[0], beats))
            self.counts["write_bursts"] += 1
            self._owed_responses += 1
            assert self._owed_responses <= self._config.outstanding, (
                f"{self._owed_responses} writes are outstanding"
            )
        beat = self._w.step()
        if beat is not None:
            self.counts["write_beats"] += 1
            self._beats += 1
            if beat[2]:
                self._sent_bursts.append(self._beats)
                self._beats = 0
        # Data may precede their address, so the two meet only now.
        while self._owed_beats and self._sent_bursts:
            owed, sent = self._owed_beats.popleft(), self._sent_bursts.popleft()
            assert owed == sent, f"wlast must come with beat {owed} of a burst, not {sent}"
        if self._owed_beats:
            assert self._beats < self._owed_beats[0], "a burst must end with wlast"
        dut = self._dut
        if int(dut.m_axi_bvalid.value) and int(dut.m_axi_bready.value):
            self._owed_responses -= 1
