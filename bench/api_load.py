"""The load of bench/api.py, in a process of its own: people who submit, look and list, and people who follow.

api_load.py HOME BARE_URL JOB SECONDS SUBMITTERS FOLLOWERS PAUSE_S

gives JSON: milliseconds by what was asked, in turns with a bare server that says hello, and the bytes followed.
"""

import http.client
import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

DOCUMENT = {"command": "true", "drumbeat": {"environment": "current"}}


@dataclass(frozen=True)
class Wanted:
    """The command line."""

    home: Path
    bare: str
    job: str
    seconds: float
    submitters: int
    followers: int
    pause_s: float


class Caller:
    """One connection, kept open."""

    def __init__(self, url: str, token: str = "") -> None:
        self.address = urlsplit(url)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.line = http.client.HTTPConnection(self.address.hostname or "", self.address.port, timeout=60)

    def timed(self, method: str, path: str, body: object = None) -> float:
        """Milliseconds to the last byte of the answer."""
        begun = time.perf_counter()
        data = None if body is None else json.dumps(body).encode()
        self.line.request(method, path, data, self.headers | ({"Content-Type": "application/json"} if data else {}))
        answer = self.line.getresponse()
        said = answer.read()
        took = 1000 * (time.perf_counter() - begun)
        assert answer.status < 300, (method, path, said)
        return took


def submit_and_look(wanted: Wanted, number: int, took: dict[str, list[float]]) -> None:
    """A person: submits, looks at the job, lists, cancels, thinks; and asks the bare server in between."""
    address = json.loads((wanted.home / "server.json").read_text(encoding="utf-8"))
    ours = Caller(address["url"], (wanted.home / "token").read_text(encoding="utf-8"))
    bare = Caller(wanted.bare)
    end = time.monotonic() + wanted.seconds
    time.sleep(wanted.pause_s * number / wanted.submitters)
    count = 0
    while time.monotonic() < end:
        count += 1
        name = f"load-{number}-{count}"
        took["submit"].append(ours.timed("POST", "/api/v1/jobs", {"document": {**DOCUMENT, "name": name}}))
        took["bare"].append(bare.timed("GET", "/hello"))
        took["show"].append(ours.timed("GET", f"/api/v1/jobs/{name}"))
        took["list"].append(ours.timed("GET", "/api/v1/jobs?limit=20"))
        took["bare"].append(bare.timed("GET", "/hello"))
        took["cancel"].append(ours.timed("POST", f"/api/v1/jobs/{name}/cancel"))
        time.sleep(wanted.pause_s)


def follow(wanted: Wanted, seen: list[int]) -> None:
    """Reads the stream of the job that prints all the time."""
    address = json.loads((wanted.home / "server.json").read_text(encoding="utf-8"))
    caller = Caller(address["url"], (wanted.home / "token").read_text(encoding="utf-8"))
    caller.line.request("GET", f"/api/v1/jobs/{wanted.job}/events", headers=caller.headers)
    answer = caller.line.getresponse()
    end = time.monotonic() + wanted.seconds
    size = 0
    while time.monotonic() < end and (piece := answer.read1(1 << 16)):
        size += len(piece)
    seen.append(size)
    caller.line.close()


def main() -> None:
    """Runs for the time given."""
    home, bare, job, seconds, submitters, followers, pause_s = sys.argv[1:]
    wanted = Wanted(Path(home), bare, job, float(seconds), int(submitters), int(followers), float(pause_s))
    took: dict[str, list[float]] = {name: [] for name in ("submit", "show", "list", "cancel", "bare")}
    seen: list[int] = []
    crowd = [threading.Thread(target=follow, args=(wanted, seen), daemon=True) for _ in range(wanted.followers)]
    people = [
        threading.Thread(target=submit_and_look, args=(wanted, n, took), daemon=True) for n in range(wanted.submitters)
    ]
    for one in (*crowd, *people):
        one.start()
    for one in people:
        one.join(wanted.seconds + 60)
    for one in crowd:
        one.join(30)
    json.dump({"took": took, "followed": seen}, sys.stdout)


if __name__ == "__main__":
    main()
