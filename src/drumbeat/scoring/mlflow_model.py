"""An MLflow model without a script: `/score` in Azure's form, `/invocations` in MLflow's own.

MLflow parses and writes its own forms; only Azure's `input_data` is read here. Rows of several requests are predicted
at once where their frames have the same columns.
"""

from __future__ import annotations

import importlib
import io
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from drumbeat.scoring.messages import FAILED_RUN, JSON_TYPE, ScoringAnswer, ScoringRequest, error_answer, text_answer
from drumbeat.scoring.run_timeout import RunTimeoutError
from drumbeat.scoring.scorer import ScorerError
from drumbeat.scoring.script import NOT_ALLOWED, NOT_FOUND

log = logging.getLogger("drumbeat.scoring")
_METHODS = {"/": "GET", "/score": "POST", "/invocations": "POST", "/ping": "GET", "/health": "GET", "/version": "GET"}
_SPLIT = frozenset({"columns", "index", "data"})
_FORMATS = ("dataframe_split", "dataframe_records", "instances", "inputs")
INPUT_DATA = "input_data"
REQUIRED = ("The body must be JSON with a top-level key 'input_data', or one of 'dataframe_split', "
            "'dataframe_records', 'instances' and 'inputs'.")  # fmt: skip


@dataclass
class Frame:
    """A parsed request: what the model gets, and in which form its answer goes out."""

    data: Any
    parameters: Any
    is_azure: bool
    is_wrapped: bool = True
    """Whether MLflow writes `{"predictions": …}`."""


