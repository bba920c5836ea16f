"""The notebooks: what is stored is what the sources say, every cell runs, and nothing of this machine is kept."""

import re
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "notebooks"
sys.path.insert(0, str(FOLDER))

from execute import NAMES, REPOSITORY, execute, notebook_of  # noqa: E402

MOST = 120_000
"""Bytes of a notebook with its outputs."""


def stored(name: str) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def texts(name: str) -> list[str]:
    """Everything that the stored cells showed."""
    outputs = [out for cell in stored(name).cells for out in cell.get("outputs", [])]
    return [out.get("text") or "\n".join(map(str, out.get("data", {}).values())) for out in outputs]


def test_every_source_is_a_notebook_and_the_other_way_round() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - {"execute"} == set(NAMES)
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_cells_are_those_of_the_source(name: str) -> None:
    wanted, found = notebook_of(name).cells, stored(name).cells
    assert [(cell.cell_type, cell.source) for cell in found] == [(cell.cell_type, cell.source) for cell in wanted]
    assert found[0].source.startswith("# "), "the title comes first"
    assert f"github/{REPOSITORY}/blob/main/examples/notebooks/{name}.ipynb" in found[1].source
    assert "pip" in found[2].source


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored_is_small_and_knows_no_machine_and_no_clock(name: str) -> None:
    assert (FOLDER / f"{name}.ipynb").stat().st_size < MOST
    assert texts(name)
    for text in texts(name):
        assert not re.search(r"/(tmp|home|root|Users|work|wt)/", text)
        assert not re.search(r"\bin [\d.]+ s\b", text)
        assert "Traceback" not in text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.timeout(900)
def test_the_cells_run_and_show_as_much_as_is_stored(name: str, tmp_path: Path) -> None:
    ran = execute(name, tmp_path)
    assert [len(cell.get("outputs", [])) for cell in ran.cells] == [
        len(cell.get("outputs", [])) for cell in stored(name).cells
    ]
    kinds = {kind for cell in ran.cells for out in cell.get("outputs", []) for kind in out.get("data", {})}
    assert "text/html" in kinds
