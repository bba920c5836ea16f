from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.formats.statistics import (
    NOTE,
    VALUES,
    ExampleRun,
    StatisticsNote,
    check_statistics,
    open_statistics,
    write_statistics,
)
from smelt.measurement.combine import combine


def note(**words: Any) -> StatisticsNote:
    data = words.pop("data", (ExampleRun(task="photos", split="train", examples=4, hash="photos"),))
    about = {"kind": "gram", "estimator": "inputs", "model": "cars", "model_hash": "m", "examples": 4, "data": data}
    return StatisticsNote(**{**about, **words})


def use(first: int, examples: int, **words: Any) -> ExampleRun:
    return ExampleRun(**{"task": "photos", "split": "train", "hash": "photos", **words}, first=first, examples=examples)


def read(folder: Path, key: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    with closing(open_statistics(folder)) as source:
        info = source.tensors[key]
        flat = torch.empty(info.count, dtype=dtype)
        source.read(key, 0, flat)
        return flat.view(info.shape)


def test_sums_are_stored_and_means_are_read(tmp_path: Path) -> None:
    write_statistics(tmp_path / "s", note(), {"q": torch.tensor([[8.0, 2.0], [2.0, 6.0]])})
    assert read(tmp_path / "s", "q").tolist() == [[2, 0.5], [0.5, 1.5]]


def test_a_run_of_elements_can_be_read(tmp_path: Path) -> None:
    write_statistics(tmp_path / "s", note(), {"q": torch.arange(8.0).view(2, 4)})
    with closing(open_statistics(tmp_path / "s")) as source:
        some = torch.empty(3)
        source.read("q", 2, some)
    assert some.tolist() == [0.5, 0.75, 1.0]


def test_a_mean_is_rounded_once(tmp_path: Path) -> None:
    total = torch.tensor([1.0 + 2**-30], dtype=torch.float64)
    write_statistics(tmp_path / "s", note(examples=3), {"q": total})
    assert read(tmp_path / "s", "q", torch.float64).item() == (1 + 2**-30) / 3
    assert read(tmp_path / "s", "q").item() == torch.tensor((1 + 2**-30) / 3, dtype=torch.float32).item()


def test_names_that_share_a_statistic_are_read_under_both(tmp_path: Path) -> None:
    write_statistics(tmp_path / "s", note(tied={"k": "q"}), {"q": torch.tensor([4.0])})
    with closing(open_statistics(tmp_path / "s")) as source:
        assert set(source.tensors) == {"q", "k"}
        assert set(source.stored) == {"q"}
    assert read(tmp_path / "s", "k").tolist() == [1]


def test_a_mask_is_read_as_it_is(tmp_path: Path) -> None:
    mask = torch.tensor([True, False])
    write_statistics(tmp_path / "s", note(kind="mask"), {"q": mask})
    assert read(tmp_path / "s", "q").tolist() == [1, 0]


def test_float32_halves_the_file(tmp_path: Path) -> None:
    sums = {"q": torch.ones(1000, dtype=torch.float64)}
    sizes = [write_statistics(tmp_path / code, note(dtype=code), sums).size for code in ("F64", "F32")]
    assert sizes[0] - sizes[1] == 4000


def test_the_same_statistics_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_statistics(tmp_path / name, note(), {"q": torch.ones(3), "empty": torch.ones(0, 4)})
    for file in (NOTE, VALUES):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        write_statistics(tmp_path / "s", note(), {"q": torch.ones(1), "bad": None})  # type: ignore[dict-item]
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    write_statistics(tmp_path / "s", note(), {"q": torch.ones(1)})
    with pytest.raises(OutputError, match="already exists; it is kept"):
        write_statistics(tmp_path / "s", note(), {"q": torch.ones(1)})
    write_statistics(tmp_path / "s", note(), {"q": torch.full((1,), 8.0)}, force=True)
    assert read(tmp_path / "s", "q").tolist() == [2]


def test_a_folder_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match=r"no statistics\.json that Smelt wrote"):
        write_statistics(tmp_path / "s", note(), {"q": torch.ones(1)}, force=True)
    assert (tmp_path / "s" / "thesis.tex").exists()


