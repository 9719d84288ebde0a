"""Watches both ports of the chip in every cycle and fails the test at the first broken bus rule."""

from collections import deque

from cocotb.triggers import RisingEdge

from matloom.arch.bus_rules import CHANNELS, describe_broken_rule, region_registers
from matloom.arch.isa import Region

_INCR, _EXCLUSIVE_OKAY, _PAGE = 1, 1, 4096
_ATTRIBUTES = {"lock": 0, "cache": 3, "prot": 0, "qos": 0}

_ADDRESS = ("addr", "len", "size", "burst", "id", *_ATTRIBUTES)
_LITE_ADDRESS = ("addr", "prot")
_PAYLOADS = {
    "m_axi_ar": _ADDRESS,
    "m_axi_aw": _ADDRESS,
    "m_axi_w": ("data", "strb", "last"),
    "m_axi_r": ("id", "data", "resp", "last"),
    "m_axi_b": ("id", "resp"),
    "s_axil_ar": _LITE_ADDRESS,
    "s_axil_aw": _LITE_ADDRESS,
    "s_axil_w": ("data", "strb"),
    "s_axil_r": ("data", "resp"),
    "s_axil_b": ("resp",),
}


class _Channel:
    """Checks that the payload of one channel is stable until it is accepted."""

    def __init__(self, dut, prefix, require):
        self.prefix, self._require = prefix, require
        self._valid = getattr(dut, f"{prefix}valid")
        self._ready = getattr(dut, f"{prefix}ready")
        self._signals = {name: getattr(dut, prefix + name) for name in _PAYLOADS[prefix]}
        self._held = None

    @property
    def valid(self):
        """Whether the channel shows a payload."""
        return bool(int(self._valid.value))

    def clear(self):
        """Forget the payload that waits, as after a reset."""
        self._held = None

    def step(self):
        """Check one clock edge; return the payload if it was accepted, else None."""
        held = self._held
        if not self.valid:
            if held is not None:
                self._held = None
                self._require(False, "valid_stays", self.prefix, 0, next(iter(held.values())))
            return None
        payload = {name: int(signal.value) for name, signal in self._signals.items()}
        for name, before in (held or {}).items():
            now = payload[name]
            self._require(now == before, "payload_stays", self.prefix, now, before)
        taken = int(self._ready.value)
        self._held = None if taken else payload
        return payload if taken else None


