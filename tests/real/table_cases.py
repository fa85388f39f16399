"""Tables read twice, by Azure's package `mltable` and by the rows of a parallel step: prints where they differ.

`python table_cases.py FOLDER`, in a Python with mltable, pandas and pyarrow.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drumbeat.parallel import table_steps
from drumbeat.parallel.mini_batches import divide, place_of, rows_of
from drumbeat.parallel.mltable import read_table
from drumbeat.parallel.settings import ParallelSettings, RunnerError

mltable, pandas = (importlib.import_module(name) for name in ("mltable", "pandas"))
"""Modules of another Python."""
FILES = {
    "a.csv": "id,name,x,flag\n1,ann,1.5,true\n2,,2,false\n3,\"c,d\",,true\n",
    "b.csv": "id,name,x,flag\n4,zoe,4.25,false\n05,05,5,true\n6,NA,-1,false\n",
    "semi.csv": "id;nom\n1;é\n2;ü\n",
    "rest.csv": "7,rob,1,true\n8,,9.5,\n",
    "breaks.csv": 'A,B,C\nA1,B1,C1\nA2,"B\n2",C2\n',
    "plain.csv": "1,x\n2,y\n",
    "l.jsonl": '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n{"a": 3, "b": null}\n',
    "bad.jsonl": '{"a": 1}\nnope\n{"a": 3}\n{"a": 4}\n',
}  # fmt: skip
BOTH = ["a.csv", "b.csv"]
READ = "read_delimited"


def texts(*columns: str) -> dict[str, Any]:
    return {"convert_column_types": [{"columns": [*columns], "column_type": "string"}]}


def converted(columns: list[str], type_: Any) -> list[Any]:
    return [
        {READ: {"infer_column_types": False}},
        {"convert_column_types": [{"columns": columns, "column_type": type_}]},
    ]


CASES: list[tuple[list[str], list[Any]]] = [
    (["a.csv"], [READ]),
    (BOTH, [{READ: {"delimiter": ",", "header": "all_files_same_headers"}}]),
    (BOTH, [{READ: {"header": "all_files_different_headers"}}]),
    (["a.csv", "rest.csv"], [{READ: {"header": "from_first_file"}}]),
    (["plain.csv"], [{READ: {"header": "no_header"}}]),
    (["a.csv"], [{READ: {"infer_column_types": False}}]),
    (["a.csv"], [{READ: {"empty_as_string": True}}]),
    (["semi.csv"], [{READ: {"delimiter": ";", "encoding": "latin1"}}]),
    (["breaks.csv"], [READ]),
    (["breaks.csv"], [{READ: {"support_multi_line": True}}]),
    (["a.csv"], [{READ: {"include_path_column": True}}]),
    (["l.jsonl"], ["read_json_lines"]),
    (["bad.jsonl"], [{"read_json_lines": {"invalid_lines": "drop"}}]),
    (["bad.jsonl"], [{"read_json_lines": {"invalid_lines": "drop"}}, {"skip": 1}, {"take": 1}]),
    (["p.parquet"], ["read_parquet"]),
    (["p.parquet"], ["read_parquet", {"skip": 30}, {"take": 45}, {"keep_columns": ["s", "id"]}]),
    (["p.parquet"], [{"read_parquet": {"include_path_column": True}}, {"filter": 'col("x") > 9 and s != "s70"'}]),
    (BOTH, [READ, {"take": 4}]),
    (BOTH, [READ, {"take": 0}]),
    (BOTH, [READ, {"skip": 2}, {"take": 3}]),
    (BOTH, [READ, {"take": 5}, {"skip": 4}]),
    (BOTH, [READ, {"filter": 'col("x") >= 2'}, {"skip": 1}, {"take": 1}]),
    (BOTH, [READ, {"skip": 1}, {"filter": 'col("x") >= 2'}, {"take": 2}]),
    (BOTH, [READ, {"drop_columns": ["name", "x", "nope"]}]),
    (BOTH, [READ, {"keep_columns": ["x", "id", "nope"]}]),
    (BOTH, [READ, {"keep_columns": "x"}]),
    *[
        (BOTH, [READ, {"filter": text}])
        for text in (
            'col("x") > 1.7', 'x > 1.7', "col('name') == 'ann' or col('id') >= 4", 'not (col("id") == 1)',
            'col("x") != 2', 'col("id") > 2 and col("flag") == True', '(col("id") == 1) or (col("x") >= 5)',
            'not (col("x") > 2)', 'col("x") == None', 'col("x") + 1 > 3', 'col("x") > col("id")', 'col("name") > "b"',
            'col("id") == "1"', 'col("nope") == "1"', 'col("x") > -1', 'col("x") * 2 - 1 < col("id") / 2',
        )
    ],
    (["a.csv"], converted(["x", "id"], "int")),
    (["a.csv"], converted(["x", "id"], "float")),
    (["a.csv"], converted(["flag"], "boolean")),
    (["a.csv"], converted(["id"], {"boolean": {"true_values": ["1"], "false_values": ["2"], "mismatch_as": "false"}})),
    (["a.csv"], [READ, texts("x", "id", "flag")]),
    (["a.csv"], [READ, {"convert_column_types": [{"columns": "x", "column_type": "int"}]}]),
]  # fmt: skip
REFUSED: list[tuple[Any, str]] = [
    ({"frobnicate": 1}, "the transformation frobnicate isn't supported"),
    ({"extract_columns_from_partition_format": {"partition_format": "/{a}/x.csv"}}, "extract_columns_from_partition"),
    ({"filter": 'col("x") | 1'}, "the filter"),
    ({"keep_columns": {"pattern": "x"}}, "a pattern isn't supported"),
    ({"sample": {"sampler": "random_percent"}}, "the transformation sample isn't supported"),
    ({"take": -1}, "take has a number of rows"),
    ({"convert_column_types": [{"columns": "x", "column_type": "stream_info"}]}, "stream_info"),
]


def by_azure(folder: Path) -> Any:
    return mltable.load(str(folder)).to_pandas_dataframe()


def by_step(folder: Path, size: int) -> Any:
    """The rows of all mini-batches of a step."""
    table = read_table(str(folder))
    assert table is not None
    frames: list[Any] = []
    for batch in divide(ParallelSettings(input=str(folder), mini_batch_bytes=size)):
        assert batch.rows is not None
        frame = rows_of(str(folder), batch.files[0], batch.rows)
        frames.append(table_steps.apply(frame, table.steps, batch.rows.cuts, place_of(batch.files[0], batch.rows)))
    return pandas.concat([one for one in frames if len(one)] or frames[:1], ignore_index=True)


def shown(frame: Any) -> list[list[Any]]:
    """Names of columns and values; a missing one is None. A table without rows has no columns in Azure's reader."""
    if not len(frame):
        return []
    rows = [
        [None if pandas.isna(value) else value for value in row] for row in frame.astype(object).to_numpy().tolist()
    ]
    return [list(map(str, frame.columns)), *[[plain(value) for value in row] for row in rows]]


def plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | str) else float(value)


def differences(folder: Path) -> Iterator[str]:
    for number, (files, transformations) in enumerate(CASES):
        place = described(folder / str(number), files, transformations)
        expected = shown(by_azure(place))
        for size in (1, 30, 1 << 20):
            try:
                got = shown(by_step(place, size))
            except RunnerError as error:
                got = [] if "has no rows" in str(error) else [[str(error)]]
            if got != expected:
                yield f"{files} {json.dumps(transformations)} by {size} bytes:\n  {got}\n  and not\n  {expected}"
    for number, (step, sentence) in enumerate(REFUSED):
        place = described(folder / f"refused{number}", ["a.csv"], [READ, step])
        try:
            by_step(place, 30)
            yield f"{step} isn't refused"
        except RunnerError as error:
            if sentence not in str(error):
                yield f"{step}: {error}"


def described(place: Path, files: list[str], transformations: list[Any]) -> Path:
    """A folder with a table's description and its files."""
    place.mkdir(parents=True)
    for name in files:
        if name == "p.parquet":
            numbers = range(100)
            frame = pandas.DataFrame({"id": numbers, "x": [n / 4 if n % 7 else None for n in numbers]})
            frame.assign(s=[f"s{n}" for n in numbers]).to_parquet(place / name, row_group_size=40)
        else:
            (place / name).write_text(FILES[name], encoding="latin-1" if name == "semi.csv" else "utf-8", newline="")
    document = {"type": "mltable", "paths": [{"file": f"./{name}"} for name in files]}
    (place / "MLTable").write_text(json.dumps({**document, "transformations": transformations}))
    return place


if __name__ == "__main__":
    listing = list(differences(Path(sys.argv[1])))
    sys.stdout.write("\n".join([f"{len(CASES)} tables, {len(listing)} differences", *listing]))
    sys.exit(bool(listing))
