"""SIGTERM in a rank: remembered, heeded, and obeyed where the training never comes by."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.feature("T5")

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


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)


def test_training_that_never_comes_by_is_ended():
    assert run(NEVER_COMES_BY).returncode == 143


def test_training_that_heeds_it_takes_its_time():
    done = run(HEEDS)
    assert (done.returncode, done.stdout) == (0, "saved\nTrue\n")


def test_handler_of_the_script_stays():
    assert run(HAS_ITS_OWN).stdout == "True\n"
