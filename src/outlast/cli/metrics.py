"""`outlast metrics`: the metrics, printed once, or served for Prometheus on loopback."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import click

from ..core.errors import BadSetting
from ..metrics import CONTENT_TYPE, Collector, families, text
from .options import Session, common

PATHS = ("/metrics", "/")


@click.command("metrics")
@click.option("--port", type=click.IntRange(0, 65_535), help="Serve there; 0 takes a free one.")
@click.option("--address", default="127.0.0.1", show_default=True, metavar="ADDRESS")
@click.option("--any-address", is_flag=True, help="Allow an address that others can reach.")
@common
def metrics(session: Session, port: int | None, address: str, any_address: bool) -> int:
    """Print the metrics in Prometheus' text format; with --port serve them at /metrics.

    Anybody who reaches the port can read them: there are no tokens here.
    """
    if port is None:
        session.output.line(text(families(session.ask(lambda store: store.counts()))).rstrip())
        return 0
    _refuse_strangers(address, any_address)
    collector = _collector(session)
    # A wrong --db or schema is a line and an exit code now, not a scrape that fails for ever.
    session.ask(lambda store: store.counts())
    server = _server(address, port, collector.text)
    session.output.warn(f"metrics at http://{address}:{server.server_address[1]}/metrics")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return 0


def _refuse_strangers(address: str, allowed: bool) -> None:
    if address == "localhost" or allowed:
        return
    try:
        if ipaddress.ip_address(address).is_loopback:
            return
    except ValueError:
        pass
    raise BadSetting(
        f"--address {address} can be reached by others, and this small server knows no tokens; "
        "nothing was served. Keep to 127.0.0.1, or add --any-address if your network guards it"
    )


def _collector(session: Session) -> Collector:
    from .main import version

    return Collector(
        lambda: session.ask(lambda store: store.counts()),
        version=version(),
        monotonic_ms=session.env.clock.monotonic_ms,
    )


def _server(address: str, port: int, page: Callable[[], str]) -> ThreadingHTTPServer:
    # A store is for one thread at a time, and scrapes may overlap.
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in PATHS:
                self.send_error(404)
                return
            with lock:
                body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Scrapes are not news."""

    try:
        server = ThreadingHTTPServer((address, port), Handler)
    except OSError as error:
        raise BadSetting(
            f"nothing can be served at {address}:{port} ({error.strerror}); nothing was started"
        ) from error
    server.daemon_threads = True
    return server
