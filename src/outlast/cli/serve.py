"""`outlast serve`: the store over HTTP for workers elsewhere, and metrics."""

from __future__ import annotations

import importlib.util

import click

from ..core.errors import BadSetting
from ..core.model import Role
from ..store.open import open_store
from .options import Session, common

PORT = 8700
ROLES = ("viewer", "operator", "admin")
LOOPBACK = ("127.0.0.1", "::1")


@click.command("serve")
@click.option("--address", default="127.0.0.1", show_default=True, metavar="ADDRESS")
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True)
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A name it is asked for by.")
@click.option("--reuse-port", is_flag=True, help="Others may serve at this port, beside us.")
@click.option("--trust-header", metavar="NAME", help="Where a proxy of yours says who somebody is.")
@click.option("--trust-from", multiple=True, metavar="IP", help="Its address; loopback by default.")
@click.option("--trust-role", type=click.Choice(ROLES), default="viewer", show_default=True)
@click.option("--task-metrics", is_flag=True, help="Serve /metrics/tasks: a series a held task.")
@click.option("--tokens", is_flag=True, help="Ask for tokens on loopback, too.")
@common
def serve(
    session: Session,
    address: str,
    port: int,
    hosts: tuple[str, ...],
    reuse_port: bool,
    task_metrics: bool,
    trust_header: str | None,
    trust_from: tuple[str, ...],
    trust_role: Role,
    tokens: bool,
) -> int:
    """Serve the store at http://ADDRESS:PORT until SIGTERM or Ctrl-C.

    On loopback everybody on this machine is let in, unless --tokens is given. Any other address
    asks for tokens, and needs --host with the names under which it is reached.
    """
    need_server_extra()
    from ..server import app
    from ..server.access import Proxy
    from ..server.serve import Listening
    from ..server.serve import serve as go_on
    from .main import version

    here = app.is_loopback(address)
    # Whoever a proxy vouches for is somebody; anybody else must then show a token.
    asks = tokens or not here or trust_header is not None
    if not here and not hosts:
        raise BadSetting(
            f"--address {address} can be reached by others, and it is not said by which name; "
            "nothing was served. Add --host NAME, as often as there are names"
        )
    if asks and trust_header is None:
        _need_a_token(session, address)
    session.ask(lambda store: store.now_ms(), create=True)
    server = app.Server(
        lambda: open_store(session.db, env=session.env),
        asks_for_tokens=asks,
        hosts=(*app.HERE, *hosts),
        version=version(),
        env=session.env,
        task_metrics=task_metrics,
        store_url=session.db,
        proxy=Proxy(trust_header, trust_role, frozenset(trust_from or LOOPBACK))
        if trust_header
        else None,
    )
    listening = Listening(address, port, shared=reuse_port)
    shown = f"http://{address}:{listening.port}"
    server.notices.start()
    go_on(server, listening, up=lambda: session.output.warn(f"outlast serves at {shown}"))
    return 0


def need_server_extra() -> None:
    """Raises BadSetting."""
    for needed in ("starlette", "uvicorn", "jinja2"):
        if importlib.util.find_spec(needed) is None:
            raise BadSetting(
                f"{needed} is not installed, and nothing was served; pip install 'outlast[server]'"
            )


def _need_a_token(session: Session, address: str) -> None:
    """Without one nobody could come in, or somebody would wonder why nobody can."""
    kept = session.ask(lambda store: (store.tokens(), store.now_ms()), create=True)
    tokens, now_ms = kept
    good = [t for t in tokens if t.revoked_ms is None and (t.expires_ms or now_ms + 1) > now_ms]
    if not good:
        raise BadSetting(
            f"a server at {address} asks for tokens, and this store has none that is good; nothing "
            "was served. Make one with `outlast token create NAME --role ROLE`"
        )
