"""The notebooks run from clean, and find in bundled traces what is known to be there."""

import collections
import json
import os
import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

here = pathlib.Path(__file__).parent
labelled = here.parent / "traces" / "labelled"


def run(name, **env):
    """Executes a notebook and returns what its last cell printed."""
    notebook = nbformat.read(here / f"{name}.ipynb", as_version=4)
    kept = dict(os.environ)
    os.environ.update(env)
    try:
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(here)}}).execute()
    finally:
        os.environ.clear()
        os.environ.update(kept)
    return json.loads("".join(o["text"] for o in notebook.cells[-1].outputs if o["output_type"] == "stream"))


@pytest.mark.parametrize("name", ["first_look", "anatomy_of_a_loop", "two_versions"])
def test_is_committed_without_outputs(name):
    notebook = nbformat.read(here / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None


@pytest.mark.parametrize("trace", ["statusloop-faulty", "tombstone-fixed"])
def test_first_look_counts_what_the_manifest_counts(trace):
    got = run("first_look", OPTRACE=str(labelled / f"{trace}.optrace"))
    want = collections.Counter()
    for f in json.loads((labelled / f"{trace}.optrace" / "manifest.json").read_text())["files"]:
        want[f["table"]] += f["rows"]
    assert got["rows"] == dict(want)
    assert got["calls"] == want["requests"]


def test_loop_is_the_one_that_the_operator_was_written_with():
    # examples/operators/statusloop writes a fresh time into a condition at each pass, and waits 100 ms before it.
    got = run("anatomy_of_a_loop")
    assert got["process"] == "statusloop"
    assert got["object"].startswith("sites ")
    assert got["field"] == "status.conditions[*].lastTransitionTime"
    assert got["versions"] - got["own"] == 4  # a user created the site and changed it three times
    assert got["writes"] > 20
    # Two sites take turns in one worker: each is written once in its period, which the autocorrelation finds too.
    assert abs(got["autocorrelation"] - got["period"]) <= 0.02


def test_mended_twin_writes_less():
    got = run("two_versions")
    assert "update sites/status" in got["more"] or "patch sites/status" in got["more"]
    assert got["object"].startswith("sites ")
    assert got["versions"] > 20


def test_nothing_changed_between_a_trace_and_itself():
    same = str(labelled / "statusloop-fixed.optrace")
    assert run("two_versions", OPTRACE=same, OPBASE=same)["more"] == []
