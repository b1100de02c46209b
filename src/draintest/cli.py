"""The `draintest` command: run, list, show, verify."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click

from . import compare as comparison
from . import evidence, own_agent
from .makers import OutlastMaker, maker
from .makers import own_agent as find_agent
from .once import play
from .peers import maker as peers
from .plan import KINDS, PROFILES, Wanted, make
from .progress import progress
from .run import Maker
from .scenarios import Scenario
from .soak import soak
from .target import CannotSay, Limits
from .verdict import FAIL, INCONCLUSIVE, UNSUPPORTED, Verdict
from .waiting import BrokenOff

INTERRUPTED = 130
USAGE = 2
MARKS = {
    "pass": "pass",
    "fail": "FAIL",
    "inconclusive": "INCONCLUSIVE",
    "unsupported": "unsupported",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def draintest() -> None:
    """Harm real workers, and judge from outside whether anything was lost or done twice."""


@draintest.command()
@click.argument("target", default="outlast")
@click.option(
    "--db",
    default="",
    envvar="DRAINTEST_DB",
    metavar="URL",
    help="A PostgreSQL, where a schema is made and dropped; or `embedded`: one of our own.",
)
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="quick")
@click.option("--faults", default=",".join(KINDS), metavar="LIST", help="Which kinds of harm.")
@click.option("--only", multiple=True, metavar="NAME", help="Scenarios that begin so.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the random programs.")
@click.option("--hours", type=float, help="Run after run with new seeds, until one does not pass.")
@click.option("--lanes", type=click.IntRange(1, 64), default=6, show_default=True)
@click.option("--ttl-ms", type=click.IntRange(100), help="The lease that the target is given.")
@click.option("--grace-ms", type=click.IntRange(100), help="The grace of a drain.")
@click.option("--evidence", "folder", metavar="FOLDER", help="Where to keep it; new or empty.")
@click.option("--json", "as_json", is_flag=True, help="The verdict as JSON on stdout.")
@click.option(
    "--servers",
    type=click.IntRange(0, 8),
    default=0,
    help="Over HTTP, by so many servers.",
)
@click.option("--agent", default="", metavar="MODULE:APP", help="Your own agent as the workload.")
@click.option("--agent-name", default="", metavar="NAME", help="Which agent, if there are many.")
@click.option("--agent-input", default="{}", metavar="JSON", help="Its arguments by name.")
@click.option("--agent-seconds", default=2.0, metavar="S", help="How long it lasts, about.")
def run(
    target: str, as_json: bool, folder: str | None, lanes: int, hours: float | None, **options: Any
) -> None:
    """Run the test against TARGET: outlast, a file.toml, or MODULE:FUNCTION.

    Exit code 0 pass, 1 fail, 2 inconclusive.
    """
    wanted = _wanted(options)
    limits = {n: options[n] for n in ("ttl_ms", "grace_ms") if options[n] is not None}
    made = _maker(target, options, limits)
    scenarios = make(wanted)
    if options["agent"]:
        scenarios = own_agent.scenarios(wanted.seed, options["agent_seconds"], wanted.faults)
        wanted = replace(wanted, only=("own-",))
    if not scenarios:
        raise click.UsageError("no scenario is left to be run; see `draintest list`")
    # Last: a wish that cannot be had leaves no folder behind.
    place = _folder(folder)
    command = _again(target, wanted, options, lanes)
    began = time.monotonic()
    if hours is not None:
        _soak(target, options, limits, wanted, place, lanes, hours)
    verdict = _run(made, scenarios, place, lanes, wanted, command)
    if as_json:
        click.echo(json.dumps(verdict.plain()))
    else:
        _print(verdict, time.monotonic() - began)
    click.echo(f"evidence: {place / 'report.html'}", err=as_json)
    if verdict.exit_code:
        click.echo(f"again: {shlex.join(command)}", err=True)
    sys.exit(verdict.exit_code)


@draintest.command("list")
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="quick")
@click.option("--seed", type=int, default=1)
def list_(profile: str, seed: int) -> None:
    """The scenarios of a profile, and the faults each of them needs."""
    for scenario in make(Wanted(profile=profile, seed=seed)):
        harms = ", ".join(scenario.harms) or "no harm"
        click.echo(f"{scenario.name:28} {harms}")


@draintest.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--line", "lines", type=int, multiple=True, help="Print these lines of the history.")
def show(folder: Path, lines: tuple[int, ...]) -> None:
    """The verdict of an evidence folder, and the records behind its findings."""
    told = json.loads((folder / "verdict.json").read_text())
    history = (folder / "history.jsonl").read_text().splitlines()
    for number in lines:
        click.echo(history[number - 1])
    if lines:
        return
    click.echo(f"{MARKS[told['verdict']]}  {_figures(told['figures'])}")
    for check in told["checks"]:
        click.echo(f"{check['check']:4} {MARKS[check['verdict']]:13} {check['promise']}")
        for finding in check["findings"]:
            click.echo(f"     {finding['scenario']}: {finding['said']}")
            for number in finding["lines"]:
                click.echo(f"       {history[number - 1][:200]}")
    for scenario in told["scenarios"]:
        if scenario["verdict"] == INCONCLUSIVE:
            click.echo(f"{scenario['scenario']}: {scenario['why']}")


@draintest.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def verify(folder: Path) -> None:
    """Whether an evidence folder is as it was written, and its verdict follows from its history."""
    wrong = evidence.verify(folder)
    for said in wrong:
        click.echo(said)
    if wrong:
        sys.exit(1)
    click.echo(f"{folder}: as it was written; the verdict follows from the history")


@draintest.command("compare")
@click.argument("systems", nargs=-1)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--lanes", type=click.IntRange(1, 64), default=4, show_default=True)
@click.option("--only", multiple=True, metavar="NAME", help="Scenarios that begin so.")
@click.option("--evidence", "folder", metavar="FOLDER", help="Where to keep it; new or empty.")
def compare_(
    systems: tuple[str, ...], seed: int, lanes: int, only: tuple[str, ...], folder: str | None
) -> None:
    """Put Outlast (on PostgreSQL) and its peers through the same scenarios; write the table.

    SYSTEMS: some of those there are adapters for; all, where none is named. Each peer is installed
    into an environment of its own. Exit code 0, whatever came of it.
    """
    known = ["outlast", *peers.names()]
    if unknown := set(systems) - set(known):
        raise click.UsageError(f"unknown {sorted(unknown)}; there are {', '.join(known)}")
    place = _folder(folder)
    wanted = Wanted(faults=comparison.FAULTS, seed=seed, only=only)

    def play_one(system: str) -> comparison.Compared:
        made = maker(system, "embedded" if system == "outlast" else "", {})
        command = ["draintest", "run", system, "--seed", str(seed)]
        verdict = _run(made, make(wanted), place / system, lanes, wanted, command)
        told = json.loads((place / system / "env.json").read_text())
        configured = getattr(made, "peer", {}).get("configured", "`outlast worker --no-supervisor`")
        return comparison.Compared(system, told["target"], configured, verdict)

    chosen = [name for name in known if name in systems] if systems else known
    compared = comparison.compare(chosen, play_one, lambda said: click.echo(said, err=True))
    again = ["draintest", "compare", *chosen, "--seed", str(seed), "--lanes", str(lanes)]
    path = comparison.write(place, compared, seed, again)
    click.echo(path.read_text())
    click.echo(f"evidence: {place}", err=True)


def main() -> None:
    """The console script."""
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        draintest(prog_name="draintest", standalone_mode=True)
    except BrokenOff:
        click.echo("draintest: broken off; everything that it had made is gone", err=True)
        sys.exit(INTERRUPTED)


def _soak(
    target: str,
    options: dict[str, Any],
    limits: dict[str, int],
    wanted: Wanted,
    place: Path,
    lanes: int,
    hours: float,
) -> NoReturn:
    """Each run on a target that is made anew; exits with the last one's code."""

    def play_once(seed: int, folder: Path) -> Verdict:
        this = replace(wanted, seed=seed)
        command = _again(target, this, options, lanes)
        return _run(_maker(target, options, limits), make(this), folder, lanes, this, command)

    done = soak(hours, wanted.seed, place, play_once, lambda said: click.echo(said, err=True))
    assert done.last is not None
    click.echo(f"{MARKS[done.last.verdict].upper()}  {done.runs} runs · {_figures(done.figures)}")
    if done.last.exit_code:
        click.echo(str(done.last))
    click.echo(f"evidence: {place}")
    sys.exit(done.last.exit_code)


