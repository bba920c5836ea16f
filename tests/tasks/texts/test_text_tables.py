"""Tables of texts come in four formats, and what is wrong with one is told with its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from smelt.errors import CorruptFile
from smelt.tasks.task import TaskError
from smelt.tasks.texts.tables import read_table_rows

ROWS = [{"text": 'iron, "a" metal', "label": "1"}, {"text": "gold", "label": "0"}]


def _write(folder: Path, kind: str) -> Path:
    file = folder / f"test{kind}"
    if kind == ".jsonl":
        file.write_text("\n".join(map(json.dumps, ROWS)))
    elif kind == ".jsonl.gz":
        file.write_bytes(gzip.compress("\n".join(map(json.dumps, ROWS)).encode()))
    elif kind == ".csv":
        file.write_text('text,label\n"iron, ""a"" metal",1\ngold,0\n')
    elif kind == ".tsv":
        file.write_text('text\tlabel\r\niron, "a" metal\t1\r\ngold\t0\r\n')
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), file)
    return file


@pytest.mark.parametrize("kind", [".jsonl", ".jsonl.gz", ".csv", ".tsv", ".parquet"])
def test_every_format_holds_the_same_rows(tmp_path: Path, kind: str) -> None:
    rows = read_table_rows(_write(tmp_path, kind), "metals/test", ["text", "label"])
    assert [values for _, values in rows] == ROWS


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("test.tsv", "text\tlabel\niron\n", r"line 2: has 1 cells, but the first line names 2"),
        ("test.csv", 'text,label\n"iron,1\n', r"line 2: cannot be read"),
        ("test.csv", "text,text\niron,1\n", r"names a column twice"),
        ("test.csv", "text,class\niron,1\n", r"has no column 'label'; it has: text, class"),
        ("test.jsonl", '{"text": "iron", "label": 1}\n{"text": "gold"}\n', r"line 2: has no 'label'"),
        ("test.tsv", "text\tlabel\n", r"holds no examples"),
        ("test.parquet", "PAR1 is not enough", r"cannot be read as parquet"),
        ("test.txt", "iron", r"no table that is known by its name"),
        ("test.parquet.gz", "iron", r"no table that is known by its name"),
    ],
)
def test_a_damaged_table_is_refused_with_its_line(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises((CorruptFile, TaskError), match=said):
        read_table_rows(tmp_path / name, "metals/test", ["text", "label"])


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"test\.csv is not there"):
        read_table_rows(tmp_path / "test.csv", "metals/test", ["text"])
