"""Parses filters and orders of searches with mlflow-skinny. `server/metrics/tables/run_search.py` turns them into SQL.

The package takes about two seconds to import, so the first search with a filter or an order imports it.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from drumbeat.model.mlflow_calls import MlflowRefusal, invalid
from drumbeat.server.metrics.metric_records import Comparison, Order, View
from drumbeat.server.metrics.mlflow.request import Call

T = TypeVar("T")

_VIEWS: dict[str, View] = {
    "ACTIVE_ONLY": "active", "1": "active", "DELETED_ONLY": "deleted", "2": "deleted", "ALL": "all", "3": "all",
}  # fmt: skip
_IMPORT = threading.Lock()
INSTALL = "Filters need mlflow-skinny on the server: pip install 'drumbeat[server]'"


def parse_view(call: Call, name: str) -> View:
    """Returns whether a search includes active or deleted things. Raises MlflowRefusal."""
    given = call.text_or(name, "ACTIVE_ONLY")
    if given not in _VIEWS:
        raise invalid(
            f"Invalid value '{given[:80]}' for parameter '{name}': expected ACTIVE_ONLY, DELETED_ONLY or ALL."
        )
    return _VIEWS[given]


def module(name: str) -> Any:
    """Returns a module of MLflow. Raises MlflowRefusal if it isn't installed."""
    with _IMPORT, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Warnings of its dependencies during import.
        try:
            return importlib.import_module(f"mlflow.{name}")
        except ImportError:
            raise MlflowRefusal("NOT_IMPLEMENTED", INSTALL) from None


def parsed(parse: Callable[[], T]) -> T:
    """Parses a filter or an order with MLflow's parser, and translates its refusals."""
    errors = module("exceptions")
    try:
        return parse()
    except errors.MlflowException as error:
        raise MlflowRefusal(error.error_code, error.message) from None


def run_comparisons(text: str) -> tuple[Comparison, ...]:
    """Returns the conditions of a filter for runs. Raises MlflowRefusal."""
    if not text.strip():
        return ()
    utils = module("utils.search_utils").SearchUtils
    comparisons: list[Comparison] = parsed(lambda: utils.parse_search_filter(text))
    return tuple({**one, "key": _own_key(utils, one["type"], one["key"])} for one in comparisons)


def run_orders(texts: Sequence[str]) -> tuple[Order, ...]:
    """Returns the keys by which runs are sorted. Raises MlflowRefusal."""
    if not texts:
        return ()
    utils = module("utils.search_utils").SearchUtils
    orders: list[Order] = parsed(lambda: [utils.parse_order_by_for_search_runs(one) for one in texts])
    return tuple((kind, _own_key(utils, kind, key), is_ascending) for kind, key, is_ascending in orders)


def _own_key(utils: Any, kind: str, key: str) -> str:
    """Returns the canonical name of an attribute with several, such as `created` for `start_time`."""
    return utils.translate_key_alias(key) if kind == "attribute" else key


def selected(utils_name: str, things: list[Any], text: str, orders: Sequence[str]) -> list[Any]:
    """Returns the entities that match a filter, in an order, with the syntax of MLflow's file store."""
    utils = getattr(module("utils.search_utils"), utils_name)
    return parsed(lambda: utils.sort(utils.filter(things, text or None), list(orders)))
