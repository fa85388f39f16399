"""The next job on the same nodes: what it takes over, and what of the job before it can't reach it."""

from __future__ import annotations

import http.client
import json
import re
import socket
from pathlib import Path

import pytest

from drumbeat.model.errors import StaleError, UnauthorizedError, from_dict
from drumbeat.model.states import State

from .house import House, until

pytestmark = pytest.mark.feature("S6")

SWEEP = """
type: sweep
name: {name}
trial: {{code: ., command: "python trial.py ${{{{search_space.x}}}}"{trial}}}
sampling_algorithm: grid
search_space: {{x: {{type: choice, values: {values}}}}}
objective: {{goal: maximize, primary_metric: score}}
limits: {{max_total_trials: {count}, max_concurrent_trials: {concurrent}}}
drumbeat: {{environment: current{more}}}
"""


def begin(house: House, name: str, script: str, values: list[int], concurrent: int = 1, more: str = "") -> Path:
    house.script(script, job=name, file="trial.py")
    path = house.folder / name / "sweep.yml"
    count = len(values)
    path.write_text(SWEEP.format(name=name, values=values, count=count, concurrent=concurrent, more=more, trial=""))
    house.client.submit(path)
    return path


def end_of(house: House, name: str) -> dict[int, str]:
    """Waits for the sweep's end; what each trial printed."""
    until(lambda: house.client.get(name).has_ended, 90, f"the end of {name}")
    sweep = house.client.get(name)
    trials = sorted(house.client.list(parent=name), key=lambda job: job.name)
    printed = {number: house.logs(job.name).get(0, "") for number, job in enumerate(trials)}
    assert sweep.state == State.COMPLETED, (sweep.sentence, [job.sentence for job in trials], printed)
    return printed


def stories(house: House, name: str, count: int) -> list[str]:
    return [" | ".join(line.sentence for line in house.client.story(f"{name}_{n}")) for n in range(count)]


def test_sweep_of_six_trials_two_at_once_has_two_agents_and_says_so(house: House):
    script = "import drumbeat, os, sys\ndrumbeat.log(score=int(sys.argv[1]))\nprint(os.getcwd())"
    begin(house, "many", script, [1, 2, 3, 4, 5, 6], concurrent=2)
    places = end_of(house, "many")
    gangs = {re.sub(r".*/nodes/([^/]+)/.*", r"\1", place, flags=re.DOTALL) for place in places.values()}
    assert len(gangs) == 2, places
    assert len(set(places.values())) == 6, "two trials worked in one folder"
    told = [story for story in stories(house, "many", 6) if "; takes over the nodes of many_" in story]
    assert len(told) == 4
    until(lambda: not [*house.home.glob("nodes/*")], 30, "the end of the nodes")
    until(lambda: not [one for one in house.client.computes() if one.held], 30, "the release of the slots")


def test_job_that_asks_for_fresh_nodes_neither_takes_nor_leaves_any(house: House):
    script = "import drumbeat, sys\ndrumbeat.log(score=int(sys.argv[1]))"
    begin(house, "fresh", script, [1, 2], more=", fresh_nodes: true")
    end_of(house, "fresh")
    assert not [story for story in stories(house, "fresh", 2) if "takes over" in story]


