from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt.measurement
from pico_clip import random_clip, save_clip, write_task
from smelt.errors import InputChanged, OutputError, RecipeError
from smelt.formats.statistics import NOTE, VALUES, open_statistics
from smelt.measurement import store
from smelt.measurement.combine import combine
from smelt.measurement.fisher import fisher
from smelt.measurement.gram_merged import gram_merged
from smelt.measurement.measure import measure, measure_merged
from smelt.models.families.clip.family import CLIP
from smelt.tasks.registry import find_task
from whole_grams import gram


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_clip(random_clip(), tmp_path / "model")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_task(tmp_path / "colours")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every folder that was computed, not found."""
    folders: list[Path] = []
    real: Callable[..., None] = store._make
    monkeypatch.setattr(
        store, "_make", lambda folder, *args, **words: (folders.append(folder), real(folder, *args, **words))
    )
    return folders


def means(folder: Any) -> dict[str, torch.Tensor]:
    with closing(open_statistics(str(folder))) as source:
        found = {}
        for key, info in source.tensors.items():
            flat = torch.empty(info.count, dtype=torch.float64)
            source.read(key, 0, flat)
            found[key] = flat.view(info.shape)
        return found


def test_the_folder_holds_the_means_under_the_models_own_keys(model: Path, task: Path) -> None:
    loaded = CLIP.load(model)
    stream = find_task(task).examples(loaded, split="val", count=12)
    for kind, direct in (("fisher", fisher), ("gram", gram)):
        found = means(measure(model, kind, task, examples=12, split="val"))
        wanted = direct(loaded.network(), stream)
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[key], wanted[key] / 12) for key in wanted)
    assert set(wanted) < set(loaded.network().keys)


def test_the_note_says_what_was_measured_on_what(model: Path, task: Path) -> None:
    done = measure(model, "fisher", task, examples=12, split="val", estimator="empirical")
    (use,) = done.note.data
    assert (done.note.kind, done.note.estimator, done.note.examples) == ("fisher", "empirical", 12)
    assert (use.task, use.split, use.examples, use.labels, use.first) == ("colours", "val", 12, 12, 0)
    assert done.note.model_hash == CLIP.load(model).hash
    assert list(done.note.model_files) == ["model.safetensors"]
    assert measure(model, "fisher", task, examples=12, split="val").note.data[0].labels == 0


def test_a_second_call_computes_nothing(model: Path, task: Path, made: list[Path], tmp_path: Path) -> None:
    first = measure(model, "gram", task, examples=6, split="val")
    again = measure(model, "gram", task, examples=6, split="val")
    assert again.folder == first.folder
    assert again.seconds == first.seconds > 0
    copied = measure(model, "gram", task, examples=6, split="val", out=tmp_path / "out")
    assert made == [first.folder]
    assert (copied.folder / VALUES).read_bytes() == (first.folder / VALUES).read_bytes()
    measure(model, "gram", task, examples=6, split="val", force=True)
    assert len(made) == 2


def test_another_model_split_number_or_estimator_is_measured_anew(model: Path, task: Path, tmp_path: Path) -> None:
    other = save_clip(random_clip(seed=1), tmp_path / "other")
    words: list[tuple[Path, dict[str, Any]]] = [
        (model, {}),
        (other, {}),
        (model, {"split": "test"}),
        (model, {"examples": 7}),
        (model, {"estimator": "sampled"}),
        (model, {"estimator": "sampled", "seed": 1}),
        (model, {"estimator": "batched_sqrt"}),
        (model, {"estimator": "batched_sqrt", "batch": 3}),
        (model, {"share": "1/2"}),
        (model, {"dtype": "float32"}),
    ]
    folders = {measure(one, "fisher", task, **{"split": "val", "examples": 6, **w}).folder for one, w in words}
    assert len(folders) == len(words)


def test_a_damaged_answer_in_the_cache_is_measured_again(model: Path, task: Path, made: list[Path]) -> None:
    first = measure(model, "gram", task, examples=6, split="val")
    before = (first.folder / VALUES).read_bytes()
    (first.folder / VALUES).write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    measure(model, "gram", task, examples=6, split="val")
    assert (first.folder / VALUES).read_bytes() == before
    assert len(made) == 2


@pytest.mark.parametrize("kind", ["fisher", "gram"])
def test_two_shares_combine_to_the_bytes_of_the_whole(model: Path, task: Path, tmp_path: Path, kind: str) -> None:
    pictures = write_task(tmp_path / "many", dict.fromkeys(("red", "green", "blue"), 50))
    words: dict[str, Any] = {"examples": 128, "split": "val"}
    shares = [measure(model, kind, pictures, share=share, **words) for share in ("1/2", "2/2")]
    whole = measure(model, kind, pictures, **words)
    done = combine(*shares, out=tmp_path / "sum")
    for file in (VALUES, NOTE):
        assert (done.folder / file).read_bytes() == (whole.folder / file).read_bytes()


def test_the_room_is_the_call(model: Path, task: Path) -> None:
    done = smelt.measure(model, "gram", task, examples=3, split="val")
    assert Path(done) == done.folder
    assert str(done) == str(done.folder)


def test_a_loaded_model_and_a_state_dict_are_measured_too(model: Path, task: Path) -> None:
    loaded = CLIP.load(model)
    words: dict[str, Any] = {"examples": 3, "split": "val"}
    one = measure(loaded, "gram", task, **words)
    two = measure(loaded.model.state_dict(), "gram", task, text_from=model, **words)
    three = measure(model, "gram", task, **words)
    assert one.note.model_files == {}
    assert one.folder == two.folder
    assert list(three.note.model_files) == ["model.safetensors"]  # so it is refused for another model's file


def rewritten(model: Path, folder: Path) -> Path:
    """The same weights in another file."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, folder)
    save_file(load_file(folder / "model.safetensors"), folder / "model.safetensors", {"format": "pt", "other": "words"})
    return folder


