"""What fails raises what scripts catch."""

from azure.ai.ml import command
from azure.ai.ml.exceptions import JobException
from connection import connect

try:
    from azure.core.exceptions import ResourceNotFoundError
except ImportError:
    ResourceNotFoundError = Exception

client = connect()
try:
    client.jobs.get("no-such-job")
except ResourceNotFoundError as error:
    assert "no-such-job" in str(error)
else:
    raise AssertionError("a job that isn't there was found")
sent = client.jobs.create_or_update(
    command(command="exit 3", environment="azureml:toy-env:1", compute="cpu-cluster", experiment_name="scripts")
)
try:
    client.jobs.stream(sent.name)
except JobException as error:
    assert "Exception" in str(error)
else:
    raise AssertionError("a job that failed was streamed without an error")
assert client.jobs.get(sent.name).status == "Failed"
