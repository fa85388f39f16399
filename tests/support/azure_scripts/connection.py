"""What the scripts share: a client, as their users make it."""

from azure.ai.ml import MLClient

try:
    from azure.identity import DefaultAzureCredential
except ImportError:  # `drumbeat.ml` needs no package of Azure's, and asks no credential.
    DefaultAzureCredential = object


def connect():
    return MLClient.from_config(DefaultAzureCredential())
