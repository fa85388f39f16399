"""Stand-ins for the modules of Azure's server that scoring scripts import, where the environment lacks them.

The modules `aml_request` and `aml_response` of the package azureml-inference-server-http and, at their older place, of
azureml-contrib-services. An installed package is preferred.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import parse_qs

from drumbeat.scoring.messages import ScoringRequest

_PARENTS = ("azureml_inference_server_http", "azureml_inference_server_http.api", "azureml", "azureml.contrib",
            "azureml.contrib.services")  # fmt: skip
_REQUESTS = ("azureml_inference_server_http.api.aml_request", "azureml.contrib.services.aml_request")
_RESPONSES = ("azureml_inference_server_http.api.aml_response", "azureml.contrib.services.aml_response")

Function = TypeVar("Function", bound=Callable[..., Any])


class HeaderFields:
    """Headers whose names are compared without regard to case."""

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        self._items = list(items)

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the first value of a header."""
        low = name.lower()
        return next((value for one, value in self._items if one.lower() == low), default)

    def getlist(self, name: str) -> list[str]:
        """Returns all values of a header."""
        low = name.lower()
        return [value for one, value in self._items if one.lower() == low]

    def add(self, name: str, value: Any) -> None:
        """Adds a header."""
        self._items.append((name, str(value)))

    add_header = add

    def remove(self, name: str) -> None:
        """Removes the headers of a name."""
        low = name.lower()
        self._items = [(one, value) for one, value in self._items if one.lower() != low]

    def items(self) -> Iterator[tuple[str, str]]:
        """Names and values."""
        return iter(list(self._items))

    def keys(self) -> list[str]:
        """The names."""
        return [name for name, _ in self._items]

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return str(value)

    def __setitem__(self, name: str, value: Any) -> None:
        self.remove(name)
        self.add(name, value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._items)


class QueryFields(dict[str, str]):
    """The parameters of a query; of repeated ones, a subscript gives the first."""

    def __init__(self, query: str) -> None:
        self._all = parse_qs(query, keep_blank_values=True)
        super().__init__({name: values[0] for name, values in self._all.items()})

    def getlist(self, name: str) -> list[str]:
        """Returns all values of a parameter."""
        return self._all.get(name, [])

    def to_dict(self, flat: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002 - as werkzeug has it
        """Returns the parameters; flat: the first value of each."""
        return dict(self) if flat else dict(self._all)


class AMLRequest:
    """The request that a script with `@rawhttp` gets: the part of Flask's interface that scoring scripts use."""

    def __init__(self, request: ScoringRequest) -> None:
        self._request = request
        self.method = request.method
        self.path = request.path
        self.query_string = request.query.encode("latin-1")
        self.full_path = f"{request.path}?{request.query}"
        self.host = request.header("host")
        self.url = f"http://{self.host}{request.target}"
        self.base_url = f"http://{self.host}{request.path}"
        self.headers = HeaderFields(request.titled_headers().items())
        self.args = QueryFields(request.query)
        self.content_type = request.headers.get("content-type")
        self.mimetype = request.media_type
        self.is_json = request.is_json
        self.content_length = len(request.body)

    @property
    def data(self) -> bytes:
        """The body."""
        return self._request.body

    def get_data(self, cache: bool = True, as_text: bool = False, parse_form_data: bool = False) -> Any:  # noqa: FBT001, FBT002 - as werkzeug has it
        """Returns the body."""
        return self._request.body.decode() if as_text else self._request.body

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return self.get_json()

    def get_json(self, force: bool = False, silent: bool = False, cache: bool = True) -> Any:  # noqa: FBT001, FBT002 - as werkzeug has it
        """Returns the body as JSON; None if silent and it is none. Raises ValueError."""
        try:
            if not (force or self.is_json):
                raise ValueError("the Content-Type of the request isn't application/json")
            return json.loads(self._request.body)
        except ValueError:
            if silent:
                return None
            raise

    @property
    def form(self) -> QueryFields:
        """The fields of a form that was sent as `application/x-www-form-urlencoded`."""
        is_form = self.mimetype == "application/x-www-form-urlencoded"
        return QueryFields(self._request.body.decode() if is_form else "")


class AMLResponse:
    """An answer that a script makes itself: body, status and headers, as Azure's server has it."""

    def __init__(
        self,
        message: Any,
        status_code: int,
        response_headers: dict[str, str] | None = None,
        json_str: bool = False,  # noqa: FBT001, FBT002 - as Azure has it
        run_function_failed: bool = False,  # noqa: FBT001, FBT002 - as Azure has it
    ) -> None:
        self.status_code = status_code
        given = response_headers or {}
        is_json = json_str or message is None
        self.response = json.dumps({} if message is None else message) if is_json else message
        kind = "application/json" if is_json else "text/html; charset=utf-8"
        self.headers = HeaderFields([("Content-Type", kind)])
        if not is_json and "Content-Type" in given:
            self.headers.remove("Content-Type")
        self.headers["x-ms-run-function-failed"] = run_function_failed
        for name, value in given.items():
            # Azure's server: a comma separates the values of a header that stands several times.
            for one in value.split(","):
                self.headers.add(name, one.strip())

    @property
    def data(self) -> Any:
        """The body."""
        return self.response

    @data.setter
    def data(self, value: Any) -> None:
        self.response = value


def make_request_module(module: ModuleType) -> None:
    """Fills a module that stands in for `aml_request`."""
    namespace = vars(module)

    def rawhttp(function: Function) -> Function:
        """Has `run` get the request itself."""
        namespace["_rawHttpRequested"] = True
        return function

    namespace.update(_rawHttpRequested=False, rawhttp=rawhttp, AMLRequest=AMLRequest)


def is_raw_requested() -> bool:
    """Whether a script has used `@rawhttp`, of a stand-in or of the real package."""
    return any(getattr(sys.modules.get(name), "_rawHttpRequested", False) for name in _REQUESTS)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands last among the finders, so it is asked only for what isn't installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in (*_PARENTS, *_REQUESTS, *_RESPONSES):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in _PARENTS)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ in _REQUESTS:
            make_request_module(module)
        elif module.__name__ in _RESPONSES:
            vars(module)["AMLResponse"] = AMLResponse


def install() -> None:
    """Makes the stand-ins importable in this process."""
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.append(_Finder())
