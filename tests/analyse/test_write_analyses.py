"""The files that the report reads."""

import json

from analysed_by_hand import pool, tensors, three
from smelt.analyse import write_analyses


def test_three_files_with_the_fields_that_the_report_reads(tmp_path):
    written = write_analyses(three(), tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "analyses/cosine.json",
        "analyses/norms.json",
        "analyses/signs.json",
    ]
    cosine, norms, signs = (json.loads(path.read_text()) for path in written)
    assert (cosine["names"], cosine["matrix"][0][2]) == (["a", "b", "c"], -1.0)
    assert (norms["layers"], norms["models"]["c"]) == (["w"], [1.0])
    assert norms["relative"]["c"] == [1 / 50**0.5]
    assert (signs["names"], signs["matrix"], signs["entries"]) == (
        ["a", "b", "c"],
        [[0, 0, 1], [0, 0, 1], [1, 1, 0]],
        0.5,
    )


def test_undefined_numbers_are_null(tmp_path):
    base = tensors(w=[0.0])
    write_analyses(pool(base, same=base), tmp_path)
    texts = [path.read_text() for path in (tmp_path / "analyses").iterdir()]
    assert not any("NaN" in text for text in texts)
    assert json.loads((tmp_path / "analyses" / "cosine.json").read_text())["matrix"] == [[None]]
