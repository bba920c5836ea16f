"""What a suite needs before it runs: nothing is fetched to find out, and what cannot fit is refused."""

import io
import json
from types import SimpleNamespace

import pytest
import yaml

import smelt
from pico_clip import COLOURS, SIDE, TEMPLATES, random_clip, save_clip
from smelt.errors import RecipeError


def parquet(rows):
    import datasets
    from PIL import Image

    pictures = []
    for colour in rows:
        buffer = io.BytesIO()
        Image.new("RGB", (SIDE, SIDE), COLOURS[colour]).save(buffer, "PNG")
        pictures.append({"bytes": buffer.getvalue(), "path": None})
    table = {"image": pictures, "label": [list(COLOURS).index(colour) for colour in rows]}
    buffer = io.BytesIO()
    datasets.Dataset.from_dict(table).cast_column("image", datasets.Image()).to_parquet(buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    return {name: save_clip(random_clip(seed), place / name) for seed, name in enumerate(("base", "one", "two"))}


@pytest.fixture
def suite(stand_in, folders, tmp_path):
    for name, folder in folders.items():
        stand_in.contents.add_model(f"needs/{name}", folder)
    data = {f"data/{split}-00000-of-00001.parquet": parquet(list(COLOURS) * 4) for split in ("train", "test")}
    stand_in.contents.add_dataset("needs/colours", data)
    task = tmp_path / "colours"
    task.mkdir()
    where = {"dataset": "needs/colours", "splits": {"train": "train", "test": "test"}, "held_out": {"fraction": 0.5}}
    words = {"name": "colours", "classes": list(COLOURS), "templates": list(TEMPLATES), "data": where}
    (task / "task.yaml").write_text(yaml.safe_dump(words))
    looks = {"split": "train", "examples": 4, "tasks": {"one": str(task), "two": str(task)}}
    content = {
        "name": "needs",
        "version": 1,
        "title": "Colours",
        "pool": {"base": "hf:needs/base", "models": {"one": "hf:needs/one", "two": "hf:needs/two"}},
        "tasks": [str(task)],
        "entries": {
            "average": {"label": "Average", "merge": "average"},
            "regmean": {"label": "RegMean", "merge": "regmean", "data": looks},
            "task_arithmetic": {"label": "Task arithmetic", "merge": {"task_arithmetic": {"scale": 0.3}}},
        },
    }
    path = tmp_path / "needs.yaml"
    path.write_text(yaml.safe_dump(content))
    return SimpleNamespace(path=path, bytes=sum(f.stat().st_size for d in folders.values() for f in d.rglob("*.*")))


def test_a_dry_run_says_what_would_be_fetched_and_fetches_nothing(stand_in, suite):
    needs = smelt.bench_needs(suite.path)
    models = [one for one in needs.downloads if one.kind == "model"]
    assert [one.name for one in models] == ["needs/base", "needs/one", "needs/two"]
    assert sum(one.missing for one in models) <= suite.bytes
    (data,) = [one for one in needs.downloads if one.kind == "data set"]
    assert (data.name, data.missing) == ("needs/colours", data.total)
    assert needs.fetched == sum(one.missing for one in needs.downloads)
    assert (needs.models, needs.tasks, needs.merges, needs.asked) == (3, 1, 3, 6)
    assert needs.unknown == [f"{suite.path.with_name('colours')}: how many examples it has"]
    assert needs.faults == []
    fetched = {one.path.rpartition("/")[2] for one in stand_in.requests if one.sent and "/cdn/" not in one.path}
    assert fetched <= {"config.json"}, "headers come by ranges, and a small file of words"


def test_the_command_prints_it_and_leaves_no_folder(cli, suite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = cli("bench", suite.path, "--dry-run")
    assert ran.code == 0, ran.err
    assert "needs/base" in ran.out
    assert "3 merges" in ran.out
    assert not (tmp_path / "needs").exists()
    words = json.loads(cli("bench", suite.path, "--dry-run", "--json", "--methods", "average").out)
    assert (words["merges"], words["asked"]) == (1, 4)


def test_what_cannot_fit_is_refused_before_anything_is_fetched(stand_in, suite, cli, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    stand_in.requests.clear()
    with pytest.raises(RecipeError, match=r"needs cannot run here: it needs .* of disk, 1 kB are free"):
        smelt.bench(suite.path, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    ran = cli("bench", suite.path, "--dry-run")
    assert ran.code == 2
    assert "cannot fit: it needs" in ran.out


def test_a_run_says_first_what_it_fetches_and_a_second_one_has_it(suite, tmp_path):
    said = []
    methods = ["average", "task_arithmetic"]
    done = smelt.bench(suite.path, out=tmp_path / "out", methods=methods, tune=False, tell=said.append)
    assert said[0].startswith("to fetch ")
    assert {row.entry for row in done.rows} == {"pretrained", "expert-one", "expert-two", "average", "task_arithmetic"}
    assert [one.missing for one in smelt.bench_needs(suite.path).downloads] == [0, 0, 0, 0]


def test_an_unknown_method_is_refused_in_a_dry_run_too(suite):
    with pytest.raises(RecipeError, match="no method of the suite named 'avrage'"):
        smelt.bench_needs(suite.path, methods=["avrage"])


@pytest.mark.parametrize("name", ["clip8", "llm5", "mllm10", "hub"])
def test_a_suite_of_the_zoo_needs_nothing_that_is_not_there(name):
    """Examples that settings are tried on are of `val`, which is the only split that some tasks have."""
    assert smelt.bench_needs(name).unknown == []