class Monitor:
    """Checks every channel, and counts and records bursts.

    Members
    -------
    counts:
        Bursts and beats since `restart`, by the names of the chip's counters.
    reads, writes:
        (address, beats) of each burst since `restart`.

    Parameters
    ----------
    ignored:
        Names of rules that are not checked.
    """

    def __init__(self, dut, config, ignored=()):
        self._dut, self._config, self._ignored = dut, config, ignored
        self._channels = {name: _Channel(dut, name, self._require) for name in CHANNELS}
        self._cycle = self._reset_cycles = 0
        self.restart()
        self._forget()

    def restart(self):
        """Restart the counts and the records of bursts."""
        names = ("read_bursts", "read_beats", "write_bursts", "write_beats")
        self.counts = dict.fromkeys(names, 0)
        self.reads, self.writes = [], []

    def _forget(self):
        """Forget everything that is outstanding, as after a reset."""
        for channel in self._channels.values():
            channel.clear()
        # Beats that each read still owes, by ID; writes that wait for beats, and the reverse.
        self._read_ids = {0: deque(), 1: deque()}
        self._owed, self._beats = deque(), deque()
        self._unanswered = self._answerable = 0
        self._lite = {name: deque() for name in ("aw", "w")}
        self._lite_owed = {"s_axil_r": 0, "s_axil_b": 0}
        #: Writes of registers that await their answer.
        self._unsure = deque()
        self._registers = {}

    def _require(self, holds, rule, channel, value=0, limit=0):
        """Raise AssertionError, naming a rule and values, unless `holds` or the rule is ignored."""
        if not holds and rule not in self._ignored:
            raise AssertionError(describe_broken_rule(rule, channel, self._cycle, value, limit))

    @property
    def idle(self):
        """Whether neither side has anything outstanding."""
        return not (any(self._read_ids.values()) or self._owed or self._beats or self._unanswered)

    async def run(self):
        """Check every clock edge, forever."""
        edge = RisingEdge(self._dut.clk)
        while True:
            await edge
            self.step()

    def step(self):
        """Check one cycle."""
        if int(self._dut.rst.value):
            self._forget()
            self._reset_cycles += 1
            for name, chip in CHANNELS.items():
                quiet = not (chip and self._channels[name].valid)
                self._require(quiet, "reset_quiet", name, self._reset_cycles)
        else:
            self._reset_cycles = 0
            taken = {name: channel.step() for name, channel in self._channels.items()}
            # What is answered was asked for in an earlier cycle.
            reads = sum(map(len, self._read_ids.values())) + 1
            writes = self._unanswered + 1
            for name, judge in (
                ("m_axi_r", self._read),
                ("m_axi_b", self._response),
                ("m_axi_ar", lambda payload: self._read_address(payload, reads)),
                ("m_axi_aw", lambda payload: self._write_address(payload, writes)),
                ("m_axi_w", self._beat),
            ):
                if taken[name] is not None:
                    judge(taken[name])
            self._lite_step(taken)
        self._cycle += 1

    def _burst(self, name, payload, on_way):
        """Check an address; return the first and end bus address of its bytes."""
        width, address, beats = self._config.bus_bytes, payload["addr"], payload["len"] + 1
        first = address // width * width
        end = first + beats * width
        size = width.bit_length() - 1
        for rule, holds, value, limit in (
            ("burst_kind", payload["burst"] == _INCR, payload["burst"], _INCR),
            ("burst_size", payload["size"] == size, payload["size"], size),
            *(
                ("burst_attributes", payload[signal] == wanted, payload[signal], wanted)
                for signal, wanted in _ATTRIBUTES.items()
            ),
            ("burst_length", beats <= self._config.burst_beats, beats, self._config.burst_beats),
            ("burst_aligned", first == address, address, width),
            ("burst_page", first % _PAGE + beats * width <= _PAGE, address, end),
            ("outstanding", on_way <= self._config.outstanding, on_way, self._config.outstanding),
        ):
            self._require(holds, rule, name, value, limit)
        return first, end

    def _region(self, window):
        """Return the first and end bus address of a region, from the chip's registers."""
        base, size = (
            self._registers.get(offset, 0) for offset in (window.base_offset, window.bytes_offset)
        )
        return base, base + size

    def _inside(self, window, first, end):
        """Return whether whole beats touch a region and nothing beyond its edge beats."""
        width = self._config.bus_bytes
        base, limit = self._region(window)
        return limit > base and base // width * width <= first and end <= -(-limit // width) * width

    def _read_address(self, payload, on_way):
        """Check a read address, and record its burst."""
        first, end = self._burst("m_axi_ar", payload, on_way)
        open_to_it = [
            window
            for window in region_registers()
            if payload["id"] or window.region is Region.PROGRAM
        ]
        found = any(self._inside(window, first, end) for window in open_to_it)
        self._require(found, "read_window", "m_axi_ar", first, end)
        self._read_ids[payload["id"]].append(payload["len"] + 1)
        self.reads.append((payload["addr"], payload["len"] + 1))
        self.counts["read_bursts"] += 1

    def _read(self, payload):
        """Check a read beat against the oldest burst of its ID."""
        self.counts["read_beats"] += 1
        self._code("m_axi_r", payload)
        bursts = self._read_ids[payload["id"]]
        self._require(bool(bursts), "read_owed", "m_axi_r", payload["id"])
        if bursts:
            last = bursts[0] == 1
            self._require(payload["last"] == last, "read_last", "m_axi_r", payload["last"], last)
            bursts[0] -= 1
            if last:
                bursts.popleft()

    def _code(self, name, payload):
        """Check the response code of a payload."""
        code = payload["resp"]
        self._require(code != _EXCLUSIVE_OKAY, "response_code", name, code)

    def _write_address(self, payload, on_way):
        """Check a write address, and record its burst."""
        first, end = self._burst("m_axi_aw", payload, on_way)
        self._require(payload["id"] == 0, "burst_id", "m_axi_aw", payload["id"])
        found = any(
            window.writable and self._inside(window, first, end) for window in region_registers()
        )
        self._require(found, "write_window", "m_axi_aw", first, end)
        self._unanswered += 1
        self._owed.append((first, payload["len"] + 1, 0))
        self.writes.append((payload["addr"], payload["len"] + 1))
        self.counts["write_bursts"] += 1
        self._match()

    def _beat(self, payload):
        """Record a write beat, which is checked once its burst is known."""
        self.counts["write_beats"] += 1
        self._beats.append(payload)
        self._match()

    def _match(self):
        """Assign write beats to their bursts; beats may precede the address."""
        while self._owed and self._beats:
            first, beats, sent = self._owed[0]
            self._judge_beat(first + sent * self._config.bus_bytes, sent + 1, beats)
            self._beats.popleft()
            if sent + 1 < beats:
                self._owed[0] = first, beats, sent + 1
            else:
                self._owed.popleft()
                self._answerable += 1

    def _judge_beat(self, at, number, beats):
        """Check strobes and `last` of the oldest write beat, number `number` of its burst."""
        beat = self._beats[0]
        spans = [self._region(window) for window in region_registers() if window.writable]
        for byte in range(self._config.bus_bytes):
            inside = any(base <= at + byte < end for base, end in spans)
            allowed = inside or not beat["strb"] >> byte & 1
            self._require(allowed, "strobe_window", "m_axi_w", at + byte)
        self._require(beat["last"] == (number == beats), "write_last", "m_axi_w", number, beats)

    def _response(self, payload):
        """Check a write response: every burst whose beats came has one."""
        self._code("m_axi_b", payload)
        self._require(payload["id"] == 0, "response_id", "m_axi_b", payload["id"])
        self._require(self._answerable > 0, "response_owed", "m_axi_b", 0, self._answerable)
        if self._answerable:
            self._answerable -= 1
            self._unanswered -= 1

    def _lite_step(self, taken):
        """Check register responses, and record writes that place regions."""
        owed = self._lite_owed
        # A register that refuses a write, as a region's does in a run, keeps its value.
        if taken["s_axil_b"] is not None and self._unsure:
            offset, word = self._unsure.popleft()
            if taken["s_axil_b"]["resp"] == 0:
                self._write(offset, word)
        for name in owed:
            if taken[name] is not None:
                self._code(name, taken[name])
                self._require(owed[name] > 0, "answer_owed", name, 0, owed[name])
                owed[name] = max(0, owed[name] - 1)
        owed["s_axil_r"] += taken["s_axil_ar"] is not None
        for name, queue in self._lite.items():
            if taken[f"s_axil_{name}"] is not None:
                queue.append(taken[f"s_axil_{name}"])
        while all(self._lite.values()):
            address, word = (queue.popleft() for queue in self._lite.values())
            owed["s_axil_b"] += 1
            self._unsure.append((address["addr"] // 4 * 4, word))

    def _write(self, offset, word):
        """Record the bytes that a register write changes."""
        mask = sum(255 << 8 * byte for byte in range(4) if word["strb"] >> byte & 1)
        kept = self._registers.get(offset, 0) & ~mask
        self._registers[offset] = kept | word["data"] & mask
