"""`python -m drumbeat.parallel.worker`: a worker process, which calls the script for one mini-batch after the other."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import os
import socket
import sys
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from drumbeat.parallel import entry_script, table_steps
from drumbeat.parallel.messages import MAX_BYTES, BlockingChannel, Message
from drumbeat.parallel.mini_batches import place_of, rows_of
from drumbeat.parallel.mltable import read_table
from drumbeat.parallel.node import WORKER_CHANNEL, WORKER_SETTINGS
from drumbeat.parallel.settings import ParallelSettings, from_json
from drumbeat.parallel.table_rows import Rows

if TYPE_CHECKING:
    from drumbeat.parallel.mlflow_model import MlflowPredictor

INIT_EXIT = 3


class EntryModule:
    """The user's script. Raises what it raises."""

    def __init__(self, settings: ParallelSettings) -> None:
        entry_script.install()
        path = os.path.abspath(settings.entry_script)
        sys.argv = [path, *settings.arguments]
        sys.path[0:0] = [os.path.dirname(path)]
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{settings.entry_script} isn't a Python file")
        self._module = importlib.util.module_from_spec(spec)
        sys.modules[name] = self._module
        spec.loader.exec_module(self._module)
        run: Any = getattr(self._module, "run", None)
        if not callable(run):
            raise ImportError(f"{settings.entry_script} has no function run(mini_batch)")  # noqa: TRY004 - as a missing name
        self._run: Callable[..., Any] = run
        self._takes_context = _takes_context(run)
        getattr(self._module, "init", _nothing)()

    def answer(self, items: Any, context: Any) -> tuple[str, int]:
        """Calls `run()` with paths or rows; returns its results as lines, and their number."""
        return results_as_text(self._run(items, context) if self._takes_context else self._run(items))

    def shutdown(self) -> None:
        """Calls `shutdown()`, if there is one."""
        getattr(self._module, "shutdown", _nothing)()


def _nothing() -> None:
    pass


def _takes_context(run: Callable[..., Any]) -> bool:
    """Whether `run` has a parameter for the mini-batch's context."""
    try:
        parameters = [*inspect.signature(run).parameters.values()]
    except ValueError:
        return False
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 or any(one.kind == one.VAR_POSITIONAL for one in parameters)


def results_as_text(results: Any) -> tuple[str, int]:
    """Returns the lines of what `run()` returned, and the number of its elements. Raises TypeError.

    As Azure writes them: a DataFrame by spaces, without a header and an index; other elements one a line.
    """
    if hasattr(results, "to_csv"):
        return results.to_csv(None, sep=" ", header=False, index=False), len(results)
    if isinstance(results, str | bytes | dict) or not hasattr(results, "__iter__"):
        raise TypeError(f"run() returned {type(cast('object', results)).__name__}, not a list, a tuple or a DataFrame")
    lines = [f"{one}\n" for one in results]
    return "".join(lines), len(lines)


def _items(settings: ParallelSettings, message: Message) -> Any:
    """The paths of a mini-batch, or the DataFrame of its rows."""
    if not message["rows"]:
        return _paths(settings, message)
    [file], rows = message["files"], Rows(**message["rows"])
    frame, table = rows_of(settings.input, file, rows), read_table(settings.input)
    return table_steps.apply(frame, table.steps, rows.cuts, place_of(file, rows)) if table else frame


def _paths(settings: ParallelSettings, message: Message) -> list[str]:
    return [os.path.join(settings.input, file) if file else settings.input for file in message["files"]]


def _answer(settings: ParallelSettings, script: EntryModule | MlflowPredictor, message: Message) -> Message:
    context = SimpleNamespace(partition_key_value=message["key"] or None, minibatch_index=message["number"])
    given = -1
    try:
        items = _items(settings, message)
        given = len(items)
        text, count = script.answer(items, context) if given else ("", 0)
        if len(text) > MAX_BYTES // 4:
            raise ValueError(f"run() returned {len(text):,} characters, above the limit of {MAX_BYTES // 4:,}")
    except Exception as error:  # noqa: BLE001 - it costs a try, whatever it is
        traceback.print_exc()
        return {"type": "ended", "text": "", "count": 0, "given": given, "why": _sentence(error)}
    return {"type": "ended", "text": text, "count": count, "given": given, "why": ""}


def _sentence(error: BaseException) -> str:
    """The error in a line, with the line of code that raised it."""
    where = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(where[-1].filename)}, line {where[-1].lineno})" if where else ""
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{text[:1000]}{place}"


def _script(settings: ParallelSettings) -> EntryModule | MlflowPredictor:
    if settings.entry_script:
        return EntryModule(settings)
    from drumbeat.parallel.mlflow_model import MlflowPredictor

    return MlflowPredictor(settings.model)


def main() -> int:
    """Works until the node closes the channel; returns the exit code."""
    settings = from_json(os.environ.pop(WORKER_SETTINGS))
    level = settings.logging_level.upper()
    logging.basicConfig(level=getattr(logging, level, logging.INFO), stream=sys.stderr)
    channel = BlockingChannel(socket.socket(fileno=int(os.environ.pop(WORKER_CHANNEL))))
    os.set_inheritable(channel.socket.fileno(), False)  # noqa: FBT003 - a process that the script starts doesn't hold it open.
    if settings.model:
        os.environ["AZUREML_MODEL_DIR"] = settings.model
    if settings.append_to:
        folder = settings.append_to if os.path.isdir(settings.append_to) else os.path.dirname(settings.append_to)
        os.environ["AZUREML_BI_OUTPUT_PATH"] = folder
    try:
        script = _script(settings)
    except BaseException as error:  # noqa: BLE001 - an exit in a script, too
        traceback.print_exc()
        channel.send({"type": "init failed", "why": _sentence(error)})
        return INIT_EXIT
    channel.send({"type": "ready"})
    while (message := channel.receive()) is not None:
        channel.send(_answer(settings, script, message))
    script.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
