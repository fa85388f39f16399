"""What the holder of a lab says of a node that can't be made."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.feature("C7")

START = """
import ctypes, os
from pathlib import Path
from drumbeat.engines.netlab import lab_holder
if os.getuid() == 0:
    os.setuid(65534)  # Who may make no namespaces.
try:
    lab_holder._start_node(Path("."), {"name": "n1", "number": 1, "address": "10.0.0.2"})
except OSError as error:
    print(error)
"""


def test_node_whose_namespaces_cant_be_made_says_why():
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[Errno 1] node n1 didn't come up: [Errno 1] unshare: Operation not permitted"
