"""Processes of the tests are real, and none outlives its test."""

import signal

import pytest

from tests.support import leftovers
from tests.support.processes import Processes
from tests.support.waiting import NeverHappened, until

SLEEPS = "import time; print('awake', flush=True); time.sleep(600)"
HAS_A_CHILD = """
import subprocess, time
print("child", subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
time.sleep(600)
"""


def test_output_and_exit_code_are_kept(processes):
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    run = processes.python("-c", program)
    assert run.wait() == 3
    assert run.output.splitlines() == ["out", "err"]
    assert (run.code, run.state()) == (3, "-")


def test_a_line_is_waited_for(processes):
    assert processes.python("-c", SLEEPS).wait_for_line("awake") == "awake"


def test_waiting_for_a_line_that_cannot_come_fails_with_the_output(processes):
    with pytest.raises(AssertionError, match=r"ended with 0 before 'never'[^\0]*something else"):
        processes.python("-c", "print('something else')").wait_for_line("never")


def test_waiting_for_the_end_of_one_that_goes_on_fails(processes):
    run = processes.python("-c", SLEEPS)
    run.wait_for_line("awake")
    with pytest.raises(NeverHappened, match=r"waited 0\.1 s for python to end"):
        run.wait(timeout_s=0.1)


def test_a_stopped_process_is_seen_to_be_stopped(processes):
    run = processes.python("-c", SLEEPS)
    run.wait_for_line("awake")
    run.send(signal.SIGSTOP)
    assert run.wait_for_state("T") == "T"
    run.send(signal.SIGCONT)
    assert run.wait_for_state("SR") in "SR"
    run.send(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL


def test_the_environment_and_the_folder_are_those_of_the_test(processes, tmp_path):
    program = "import os; print(os.environ['MINE'], os.getcwd())"
    run = processes.python("-c", program, environment={"MINE": "yes"}, folder=tmp_path)
    run.wait()
    assert run.output.split() == ["yes", str(tmp_path)]


def test_leaving_ends_everything_below_even_what_is_stopped_or_has_left_the_group(keeper):
    with Processes(keeper) as processes:
        run = processes.python("-c", HAS_A_CHILD)
        child = int(run.wait_for_line("child").split()[1])
        assert run.below() == [child]
        run.send(signal.SIGSTOP)
        run.wait_for_state("T")
    assert not leftovers.born(run.pid)
    until(lambda: not leftovers.born(child), "the child to end")


def test_a_program_of_any_name_is_started(processes):
    assert processes.start("true", name="nothing").wait() == 0
