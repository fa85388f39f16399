"""What jobs and clients do to drumbeat: daemons, floods of output, clients that vanish, input that lies."""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import os
import signal
import tarfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from tests.real.house import House
from tools.faults.ranks import find, is_of
from tools.faults.scene import Missed, Play, Scene, Seen, environment, until

DAEMONS = """
    import subprocess
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "9999"], start_new_session=True)
    subprocess.Popen(["bash", "-c", "trap '' TERM HUP; (setsid sleep 9999 &); sleep 9999"], start_new_session=True)
    mark("ready")
    wait()
"""
SLEEPERS = 6
"""What two ranks leave."""
GRACE_S = 2
GONE_WITHIN_S = 2
"""What is left of a job is gone so soon after its end, or after its grace time."""


def left_of(play: Play) -> list[int]:
    """Everything that the ranks of a play started."""
    return [p.pid for p in psutil.process_iter() if environment(p).get("MARKS") == str(play.marks)]


def name_of(pid: int) -> str:
    """Of its program; "" = it has ended meanwhile."""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


def fork_daemons(scene: Scene) -> Seen:
    """Ranks that ignore SIGTERM and leave daemons in sessions of their own; a cancel, also just after `kill -9` of the
    agent and of the server.
    """
    with scene.own_house() as house:
        after_cancel, after_end, states = zip(
            *(cancel_after(scene, house, first) for first in ("nobody", "agent", "server")), strict=True
        )
    is_right = (
        after_cancel[0] <= GRACE_S + GONE_WITHIN_S and max(after_end) <= GONE_WITHIN_S and set(states) == {"canceled"}
    )
    told = [
        f"{first} in {whole:.1f} s, {max(0.0, later):.1f} s after the job's end"
        for first, whole, later in zip(("the agent", "the server"), after_cancel[1:], after_end[1:], strict=True)
    ]
    return Seen(
        f"no rank and none of {SLEEPERS} daemons left after SIGTERM, {GRACE_S} s of grace and SIGKILL, in the seconds "
        f"given; where `kill -9` came first, of {'; of '.join(told)}", after_cancel[0], is_right,
    )  # fmt: skip


def cancel_after(scene: Scene, house: House, first: str) -> tuple[float, float, str]:
    """Seconds until nothing is left, from the cancel and from the job's end; its state. first: who is killed before."""
    play = Play(scene, DAEMONS, house=house)
    job = play.submit(f"grace_s: {GRACE_S}")
    until(lambda: sum(name_of(pid) == "sleep" for pid in left_of(play)) == SLEEPERS, "the start of every daemon")
    if first == "agent":
        (agent,) = [pid for pid in find(str(house.home), "-m drumbeat.node.agent ") if is_of(pid, job)]
        os.kill(agent, signal.SIGKILL)
    elif first == "server":
        house.server().kill()
    begun = time.time()
    house.client.cancel(job)
    until(lambda: not left_of(play), f"the end of what it had started, {first} killed first")
    gone = time.time()
    ended = play.end(job)
    if ended.ended_at is None:
        raise Missed("the time of the job's end")
    return gone - begun, gone - ended.ended_at.timestamp(), ended.state