def _run(
    made: Maker,
    scenarios: list[Scenario],
    place: Path,
    lanes: int,
    wanted: Wanted,
    command: list[str],
) -> Verdict:
    with progress(len(scenarios)) as tell:
        return play(made, scenarios, place, lanes, wanted, command, tell)


def _wanted(options: dict[str, Any]) -> Wanted:
    faults = tuple(filter(None, options["faults"].split(",")))
    if unknown := set(faults) - set(KINDS):
        raise click.UsageError(f"unknown faults {sorted(unknown)}; there are {', '.join(KINDS)}")
    ordered = tuple(kind for kind in KINDS if kind in faults)
    return Wanted(options["profile"], ordered, options["seed"], tuple(options["only"]))


def _maker(target: str, options: dict[str, Any], limits: dict[str, int]) -> Maker:
    try:
        if options["agent"] and target == "outlast":
            told = [options[name] for name in ("agent", "agent_name", "agent_input")]
            own = find_agent(*told)
            return OutlastMaker(options["db"], Limits(**limits), own, options["servers"])
        return maker(target, options["db"], limits, options["servers"])
    except (OSError, ValueError, ImportError, AttributeError, CannotSay) as error:
        raise click.UsageError(f"{target!r} is no target: {error}") from error


def _folder(folder: str | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="evidence-of-draintest-"))
    place = Path(folder)
    if place.exists() and any(place.iterdir()):
        raise click.UsageError(f"{place} is not empty; evidence is never written over")
    place.mkdir(parents=True, exist_ok=True)
    return place