def test_the_same_weights_in_another_file_can_be_measured_and_merged(
    pool: tuple[dict[str, Path], dict[str, Path]], tmp_path: Path
) -> None:
    models, tasks = pool
    words: dict[str, Any] = {"examples": 3, "split": "val"}
    again = {name: rewritten(path, tmp_path / f"again-{name}") for name, path in models.items()}
    assert CLIP.load(again["cars"]).hash == CLIP.load(models["cars"]).hash
    for table in (models, again):
        refs = {name: str(path) for name, path in table.items()}
        fisher = {name: str(measure(table[name], "fisher", tasks[name], **words)) for name in table}
        assert smelt.plan(refs, method="fisher", statistics=fisher) is not None
        grams = {name: str(one) for name, one in measure_merged(table, tasks, ridge=1e-3, **words).items()}
        assert smelt.plan(refs, method="regmean", ridge=1e-3, statistics=grams) is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"kind": "fischer"}, "no statistic named 'fischer' .did you mean 'fisher'"),
        ({"estimator": "empiric"}, "no estimator of the Fisher information named 'empiric' .did you mean 'empirical'"),
        ({"kind": "gram", "estimator": "sampled"}, "a Gram matrix has no estimators"),
        ({"split": "vall"}, "no split named 'vall' .did you mean 'val'"),
        ({"examples": 31}, "31 examples are asked for, but its val split has 30"),
        ({"share": "3/2"}, "share: is k/n"),
        ({"share": "half"}, "share: is k/n"),
        ({"examples": 2, "share": "1/3"}, "share 1/3 of 2 examples of colours is empty"),
        ({"dtype": "bfloat16"}, "no format of stored sums named 'bfloat16'"),
        ({"batch": 0}, "batch is a number of examples"),
        ({"task": "clip8"}, "one task at a time, got 8"),
        ({"task": "fotos"}, "no task named 'fotos' .did you mean 'photos'"),
    ],
)
def test_a_bad_request_is_refused_before_anything_is_measured(
    model: Path, task: Path, made: list[Path], words: dict[str, Any], said: str
) -> None:
    given = {"kind": "fisher", "task": task, "split": "val", "examples": 6, **words}
    with pytest.raises(RecipeError, match=said):
        measure(model, given.pop("kind"), given.pop("task"), **given)
    assert made == []


