"""A job file, changed in Python, sent with another experiment."""

from azure.ai.ml import load_job
from connection import connect

client = connect()
job = load_job("./job.yml")
assert job.display_name == "from-file"
job.display_name = "changed"
sent = client.create_or_update(job)
client.jobs.stream(sent.name)
done = client.jobs.get(sent.name)
assert (done.status, done.display_name, done.experiment_name) == ("Completed", "changed", "files")
