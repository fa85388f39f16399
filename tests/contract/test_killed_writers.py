"""Writers killed with SIGKILL at random instants: what was acknowledged is there, and nothing is half there."""

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from drumbeat.server.database import make_store
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.jobs.job_filter import JobFilter
from tests.runs import is_thorough
from tests.support.artifacts_access import contents, text

pytestmark = [
    pytest.mark.real,
    pytest.mark.contract,
    pytest.mark.feature("F5"),
    pytest.mark.xdist_group("test_killed_writers"),
]

ROUNDS = 8 if is_thorough() else 4

STORE_WRITER = """
import itertools, sys
from dataclasses import replace
from pathlib import Path
from drumbeat.server.database import make_store
from tests.support.sample_jobs import SLOTS, STOP, line, submission
from drumbeat.server.database.records import Change
from drumbeat.server.jobs.job_filter import JobFilter

store = make_store(Path(sys.argv[1]))
store.take_lease()
start = len(store.jobs(JobFilter(limit=10**6)))

def step(name):
    record = store.load(name)
    last = record.job.attempt
    job = replace(record.job, attempt=last + 1, effects=record.job.effects + 1)
    done = tuple(one.id for one in store.outbox() if one.job == name)
    effects = (replace(STOP, attempt=last + 1),)
    return Change(job, record.version, (line("step"),), effects, done, SLOTS, (last,))

for name in ("left", "right"):
    store.submit(submission(name))
for n in itertools.count():
    changes = [step("left"), step("right")]
    store.commit(changes)
    print("version", changes[0].version + 1, flush=True)
    record, _ = store.submit(submission(f"job-{start}-{n}"))
    print("job", record.job.name, flush=True)
"""

FILES_WRITER = """
import hashlib, itertools, sys
from pathlib import Path
from drumbeat.model.logs import LogName
from drumbeat.server.home_folder import FolderArtifacts

files = FolderArtifacts(Path(sys.argv[1]))
round = int(sys.argv[2])
size = 0
for n in itertools.count():
    size = files.append_log("a", LogName(1, round, 0, 0).path, size, b"%06d\\n" % n)
    print("log", size, flush=True)
    given = {f"{name}-{n % 3}": b"%d.%d" % (round, n) for name in ("left", "right")}
    for path, data in given.items():
        files.append_output("a", round, 0, path, 0, data)
    bad = files.commit_outputs(
        "a", round, 0, {path: (len(data), hashlib.sha256(data).hexdigest()) for path, data in given.items()}
    )
    assert bad == [], bad
    print("shown", n, flush=True)
"""


def last_words(script, arguments, words, later_s):
    """What a writer had acknowledged when it was killed, a moment after that many acknowledgements."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        first = "".join(writer.stdout.readline() for _ in range(words))
        time.sleep(later_s)
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
    assert writer.returncode == -signal.SIGKILL
    lines = (first + rest).splitlines(keepends=True)
    return [tuple(line.split()) for line in lines if line.endswith("\n")]


def check_store(file, said):
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with contextlib.closing(make_store(file)) as store:
        left, right = store.load("left"), store.load("right")
        newest = max((int(word) for kind, word in said if kind == "version"), default=1)
        assert left.version == right.version
        assert newest <= left.version <= newest + 1
        pending = {one.job: (one.attempt, one.n) for one in store.outbox()}
        held = {(one.job, one.attempt) for one in store.reservations("local")}
        for record in (left, right):
            name, attempt = record.job.name, record.job.attempt
            assert len(store.events(name)) == record.version == attempt + 1
            assert pending[name] == (attempt, attempt - 1)
            assert (name, attempt) in held
        assert len(pending) == len(held) == len(store.outbox()) == 2
        return {record.job.name for record in store.jobs(JobFilter(limit=10**6))}


def test_every_acknowledged_commit_outlives_its_server(tmp_path):
    file, chance = tmp_path / "drumbeat.db", random.Random(7)
    acknowledged = set()
    for _ in range(ROUNDS):
        said = last_words(STORE_WRITER, [file], chance.randint(1, 12), chance.uniform(0, 0.02))
        acknowledged |= {word for kind, word in said if kind == "job"}
        assert check_store(file, said) >= acknowledged
    assert len(acknowledged) > ROUNDS


def check_files(folder, said, round_):
    files = FolderArtifacts(folder)
    chunks = text(files.log_chunks("a", limit=1 << 30))
    kept = chunks.get((1, round_, 0, 0), b"")
    size = max((int(word) for kind, word in said if kind == "log"), default=0)
    log = files.open_file("a", f"logs/1.{round_}/0/0.log").read_bytes()
    assert size <= len(kept) <= len(log) <= size + 7
    assert log == b"".join(b"%06d\n" % n for n in range(len(log) // 7)) + log[len(log) // 7 * 7 :]
    outputs = {path: data for path, data in contents(files, "a").items() if path.startswith("outputs/")}
    shown = max((int(word) for kind, word in said if kind == "shown"), default=-1)
    allowed = [pair(round_, n) for n in (shown, shown + 1) if n >= 0]
    assert outputs in (allowed if shown >= 0 else [*allowed, outputs])
    return log


def pair(round_, n):
    return {f"outputs/{name}-{n % 3}": b"%d.%d" % (round_, n) for name in ("left", "right")}


def test_files_outlive_their_server(tmp_path):
    folder, chance = tmp_path / "files", random.Random(8)
    for round_ in range(1, ROUNDS + 1):
        said = last_words(FILES_WRITER, [folder, round_], chance.randint(1, 12), chance.uniform(0, 0.02))
        log = check_files(folder, said, round_)
        # An agent that got no answer sends again, and then a follower has seen every byte once.
        again = FolderArtifacts(folder)
        assert again.append_log("a", f"logs/1.{round_}/0/0.log", 0, log) == len(log)
        assert text(again.log_chunks("a", limit=1 << 30))[1, round_, 0, 0] == log
