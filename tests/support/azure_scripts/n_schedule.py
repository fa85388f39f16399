"""Schedules: a pipeline that is submitted again and again, disabled, triggered, and deleted."""

from azure.ai.ml.constants import TimeZone
from azure.ai.ml.dsl import pipeline
from azure.ai.ml.entities import CommandComponent, CronTrigger, JobSchedule, RecurrencePattern, RecurrenceTrigger
from connection import connect

client = connect()
say = CommandComponent(
    name="say", version="1", command="echo ${{inputs.word}}", inputs={"word": {"type": "string"}},
    environment="azureml:toy-env:1",
)  # fmt: skip


@pipeline(default_compute="cpu-cluster", experiment_name="scripts")
def nightly(word="hello"):
    say(word=word)


trigger = RecurrenceTrigger(
    frequency="week", interval=1, schedule=RecurrencePattern(hours=3, minutes=[30], week_days=["monday"]),
    time_zone=TimeZone.W_EUROPE_STANDARD_TIME,
)  # fmt: skip
job = nightly(word="good night")
made = client.schedules.begin_create_or_update(
    JobSchedule(name="toy-nightly", trigger=trigger, create_job=job, display_name="Nightly", tags={"kind": "toy"})
).result()
assert (made.name, made.display_name, made.tags["kind"]) == ("toy-nightly", "Nightly", "toy")
seen = client.schedules.get("toy-nightly")
assert seen.is_enabled
assert (seen.trigger.frequency, seen.trigger.interval) == ("week", 1)
assert "toy-nightly" in [one.name for one in client.schedules.list()]
assert not client.schedules.begin_disable("toy-nightly").result().is_enabled
assert "toy-nightly" not in [one.name for one in client.schedules.list()]
assert client.schedules.begin_enable("toy-nightly").result().is_enabled

seen.trigger = CronTrigger(expression="30 3 * * 1", time_zone="UTC")
assert client.schedules.begin_create_or_update(seen).result().trigger.expression == "30 3 * * 1"
run = client.schedules.trigger("toy-nightly")
client.jobs.stream(run.job_name)
assert client.jobs.get(run.job_name).status == "Completed"
client.schedules.begin_delete("toy-nightly").result()
assert "toy-nightly" not in [one.name for one in client.schedules.list()]
