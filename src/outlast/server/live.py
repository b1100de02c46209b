"""Live pages: one look a second at the store, however many watch, and what changed to all of them.

A stream carries three messages: `page`, a fragment of HTML, where it differs from the one before;
`beat`, the database's time of the last look; `lost`, why the store could not be looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec

from ..core.errors import Unavailable
from ..core.model import Role
from ..store.verbs import Store
from .asked import Asked
from .desk import Busy, Desk

LOOK_S = 1.0
STREAMS_MAX = 500
# A stream ends after this and the browser opens another: a token that was revoked sees no more.
STREAM_S = 120.0
# What is looked at in one second; where more different pages are watched, they take turns.
SIGHTS_PER_LOOK = 20
RETRY_MS = 1_000


class Sight(msgspec.Struct, frozen=True):
    """What somebody watches: a page, what it was asked for, and what this role may see of it."""

    page: str
    asked: Asked
    role: Role


class Drawn(msgspec.Struct, frozen=True):
    """A fragment of HTML and the moment it is of, both by the database."""

    html: str
    as_of: str


class Watched:
    """A sight with its watchers; `version` counts how often it has changed."""

    def __init__(self) -> None:
        self.html, self.as_of, self.lost = "", "", ""
        self.version = 0
        self.bells: set[asyncio.Event] = set()

    def show(self, drawn: Drawn) -> None:
        if drawn.html != self.html:
            self.html = drawn.html
            self.version += 1
        self.as_of, self.lost = drawn.as_of, ""

    def ring(self) -> None:
        for bell in self.bells:
            bell.set()


class Live:
    """The streams of a server; `draw` looks at the store and draws what a sight shows."""

    def __init__(self, desk: Desk, draw: Callable[[Store, Sight], Drawn]) -> None:
        self._desk, self._draw = desk, draw
        self._watched: dict[Sight, Watched] = {}
        self._streams = 0
        self._looking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left = asyncio.Event()
        self._leaving = False

    def leave(self) -> None:
        """All streams end, and no new one begins; from whatever thread."""
        self._leaving = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and with it all streams
                self._loop.call_soon_threadsafe(self._ring_all)

    def must_have_room(self) -> None:
        """Raises Busy."""
        if self._leaving:
            raise Busy("this server is leaving; nothing is streamed any more")
        if self._streams >= STREAMS_MAX:
            raise Busy(f"{self._streams} pages are watched already; reload this one by hand")

    async def messages(self, sight: Sight) -> AsyncIterator[str]:
        """What a browser is sent, from the first look on until the stream's time is over."""
        bell = asyncio.Event()
        watched = self._join(sight, bell)
        try:
            yield f"retry: {RETRY_MS}\n\n"
            seen, ends_s = 0, asyncio.get_running_loop().time() + STREAM_S
            while await _rung(bell, ends_s) and not self._leaving:
                text = _told(watched, seen)
                # Before it is sent: what changes meanwhile goes with the next one.
                seen = seen if watched.lost else watched.version
                yield text
        finally:
            self._part(sight, bell)

    # -- who watches ------------------------------------------------------------------------------

    def _join(self, sight: Sight, bell: asyncio.Event) -> Watched:
        self._streams += 1
        watched = self._watched.setdefault(sight, Watched())
        watched.bells.add(bell)
        self._loop = asyncio.get_running_loop()
        if self._leaving:
            bell.set()
        elif self._looking is None or self._looking.done():
            self._looking = self._loop.create_task(self._go_on_looking())
        return watched

    def _part(self, sight: Sight, bell: asyncio.Event) -> None:
        self._streams -= 1
        watched = self._watched[sight]
        watched.bells.discard(bell)
        if not watched.bells:
            del self._watched[sight]

    def _ring_all(self) -> None:
        self._left.set()
        for watched in self._watched.values():
            watched.ring()

    # -- the one who looks ------------------------------------------------------------------------

    async def _go_on_looking(self) -> None:
        while self._watched and not self._leaving:
            await self._look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), LOOK_S)

    async def _look(self) -> None:
        """Draw those whose turn it is, in one visit to the store, and tell who watches them."""
        turn = dict(list(self._watched.items())[:SIGHTS_PER_LOOK])
        try:
            drawn = await self._desk.ask(lambda store: self._draw_all(store, list(turn)))
        except (Unavailable, Busy) as error:
            for watched in turn.values():
                watched.lost = str(error)
        else:
            for sight, watched in turn.items():
                found = drawn[sight]
                if isinstance(found, Exception):
                    watched.lost = f"this page cannot be drawn ({type(found).__name__})"
                else:
                    watched.show(found)
        for sight, watched in turn.items():
            watched.ring()
            if sight in self._watched:  # to the end of the line
                self._watched[sight] = self._watched.pop(sight)

    def _draw_all(self, store: Store, sights: list[Sight]) -> dict[Sight, Drawn | Exception]:
        return {sight: self._draw_or_why(store, sight) for sight in sights}

    def _draw_or_why(self, store: Store, sight: Sight) -> Drawn | Exception:
        """One page that cannot be drawn must not take the others along."""
        try:
            return self._draw(store, sight)
        except Unavailable:
            raise
        except Exception as error:
            logging.getLogger(__name__).exception("a live page cannot be drawn")
            return error


async def _rung(bell: asyncio.Event, ends_s: float) -> bool:
    """Wait for the bell; False when the time is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(ends_s):
            await bell.wait()
            bell.clear()
            return True
    return False


def _told(watched: Watched, seen: int) -> str:
    if watched.lost:
        return _message("lost", watched.lost)
    page = _message("page", watched.html) if watched.version != seen else ""
    return page + _message("beat", watched.as_of)


def _message(event: str, text: str) -> str:
    # Whatever a browser takes for the end of a line would end the message's line, too.
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {event}\n{lines}\n"
