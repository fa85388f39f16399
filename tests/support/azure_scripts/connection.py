"""What the scripts share: a client, as their users make it, and a check of what is refused."""

import contextlib

from azure.ai.ml import MLClient

try:
    from azure.core.exceptions import HttpResponseError
except ImportError:  # As with the credential.
    HttpResponseError = Exception
try:
    from azure.identity import DefaultAzureCredential
except ImportError:  # `drumbeat.ml` needs no package of Azure's, and asks no credential.
    DefaultAzureCredential = object


def connect():
    return MLClient.from_config(DefaultAzureCredential())


@contextlib.contextmanager
def refusal(part):
    """What is within is refused, with a sentence that has this part."""
    try:
        yield
    except HttpResponseError as error:
        assert part in str(error), error
    else:
        raise AssertionError(f"nothing was refused with {part!r}")
