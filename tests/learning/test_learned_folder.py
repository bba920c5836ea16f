"""The folders of learned results: what is damaged is learned again, what another run makes is waited for."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import torch

from checkpoints import write_model
from learned_by_hand import moved, small, stream
from smelt.engine.pool import ModelPool
from smelt.errors import InputChanged, OutputError
from smelt.files import writing
from smelt.files.writing import exclusive
from smelt.learning.context import LearningContext
from smelt.learning.learn import Learned, learn
from smelt.learning.learner import learners
from smelt.learning.store import lock_of, place_of
from smelt.models.families.network import ModuleNetwork
from smelt.models.references import open_ref
from smelt.recipe.schema import Recipe

MODELS = {"red": moved(small(), 1), "green": moved(small(), 2)}
STREAMS = {"red": stream("reds", 40, 1), "green": stream("greens", 30, 2)}


def learned(method: str = "adamerging", **words: object) -> Learned:
    how = {"base": small(), "method": method, "streams": STREAMS, "steps": 2, "batch": 8, "threads": 1}
    return learn(MODELS, **{**how, **words})


def flip(path: Path) -> None:
    """Another bit in the middle: a letter of JSON becomes another one, a number another number."""
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(bytes(whole))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def lose_the_merge(path: Path) -> None:
    about = json.loads(path.read_text())
    del about["merge"]
    path.write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("method", "file", "damage"),
    [
        ("adamerging", "coefficients.json", flip),
        ("adamerging", "coefficients.json", cut),
        ("adamerging", "coefficients.json", Path.unlink),
        ("adamerging", "trace.jsonl", cut),
        ("adamerging", "learned.json", lose_the_merge),
        ("adamerging", "learned.json", cut),
        ("localize", "statistics/1/statistics.safetensors", flip),
        ("localize", "statistics/0/statistics.json", flip),
        ("localize", "statistics/0/statistics.json", Path.unlink),
        ("tuned", "model/model.safetensors", flip),
    ],
)
def test_a_damaged_result_is_learned_again(method, file, damage):
    first = learned(method)
    assert learned(method).cached
    before = (first.folder / file).read_bytes()
    damage(first.folder / file)
    again = learned(method)
    assert not again.cached
    assert again.folder == first.folder
    assert again.coefficients == first.coefficients
    if method != "adamerging":
        assert (first.folder / file).read_bytes() == before
    assert learned(method).cached


def test_a_lost_recipe_is_written_again():
    first = learned()
    (first.folder / "recipe.yaml").unlink()
    assert learned().cached
    assert (first.folder / "recipe.yaml").is_file()


def test_a_copy_that_was_changed_is_not_overwritten(tmp_path: Path):
    learned(out=tmp_path / "out")
    flip(tmp_path / "out" / "coefficients.json")
    before = (tmp_path / "out" / "coefficients.json").read_bytes()
    with pytest.raises(OutputError, match="holds this very result, but its files have changed"):
        learned(out=tmp_path / "out")
    assert (tmp_path / "out" / "coefficients.json").read_bytes() == before


def test_the_place_of_another_result_is_refused_before_anything_is_learned(tmp_path: Path, monkeypatch):
    learned(out=tmp_path / "out")

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("learned")

    monkeypatch.setattr("smelt.learning.learner.optimise", fail)
    with pytest.raises(OutputError, match="exists and holds something else"):
        learned(out=tmp_path / "out", seed=1)


def test_a_second_run_waits_for_the_first_and_takes_its_result(monkeypatch: pytest.MonkeyPatch, capsys):
    from smelt.learning import learner as work

    monkeypatch.setattr(writing, "_LOOK_EVERY", 0.01)
    plain, begun, go_on, runs = work.optimise, threading.Event(), threading.Event(), []

    def slow(*words, **more):
        runs.append(1)
        begun.set()
        assert go_on.wait(240)
        return plain(*words, **more)

    monkeypatch.setattr("smelt.learning.learner.optimise", slow)
    found: dict[str, Learned] = {}
    first = threading.Thread(target=lambda: found.update(first=learned()))
    first.start()
    assert begun.wait(240)
    second = threading.Thread(target=lambda: found.update(second=learned(quiet=False)))
    second.start()
    second.join(0.3)
    assert second.is_alive()
    go_on.set()
    for one in (first, second):
        one.join(240)
    assert (found["first"].cached, found["second"].cached, len(runs)) == (False, True, 1)
    assert found["second"].coefficients == found["first"].coefficients
    assert capsys.readouterr().err == "another run is learning the same; its result is waited for\n"
    assert [path.name for path in found["first"].folder.parent.iterdir()] == [found["first"].folder.name]


def test_after_a_first_run_that_failed_the_second_learns(monkeypatch: pytest.MonkeyPatch):
    key = json.loads((learned().folder / "learned.json").read_text())["key"]
    place_of(key)[0].rename(place_of(key)[0].with_name("away"))
    monkeypatch.setattr(writing, "_LOOK_EVERY", 0.01)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with exclusive(lock_of(key), "learning the same"):
            held.set()
            release.wait(240)

    first = threading.Thread(target=hold)
    first.start()
    assert held.wait(240)
    threading.Timer(0.1, release.set).start()
    assert not learned().cached
    first.join(240)


def test_patience_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(writing, "_LOOK_EVERY", 0.01)
    monkeypatch.setattr(writing, "_LONGEST", 0.05)
    told = []
    with (
        exclusive(tmp_path / "x.lock", "learning the same"),
        pytest.raises(OutputError, match="another run has been learning the same for"),
        exclusive(tmp_path / "x.lock", "learning the same", lambda: told.append(1)),
    ):
        pass
    assert told == [1]
    assert not (tmp_path / "x.lock").exists()


def adapter(folder: Path, seed: int) -> Path:
    from safetensors.torch import save_file

    draw = torch.Generator().manual_seed(seed)
    factors = {"A": torch.randn(1, 6, generator=draw), "B": torch.randn(6, 1, generator=draw)}
    folder.mkdir(parents=True)
    save_file(
        {f"base_model.model.layers.0.lora_{letter}.weight": one for letter, one in factors.items()},
        folder / "adapter_model.safetensors",
    )
    config = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["layers.0"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def test_two_files_of_one_name_both_count(tmp_path: Path):
    base = write_model(tmp_path / "base", small().state_dict())
    folders = {name: adapter(tmp_path / name / "last", seed) for seed, name in enumerate("abc")}

    def hashes(*adapters: str) -> dict[str, str]:
        ref = "+".join([str(base), *(str(folders[name]) for name in adapters)])
        source = open_ref(ref)
        try:
            recipe = Recipe.parse({"pool": {"models": {"red": ref}}, "merge": "tuned"})
            pool, network = ModelPool(None, {"red": source}), ModuleNetwork(small())
            return LearningContext(recipe, learners["tuned"], {}, network, pool, (), {}).hashes()["red"]
        finally:
            source.close()

    assert len(hashes("a", "b")) == 1 + 2 * 2
    assert hashes("a", "c") != hashes("b", "c")
    assert hashes("a", "b") != hashes("b", "a")
    assert "model.safetensors" in hashes("a")


def test_what_was_learned_from_a_model_that_changed_meanwhile_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smelt.learning import learn as call

    places = {name: str(write_model(tmp_path / name, weights)) for name, weights in MODELS.items()}
    base = str(write_model(tmp_path / "base", small().state_dict()))
    real, weights = call._learn, tmp_path / "red" / "model.safetensors"

    def changing(*arguments: object) -> dict[str, object]:
        done = real(*arguments)
        weights.write_bytes(weights.read_bytes())
        return done

    how = {"base": base, "method": "adamerging", "streams": STREAMS, "steps": 2, "batch": 8, "threads": 1}
    with monkeypatch.context() as patched:
        patched.setattr(call, "_learn", changing)
        with pytest.raises(InputChanged, match=r"red/model\.safetensors"):
            learn(places, **how, network=ModuleNetwork(small()))
    assert not learn(places, **how, network=ModuleNetwork(small())).cached
