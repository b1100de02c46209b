"""The dashboard as a whole: its routes, who may see them, and what every answer carries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from ...core.errors import NotSignedIn, OutlastError, Unavailable
from ...store.verbs import Store
from ...view.words import rfc3339
from ..access import Gate, Identity, must_be_no_worker
from ..asked import Asked, asked_of
from ..desk import Busy, Desk
from ..exchange import COOKIE, sent_token
from ..live import Drawn, Live, Sight
from . import forms
from .drawing import Drawing, Place
from .effects import EFFECTS
from .fleet import Fleet
from .health import HEALTH
from .home import HOME
from .orders import ORDERS, Orderable
from .page import Facts, Page
from .static import static
from .task import task_page
from .workers import DRAIN, WORKERS

Handler = Callable[[Request], Awaitable[Response]]
# Whoever may list the tasks may see the pages.
LOOK = "find"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Site:
    """Pages before a store, by way of a desk; `place` says which store and server these are."""

    def __init__(self, gate: Gate, desk: Desk, place: Place) -> None:
        self._gate, self._desk = gate, desk
        self._fleet = Fleet()
        self._drawing = Drawing(place)
        self._live = Live(desk, self._draw)
        self._pages = {
            page.name: page for page in (HOME, task_page(), WORKERS, EFFECTS, DRAIN, HEALTH)
        }

    @property
    def routes(self) -> Sequence[BaseRoute]:
        found: list[BaseRoute] = [
            Route("/static/{name}", static),
            Route("/sign-in", self._safe(self._sign_in), methods=["GET", "POST"]),
            Route("/sign-out", self._safe(self._sign_out), methods=["POST"]),
            Route("/live/{page}", self._safe(self._stream)),
        ]
        found += [
            Route(order.path, self._safe(self._ordering(order)), methods=["GET", "POST"])
            for order in ORDERS
        ]
        return [
            *found,
            *(Route(p.path, self._safe(self._showing(p))) for p in self._pages.values()),
        ]

    def leave(self) -> None:
        """What streams comes to its end."""
        self._live.leave()

    # -- pages ------------------------------------------------------------------------------------

    def _showing(self, page: Page) -> Handler:
        async def show(request: Request) -> Response:
            asked, token = asked_of(request, page.knows), sent_token(request)

            def look(store: Store) -> tuple[Identity, Facts]:
                who = self._identity(store, token, LOOK)
                return who, page.look(self._fleet, store, asked)

            who, facts = await self._desk.ask(look)
            stream = f"/live/{page.name}?{urlencode(asked.words)}" if page.live else ""
            return self._html(request, page.name, facts, who=who, stream=stream)

        return show

    async def _stream(self, request: Request) -> Response:
        page = self._pages.get(request.path_params["page"])
        if page is None or not page.live:
            return self._told(request, "There is no such page to watch", 404)
        asked, token = asked_of(request, page.knows), sent_token(request)
        who = await self._desk.ask(lambda store: self._identity(store, token, LOOK))
        self._live.must_have_room()
        messages = self._live.messages(Sight(page.name, asked, who.role))
        # Some proxies would keep it back until there is more.
        headers = HEADERS | {"x-accel-buffering": "no"}
        return StreamingResponse(messages, 200, headers, media_type="text/event-stream")

    def _draw(self, store: Store, sight: Sight) -> Drawn:
        page = self._pages[sight.page]
        try:
            facts = page.look(self._fleet, store, sight.asked)
        except (Unavailable, Busy):
            raise
        except OutlastError as error:  # its task was pruned
            return Drawn(self._drawing.gone(str(error)), rfc3339(store.now_ms()) or "")
        who = Identity("", sight.role)
        return Drawn(self._drawing.fragment(page.name, facts, who), rfc3339(facts["now_ms"]) or "")

    # -- orders -----------------------------------------------------------------------------------

    def _ordering(self, order: Orderable) -> Handler:
        async def ask_or_do(request: Request) -> Response:
            asked, token = asked_of(request, order.knows), sent_token(request)
            if request.method != "POST":
                return await self._asking(request, order, asked, token)
            self._gate.must_be_sent(token)  # before anything of it is read
            fields = await forms.form_of(request)

            def do(store: Store) -> str:
                who = self._identity(store, token, order.verb)
                return order.carry_out(store, asked, who, fields)

            try:
                where = await self._desk.ask(do)
            except (NotSignedIn, Unavailable, Busy):
                raise
            except OutlastError as error:
                return await self._asking(request, order, asked, token, fields, error)
            finally:
                self._fleet.forget()
            return self._sent_on(where)

        return ask_or_do

    async def _asking(
        self,
        request: Request,
        order: Orderable,
        asked: Asked,
        token: str,
        fields: Mapping[str, str] | None = None,
        error: OutlastError | None = None,
    ) -> Response:
        """The form of an order; with what was typed, and why it was not done, where it failed."""

        def look(store: Store) -> tuple[Identity, Facts]:
            who = self._identity(store, token, order.verb)
            try:
                asking = order.ask(store, asked)
            except OutlastError as now_wrong:
                raise error or now_wrong from None
            return who, {"asking": asking, "now_ms": store.now_ms()}

        who, facts = await self._desk.ask(look)
        facts |= {"action": _address(request), "typed": fields or {}, "error": error}
        return self._html(request, "order", facts, error.http_status if error else 200, who=who)

    # -- who asks ---------------------------------------------------------------------------------

    def _identity(self, store: Store, token: str, verb: str) -> Identity:
        """Raises NotSignedIn, Forbidden."""
        who = self._gate.identity(store, token)
        who.must(verb)
        must_be_no_worker(who)
        return who

    async def _sign_in(self, request: Request) -> Response:
        onward = _local(request.query_params.get("next", ""))
        if request.method != "POST":
            return self._html(request, "sign_in", {"onward": onward, "error": None})
        fields = await forms.form_of(request)
        token, onward = fields.get("token", "").strip(), _local(fields.get("next", ""))
        try:
            if not token:
                raise NotSignedIn("no token was given")
            await self._desk.ask(lambda store: self._gate.identity(store, token))
        except NotSignedIn as error:
            return self._html(request, "sign_in", {"onward": onward, "error": error}, 401)
        answer = self._sent_on(onward)
        _set_cookie(request, answer, COOKIE, token)
        return answer

    async def _sign_out(self, request: Request) -> Response:
        await forms.form_of(request)
        answer = self._sent_on("/sign-in")
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    # -- answers ----------------------------------------------------------------------------------

    def _safe(self, handler: Handler) -> Handler:
        """Whatever goes wrong is told on a page."""

        async def safe(request: Request) -> Response:
            try:
                return await handler(request)
            except NotSignedIn as error:
                facts = {"onward": _local(_address(request)), "error": error}
                return self._html(request, "sign_in", facts, error.http_status)
            except (Unavailable, Busy) as error:
                return self._html(request, "away", {"error": error, **self._last_known()}, 503)
            except OutlastError as error:
                return self._told(request, str(error), error.http_status)

        return safe

    def _last_known(self) -> Facts:
        """Nothing where tokens are asked for: nobody can be looked up now."""
        last = None if self._gate.asks_for_tokens else self._fleet.judged.last
        return {} if last is None else {"answer": last[0], "answer_ms": last[1]}

    def _told(self, request: Request, said: str, status: int) -> Response:
        return self._html(request, "told", {"said": said, "status": status}, status)

    def _html(
        self,
        request: Request,
        name: str,
        facts: Facts,
        status: int = 200,
        *,
        who: Identity | None = None,
        stream: str = "",
    ) -> Response:
        token = forms.form_token(request)
        html = self._drawing.page(
            name,
            facts,
            who=who,
            stream=stream,
            form_token=token,
            asks_for_tokens=self._gate.asks_for_tokens,
        )
        answer = Response(html, status, HEADERS, media_type="text/html")
        _set_cookie(request, answer, forms.COOKIE, token)
        return answer

    def _sent_on(self, where: str) -> Response:
        return RedirectResponse(where, 303, HEADERS)


def _address(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _local(address: str) -> str:
    """An address on this server, or its home page: nobody is sent elsewhere."""
    parts = urlsplit(address.replace("\\", "/"))
    is_ours = address.startswith("/") and not address.startswith("//") and not parts.netloc
    return address if is_ours and address.isprintable() and address.isascii() else "/"


def _set_cookie(request: Request, answer: Response, name: str, value: str) -> None:
    answer.set_cookie(
        name, value, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
