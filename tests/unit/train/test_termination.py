"""SIGTERM in a rank: remembered, heeded, and obeyed where the training never comes by."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.feature("F7")

BEGINNING = """
import os, signal, time
from drumbeat.train.termination import TerminationRequest
request = TerminationRequest(lambda: 0.3)
os.kill(os.getpid(), signal.SIGTERM)
"""
NEVER_COMES_BY = BEGINNING + "time.sleep(60)"
HEEDS = (
    BEGINNING
    + """
while not request.is_set:
    time.sleep(0.01)
request.heed()
time.sleep(0.6)
os.kill(os.getpid(), signal.SIGTERM)
print("saved", flush=True)
request.close()
print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""
)
HAS_ITS_OWN = """
import signal
from drumbeat.train.termination import TerminationRequest
own = lambda number, frame: None
signal.signal(signal.SIGTERM, own)
TerminationRequest(lambda: 0.0).close()
print(signal.getsignal(signal.SIGTERM) is own)
"""

WITH_CHILDREN = """
import asyncio, multiprocessing, os, signal, threading, time
from drumbeat.train.termination import TerminationRequest
request = TerminationRequest(lambda: 60.0)
fork = multiprocessing.get_context("fork")
"""
ENDS_A_POOL = (
    WITH_CHILDREN
    + """
with fork.Pool(2) as pool:
    assert pool.map(abs, range(-4, 0)) == [4, 3, 2, 1]
    pool.apply_async(time.sleep, (3,))
    time.sleep(0.2)
time.sleep(0.2)
print(request.is_set)
"""
)
ENDS_A_CHILD = (
    WITH_CHILDREN
    + """
def end(forked_by):
    child = fork.Process(target=time.sleep, args=(60,))
    child.start()
    child.terminate()  # Perhaps in the first moments of the child.
    child.join()
    time.sleep(0.05)
    print(forked_by, child.exitcode, request.is_set, signal.pthread_sigmask(signal.SIG_BLOCK, ()))

for _ in range(10):
    end("main")
thread = threading.Thread(target=end, args=("thread",))
thread.start()
thread.join()
"""
)
CHILD_HAS_A_REQUEST_OF_ITS_OWN = (
    WITH_CHILDREN
    + """
def ask():
    own = TerminationRequest(lambda: 60.0)
    request.close()
    os.kill(os.getpid(), signal.SIGTERM)
    print(own.is_set, request.is_set, flush=True)
    own.close()
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True)

child = fork.Process(target=ask)
child.start()
child.join()
os.kill(os.getpid(), signal.SIGTERM)
print(child.exitcode, request.is_set)
request.close()
os.kill(os.getpid(), signal.SIGTERM)
"""
)
LEFT_TO_OTHERS = """
import os, signal
from drumbeat.train.termination import TerminationRequest
request = TerminationRequest(lambda: 60.0)
own, (reading, writing) = (lambda number, frame: None), os.pipe()
os.set_blocking(writing, False)
signal.signal(signal.SIGTERM, own)
signal.set_wakeup_fd(writing)
request.close()
print(signal.getsignal(signal.SIGTERM) is own, signal.set_wakeup_fd(-1) == writing)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)


def test_training_that_never_comes_by_is_ended():
    assert run(NEVER_COMES_BY).returncode == 143


def test_training_that_heeds_it_takes_its_time():
    done = run(HEEDS)
    assert (done.returncode, done.stdout) == (0, "saved\nTrue\n")


def test_handler_of_the_script_stays():
    assert run(HAS_ITS_OWN).stdout == "True\n"


def test_end_of_a_process_pool_asks_only_its_workers():
    assert run(ENDS_A_POOL).stdout == "False\n"


def test_sigterm_ends_a_forked_child_and_leaves_its_parent():
    done = run(ENDS_A_CHILD)
    assert (done.stdout, done.stderr) == ("main -15 False set()\n" * 10 + "thread -15 False set()\n", "")


def test_forked_child_may_train_alone():
    done = run(CHILD_HAS_A_REQUEST_OF_ITS_OWN)
    assert (done.stdout, done.returncode) == ("True False\nTrue\n0 True\n", -15)


def test_close_keeps_a_later_sigterm_handler():
    assert run(LEFT_TO_OTHERS).stdout == "True True\n"