def _again(target: str, wanted: Wanted, options: dict[str, Any], lanes: int) -> list[str]:
    """The command that repeats this run; an address is named, not shown, for its password."""
    words = ["draintest", "run", target, "--profile", wanted.profile, "--seed", str(wanted.seed)]
    words += ["--faults", ",".join(wanted.faults), "--lanes", str(lanes)]
    words += [word for name in wanted.only if name != "own-" for word in ("--only", name)]
    if options["agent"]:
        for name in ("agent", "agent_name", "agent_input", "agent_seconds"):
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    for name in ("ttl_ms", "grace_ms", "servers"):
        if options[name]:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    return [*words, "--db", "URL"] if options["db"] else words


def _print(verdict: Verdict, seconds: float) -> None:
    for check in verdict.checks:
        idle = not check.seen and not check.findings and check.verdict != UNSUPPORTED
        mark = "not looked at" if idle else MARKS[check.verdict]
        click.echo(f"{check.check:4} {mark:13} {check.promise} (seen {check.seen})")
        for finding in check.findings[:5]:
            click.echo(f"       {finding.scenario}: {finding.said} {list(finding.lines)}")
    for scenario in verdict.scenarios:
        if scenario.verdict in (INCONCLUSIVE, FAIL):
            click.echo(f"  {MARKS[scenario.verdict]} {scenario.scenario}: {scenario.why}")
    for each in verdict.classes:
        click.echo(f"     {each.said}")
    click.echo(f"{MARKS[verdict.verdict].upper()}  {_figures(verdict.figures)} · {seconds:.1f} s")


def _figures(f: Mapping[str, int]) -> str:
    return (
        f"{f['scenarios']} scenarios · {f['faults']} faults landed · {f['effects']} effects · "
        f"{f['resumes']} resumes"
    )