class MlflowModel:
    """Implements `scorer.Scorer` for a model folder. Needs mlflow or mlflow-skinny in the environment."""

    can_batch = True

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._model: Any = None
        self._mlflow: Any = None
        self._schema: Any = None

    def init(self) -> None:
        try:
            pyfunc: Any = importlib.import_module("mlflow.pyfunc")
            self._mlflow = importlib.import_module("mlflow.pyfunc.scoring_server")
        except ImportError as error:
            raise ScorerError(
                f"An MLflow model needs mlflow in its environment, which can't be imported: {error}. Add mlflow or "
                "mlflow-skinny to the environment, or name a scoring_script."
            ) from error
        try:
            self._model = pyfunc.load_model(self._folder)
            self._schema = self._model.metadata.get_input_schema()
        except BaseException as error:
            raise ScorerError(f"The MLflow model in {self._folder} can't be loaded: {error}") from error

    def immediate(self, request: ScoringRequest) -> ScoringAnswer | None:
        path = request.path
        if path not in _METHODS:
            return error_answer(404, NOT_FOUND)
        if request.method != _METHODS[path]:
            return error_answer(405, NOT_ALLOWED)
        if path == "/":
            return text_answer("Healthy")
        if path in {"/ping", "/health"}:
            return ScoringAnswer(200, [("Content-Type", JSON_TYPE)], b"\n")
        if path == "/version":
            return ScoringAnswer(200, [("Content-Type", JSON_TYPE)], str(self._mlflow.VERSION).encode())
        return None

    def score(self, request: ScoringRequest) -> ScoringAnswer:
        if request.path == "/invocations":
            return self._invocation(request)
        begin = time.perf_counter()
        try:
            frame = self._parse(request)
            return self._written(frame, self._predict(frame.data, frame.parameters), begin)
        except RunTimeoutError:
            raise
        except BaseException as error:  # noqa: BLE001 - a model may raise anything
            return self._failure(error, begin)

    def score_many(self, requests: Sequence[ScoringRequest]) -> list[ScoringAnswer]:
        """Predicts the rows of all requests at once where that gives the same answers, else one after another."""
        begin = time.perf_counter()
        frames: list[Frame] = []
        try:
            for request in requests:
                if request.path != "/score":
                    break
                frames.append(self._parse(request))
            if len(frames) == len(requests) and (parts := self._predict_together(frames)) is not None:
                return [self._written(frame, part, begin) for frame, part in zip(frames, parts, strict=True)]
        except RunTimeoutError:
            raise
        except BaseException:  # noqa: BLE001, S110 - each request gets an answer of its own below
            pass
        return [self.score(request) for request in requests]

    def _parse(self, request: ScoringRequest) -> Frame:
        """Raises MlflowException and ValueError."""
        value = self._mlflow._decode_json_input(request.body)  # noqa: SLF001 - as its own server does
        if INPUT_DATA in value:
            return Frame(self._input_data(value[INPUT_DATA]), value.get("params"), is_azure=True)
        if not any(key in value for key in _FORMATS):
            raise BadFormatError(REQUIRED)
        parsed = self._mlflow._parse_json_data(value, self._model.metadata, self._schema)  # noqa: SLF001 - as its own server does
        return Frame(parsed.data, parsed.params, is_azure=True, is_wrapped=not parsed.is_unified_llm_input)

    def _input_data(self, value: Any) -> Any:
        """Azure's form: a frame by split, records, one tensor or named tensors."""
        schema: Any = self._schema
        if isinstance(value, dict) and "data" in value and _SPLIT.issuperset(cast("dict[str, Any]", value)):
            return self._mlflow.dataframe_from_parsed_json(value, pandas_orient="split", schema=self._schema)
        names: list[str] = []
        if schema is not None and not schema.is_tensor_spec() and schema.has_input_names():
            names = schema.input_names()
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return self._mlflow.dataframe_from_parsed_json(value, pandas_orient="records", schema=self._schema)
        if isinstance(value, list) and names:
            split: dict[str, Any] = {"columns": names, "data": value}
            return self._mlflow.dataframe_from_parsed_json(split, pandas_orient="split", schema=self._schema)
        return self._mlflow.parse_tf_serving_input({"inputs": value}, schema=self._schema)

    def _predict(self, data: Any, parameters: Any) -> Any:
        return self._model.predict(data, params=parameters) if parameters else self._model.predict(data)

    def _predict_together(self, frames: list[Frame]) -> list[Any] | None:
        """The predictions of each request; None = they can't be told apart."""
        pandas: Any = importlib.import_module("pandas")
        first = frames[0].data
        if any(frame.parameters or not isinstance(frame.data, pandas.DataFrame) for frame in frames):
            return None
        if any(list(frame.data.columns) != list(first.columns) for frame in frames):
            return None
        counts = [len(frame.data) for frame in frames]
        result = self._predict(pandas.concat([frame.data for frame in frames], ignore_index=True), None)
        if not hasattr(result, "__len__") or len(result) != sum(counts) or isinstance(result, dict):
            return None
        parts: list[Any] = []
        begin = 0
        for count in counts:
            part = result[begin : begin + count]
            parts.append(part)
            begin += count
        return parts

    def _written(self, frame: Frame, predictions: Any, begin: float) -> ScoringAnswer:
        text = io.StringIO()
        if frame.is_azure:
            self._mlflow.unwrapped_predictions_to_json(predictions, text)
        else:
            self._mlflow.predictions_to_json(predictions, text)
        elapsed_ms = (time.perf_counter() - begin) * 1e3
        headers = [("Content-Type", JSON_TYPE), ("x-ms-run-function-failed", "False")]
        return ScoringAnswer(200, [*headers, ("x-ms-run-fn-exec-ms", f"{elapsed_ms:.3f}")], text.getvalue().encode())

    def _failure(self, error: BaseException, begin: float) -> ScoringAnswer:
        """A request that the model can't take is the client's fault: its answer says why. Azure's script hides it."""
        elapsed_ms = (time.perf_counter() - begin) * 1e3
        if isinstance(error, BadFormatError):
            return error_answer(400, str(error))
        status = getattr(error, "get_http_status_code", None)
        if status is not None and int(status()) < 500:
            return error_answer(400, str(getattr(error, "message", error)))
        log.error("the model can't answer", exc_info=error)
        answer = error_answer(500, FAILED_RUN, has_run_failed=True)
        answer.add("x-ms-run-fn-exec-ms", f"{elapsed_ms:.3f}")
        return answer

    def _invocation(self, request: ScoringRequest) -> ScoringAnswer:
        exceptions: Any = importlib.import_module("mlflow.exceptions")
        kind = request.header("content-type", JSON_TYPE)
        try:
            if request.media_type in {"", JSON_TYPE} and INPUT_DATA in (value := json.loads(request.body)):
                frame = Frame(self._input_data(value[INPUT_DATA]), value.get("params"), is_azure=False)
                return self._written(frame, self._predict(frame.data, frame.parameters), time.perf_counter())
        except ValueError:
            pass
        except exceptions.MlflowException as error:
            return _mlflow_error(error)
        try:
            result = self._mlflow.invocations(request.body, kind, self._model, self._schema)
        except exceptions.MlflowException as error:
            return _mlflow_error(error)
        return ScoringAnswer(
            result.status, [("Content-Type", _with_charset(result.mimetype))], result.response.encode()
        )


class BadFormatError(ValueError):
    """A body has none of the keys that say what it is."""


def _mlflow_error(error: Any) -> ScoringAnswer:
    body = error.serialize_as_json().encode()
    return ScoringAnswer(error.get_http_status_code(), [("Content-Type", JSON_TYPE)], body)


def _with_charset(media_type: str) -> str:
    return f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type


def is_mlflow_model(folder: str) -> bool:
    """Whether a folder is an MLflow model: it has the file MLmodel."""
    return _has_file(folder, "MLmodel")


def _has_file(folder: str, name: str) -> bool:
    try:
        with open(f"{folder}/{name}", "rb"):
            return True
    except OSError:
        return False
