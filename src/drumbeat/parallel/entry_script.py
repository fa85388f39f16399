"""The object that entry scripts written for Azure import from the package azureml_user."""

from __future__ import annotations

import logging
import os
import sys
from types import ModuleType
from typing import ClassVar


class EntryScript:
    """What an entry script may ask of its runner: one object for each worker process."""

    _only: ClassVar[EntryScript | None] = None

    def __new__(cls) -> EntryScript:  # noqa: PYI034 - the one that there is
        if EntryScript._only is None:
            EntryScript._only = object.__new__(cls)
        return EntryScript._only

    @property
    def agent_name(self) -> str:
        """The worker's name: `process000`."""
        return f"process{int(os.environ.get('DRUMBEAT_PARALLEL_WORKER', '0')):03d}"

    @property
    def logger(self) -> logging.Logger:
        """Writes to the log of the job."""
        return logging.getLogger("azureml_user.parallel_run")

    @property
    def output_dir(self) -> str:
        """The folder of the step's results; without one, that of the job's artifacts."""
        return os.environ.get("AZUREML_BI_OUTPUT_PATH") or os.environ.get("DRUMBEAT_OUTPUT_DIR") or os.getcwd()

    @property
    def log_dir(self) -> str:
        """A folder for files that the script logs to; they are kept with the job's artifacts."""
        folder = os.path.join(os.environ.get("DRUMBEAT_OUTPUT_DIR") or os.getcwd(), "logs", "user")
        os.makedirs(folder, exist_ok=True)
        return folder

    @property
    def working_dir(self) -> str:
        """The folder with the code."""
        return os.getcwd()


def install() -> None:
    """Makes the module importable in this process."""
    package, module = ModuleType("azureml_user"), ModuleType("azureml_user.parallel_run")
    package.__path__ = []
    package.__dict__["parallel_run"] = module
    module.__dict__["EntryScript"] = EntryScript
    sys.modules.setdefault("azureml_user", package)
    sys.modules.setdefault("azureml_user.parallel_run", module)
