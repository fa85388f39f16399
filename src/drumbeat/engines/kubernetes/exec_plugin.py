"""Credentials from an exec plugin of a kubeconfig: `aws eks get-token`, `gke-gcloud-auth-plugin`, `kubelogin`.

The protocol is client-go's ExecCredential, v1 and v1beta1; lightkube's implementation has neither v1 nor a time limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from drumbeat.model.errors import EngineError, UnreachableError

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PLUGIN_TIMEOUT_S = 60.0
_EARLY_S = 30.0
"""How long before its expiry a token is replaced."""


@dataclass(frozen=True)
class Plugin:
    """The command that a kubeconfig names."""

    command: str
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    version: str = VERSIONS[1]

    def token(self, timeout_s: float = PLUGIN_TIMEOUT_S) -> tuple[str, float]:
        """A token, and when it expires (by `time.time`). Raises UnreachableError, EngineError."""
        if self.version not in VERSIONS:
            what = f"the kubeconfig's plugin {self.command} speaks {self.version}"
            raise EngineError(what, where="kubeconfig", fix=f"drumbeat speaks {' and '.join(VERSIONS)}.")
        return _token_of(self._answer(timeout_s), self.command)

    def _answer(self, timeout_s: float) -> str:
        asked = {"apiVersion": self.version, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {**os.environ, **self.variables, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
        try:
            done = subprocess.run(
                [self.command, *self.arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            what = f"the kubeconfig's plugin {self.command} didn't answer within {timeout_s:g} s"
            raise UnreachableError(what) from None
        except OSError as error:
            what = f"the kubeconfig's plugin {self.command} can't be run: {error.strerror}"
            raise EngineError(what, where="kubeconfig", fix="Install it on the server's machine.") from error
        if done.returncode:
            last = (done.stderr.strip() or "it printed nothing").splitlines()[-1]
            what = f"the kubeconfig's plugin {self.command} ended with exit code {done.returncode}: {last}"
            raise UnreachableError(what, fix="Log in again on the server's machine, as the server's user.")
        return done.stdout


def _token_of(answer: str, command: str) -> tuple[str, float]:
    try:
        status: dict[str, Any] = json.loads(answer)["status"]
        token = str(status["token"])
        expires = status.get("expirationTimestamp")
        return token, datetime.fromisoformat(expires).timestamp() if expires else float("inf")
    except (ValueError, KeyError, TypeError):
        what = f"the kubeconfig's plugin {command} gave no token"
        fix = "Plugins that give client certificates aren't supported."
        raise EngineError(what, where="kubeconfig", fix=fix) from None


class PluginTokens:
    """The tokens of a plugin, which runs again before one expires and when the API server refuses one. Thread-safe."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self._token, self._expires = "", 0.0
        self._lock = threading.Lock()

    def current(self, refused: str = "") -> str:
        """The token to send. refused: a token that the API server rejected. Raises UnreachableError, EngineError."""
        with self._lock:
            if self._token in ("", refused) or time.time() > self._expires - _EARLY_S:
                self._token, self._expires = self.plugin.token()
            return self._token
