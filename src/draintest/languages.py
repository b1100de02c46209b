"""What is said on a wire: which message writes, and which answer says that it was written."""

from __future__ import annotations

import re
import struct
from typing import Protocol

TAIL = 4096


class Language(Protocol):
    """One connection, listened to from its first byte."""

    def writes(self, chunk: bytes) -> bool:
        """Whether what a client sends with these bytes writes something."""

    def has_written(self, chunk: bytes) -> bool:
        """Whether these bytes end the answer that something was written."""


class Postgres:
    """PostgreSQL's protocol, version 3."""

    WRITES = re.compile(rb"\b(insert\s+into|commit)\b", re.I)
    # The tag of a statement that has written rows, and the byte that says: no transaction is open.
    WROTE = re.compile(rb"(INSERT 0 [1-9]|COMMIT\0)")
    IDLE = b"Z\x00\x00\x00\x05I"

    def __init__(self) -> None:
        self._statements: dict[bytes, bytes] = {}
        self._sent = self._tail = b""
        self._awaited = False

    def writes(self, chunk: bytes) -> bool:
        text, writes = self._sent + chunk, False
        while len(text) >= 5:
            if text[:1] in (b"\x00", b"\x04"):  # a message of the start-up: no letter before it
                size = struct.unpack("!I", text[:4])[0]
            else:
                size = struct.unpack("!I", text[1:5])[0] + 1
            if size > len(text) or size < 4:
                break
            writes = self._statement(text[:1], text[5:size]) or writes
            text = text[size:]
        self._sent = text
        self._awaited = self._awaited or writes
        return writes

    def has_written(self, chunk: bytes) -> bool:
        tail = (self._tail + chunk)[-TAIL:]
        ended = tail.endswith(self.IDLE)
        written = self._awaited and ended and self.WROTE.search(tail) is not None
        self._tail = b"" if ended else tail
        self._awaited = self._awaited and not ended
        return written

    def _statement(self, kind: bytes, body: bytes) -> bool:
        """Remember what is prepared; True if what is run writes."""
        if kind == b"P":
            name, _, rest = body.partition(b"\0")
            self._statements[name] = rest.partition(b"\0")[0]
        if kind == b"B":
            name = body.partition(b"\0")[2].partition(b"\0")[0]
            return bool(self.WRITES.search(self._statements.get(name, b"")))
        return kind == b"Q" and bool(self.WRITES.search(body))


class Http:
    """Requests whose path says whether they write, and answers that say in JSON that they did."""

    WRITES = re.compile(rb"POST \S*/(append|begin) HTTP/1")
    WROTE = re.compile(rb'"(written|fresh)"')

    def __init__(self) -> None:
        self._tail = b""
        self._awaited = False

    def writes(self, chunk: bytes) -> bool:
        if self.WRITES.match(chunk) is None:
            return False
        self._tail, self._awaited = b"", True
        return True

    def has_written(self, chunk: bytes) -> bool:
        self._tail = (self._tail + chunk)[-TAIL:]
        if not self._awaited or not self.WROTE.search(self._tail):
            return False
        self._tail, self._awaited = b"", False
        return True
