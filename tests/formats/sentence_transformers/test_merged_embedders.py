"""Merged folders of sentence-transformers load there, and encode as models whose weights were averaged by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from pico_texts import TEXTS, quiet, write_clip, write_embedder, write_older, write_splade, write_static
from smelt.errors import CorruptFile, IncompatibleModels, SmeltError


def _loaded(folder: Path, kind: str = "SentenceTransformer") -> Any:
    import sentence_transformers

    with quiet():
        return getattr(sentence_transformers, kind)(str(folder), device="cpu", local_files_only=True)


def _encoded(model: Any) -> torch.Tensor:
    found = model.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False)
    return found.to_dense() if found.is_sparse else found


def _averaged_by_hand(one: Any, other: Any) -> Any:
    theirs = other.state_dict()
    one.load_state_dict({name: (tensor + theirs[name]) / 2 for name, tensor in one.state_dict().items()})
    return one


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("embedders")
    return [write_embedder(place / name, seed, prompts={"query": "q: "}) for seed, name in enumerate(("a", "b"))]


@pytest.fixture
def pair(two: list[Path], tmp_path: Path) -> list[Path]:
    """Copies that a test may change."""
    return [Path(shutil.copytree(one, tmp_path / one.name)) for one in two]


def _merge(models: list[Path], out: Path, **words: Any) -> Any:
    return smelt.merge([str(one) for one in models], method=words.pop("method", "average"), out=out, **words)


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lambda folder, seed: write_embedder(folder, seed), "SentenceTransformer"),
        (lambda folder, seed: write_embedder(folder, seed, dense=False, pooling="cls"), "SentenceTransformer"),
        (write_static, "SentenceTransformer"),
        (write_clip, "SentenceTransformer"),
        (write_splade, "SparseEncoder"),
    ],
    ids=["dense", "no-dense", "static", "clip", "splade"],
)
def test_an_average_encodes_as_one_by_hand(tmp_path: Path, write: Callable[[Path, int], Path], kind: str) -> None:
    models = [write(tmp_path / name, seed) for seed, name in enumerate("ab")]
    _merge(models, tmp_path / "out")
    expected = _averaged_by_hand(*(_loaded(one, kind) for one in models))
    found = _loaded(tmp_path / "out", kind)
    assert torch.allclose(_encoded(found), _encoded(expected), atol=1e-6)
    assert not torch.allclose(_encoded(found), _encoded(_loaded(models[0], kind)), atol=1e-3)


def test_the_output_has_the_layout_and_the_settings_of_the_first(two: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    _merge(two, out)
    modules = json.loads((out / "modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling", "2_Dense", "3_Normalize"]
    assert [type(module).__name__ for module in _loaded(out)] == ["Transformer", "Pooling", "Dense", "Normalize"]
    assert _loaded(out).prompts["query"] == "q: "
    dense = [load_file(one / "2_Dense/model.safetensors")["linear.weight"] for one in (*two, out)]
    assert torch.equal(dense[2], (dense[0] + dense[1]) / 2)
    assert smelt.verify(out).ok


def test_each_module_can_have_its_own_rule(two: list[Path], tmp_path: Path) -> None:
    _merge(two, tmp_path / "out", skip=["2_Dense.*"])
    dense = [load_file(one / "2_Dense/model.safetensors")["linear.weight"] for one in (two[0], tmp_path / "out")]
    assert torch.equal(*dense)


def test_an_older_layout_with_pickles_is_the_same_model(two: list[Path], tmp_path: Path) -> None:
    older = [write_older(one, tmp_path / f"old-{one.name}") for one in two]
    with pytest.raises(SmeltError, match="pickle"):
        _merge(older, tmp_path / "refused")
    _merge(older, tmp_path / "old", allow_pickle=True)
    _merge([older[0], two[1]], tmp_path / "mixed", allow_pickle=True, config="old-a")
    _merge(two, tmp_path / "new")
    expected = load_file(tmp_path / "new/model.safetensors")
    for name in ("old", "mixed"):
        assert (tmp_path / name / "0_Transformer/config.json").is_file()
        found = load_file(tmp_path / name / "0_Transformer/model.safetensors")
        assert all(torch.equal(found[key], tensor) for key, tensor in expected.items())
        dense = load_file(tmp_path / name / "2_Dense/model.safetensors")
        assert torch.equal(
            dense["linear.weight"], load_file(tmp_path / "new/2_Dense/model.safetensors")["linear.weight"]
        )
    assert torch.allclose(_encoded(_loaded(tmp_path / "old")), _encoded(_loaded(tmp_path / "new")), atol=1e-6)


def test_old_and_new_words_for_pooling_are_compared(two: list[Path], tmp_path: Path) -> None:
    old = write_older(two[1], tmp_path / "old")
    config = old / "1_Pooling/config.json"
    config.write_text(config.read_text().replace("true", "false").replace('cls_token": false', 'cls_token": true'))
    with pytest.raises(IncompatibleModels, match="pooling_mode is 'mean' in a but 'cls' in old"):
        _merge([two[0], old], tmp_path / "out", allow_pickle=True)


@pytest.mark.parametrize(
    ("file", "word", "value", "said"),
    [
        ("1_Pooling/config.json", "pooling_mode", "cls", "pooling_mode is 'mean' in a but 'cls' in b"),
        ("config_sentence_transformers.json", "prompts", {"query": "Q "}, "prompts is"),
        ("config_sentence_transformers.json", "prompts", {}, "prompts is .* in a but 'none' in b"),
        ("config_sentence_transformers.json", "similarity_fn_name", "dot", "similarity_fn_name is 'cosine' in a"),
        ("config_sentence_transformers.json", "default_prompt_name", "query", "default_prompt_name is None in a"),
        ("2_Dense/config.json", "activation_function", "torch.nn.modules.linear.Identity", "activation_function is"),
    ],
)
def test_parents_that_encode_in_different_ways_are_refused(
    pair: list[Path], tmp_path: Path, file: str, word: str, value: Any, said: str
) -> None:
    content = json.loads((pair[1] / file).read_text())
    (pair[1] / file).write_text(json.dumps({**content, word: value}))
    with pytest.raises(IncompatibleModels, match=said):
        _merge(pair, tmp_path / "out")
    _merge(pair, tmp_path / "chosen", config="b")
    assert json.loads((tmp_path / "chosen" / file).read_text())[word] == value


def test_a_parent_without_a_module_is_refused(pair: list[Path], tmp_path: Path) -> None:
    modules = json.loads((pair[1] / "modules.json").read_text())
    (pair[1] / "modules.json").write_text(json.dumps(modules[:3]))
    with pytest.raises(IncompatibleModels, match=r"modules is .*'Normalize'"):
        _merge(pair, tmp_path / "out")
    (pair[1] / "modules.json").write_text(json.dumps(modules[:2]))
    with pytest.raises(IncompatibleModels, match=r"b lacks '2_Dense.linear.bias'"):
        _merge(pair, tmp_path / "out")


def test_a_lacking_dense_layer_is_the_bases_where_the_recipe_says_so(pair: list[Path], tmp_path: Path) -> None:
    modules = json.loads((pair[1] / "modules.json").read_text())
    (pair[1] / "modules.json").write_text(json.dumps([modules[0], modules[1], modules[3]]))
    _merge([pair[1]], tmp_path / "out", base=str(pair[0]), missing="base", config="base", method="task_arithmetic")
    dense = [load_file(one / "2_Dense/model.safetensors")["linear.weight"] for one in (pair[0], tmp_path / "out")]
    assert torch.equal(*dense)


@pytest.mark.parametrize("path", ["../a/2_Dense", "/etc", "2_Dense/../../a/2_Dense", "..\\a", 3])
def test_a_module_outside_the_folder_is_refused(pair: list[Path], path: Any) -> None:
    modules = json.loads((pair[1] / "modules.json").read_text())
    modules[2]["path"] = path
    (pair[1] / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(CorruptFile, match=r"not in this folder|no type and path"):
        smelt.inspect(str(pair[1]))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "is no list of modules"),
        ("[]", "is no list of modules"),
        ('[{"path": ""}]', "has no type and path"),
        ('[{"type": "x.A", "path": ""}, {"type": "x.B", "path": "."}]', "two modules lie in ''"),
        ('[{"type": "x.Router", "path": ""}]', "several branches"),
    ],
)
def test_a_damaged_list_of_modules_is_refused(pair: list[Path], content: str, said: str) -> None:
    (pair[1] / "modules.json").write_text(content)
    with pytest.raises(CorruptFile, match=said):
        smelt.inspect(str(pair[1]))


def test_missing_parts_of_modules_are_named(pair: list[Path]) -> None:
    (pair[0] / "1_Pooling/config.json").unlink()
    with pytest.raises(CorruptFile, match=r"names the module Pooling in '1_Pooling', but its config.json is not there"):
        smelt.inspect(str(pair[0]))
    (pair[1] / "2_Dense/model.safetensors").unlink()
    with pytest.raises(CorruptFile, match="the module Dense has no weights"):
        smelt.inspect(str(pair[1]))


def test_a_dense_layer_of_another_size_than_its_config_is_refused(pair: list[Path]) -> None:
    save_file({"linear.weight": torch.zeros(8, 12)}, pair[0] / "2_Dense/model.safetensors")
    with pytest.raises(CorruptFile, match=r"says 16 features in and 8 out, but its weights are \(8, 12\)"):
        smelt.inspect(str(pair[0]))


def test_dense_layers_of_two_sizes_do_not_merge(pair: list[Path], tmp_path: Path) -> None:
    save_file(
        {"linear.weight": torch.zeros(4, 16), "linear.bias": torch.zeros(4)}, pair[1] / "2_Dense/model.safetensors"
    )
    config = json.loads((pair[1] / "2_Dense/config.json").read_text())
    (pair[1] / "2_Dense/config.json").write_text(json.dumps({**config, "out_features": 4}))
    with pytest.raises(IncompatibleModels, match=r"'2_Dense.linear.weight' is \(8, 16\) in a but \(4, 16\) in b"):
        _merge(pair, tmp_path / "out")


def test_inspect_names_the_modules(two: list[Path], tmp_path: Path) -> None:
    said = "sentence-transformers: Transformer, Pooling (mean), Dense (16 to 8), Normalize"
    assert smelt.inspect(str(two[0])).format == said
    assert not smelt.inspect(str(two[0])).tied  # a BertModel has no head, whatever `tie_word_embeddings` says
    older = write_older(two[0], tmp_path / "old")
    (older / "2_Dense/pytorch_model.bin").unlink()
    shutil.copy(two[0] / "2_Dense/model.safetensors", older / "2_Dense")
    assert smelt.inspect(str(older)).format == said


def test_the_top_of_a_folder_may_be_called_a_point(tmp_path: Path) -> None:
    """As model2vec calls it."""
    models = [write_static(tmp_path / name, seed) for seed, name in enumerate("ab")]
    for one in models:
        (one / "modules.json").write_text((one / "modules.json").read_text().replace('"path": ""', '"path": "."'))
    _merge(models, tmp_path / "out")
    tables = [load_file(one / "model.safetensors")["embedding.weight"] for one in (*models, tmp_path / "out")]
    assert torch.equal(tables[2], (tables[0] + tables[1]) / 2)
