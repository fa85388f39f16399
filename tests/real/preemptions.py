"""Jobs whose ranks save when they are told to leave, on machines that are taken away."""

from __future__ import annotations

from pathlib import Path

from drumbeat.model.api.jobs import JobWithEvents

from .house import House, until

SAVES_WHEN_TOLD = """
import os, pathlib, signal, sys, time
kept = pathlib.Path(sys.argv[2])
step = int(kept.read_text()) if kept.exists() else 0
print("from step", step, flush=True)
def told(*_):
    if os.environ["RANK"] == "0":
        kept.write_text(str(step))
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
while not os.path.exists(sys.argv[1]):
    step += 1
    time.sleep(0.05)
"""
EXTENSIONS = "{environment: current, grace_s: 10, max_retries: 0}"


def submit_saving_job(house: House, go: Path, kept: str | Path, nodes: int = 1, drumbeat: str = EXTENSIONS) -> str:
    """Returns the name of a job that runs until `go` is there, and keeps its step in `kept` when told to leave."""
    house.script(SAVES_WHEN_TOLD)
    file = house.job_file(
        code=".", command=f'"python t.py {go} {kept}"', compute="rack", resources=f"{{instance_count: {nodes}}}",
        drumbeat=drumbeat,
    )  # fmt: skip
    return house.client.submit(file).name


def complete_preempted_job(house: House, job: str, go: Path, seconds: float) -> JobWithEvents:
    """Returns the job after its second attempt, which went on from where it was told to leave."""
    until(lambda: house.logs(job)[0].count("from step") == 2, seconds, "the ranks run again")
    assert int(house.logs(job)[0].split()[-1]) > 0, "it goes on from the step that was saved when it was told"
    go.touch()
    ended = house.client.wait(job, seconds)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    assert [one.verdict.reason for one in ended.failures] == ["preempted"]
    assert any("this doesn't count as a retry" in line.sentence for line in ended.story)
    return ended