def test_an_output_that_exists_is_refused_before_anything_is_measured(model: Path, task: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"examples": 3, "split": "val", "out": tmp_path / "out"}
    measure(model, "gram", task, **words)
    with pytest.raises(OutputError, match="exists"):
        measure("nowhere", "gram", task, **words)
    measure(model, "gram", task, force=True, **words)


@pytest.fixture
def pool(tmp_path: Path, model: Path) -> tuple[dict[str, Path], dict[str, Path]]:
    models = {"cars": model, "birds": save_clip(random_clip(seed=1), tmp_path / "birds")}
    return models, {name: write_task(tmp_path / f"task-{name}") for name in models}


def test_merged_grams_make_regmean_a_regmean_plus_plus(
    pool: tuple[dict[str, Path], dict[str, Path]], tmp_path: Path, made: list[Path]
) -> None:
    models, tasks = pool
    words: dict[str, Any] = {"examples": 12, "split": "val", "reduction": 0.9, "ridge": 1e-3}
    found = measure_merged(models, tasks, **words)
    assert found.keys() == models.keys()
    assert found["cars"].note.data[0].task == "task-cars"
    assert found["cars"].note.model_hash == CLIP.load(models["cars"]).hash
    again = measure_merged(models, tasks, **words)
    assert {name: one.folder for name, one in again.items()} == {name: one.folder for name, one in found.items()}
    assert len(made) == 2

    loaded = {name: CLIP.load(ref) for name, ref in models.items()}
    streams = {n: find_task(tasks[n]).examples(c, split="val", count=12) for n, c in loaded.items()}
    direct = gram_merged({n: c.network() for n, c in loaded.items()}, streams, reduction=0.9, ridge=1e-3)
    merged = smelt.merge(
        {name: str(path) for name, path in models.items()},
        method="regmean",
        statistics={name: str(one) for name, one in found.items()},
        reduction=0.9,
        ridge=1e-3,
    )
    for key, tensor in direct.weights.items():
        assert torch.allclose(merged[key], tensor, rtol=1e-4, atol=1e-5), key


def test_tensors_that_the_merge_copies_have_no_merged_gram(
    pool: tuple[dict[str, Path], dict[str, Path]],
) -> None:
    models, tasks = pool
    words: dict[str, Any] = {"examples": 6, "split": "val", "ridge": 1e-3}
    found = means(measure_merged(models, tasks, skip=["*.mlp.*"], **words)["cars"])
    whole = means(measure_merged(models, tasks, **words)["cars"])
    assert set(whole) - set(found) == {key for key in whole if ".mlp." in key} != set()


def test_every_model_needs_its_task(pool: tuple[dict[str, Path], dict[str, Path]]) -> None:
    models, tasks = pool
    with pytest.raises(RecipeError, match=r"every model needs a task.*alone: birds"):
        measure_merged(models, {"cars": tasks["cars"]})


@pytest.mark.parametrize("kind", ["fisher", "gram"])
def test_a_model_that_changes_while_it_is_measured_gives_no_statistics(
    model: Path, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from smelt.measurement import measure as call

    real, config = call._made, model / "config.json"

    def changing(*arguments: Any) -> Any:
        config.write_text(config.read_text())
        return real(*arguments)

    monkeypatch.setattr(call, "_made", changing)
    for out in (tmp_path / "out", None):
        with pytest.raises(InputChanged, match=r"model/config\.json"):
            measure(str(model), kind, task, examples=4, split="val", out=out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["colours", "model"]
