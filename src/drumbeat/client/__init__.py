"""The Python SDK: sends jobs to a server and follows them. Starts the server when none runs.

from drumbeat.client import Client

client = Client()
job = client.submit("job.yml")
for event in client.stream(job.name):
    print(event)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumbeat.client.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> object:
    if name != "Client":
        raise AttributeError(f"drumbeat.client has no {name!r}")
    return import_module("drumbeat.client.client").Client
