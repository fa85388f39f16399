"""`registry`: where images come from that not everybody may pull is told, looked at and forgotten."""

from drumbeat.cli.commands.resource_family import resource_family
from drumbeat.resources.registry import REGISTRY

app = resource_family(REGISTRY)
