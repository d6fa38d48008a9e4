"""The queries of the pages run, on a bundled trace; of tables that it lacks, on ones with the documented columns and no rows."""

import pathlib
import re
import shutil

import duckdb
import pandas as pd
import pytest

docs = pathlib.Path(__file__).parent.parent / "docs"
bundled = docs.parent / "traces" / "cases" / "statusloop.optrace"

types = {
    "string": "VARCHAR",
    "int64": "BIGINT",
    "int32": "INTEGER",
    "bool": "BOOLEAN",
    "double": "DOUBLE",
    "timestamp": "TIMESTAMP_NS",
}
frames = 'STRUCT("function" VARCHAR, file VARCHAR, line INTEGER, inlined BOOLEAN)[]'


def write(path, select):
    duckdb.sql(f"COPY ({select}) TO '{path}' (FORMAT parquet)")


def documented_tables():
    """Name and columns of each table in trace-format.md."""
    page = (docs / "trace-format.md").read_text()
    for section in re.split(r"(?m)^### ", page)[1:]:
        columns = [("seq", types["int64"]), ("ts", types["timestamp"])]
        for names, kind in re.findall(r"(?m)^\| ((?:`\w+` ?)+)\| ([a-z0-9 ]+?) \|", section):
            columns += [(name, types.get(kind, frames)) for name in re.findall(r"\w+", names)]
        if len(columns) > 2:
            yield section.split("\n")[0].strip(), columns


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with t.optrace in it, and what an exploration leaves."""
    trace = tmp_path / "t.optrace"
    shutil.copytree(bundled, trace)
    for name, columns in documented_tables():
        if not list(trace.glob(f"{name}-*.parquet")):
            write(trace / f"{name}-0001.parquet", "SELECT " + ", ".join(f'NULL::{kind} AS "{column}"' for column, kind in columns) + " LIMIT 0")
    (tmp_path / "t-explored").mkdir()
    write(tmp_path / "t-explored" / "results.parquet", "SELECT 'crash' AS kind, 'alarms' AS verdict")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(mark):
    """Each block of that mark in the pages: page and text."""
    for page in sorted(docs.glob("*.md")):
        for text in re.findall(rf"(?ms)^```{mark}\n(.*?)^```", page.read_text()):
            yield page.name, text


def test_tables_are_found():
    assert {name for name, _ in documented_tables()} >= {"watch", "requests", "reconciles", "samples", "stacks", "logs"}


def queries():
    for page, text in blocks("sql"):
        for i, query in enumerate(q for q in text.split(";") if q.strip()):
            yield pytest.param(page, query, id=f"{page}-{i}-{query.strip()[:30]}")


@pytest.mark.parametrize("page, query", list(queries()))
def test_query(folder, page, query):
    rows = duckdb.sql(query).fetchall()
    about = ("reconciles-", "samples-", "'db-0'")  # which the bundled trace has none of
    assert rows or any(word in query for word in about), "no rows"


def test_python(folder):
    pytest.importorskip("pyarrow", reason="SKIPPED: the page's pandas reads Parquet with pyarrow, which is not here")
    found = [text for _, text in blocks("python")]
    assert found
    for text in found:
        names = {}
        exec(compile(text, "docs", "exec"), names)
        assert isinstance(names["watch"], pd.DataFrame) and len(names["watch"]) > 100
