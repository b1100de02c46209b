"""How well a reaper has watched: a lease that lapses unseen may have an owner that was kept away.

An outage a little shorter than a lease ends before the lease does; a look right after it sees
nothing lapsed, and the next one, a moment later, would find a live owner dead. So a reaper is not
sure of a lease until it has watched for half its TTL without a gap of that length.
"""

from __future__ import annotations

import msgspec

from . import limits

FOR_EVER_MS = limits.INTEGER_MAX
Gap = tuple[int, int]


class Vigil(msgspec.Struct, frozen=True):
    """The looks of one reaper. `gaps`: (length, when it ended), longer ones first."""

    server: str = ""
    looked_ms: int | None = None
    gaps: tuple[Gap, ...] = ()

    def looked(self, server: str, now_ms: int) -> Vigil:
        """After a look, at the database's time; another server, or time gone back, is a gap."""
        length_ms = FOR_EVER_MS
        if self.looked_ms is not None and server == self.server and now_ms >= self.looked_ms:
            length_ms = now_ms - self.looked_ms
        # A gap hides those before it that were no longer; the shortest matter to no lease.
        kept = tuple(gap for gap in self.gaps if gap[0] > length_ms)
        if length_ms > limits.TTL_MIN_MS // 2:
            kept = (*kept, (length_ms, now_ms))
        return Vigil(server, now_ms, kept)

    def is_sure(self, now_ms: int, ttl_ms: int) -> bool:
        """Whether a lapsed lease of this TTL may be declared dead by who has watched like this."""
        half_ms = ttl_ms // 2
        return all(length <= half_ms or now_ms - end >= half_ms for length, end in self.gaps)