def test_next_trial_finds_nothing_of_the_one_before(house: House, tmp_path: Path):
    """Its folder, its variables, its processes, its shared memory, and what it left running in a session of its own."""
    script = f"""
import drumbeat, json, os, subprocess, sys, time
number, notes = int(sys.argv[1]), {str(tmp_path)!r}
if number == 1:
    os.environ["LEFT"] = "a variable"
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    open("left", "w").write("a file")
    open("trial.py", "a").write("raise SystemExit('the code of another trial')")
    with open(f"{{notes}}/first", "w") as file:
        json.dump({{"cwd": os.getcwd(), "env": dict(os.environ), "tmp": os.environ.get("TMPDIR", "")}}, file)
else:
    first = json.load(open(f"{{notes}}/first"))
    root = os.path.dirname(first["cwd"])
    print("folder", os.path.exists(root), os.path.exists("left"))
    same = [k for k, v in os.environ.items() if first["env"].get(k) == v and ("first_0" in v or "iso_0" in v)]
    print("variables", "LEFT" in os.environ, same)
    seen = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = open(f"/proc/{{pid}}/cmdline").read() + open(f"/proc/{{pid}}/environ").read()
        except OSError:
            continue
        if "iso_0" in words and "iso_0.1/" in words and first["cwd"] in words:
            seen.append(pid)
    print("processes", seen)
    kept = [name for name in os.listdir(os.path.dirname(os.path.dirname(os.getcwd()))) if name.startswith("root")]
    print("roots", len(kept))
drumbeat.log(score=number)
"""
    begin(house, "iso", script, [1, 2])
    printed = end_of(house, "iso")
    assert "takes over the nodes of iso_0" in stories(house, "iso", 2)[1]
    assert printed[1].splitlines() == [
        "folder False False", "variables False ['DRUMBEAT_KEEPER']", "processes []", "roots 1",
    ]  # fmt: skip
    until(lambda: not [one for one in house.processes() if "sleep" in one.name()], 30, "the end of what it left")


def test_secret_of_a_trial_opens_nothing_of_the_next_one(house: House, tmp_path: Path):
    """Whoever has read the enrolment of the first trial isn't told of the second, and can say nothing for it."""
    script = f"""
import drumbeat, os, sys, time
number, notes = int(sys.argv[1]), {str(tmp_path)!r}
node = os.path.dirname(os.path.dirname(os.getcwd()))
with open(f"{{notes}}/{{number}}.part", "w") as file:
    file.write(open(f"{{node}}/enrolment.json").read())
os.rename(f"{{notes}}/{{number}}.part", f"{{notes}}/{{number}}")
drumbeat.log(score=number)
while number == 2 and not os.path.exists(f"{{notes}}/go"):
    time.sleep(0.02)
"""
    begin(house, "theft", script, [1, 2])
    until((tmp_path / "2").exists, 60, "the second trial")
    first, second = (json.loads((tmp_path / str(number)).read_text()) for number in (1, 2))
    assert (first["job"], second["job"]) == ("theft_0", "theft_1")
    assert not {first["secret"], first["peer_secret"]} & {second["secret"], second["peer_secret"]}
    member = {"node": 0, "host": "h", "address": "127.0.0.1", "root": "/r", "checkpoints": "/c"}
    status = {"phase": "uploaded", "round": 1, "member": member, "serial": 2**60}
    for proof in ("", "0" * 32):
        answer = asked(house, first, "theft_0", {"status": status, "holds": "", "wait_s": 0, "proof": proof})
        assert answer["directive"]["order"] == "leave"
        assert not answer["directive"].get("next"), "the second trial was handed to whoever asked"
    with pytest.raises(UnauthorizedError):
        asked(house, first, "theft_1", {"status": status, "holds": "", "wait_s": 0})
    with pytest.raises(StaleError):
        asked(house, first, "theft_0", None)
    (tmp_path / "go").touch()
    end_of(house, "theft")


def asked(
    house: House, enrolment: dict[str, str], job: str, body: dict[str, object] | None
) -> dict[str, dict[str, object]]:
    """What the server answers to this secret: to a sync, or to a request for the other nodes."""
    line = http.client.HTTPConnection("drumbeat")
    line.sock = socket.socket(socket.AF_UNIX)
    line.sock.connect(str(house.home / "server.sock"))
    path, headers = f"/agent/v1/{job}/1/0", {"Authorization": f"Bearer {enrolment['secret']}"}
    if body is None:
        line.request("GET", f"{path}/peers", headers=headers)
    else:
        line.request("POST", f"{path}/sync", json.dumps(body), headers)
    answer = line.getresponse()
    text = json.loads(answer.read())
    line.close()
    if answer.status != 200:
        raise from_dict(text)
    return text
