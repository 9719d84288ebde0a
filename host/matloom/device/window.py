"""Window of requests in flight on the host link: frames to send, losses, and answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from matloom.arch.link import WINDOW_REQUESTS, Request, Status
from matloom.device.frames import Reply, request_frame


@dataclass(frozen=True, kw_only=True)
class LinkRequest:
    """A request on the host link, without kind and sequence number.

    `length` is the number of bytes to read or write, `data` the bytes to write.
    """

    length: int
    address: int
    data: bytes = b""


class RequestWindow:
    """Requests of one kind, up to `WINDOW_REQUESTS` of them in flight at a time.

    The line keeps the order in both directions. So if a request has been answered and an earlier
    one has not, the earlier request or its answer was lost. It is then sent again under the same
    number, so that nothing is executed twice. A request that the device refuses because an earlier
    one was lost is also sent again.

    Members
    -------
    answers:
        Data of the reply to each request; None if it has not arrived.
    error:
        First request that failed, and its status; None if none failed.
    """

    def __init__(self, kind: Request, requests: Sequence[LinkRequest], first: int) -> None:
        self.kind, self._requests, self._first = kind, list(requests), first
        self.answers: list[bytes | None] = [None] * len(requests)
        self.error: tuple[LinkRequest, Status] | None = None
        self._attempts = [0] * len(requests)
        self._sent: dict[int, int] = {}
        self._clock, self._base, self._reached = 0, 0, 0
        #: Number of times that a request was treated as lost, to be sent again.
        self.repeats = 0

    @property
    def is_complete(self) -> bool:
        """Whether every request has been answered."""
        return self._base == len(self.answers)

    @property
    def lengths(self) -> frozenset[int]:
        """Data lengths that replies to these requests may have."""
        reads = self.kind not in (Request.WRITE_REGISTERS, Request.WRITE_MEMORY)
        return frozenset({0, *(item.length for item in self._requests if reads)})

    def frames(self) -> bytes:
        """Return the frames to send now, of requests not sent yet or lost; count them as sent."""
        frames = bytearray()
        for index in range(self._base, min(self._base + WINDOW_REQUESTS, len(self.answers))):
            if self.answers[index] is None and index not in self._sent:
                item = self._requests[index]
                number = self._first + index & 255
                attempt = self._attempts[index]
                frames += request_frame(
                    self.kind, number, item.length, item.address, item.data, attempt
                )
                self._sent[index] = self._clock
                self._clock += 1
                self._reached = max(self._reached, index + 1)
        return bytes(frames)

    def mark_all_lost(self) -> None:
        """Treat all unanswered requests as lost, so that `frames` returns them again."""
        self._mark_lost(list(self._sent))

    def _mark_lost(self, indices: Sequence[int]) -> None:
        """Treat requests as lost, so that they are sent again."""
        self.repeats += len(indices)
        for index in indices:
            del self._sent[index]
            self._attempts[index] = (self._attempts[index] + 1) % 16

    def accept(self, reply: Reply) -> bool:
        """Process a reply; return whether it answers a request.

        Requests that it shows to be lost or refused are sent again.
        """
        if reply.status == Status.BAD_FRAME:
            # The reply does not name a request; most likely it belongs to the oldest in flight.
            self._mark_lost(sorted(self._sent, key=self._sent.__getitem__)[:1])
            return False
        index = self._base + ((reply.sequence - self._first - self._base) & 255)
        if reply.kind != self.kind or index not in self._sent:
            return False
        current = reply.attempt == self._attempts[index]
        if reply.status == Status.SEQUENCE and not current:
            return False
        if current:
            order = self._sent[index]
            self._mark_lost([other for other in self._sent if self._sent[other] < order])
        if reply.status == Status.SEQUENCE:
            self._mark_lost([index])
            return False
        if reply.status == Status.OKAY and len(reply.data) != self._answer_bytes(index):
            return False
        self._store_answer(index, reply)
        return True

    def _answer_bytes(self, index: int) -> int:
        """Return the number of bytes in a request's answer."""
        return 0 if self._requests[index].data else self._requests[index].length

    def _store_answer(self, index: int, reply: Reply) -> None:
        """Store the answer to a request, and advance the window over answered requests."""
        del self._sent[index]
        self.answers[index] = reply.data
        if reply.status != Status.OKAY and self.error is None:
            self.error = (self._requests[index], Status(reply.status))
            # Requests that were not sent yet are dropped.
            del self.answers[self._reached :]
        while self._base < len(self.answers) and self.answers[self._base] is not None:
            self._base += 1
