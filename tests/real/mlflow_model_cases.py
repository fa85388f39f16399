"""MLflow models and requests that MLflow's own server and drumbeat answer alike.

Run where mlflow, numpy, pandas and scikit-learn are: `python -m tests.real.mlflow_model_cases FOLDER` writes
the models and prints drumbeat's answers; `… FOLDER mlflow` prints those of MLflow's own server.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JSON = "application/json"
SPLIT = {"columns": ["a", "b"], "data": [[1.0, 2.0], [3.0, 4.0]]}
RECORDS = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}]
ROWS = [[1.0, 2.0], [3.0, 4.0]]


@dataclass(frozen=True)
class MlflowCase:
    """A request to `/invocations` of a model."""

    model: str
    body: Any
    kind: str = JSON

    @property
    def content(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()

    @property
    def name(self) -> str:
        return f"{self.model}: {self.kind} {self.content.decode()[:70]} {len(self.content)}"


CASES = [
    *[MlflowCase(model, body) for model in ("columns", "free") for body in (
        {"dataframe_split": SPLIT}, {"dataframe_records": RECORDS}, {"instances": RECORDS},
        {"inputs": {"a": [1.0], "b": [2.0]}},
        {"dataframe_split": {"columns": ["b", "a"], "data": [[2.0, 1.0]]}}, {"nothing": 1}, [1], {"dataframe_split": 1},
        {"dataframe_records": RECORDS, "instances": RECORDS},
    )],
    MlflowCase("columns", {"dataframe_split": {"columns": ["a"], "data": [[1.0]]}}),
    MlflowCase("columns", {"dataframe_records": [{"a": "x", "b": 2.0}]}),
    MlflowCase("columns", {"dataframe_split": SPLIT, "params": {"scale": 3.0}}),
    MlflowCase("columns", "a,b\n1,2\n3,4\n", "text/csv"),
    MlflowCase("columns", "a,b\n1,2\n", "text/csv; charset=utf-16"),
    MlflowCase("columns", "not json"),
    MlflowCase("columns", "x", "text/plain"),
    MlflowCase("tensor", {"inputs": ROWS}),
    MlflowCase("tensor", {"instances": ROWS}),
    MlflowCase("tensor", {"inputs": [[1.0]]}),
]  # fmt: skip
INPUT_DATA = {
    "columns": [SPLIT, {**SPLIT, "index": [5, 6]}, RECORDS, ROWS],
    "free": [SPLIT, RECORDS],
    "tensor": [ROWS],
}
"""What Azure's `input_data` may be, by model: `/score` answers the bare predictions of the same rows."""


def write_models(folder: Path) -> None:
    """Saves three models that give a × scale + b: with a signature of columns, without one, and with a tensor's."""
    import mlflow.pyfunc
    import numpy as np
    from mlflow.models import infer_signature
    from mlflow.types import ParamSchema, ParamSpec, Schema, TensorSpec

    class Frames(mlflow.pyfunc.PythonModel):
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            scale = (params or {}).get("scale", 2.0)
            return [float(row["a"]) * scale + float(row["b"]) for _, row in model_input.iterrows()]

    class Tensors(mlflow.pyfunc.PythonModel):
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            return np.asarray(model_input) @ np.array([2.0, 1.0])

    import pandas as pd

    example = pd.DataFrame(RECORDS)
    params = ParamSchema([ParamSpec("scale", "double", 2.0)])
    columns = infer_signature(example, [4.0], {"scale": 2.0})
    columns.params = params
    mlflow.pyfunc.save_model(folder / "columns", python_model=Frames(), signature=columns)
    mlflow.pyfunc.save_model(folder / "free", python_model=Frames())
    tensor = mlflow.models.ModelSignature(inputs=Schema([TensorSpec(np.dtype("float64"), (-1, 2))]))
    mlflow.pyfunc.save_model(folder / "tensor", python_model=Tensors(), signature=tensor)


def own_answers(folder: Path) -> dict[str, Any]:
    """drumbeat's answers: to the cases at /invocations, and to Azure's forms at /score, one by one and in one batch."""
    from drumbeat.scoring.messages import ScoringAnswer, ScoringRequest
    from drumbeat.scoring.mlflow_model import MlflowModel

    models: dict[str, MlflowModel] = {}
    for name in INPUT_DATA:
        models[name] = MlflowModel(str(folder / name))
        models[name].init()

    def shown(answer: ScoringAnswer) -> list[Any]:
        return [answer.status, answer.body.decode() if isinstance(answer.body, bytes) else None]

    def request(path: str, body: bytes, kind: str = JSON) -> ScoringRequest:
        return ScoringRequest("POST", path, {"content-type": kind}, body)

    answers = {
        case.name: shown(models[case.model].score(request("/invocations", case.content, case.kind))) for case in CASES
    }
    azure: dict[str, Any] = {}
    for name, forms in INPUT_DATA.items():
        requests = [request("/score", json.dumps({"input_data": form}).encode()) for form in forms]
        azure[name] = [shown(models[name].score(one)) for one in requests]
        azure[f"{name} as a batch"] = [shown(one) for one in models[name].score_many(requests)]
    wrong = request("/score", b'{"input_data": {"columns": ["a"], "data": [[1]]}}')
    azure["wrong"] = [
        shown(models["columns"].score(wrong))[0],
        shown(models["columns"].score(request("/score", b"{}")))[0],
    ]
    return {"answers": answers, "azure": azure}


def their_answers(folder: Path) -> dict[str, Any]:
    """The answers of MLflow's server, by its own application."""
    import mlflow.pyfunc
    from fastapi.testclient import TestClient
    from mlflow.pyfunc import scoring_server

    clients = {
        name: TestClient(scoring_server.init(mlflow.pyfunc.load_model(str(folder / name)))) for name in INPUT_DATA
    }
    answers: dict[str, Any] = {}
    for case in CASES:
        answer = clients[case.model].post("/invocations", content=case.content, headers={"Content-Type": case.kind})
        answers[case.name] = [answer.status_code, answer.text]
    return {"answers": answers}


def main(folder: str, whose: str = "own") -> None:
    place = Path(folder)
    if not (place / "tensor").exists():
        write_models(place)
    json.dump((their_answers if whose == "mlflow" else own_answers)(place), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
