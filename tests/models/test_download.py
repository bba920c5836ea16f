"""Models of the hub: safetensors first, pickles only on request, nothing fetched twice."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled
from huggingface_hub.utils import filter_repo_objects
from safetensors.torch import save_file

import smelt
from checkpoints import state
from smelt.engine.pool import opened
from smelt.errors import RecipeError
from smelt.models.references import open_ref
from smelt.recipe.schema import Pool

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """A hub of one repository: `there` is what it holds, `cache` the snapshot that fills up."""

    there: Path
    cache: Path
    online: bool = True
    fetched: list[str] = field(default_factory=list)

    def snapshot_download(self, repo: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        if not self.online:
            if not self.cache.is_dir():
                raise LocalEntryNotFoundError("not in the cache")
            return str(self.cache)
        assert revision in (None, "main", COMMIT)
        self.cache.mkdir(parents=True, exist_ok=True)
        for name in filter_repo_objects(self.names(), allow_patterns=allow_patterns):
            place = self.cache / name
            if not place.exists():
                place.parent.mkdir(exist_ok=True)
                shutil.copy(self.there / name, place)
                self.fetched.append(name)
        return str(self.cache)

    def list_repo_files(self, repo: str, *, revision: str | None = None) -> list[str]:
        if not self.online:
            raise OfflineModeIsEnabled("no network")
        assert revision == COMMIT
        return self.names()

    def names(self) -> list[str]:
        return sorted(path.relative_to(self.there).as_posix() for path in self.there.rglob("*") if path.is_file())


@pytest.fixture
def hub(tmp_path, monkeypatch):
    fake = FakeHub(tmp_path / "there", tmp_path / "cache" / "snapshots" / COMMIT)
    fake.there.mkdir()
    monkeypatch.setattr("huggingface_hub.snapshot_download", fake.snapshot_download)
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: fake)
    return fake


def fill(there, *, safetensors=False, pickles=("pytorch_model.bin",)):
    there.joinpath("config.json").write_text("{}")
    if safetensors:
        save_file(state(1.0), there / "model.safetensors")
    for name in pickles:
        torch.save(state(2.0), there / name)


def first(source):
    out = torch.empty(1)
    source.read("layers.0.mlp.weight", 0, out)
    return out.item()


@pytest.mark.parametrize("allowed", [False, True])
def test_safetensors_are_fetched_and_pickles_beside_them_never(hub, allowed):
    fill(hub.there, safetensors=True)
    assert first(open_ref("hf:org/model", allow_pickle=allowed)) == 2.0
    assert hub.fetched == ["config.json", "model.safetensors"]


def test_pickles_alone_are_refused_before_they_are_fetched_with_what_to_write(hub):
    fill(hub.there)
    with pytest.raises(RecipeError, match=r"hf:org/model holds no safetensors.*pytorch_model\.bin.*allow_pickle=True"):
        open_ref("hf:org/model")
    assert hub.fetched == ["config.json"]


def test_pickles_alone_are_fetched_once_if_they_are_allowed(hub):
    fill(hub.there)
    for _ in range(2):
        assert first(open_ref("hf:org/model@main", allow_pickle=True)) == 3.0
    assert hub.fetched == ["config.json", "pytorch_model.bin"]


def test_what_other_libraries_and_trainers_leave_beside_a_model_is_not_fetched(hub):
    fill(hub.there, pickles=("pytorch_model.bin", "open_clip_pytorch_model.bin", "training_args.bin"))
    (hub.there / "onnx").mkdir()
    torch.save({}, hub.there / "onnx" / "weights.bin")
    (hub.there / "tf_model.h5").write_bytes(b"x")
    assert first(open_ref("hf:org/model", allow_pickle=True)) == 3.0
    assert hub.fetched == ["config.json", "pytorch_model.bin"]


def test_pickles_of_another_name_are_found_where_there_are_no_usual_ones(hub):
    fill(hub.there, pickles=("weights.bin", "optimizer.bin"))
    assert first(open_ref("hf:org/model", allow_pickle=True)) == 3.0
    assert hub.fetched == ["config.json", "weights.bin"]


def test_all_shards_come(hub):
    fill(hub.there, pickles=())
    for number, part in enumerate((list(state())[:3], list(state())[3:]), 1):
        torch.save({name: state(2.0)[name] for name in part}, hub.there / f"pytorch_model-{number:05}-of-00002.bin")
    assert len(open_ref("hf:org/model", allow_pickle=True).tensors) == 6


def test_pickles_in_the_cache_are_read_without_a_network(hub):
    fill(hub.there)
    open_ref("hf:org/model", allow_pickle=True)
    hub.online = False
    assert first(open_ref("hf:org/model", allow_pickle=True)) == 3.0
    with pytest.raises(RecipeError, match="allow_pickle=True"):
        open_ref("hf:org/model")


def test_a_repository_without_weights_is_named(hub):
    fill(hub.there, pickles=())
    with pytest.raises(RecipeError, match="hf:org/model holds no weights"):
        open_ref("hf:org/model", allow_pickle=True)


def test_a_model_that_is_in_no_cache_is_refused_without_a_network(hub):
    hub.online = False
    with pytest.raises(RecipeError, match="hf:org/model is not in the local cache"):
        open_ref("hf:org/model")


def test_the_word_reaches_a_merge_of_hub_models(hub, tmp_path):
    fill(hub.there)
    save_file(state(4.0), tmp_path / "other.safetensors")
    pool = Pool(models={"theirs": "hf:org/model", "ours": str(tmp_path / "other.safetensors")})
    with opened(pool, allow_pickle=True) as models:
        assert [first(source) for source in models.models.values()] == [3.0, 5.0]
    merged = smelt.merge(dict(pool.models), method="average", allow_pickle=True)
    assert merged["layers.0.mlp.weight"][0, 0] == 4.0
