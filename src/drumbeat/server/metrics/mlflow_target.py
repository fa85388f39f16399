"""The external MLflow server to which runs are copied, which can be set, replaced and removed at run time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from drumbeat.model.errors import ConflictError, RefusedError, StorageError
from drumbeat.server.metrics.mlflow_address import MlflowAddress
from drumbeat.server.metrics.run_copies import RunCopies

if TYPE_CHECKING:
    from drumbeat.server.metrics.mlflow_choice import MlflowFile
    from drumbeat.server.metrics.mlflow_server import HttpMlflowServer

log = logging.getLogger(__name__)


class MlflowTarget:
    """Copies runs to the external MLflow server, if one is set. Thread-safe."""

    def __init__(self, choice: MlflowFile | None, copies_to: Callable[[HttpMlflowServer], RunCopies]) -> None:
        self._choice, self._copies_to = choice, copies_to
        self._lock = threading.Lock()
        self._copies: RunCopies | None = None
        self._address: MlflowAddress | None = None

    @property
    def url(self) -> str:
        """The URL of the MLflow server without credentials; "" = none is set."""
        return self._address.shown if self._address else ""

    def start(self) -> None:
        """Begins to copy to the stored server."""
        if self._choice is None:
            return
        try:
            address = self._choice.read()
            if address is not None:
                self._begin(address, self._choice.connect(address))
        except (StorageError, RefusedError) as error:
            log.warning("runs aren't copied: %s", error)

    def set(self, address: MlflowAddress | None) -> None:
        """Stores an address, and copies runs there from now on; None = stops copying.

        Raises RefusedError, StorageError; ConflictError if the environment of this process has set another server.
        """
        if self._choice is None:
            raise RefusedError("this server can't copy runs")
        url = address.url if address else ""
        if self._choice.fixed and url != self._choice.fixed:
            what = f"this server was started with DRUMBEAT_MLFLOW or --mlflow: it copies runs to {self.url}"
            fix = (
                "Stop it with `drumbeat server stop` (with `--force` while jobs are unfinished: they continue), "
                "and start it without DRUMBEAT_MLFLOW."
            )
            raise ConflictError(what, fix=fix)
        with self._lock:
            server = self._choice.connect(address) if address else None
            self._choice.keep(address)
            self._end()
            if address and server:
                self._begin(address, server)
        log.info("runs are copied to %s", self.url or "no MLflow server")

    def stop(self) -> None:
        """Stops copying; the stored address stays."""
        with self._lock:
            self._end()

    def _begin(self, address: MlflowAddress, server: HttpMlflowServer) -> None:
        self._address, self._copies = address, self._copies_to(server)
        self._copies.start()

    def _end(self) -> None:
        if self._copies:
            self._copies.stop()
        self._copies, self._address = None, None
