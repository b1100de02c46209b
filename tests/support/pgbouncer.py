"""Debian's pgbouncer, in transaction mode, before a server: what it breaks must break here."""

import signal
import socket

from tests.support import leftovers, programs
from tests.support.keeper import Keeper
from tests.support.postgres import PostgresServer, database_name, free_port
from tests.support.postgres_release import Account
from tests.support.waiting import until


class PgBouncer:
    """One pgbouncer on a loopback port of its own, started at once.

    `settings` are lines of its `[pgbouncer]` section: `pool_mode="session"` for instance.
    """

    def __init__(self, keeper: Keeper, server: PostgresServer, **settings: str) -> None:
        program = programs.require("pgbouncer")
        account = Account.of_servers()
        self.port = free_port()
        self.folder = keeper.new_folder("pgbouncer")
        account.give(self.folder)
        configuration = self.folder / "pgbouncer.ini"
        configuration.write_text(self._configuration(server, settings))
        configuration.chmod(0o644)
        self.log_path = self.folder / "log"
        with self.log_path.open("wb") as log:
            self._process = account.start(program, "pgbouncer.ini", folder=self.folder, output=log)
        keeper.adopt(self._process.pid)
        self._born = leftovers.born(self._process.pid)
        until(self._answers, "pgbouncer to listen", detail=self.log_path.read_text)

    def url(self, url_or_name: str) -> str:
        """The address of the same database, through pgbouncer."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database_name(url_or_name)}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """End it and remove its files."""
        leftovers.end(self.pid, self._born, polite=signal.SIGTERM)
        self._process.wait(timeout=10)
        leftovers.remove_folder(self.folder)

    def _configuration(self, server: PostgresServer, settings: dict[str, str]) -> str:
        section = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "pool_mode": "transaction",
            "auth_type": "any",
            "max_client_conn": "200",
            "default_pool_size": "10",
            "ignore_startup_parameters": "extra_float_digits",
            "admin_users": "postgres",
            **settings,
        }
        lines = [f"{name} = {value}" for name, value in section.items()]
        database = f"* = host=127.0.0.1 port={server.port} user=postgres"
        return "\n".join(["[databases]", database, "[pgbouncer]", *lines, ""])

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"pgbouncer ended:\n{self.log_path.read_text()}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
