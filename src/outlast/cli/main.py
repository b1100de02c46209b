"""The `outlast` command: finds the command's file, and turns errors into a line and a code."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from typing import Any

import click

from .. import __version__
from ..core import limits
from ..core.clock import Env
from ..core.errors import OutlastError

# command -> (its file, what it does), here so that `--help` need not load them all.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "Kill a worker in the middle of a task, and see another go on."),
    "worker": ("worker", "Run the agents of MODULE:APP."),
    "submit": ("submit", "Store a task for an agent."),
    "ps": ("ps", "Who owns what: the tasks, their owners, and what a deploy would do to them."),
    "show": ("show", "Everything about one task."),
    "log": ("log", "The events of one task."),
    "effects": ("effects", "What tasks did, or may have done, to the outside world."),
    "settle": ("effects", "Say how an effect in doubt ended."),
    "signal": ("orders", "Send a message that the task waits for."),
    "cancel": ("orders", "Ask a task to stop for good."),
    "retry": ("orders", "Open an ended or reviewed task again."),
    "revoke": ("orders", "Take a task away from its owner."),
    "queue": ("fleet", "Pause or resume a queue."),
    "drain": ("fleet", "Have workers hand over their tasks and leave."),
    "deploy-gate": ("fleet", "Is it safe to deploy? A sentence and an exit code."),
    "export": ("export", "Write logs out, for anybody to check."),
    "verify": ("export", "Check an exported file, without a store."),
    "prune": ("upkeep", "Remove tasks that ended long ago."),
    "migrate": ("upkeep", "Bring the store's tables to this version."),
    "doctor": ("upkeep", "Look for what is wrong with the store."),
    "up": ("up", "A worker and the server in one go, for one machine."),
    "serve": ("serve", "The store over HTTP, for workers elsewhere."),
    "webhook": ("webhook", "Who is told when something happens to a task."),
    "token": ("token", "Who may ask a server, and for what."),
    "metrics": ("metrics", "The metrics, once or served for Prometheus."),
    "drain-test": ("drain_test", "Harm workers on a store like yours, and judge."),
}
RUNS_CODE_OF_OTHERS = "outlast.worker.worker"
INTERRUPTED = 130
PIPE_CLOSED = 141


class Commands(click.Group):
    """The commands by name; a command's file is imported when the command is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f".{COMMANDS[cmd_name][0]}", __package__)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            answer = super().invoke(ctx)
            # What is still kept back may not be written either: said while it can be said.
            sys.stdout.flush()
            return answer
        except BrokenPipeError:
            # The reader has seen enough (`outlast log | head`). Click would say 1, like a failure.
            _write_no_more()
            return PIPE_CLOSED

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in COMMANDS.items()])


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 refused, 5 not safe to deploy, "
    "6 needs a person, 69 store unreachable, 70 lost its leases, 75 drain deadline passed, "
    "124 timed out.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda c, p, v: _version(c, v),
)
def outlast() -> None:
    """Durable tasks for AI agents: a task outlasts its worker."""


def run() -> int:
    """The `outlast` script: `main`, and a quick end where no code but ours has run.

    Taking the modules apart again would be a sixth of `outlast ps`. A worker, which has run code of
    others, ends as Python does, with what they have asked for at exit, in bounded time.
    """
    if sys.stdout is None:  # closed by the caller: nobody wants to read
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    code = main()
    if RUNS_CODE_OF_OTHERS in sys.modules:
        # Not for ever, though: a thread that code of others has left behind may never end.
        leaving = threading.Timer(limits.LAST_WORDS_MS / 1_000, os._exit, [code])
        leaving.daemon = True
        leaving.start()
        return code
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # `main` has seen it, and said its code
            stream.flush()
    os._exit(code)


def main(arguments: list[str] | None = None, env: Env | None = None) -> int:
    """Run one command; returns its exit code. A user's mistake is one line on stderr.

    `env`: the clock, for tests that move it by hand. Where `arguments` are given, the process is
    the caller's, and no worker is put into a fork of it.
    """
    defaults = {"worker": {"supervisor": False}} if arguments is not None else None
    try:
        return _code(
            outlast.main(
                args=arguments,
                prog_name="outlast",
                standalone_mode=False,
                obj=env,
                default_map=defaults,
            )
        )
    except OutlastError as error:
        return complain(str(error), error.exit_code)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        return _usage(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _write_no_more()
        return complain(f"the output cannot be written: {error.strerror}", OutlastError.exit_code)


def complain(message: str, code: int) -> int:
    """One line on stderr, whatever the message holds; the code counts, even where nobody reads."""
    with contextlib.suppress(OSError):
        click.echo("outlast: " + " ".join(message.split()), err=True)
    return code


def _write_no_more() -> None:
    """Python must not flush into a pipe that is closed, or a disk that is full, at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    hint = f". See `{context.command_path} --help`" if context is not None else ""
    return complain(error.format_message().rstrip(".") + hint, error.exit_code)


def _code(answer: Any) -> int:
    return answer if isinstance(answer, int) else 0


def _version(context: click.Context, wanted: bool) -> None:
    if wanted:
        click.echo(f"outlast {version()}")
        context.exit(0)


def version() -> str:
    """The version of this code."""
    return __version__
