"""An MLflow model as what a batch deployment runs without a script: its predictions for each file."""

from __future__ import annotations

import csv
import importlib
import io
import os
from collections.abc import Iterator
from typing import Any, cast

IMAGES = (".png", ".jpg", ".jpeg", ".tiff", ".bmp", ".gif")
TABLES = (".csv", ".parquet", ".pqt", ".json", ".jsonl")


class MlflowPredictor:
    """Predicts for tables (a prediction for each row) and images (one for each)."""

    def __init__(self, folder: str) -> None:
        pyfunc: Any = importlib.import_module("mlflow.pyfunc")
        self._model = pyfunc.load_model(folder)

    def answer(self, paths: list[str], _context: Any) -> tuple[str, int]:
        """Returns lines of row, prediction and name of the file, with commas, of images without the row; and the
        number of files. Raises ValueError for a file of another kind.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for path in paths:
            writer.writerows(self._rows(path))
        return text.getvalue(), len(paths)

    def shutdown(self) -> None:
        """Does nothing."""

    def _rows(self, path: str) -> Iterator[list[object]]:
        name, suffix = os.path.basename(path), os.path.splitext(path)[1].lower()
        if suffix in IMAGES:
            yield [_cell(_first(self._model.predict(_image(path)))), name]
        elif suffix in TABLES:
            predictions = self._model.predict(_table(path, suffix))
            for row, prediction in enumerate(_elements(predictions)):
                yield [row, _cell(prediction), name]
        else:
            suffixes = ", ".join((*TABLES, *IMAGES))
            raise ValueError(f"{name}: an MLflow model without a script takes {suffixes}")


def _table(path: str, suffix: str) -> Any:
    pandas: Any = importlib.import_module("pandas")
    if suffix == ".csv":
        return pandas.read_csv(path)
    if suffix in (".json", ".jsonl"):
        return pandas.read_json(path, lines=suffix == ".jsonl")
    return pandas.read_parquet(path)


def _image(path: str) -> Any:
    """The image as an array of shape (1, height, width, channels)."""
    numpy: Any = importlib.import_module("numpy")
    image: Any = importlib.import_module("PIL.Image")
    with image.open(path) as opened:
        return numpy.asarray(opened)[None]


def _elements(predictions: Any) -> list[Any]:
    """The prediction of each row; of a DataFrame with one column, its values."""
    if hasattr(predictions, "columns"):
        values = predictions.to_numpy().tolist()
        return [row[0] for row in values] if len(predictions.columns) == 1 else values
    return predictions.tolist() if hasattr(predictions, "tolist") else list(predictions)


def _first(predictions: Any) -> Any:
    return _elements(predictions)[0]


def _cell(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    cells = cast("list[Any]", value)
    return cells[0] if len(cells) == 1 else cells
