"""A scoring script of Azure's form: `init()`, and `run` in one of its three forms; with `run_batch`, in batches."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from drumbeat.scoring import stand_ins
from drumbeat.scoring.inputs import InputError, named_inputs, text_input
from drumbeat.scoring.messages import (
    FAILED_ANSWER,
    FAILED_RUN,
    ScoringAnswer,
    ScoringRequest,
    error_answer,
    json_answer,
    text_answer,
)
from drumbeat.scoring.raw_requests import raw_request
from drumbeat.scoring.results import answer_of
from drumbeat.scoring.run_timeout import RunTimeoutError
from drumbeat.scoring.scorer import ScorerError
from drumbeat.scoring.swagger import Swagger

log = logging.getLogger("drumbeat.scoring")
_METHODS = {"/": ("GET", "HEAD", "OPTIONS"), "/swagger.json": ("GET", "HEAD", "OPTIONS"), "/score": ("GET", "POST",
            "OPTIONS", "HEAD")}  # fmt: skip
NOT_FOUND = ("The requested URL was not found on the server. If you entered the URL manually please check your "
             "spelling and try again.")  # fmt: skip
NOT_ALLOWED = "The method is not allowed for the requested URL."


@dataclass(frozen=True)
class ScriptPlace:
    """Where a script is."""

    app_root: str
    entry_script: str
    source_folder: str = ""


class ScoringScript:
    """Implements `scorer.Scorer` for a script."""

    def __init__(self, place: ScriptPlace) -> None:
        self._place = place
        self.can_batch = False
        self._run: Callable[..., Any] = _absent
        self._run_batch: Callable[[list[Any]], Any] | None = None
        self._arguments: Callable[[ScoringRequest], dict[str, Any]] = _no_arguments
        self._is_raw = False
        self._swagger: Swagger | None = None

    def init(self) -> None:
        stand_ins.install()
        self._add_paths()
        module = self._load()
        for name in ("init", "run"):
            if not callable(getattr(module, name, None)):
                raise ScorerError(f"{self._path} has no function {name}(): a scoring script needs init() and run().")
        # Azure's tools wrap some scripts in a module that passes `run` on without its schema.
        driven = getattr(module, "driver_module", None)
        self._run = driven.run if isinstance(driven, ModuleType) and hasattr(driven, "run") else module.run
        self._run_batch = getattr(module, "run_batch", None)
        self._analyze()
        self.can_batch = callable(self._run_batch)
        self._swagger = Swagger(self._place.app_root, self._run)
        try:
            module.init()
        except BaseException as error:
            raise ScorerError(f"init() of {self._path} failed: {type(error).__name__}: {error}") from error

    @property
    def _path(self) -> str:
        return os.path.join(self._place.app_root, self._place.entry_script)

    def _add_paths(self) -> None:
        root = self._place.app_root
        folders = [root, os.path.join(root, self._place.source_folder), os.path.dirname(self._path)]
        sys.path.extend(one for one in dict.fromkeys(folders) if one and one not in sys.path)

    def _load(self) -> Any:
        try:
            spec = importlib.util.spec_from_file_location("entry_module", self._path)
            if spec is None or spec.loader is None:
                raise ScorerError(f"{self._path} isn't a Python file. Name a file that ends in .py as scoring_script.")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except FileNotFoundError as error:
            if error.filename != self._path:
                raise ScorerError(f"{self._path} can't be loaded: {error}") from error
            raise ScorerError(f"No scoring script at {self._path}. Check code and scoring_script.") from None
        except ScorerError:
            raise
        except BaseException as error:
            raise ScorerError(f"{self._path} can't be loaded: {type(error).__name__}: {error}") from error
        return module

    def _analyze(self) -> None:
        parameters = list(inspect.signature(self._run).parameters.values())
        if any(one.kind not in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters):
            raise ScorerError("run() cannot accept positional-only arguments, *args, or **kwargs.")
        takes_headers = any(one.name == "request_headers" for one in parameters)
        inputs = [one for one in parameters if one.name != "request_headers"]
        if not inputs:
            other = ' other than "request_headers"' if takes_headers else " for input data"
            raise ScorerError(f"run() needs to accept an argument{other}.")
        self._is_raw, has_schema = stand_ins.is_raw_requested(), _has_schema(self._run)
        if self._is_raw and has_schema:
            raise ScorerError("run() cannot be decorated with both @rawhttp and @input_schema")
        first = inputs[0].name
        if self._is_raw:
            read: Callable[[ScoringRequest], dict[str, Any]] = lambda request: {first: raw_request(request)}  # noqa: E731 - one of three
        elif has_schema:
            read = lambda request: named_inputs(request, inputs)  # noqa: E731 - one of three
        else:
            read = lambda request: {first: text_input(request)}  # noqa: E731 - one of three
        if takes_headers:
            self._arguments = lambda request: {**read(request), "request_headers": request.titled_headers()}
        else:
            self._arguments = read

    def immediate(self, request: ScoringRequest) -> ScoringAnswer | None:
        path = request.path
        methods = _METHODS.get(path)
        if methods is None:
            return unrouted(404, NOT_FOUND)
        if request.method not in methods:
            return unrouted(405, NOT_ALLOWED)
        if path == "/score":
            if request.method == "OPTIONS" and not self._is_raw:
                return ScoringAnswer(200, [("Content-Type", "text/html; charset=utf-8"), ("x-ms-run-function-failed",
                              "False")], b"")  # fmt: skip
            return None
        if request.method == "OPTIONS":
            return ScoringAnswer(
                200, [("Content-Type", "text/html; charset=utf-8"), ("Allow", "OPTIONS, HEAD, GET")], b""
            )
        return text_answer("Healthy") if path == "/" else self._swagger_answer(request)

    def _swagger_answer(self, request: ScoringRequest) -> ScoringAnswer:
        version = dict(request.parameters).get("version", "2")
        document = self._swagger.document(version) if self._swagger else None
        if document is None:
            return error_answer(404, self._swagger.refusal(version) if self._swagger else NOT_FOUND)
        return json_answer(document)

    def score(self, request: ScoringRequest) -> ScoringAnswer:
        try:
            arguments = self._arguments(request)
        except InputError as error:
            return error_answer(error.status, error.message)
        begin = time.perf_counter()
        try:
            result = self._run(**arguments)
        except RunTimeoutError:
            raise
        except BaseException:
            log.exception("run() failed")
            return error_answer(500, FAILED_RUN, has_run_failed=True)
        elapsed_ms = (time.perf_counter() - begin) * 1e3
        return _finished(result, request, elapsed_ms)

    def score_many(self, requests: Sequence[ScoringRequest]) -> list[ScoringAnswer]:
        answers: list[ScoringAnswer | None] = [None] * len(requests)
        inputs: dict[int, Any] = {}
        for index, request in enumerate(requests):
            try:
                arguments = self._arguments(request)
                arguments.pop("request_headers", None)
                inputs[index] = next(iter(arguments.values())) if len(arguments) == 1 else arguments
            except InputError as error:
                answers[index] = error_answer(error.status, error.message)
        for index, answer in zip(
            inputs, self._batch([*inputs.values()], [requests[one] for one in inputs]), strict=True
        ):
            answers[index] = answer
        return [one for one in answers if one is not None]

    def _batch(self, inputs: list[Any], requests: list[ScoringRequest]) -> list[ScoringAnswer]:
        if not inputs or self._run_batch is None:
            return []
        begin = time.perf_counter()
        try:
            results = list(self._run_batch(inputs))
            if len(results) != len(inputs):
                raise ValueError(f"run_batch() returned {len(results)} results for {len(inputs)} requests")
        except RunTimeoutError:
            raise
        except BaseException:
            log.exception("run_batch() failed")
            return [error_answer(500, FAILED_RUN, has_run_failed=True) for _ in inputs]
        elapsed_ms = (time.perf_counter() - begin) * 1e3
        return [_finished(result, request, elapsed_ms) for result, request in zip(results, requests, strict=True)]


def unrouted(status: int, message: str) -> ScoringAnswer:
    """The answer where no route is."""
    answer = error_answer(status, message)
    answer.has_ids = False
    return answer


def _finished(result: Any, request: ScoringRequest, elapsed_ms: float) -> ScoringAnswer:
    try:
        answer = answer_of(result, request)
    except RunTimeoutError:
        raise
    except Exception:
        log.exception("the result of run() can't be sent")
        return error_answer(500, FAILED_ANSWER)
    answer.add("x-ms-run-fn-exec-ms", f"{elapsed_ms:.3f}")
    return answer


def _has_schema(run: Callable[..., Any]) -> bool:
    """Whether `run` has a decorator of the package inference-schema."""
    if "inference_schema" not in sys.modules:
        return False
    utilities: Any = importlib.import_module("inference_schema.schema_util")
    return bool(utilities.is_schema_decorated(run))


def _absent() -> None:
    raise ScorerError("the script hasn't been loaded")


def _no_arguments(_request: ScoringRequest) -> dict[str, Any]:
    return {}
