"""--force replaces what Smelt wrote, known by its own file, and nothing else."""

import json
from pathlib import Path

import pytest

from smelt.errors import OutputError
from smelt.files.writing import OutputMark, check_overwrite

MARK = OutputMark("manifest.json", ("smelt", "files"))


def folder(path: Path, **files: str) -> Path:
    path.mkdir()
    for name, content in files.items():
        (path / f"{name}.json").write_text(content)
    return path


@pytest.mark.parametrize("force", [False, True])
def test_where_nothing_is_anything_may_go(tmp_path: Path, force: bool) -> None:
    check_overwrite(tmp_path / "new", MARK, force=force)
    check_overwrite(folder(tmp_path / "empty"), MARK, force=force)


def test_what_smelt_wrote_is_replaced_with_force_only(tmp_path: Path) -> None:
    ours = folder(tmp_path / "ours", manifest=json.dumps({"smelt": "0.1", "files": {}}))
    check_overwrite(ours, MARK, force=True)
    with pytest.raises(OutputError, match=r"already exists; it is kept\. Choose another folder, or write force=True"):
        check_overwrite(ours, MARK, force=False)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "content",
    ['{"name": "a web page", "files": []}', "[]", "{", "", "[" * 100_000],
    ids=["another program's", "a list", "damaged", "empty", "deep"],
)
def test_a_file_of_that_name_is_not_enough(tmp_path: Path, content: str, force: bool) -> None:
    theirs = folder(tmp_path / "theirs", manifest=content)
    with pytest.raises(OutputError, match=r"no manifest\.json that Smelt wrote.*with or without force=True.*remove"):
        check_overwrite(theirs, MARK, force=force)


def test_a_file_is_never_replaced_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(OutputError, match="is a file"):
        check_overwrite(tmp_path / "notes", MARK, force=True)
