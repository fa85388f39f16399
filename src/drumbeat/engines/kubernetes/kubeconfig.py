"""The kubeconfig as kubectl reads it: several files of `$KUBECONFIG` as one, proxies and TLS names of clusters.

lightkube reads one file, and ignores these keys of a cluster.
https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

Json = dict[str, Any]
DEFAULT = "~/.kube/config"
_LISTS = {"clusters": "cluster", "contexts": "context", "users": "user"}
"""The lists of a kubeconfig, and the key of each entry's content."""
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


@dataclass(frozen=True)
class ChosenContext:
    """A context with its cluster and user. config: lightkube's object."""

    config: Any
    proxy: str | None = None
    """The URL of the proxy before the API server."""
    tls_name: str = ""
    """The name in the API server's certificate, "" = its address."""


def chosen_context(given: str, context: str | None) -> ChosenContext:
    """The given context of a kubeconfig; without one, its current context. given: the file; "" = the pod's service
    account, else `$KUBECONFIG`, else kubectl's default file.

    Raises errors of lightkube, yaml and msgspec, and OSError.
    """
    library: Any = import_module("lightkube.config.kubeconfig")
    errors: Any = import_module("lightkube.core.exceptions")
    if not given:
        try:
            return ChosenContext(library.KubeConfig.from_service_account().get())
        except errors.ConfigError:  # The server doesn't run in a pod.
            given = os.environ.get("KUBECONFIG") or DEFAULT
            places = [one for one in given.split(os.pathsep) if one]
    else:
        places = [given]
    files = [file for one in places if (file := Path(one).expanduser()).is_file()]
    if not files:
        raise errors.ConfigError(f"Configuration file {given} not found")
    merged = merge([(file, _read(file)) for file in files])
    config = library.KubeConfig.from_dict(merged, fname=files[0]).get(context)
    cluster = next(one["cluster"] for one in merged["clusters"] if one["name"] == config.context.cluster)
    return ChosenContext(config, cluster.get("proxy-url") or None, cluster.get("tls-server-name") or "")


def _read(file: Path) -> Json:
    yaml: Any = import_module("yaml")
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {}


def merge(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> Json:
    """Merges the files: the first entry of a name, and the first current context, win as a whole.

    Paths are relative to their own file.
    """
    merged: Json = {}
    for file, document in documents:
        merged["current-context"] = merged.get("current-context") or document.get("current-context") or None
        for key, content in _LISTS.items():
            entries: list[Json] = merged.setdefault(key, [])
            names = {one["name"] for one in entries}
            listed: list[Json] = document.get(key) or []
            entries += [
                {"name": one["name"], content: _resolved(file, one[content])}
                for one in listed
                if one["name"] not in names
            ]
    return merged


def _resolved(file: Path, content: Mapping[str, Any] | None) -> Json:
    paths = {key: str(file.absolute().parent / content[key]) for key in _PATHS if content and content.get(key)}
    plugin: Mapping[str, Any] = (content or {}).get("exec") or {}
    command = str(plugin.get("command") or "")
    if "/" in command and not command.startswith("/"):  # As client-go resolves it.
        return {**(content or {}), **paths, "exec": {**plugin, "command": str(file.absolute().parent / command)}}
    return {**(content or {}), **paths}