def test_what_is_no_folder_of_statistics_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"there are no statistics at .*nowhere.*smelt measure"):
        open_statistics(tmp_path / "nowhere")
    with pytest.raises(RecipeError, match="not a folder of statistics"):
        open_statistics(f"dir:{tmp_path}")


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    write_statistics(tmp_path / "s", note(), {"q": torch.ones(100)})
    values = tmp_path / "s" / VALUES
    values.write_bytes(values.read_bytes()[:-8])
    with pytest.raises(CorruptFile, match="bytes instead of"):
        open_statistics(tmp_path / "s")
    values.unlink()
    with pytest.raises(CorruptFile, match=f"no {VALUES}"):
        open_statistics(tmp_path / "s")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "fishy"}, "kind"),
        ({"examples": 0}, "examples: sums over none"),
        ({"colour": "red"}, "colour"),
        ({"version": 2}, "version 2 of the format"),
        ({"tied": {"k": "nobody"}}, "'k' is said to share the statistic of 'nobody'"),
        ({"dtype": "F32"}, "'q' is F64, but its note says F32"),
    ],
)
def test_a_note_that_lies_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    write_statistics(tmp_path / "s", note(), {"q": torch.ones(1)})
    path = tmp_path / "s" / NOTE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CorruptFile, match=said):
        open_statistics(tmp_path / "s")


def test_a_changed_byte_is_found_when_looked_for(tmp_path: Path) -> None:
    write_statistics(tmp_path / "s", note(), {"q": torch.ones(4)})
    assert check_statistics(tmp_path / "s")
    values = bytearray((tmp_path / "s" / VALUES).read_bytes())
    values[-1] ^= 1
    (tmp_path / "s" / VALUES).write_bytes(values)
    assert not check_statistics(tmp_path / "s")
    assert not check_statistics(tmp_path / "nowhere")


def test_parts_add_up_to_the_bytes_of_the_whole(tmp_path: Path) -> None:
    whole = {"q": torch.tensor([1.5, 10.0], dtype=torch.float64)}
    write_statistics(tmp_path / "whole", note(data=(use(0, 8),), examples=8, tied={"k": "q"}), whole)
    for name, first, value in (("a", 0, [1.0, 4.0]), ("b", 4, [0.5, 6.0])):
        sums = {"q": torch.tensor(value, dtype=torch.float64)}
        write_statistics(tmp_path / name, note(data=(use(first, 4),), tied={"k": "q"}), sums)
    done = combine(tmp_path / "b", tmp_path / "a", out=tmp_path / "c")
    assert done.note.examples == 8
    for file in (NOTE, VALUES):
        assert (tmp_path / "c" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"kind": "fisher"}, "another kind"),
        ({"estimator": "exact"}, "another estimator"),
        ({"model_hash": "other", "model": "birds"}, "another model .cars and birds."),
        ({"dtype": "F32"}, "another dtype"),
        ({"kind": "mask"}, "is a mask, which is no sum"),
        ({"data": (use(3, 4),)}, "some examples would count twice.*share='1/2'"),
        ({"data": (use(0, 4, hash="longer"),)}, "some examples would count twice"),
    ],
)
def test_what_does_not_belong_together_is_not_added(tmp_path: Path, words: dict[str, Any], said: str) -> None:
    write_statistics(tmp_path / "a", note(), {"q": torch.ones(1)})
    write_statistics(tmp_path / "b", note(**{"data": (use(4, 4),), **words}), {"q": torch.ones(1)})
    with pytest.raises(RecipeError, match=said):
        combine(tmp_path / "a", tmp_path / "b", out=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_other_tensors_are_not_added(tmp_path: Path) -> None:
    write_statistics(tmp_path / "a", note(), {"q": torch.ones(1)})
    write_statistics(tmp_path / "b", note(data=(use(4, 4),)), {"q": torch.ones(2)})
    with pytest.raises(RecipeError, match="they hold different tensors"):
        combine(tmp_path / "a", tmp_path / "b", out=tmp_path / "c")


def test_two_splits_and_two_tasks_add_up(tmp_path: Path) -> None:
    write_statistics(tmp_path / "a", note(), {"q": torch.ones(1)})
    write_statistics(tmp_path / "b", note(data=(use(0, 4, split="val", hash="v"),)), {"q": torch.ones(1)})
    done = combine(tmp_path / "a", tmp_path / "b", out=tmp_path / "c")
    assert [one.split for one in done.note.data] == ["train", "val"]
    assert read(tmp_path / "c", "q").tolist() == [0.25]