def fork_daemons_torchrun(scene: Scene) -> Seen:
    """SIGTERM of torchrun with the same ranks, but such that they end at once."""
    play = Play(scene, DAEMONS.replace("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "pass"))
    with play.torchrun("--standalone") as torchrun:
        until(lambda: all((play.marks / f"ready.{rank}").exists() for rank in (0, 1)), "the start")
        old = len(left_of(play))
        torchrun.process.terminate()
        seconds = torchrun.wait()
        return Seen(f"{len(left_of(play))} of {old} processes left (these ranks obey SIGTERM)", seconds)


def flood(scene: Scene) -> Seen:
    """64 MB on one line, every byte value, 200,000 lines as fast as they go."""
    play = Play(
        scene,
        """
        out = sys.stdout.buffer
        for _ in range(64):
            out.write(b"x" * (1 << 20))
        out.write(b"\\n" + bytes(range(256)) * 64 + b"\\n")
        for line in range(200_000):
            out.write(b"%d\\n" % line)
        """,
        ranks=1,
    )
    begun = time.monotonic()
    job = play.submit()
    ended = play.end(job)
    seconds = time.monotonic() - begun
    wanted = b"x" * (64 << 20) + b"\n" + bytes(range(256)) * 64 + b"\n" + b"".join(b"%d\n" % n for n in range(200_000))
    kept = (play.at.home / "jobs" / job / "logs" / "1.1" / "0" / "0.log").read_bytes()
    is_right = ended.state == "completed" and kept == wanted
    return Seen(
        f"{len(kept) / 1e6:.0f} MB of log kept, {'each byte' if kept == wanted else 'NOT'} as written",
        seconds,
        is_right,
    )


# --- clients ----------------------------------------------------------------------------------------------------
def connect(house: House) -> tuple[http.client.HTTPConnection, dict[str, str]]:
    """A line to the server without our client, and the headers it needs."""
    address = urlsplit(house.client.status().url)
    token = (house.home / "token").read_text().strip()
    line = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    return line, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def send_twice(scene: Scene) -> Seen:
    """A client that goes away in the middle of its submit; one that never hears the answer and sends it again."""
    house = scene.house
    before = len(house.client.list(archived=True, limit=1000))
    body = json.dumps({"document": {"command": "true"}, "key": uuid.uuid4().hex}).encode()
    line, headers = connect(house)
    line.putrequest("POST", "/api/v1/jobs")
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        line.putheader(name, value)
    line.endheaders(body[: len(body) // 2])
    line.close()
    half = len(house.client.list(archived=True, limit=1000)) - before
    for _ in range(3):
        line, headers = connect(house)
        line.request("POST", "/api/v1/jobs", body, headers)
        line.close()
    line, headers = connect(house)
    line.request("POST", "/api/v1/jobs", body, headers)
    answer = line.getresponse()
    job = json.loads(answer.read())["name"]
    line.close()
    ended = house.client.wait(job, 60)
    made = len(house.client.list(archived=True, limit=1000)) - before
    is_right = half == 0 and made == 1 and ended is not None and ended.state == "completed"
    return Seen(
        f"half a submit made {half} jobs; the same submit four times, thrice unheard, made {made}", None, is_right
    )


# --- input ------------------------------------------------------------------------------------------------------
YAML: dict[str, str] = {
    "truncated": "command: echo\nresources: {instance_count: ",
    "cyclic": "command: echo\ntags: &a\n  b: *a\n",
    "billion laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "huge": "command: echo\ndescription: " + "x" * (32 << 20) + "\n",
    "a name of 10,000 characters": f"name: {'n' * 10_000}\ncommand: echo\n",
    "an unknown key": "comand: echo\n",
    "a Python object": "command: !!python/object/apply:os.system ['touch hit']\n",
    "no YAML at all": "\x00\x01\x02",
    "code outside": "command: echo\ncode: ../../../../../../nowhere\n",
    "an output with ..": "command: echo\noutputs: {../../x: {type: uri_folder}}\n",
}


def bad_yaml(house: House, folder: Path) -> list[str]:
    """Names of the files that weren't refused with a sentence."""
    bad = []
    for number, (name, text) in enumerate(YAML.items()):
        path = folder / f"bad{number}.yml"
        path.write_text(text, encoding="utf-8")
        said = house.run("plan", path)
        is_refused = said.returncode != 0 and "Traceback" not in said.stdout + said.stderr and said.stderr.strip()
        if not is_refused or (folder / "hit").exists():
            bad.append(name)
    return bad


def make_tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """An archive of members as they must never be unpacked."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return held.getvalue()


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b""
) -> tuple[tarfile.TarInfo, bytes]:
    """One member of an archive."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, data


def bad_archives(house: House, folder: Path) -> list[str]:
    """Names of the archives that reached outside of their folder, or weren't refused."""
    out = folder / "outside"
    archives = {
        "a path with ..": make_tar(member("../" * 12 + str(out).lstrip("/"), data=b"hit")),
        "an absolute path": make_tar(member(str(out), data=b"hit")),
        "a link to the outside": make_tar(member("l", tarfile.SYMTYPE, str(folder)), member("l/outside", data=b"hit")),
        "a device": make_tar(member("null", tarfile.CHRTYPE)),
        "half a file": make_tar(member("a", data=b"x" * 5000))[:2000],
    }
    bad = []
    for name, data in archives.items():
        digest = hashlib.sha256(data).hexdigest()
        line, headers = connect(house)
        line.request("PUT", f"/api/v1/snapshots/{digest}", data, headers)
        is_taken = line.getresponse().status == 201
        line.close()
        line, headers = connect(house)
        line.request("POST", "/api/v1/jobs", json.dumps({"document": {"command": "true"}, "code": digest}), headers)
        answer = line.getresponse()
        told = json.loads(answer.read())
        line.close()
        if is_taken and answer.status < 400:
            ended = house.client.wait(told["name"], 60)
            if ended is None or ended.state != "failed" or ended.reason != "staging_failed":
                bad.append(name)
        if out.exists():
            bad.append(name)
    return bad


def bad_tokens(house: House) -> list[str]:
    """Names of the callers that were let in."""
    bad = []
    for name, headers in {
        "no token": {},
        "a wrong token": {"Authorization": "Bearer x"},
        "a host of another name": {"Host": "example.org"},
        "a page of another origin": {"Origin": "http://example.org"},
    }.items():
        line, own = connect(house)
        sent = headers if "token" in name else {**own, **headers}
        line.request("GET", "/api/v1/jobs", headers=sent)
        if line.getresponse().status not in (400, 401, 403, 421):
            bad.append(name)
        line.close()
    return bad


def bad_input(scene: Scene) -> Seen:
    """YAML, archives and tokens that lie."""
    folder = scene.new_folder()
    checks: list[Callable[[], list[str]]] = [
        lambda: bad_yaml(scene.house, folder),
        lambda: bad_archives(scene.house, folder),
        lambda: bad_tokens(scene.house),
    ]
    bad = [name for check in checks for name in check()]
    count = len(YAML) + 5 + 4
    said = f"{count - len(bad)} of {count} refused with a sentence, nothing written outside" + (
        f"; not: {bad}" if bad else ""
    )
    return Seen(said, None, not bad)
