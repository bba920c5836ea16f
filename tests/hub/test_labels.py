"""Labels: exact fixed-point features that do not depend on order, blocks, threads or when they were computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pico_clip import COLOURS, SIDE, colour_clip, random_clip, random_conv_clip, save_clip
from smelt.errors import CorruptFile, NumericalError, RecipeError
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.labels.index import Index
from smelt.hub.labels.label import ONE, Label, LabelKey, label_key, make_label
from smelt.hub.labels.runner import fixed_point
from smelt.models.families.load import load


def noise(seed: int, side: int = SIDE) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def a_node(number: int, pictures: int = 10) -> NewNode:
    """A node with a definition longer than the text model, and pictures that must be resized."""
    sides = (SIDE, SIDE + 3)
    made = [("noise", f"{number}/{turn}", noise(100 * number + turn, sides[turn % 2])) for turn in range(pictures)]
    return NewNode(f"node-{number}", list(COLOURS)[number % 3], "a photo of a thing " * number, pictures=made)


@pytest.fixture(scope="module")
def graph() -> SemanticGraph:
    return SemanticGraph.build("noise", [a_node(number) for number in range(10)])


@pytest.fixture(scope="module", params=[random_clip, random_conv_clip], ids=["vit", "conv"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(save_clip(request.param(), tmp_path_factory.mktemp("model") / "clip"), "classifier")


def test_scores_are_exact_whatever_the_order_and_the_blocks() -> None:
    draw = np.random.default_rng(0)
    raw = draw.normal(size=(600, 512))
    unit = fixed_point((raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32))
    label = Label(LabelKey("m", "g", "p", "caption"), unit[:400], unit[400:])
    nodes, pictures = np.arange(200), np.arange(400)
    whole = label.scores(nodes, pictures)
    exact = label.pictures.astype(object) @ label.texts[:2].astype(object).T
    assert (whole[:, :2] * ONE**2 == exact.astype(np.float64)).all(), "Python's integers agree to the last unit"
    blocked = np.vstack(
        [
            np.hstack([label.scores(nodes[u : u + 7], pictures[x : x + 33]) for u in range(0, 200, 7)])
            for x in range(0, 400, 33)
        ]
    )
    assert (blocked == whole).all()
    turn = draw.permutation(512)
    turned = Label(label.key, label.pictures[:, turn], label.texts[:, turn])
    assert (turned.scores(nodes, pictures) == whole).all()


def test_fixed_point_keeps_a_cosine_to_four_digits() -> None:
    draw = np.random.default_rng(1)
    raw = draw.normal(size=(100, 512)).astype(np.float32)
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    label = Label(LabelKey("m", "g", "p", "caption"), fixed_point(raw), fixed_point(raw))
    assert np.abs(label.scores(range(100), range(100)) - raw.astype(float) @ raw.T.astype(float)).max() < 2e-4
    assert fixed_point(np.array([[1.0, -1.0, 0.5]], dtype=np.float32)).tolist() == [[16384, -16384, 8192]]


def test_features_of_no_sound_model_are_refused() -> None:
    with pytest.raises(NumericalError, match="NaN or infinity"):
        fixed_point(np.array([[0.0, np.nan]], dtype=np.float32))
    with pytest.raises(NumericalError, match="beyond 1"):
        fixed_point(np.array([[0.0, 3.0]], dtype=np.float32))


def test_a_label_agrees_with_the_model_itself(model: Any, graph: SemanticGraph) -> None:
    label = make_label(model, graph, text="name", templates=("a photo of a {}", "some {} thing"))
    head = model.head([node.name for node in graph.nodes], ("a photo of a {}", "some {} thing"))
    with torch.inference_mode():
        cosines = model.features(model.preprocess.shape(graph.pixels(range(100)))) @ head.T
    assert np.abs(label.scores(range(10), range(100)) - cosines.numpy()).max() < 2e-4


def test_a_model_of_colours_is_right_about_colours(tmp_path: Path) -> None:
    clip = load(save_clip(colour_clip(), tmp_path / "clip"), "classifier")
    nodes = [
        NewNode(name, name, "some thing", pictures=[("plain", name, np.full((SIDE, SIDE, 3), rgb, dtype=np.uint8))])
        for name, rgb in COLOURS.items()
    ]
    colours = SemanticGraph.build("colours", nodes)
    label = make_label(clip, colours)
    assert Index.build(label, colours).recall([0, 1, 2]).tolist() == [1.0, 1.0, 1.0]


def test_a_label_that_grew_is_the_label_made_anew_byte_for_byte(model: Any, graph: SemanticGraph) -> None:
    before = make_label(model, graph)  # M12
    larger = graph.with_nodes([a_node(number) for number in range(10, 14)])
    seen: list[tuple[int, int]] = []
    grown = make_label(model, larger, before=before, progress=lambda done, total: seen.append((done, total)))
    anew = make_label(model, larger, threads=1)
    assert (grown.pictures.tobytes(), grown.texts.tobytes()) == (anew.pictures.tobytes(), anew.texts.tobytes())
    assert grown.key == anew.key != before.key
    assert seen[-1] == (44, 44), "40 pictures and 4 texts were new"
    assert make_label(model, larger, before=anew).pictures.tobytes() == anew.pictures.tobytes()
    index = Index.build(before, graph).extended(grown, larger)
    assert index.recall(range(14)).tolist() == Index.build(anew, larger).recall(range(14)).tolist()


class Fickle:
    """A model whose answers depend on how many pictures it gets at once and on the place, as real last bits do."""

    label, hash, device = "fickle", "fickle", "cpu"

    def __init__(self, preprocess: Any):
        self.preprocess = preprocess

    def features(self, pictures: np.ndarray) -> torch.Tensor:
        angles = pictures.mean(axis=(1, 2, 3)) + 0.1 * len(pictures) + 0.01 * np.arange(len(pictures))
        return torch.tensor(np.stack([np.cos(angles), np.sin(angles)], axis=1), dtype=torch.float32)

    def text_features(self, texts: list[str]) -> torch.Tensor:
        return torch.tensor([[1.0, 0.0]] * len(texts))


def test_growing_gives_every_picture_the_same_place_in_a_block_of_the_same_size(
    model: Any, graph: SemanticGraph
) -> None:
    fickle: Any = Fickle(model.preprocess)
    larger = graph.with_nodes([a_node(number) for number in range(10, 14)])
    grown = make_label(fickle, larger, before=make_label(fickle, graph))
    assert grown.pictures.tobytes() == make_label(fickle, larger).pictures.tobytes()


def test_a_text_that_is_too_long_is_cut_and_not_refused(model: Any) -> None:
    longest = "a photo of a red " * 10
    features = model.text_features([longest, longest + "blue", "blue"])
    assert torch.equal(features[0], features[1])
    assert not torch.allclose(features[0], features[2])
    assert torch.allclose(features.norm(dim=1), torch.ones(3))
    assert torch.equal(features[2], model.text_features(["blue"])[0]), "no matter what else is asked for"


def test_what_a_model_reads_of_a_node_is_a_choice(model: Any, graph: SemanticGraph) -> None:
    labels = {text: make_label(model, graph, text=text) for text in ("caption", "definition", "name")}
    assert len({label.texts.tobytes() for label in labels.values()}) == 3
    assert len({label.pictures.tobytes() for label in labels.values()}) == 1
    assert len({label.key.digest for label in labels.values()}) == 3
    with pytest.raises(RecipeError, match="did you mean 'caption'"):
        label_key(model, graph, text="captoin")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="where the name goes"):
        label_key(model, graph, text="name", templates=("a photo",))


def test_saved_and_opened_a_label_is_the_same(model: Any, graph: SemanticGraph, tmp_path: Path) -> None:
    label = make_label(model, graph)
    opened = Label.open(label.save(tmp_path / "label.safetensors"))
    assert opened.key == label.key == label_key(model, graph)
    assert (opened.pictures == label.pictures).all()
    assert (opened.texts == label.texts).all()
    path = tmp_path / "label.safetensors"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(CorruptFile):
        Label.open(path)


def test_the_label_of_another_model_or_graph_cannot_be_continued(model: Any, graph: SemanticGraph) -> None:
    label = make_label(model, graph)
    stranger = Label(LabelKey("other", *list(vars(label.key).values())[1:]), label.pictures, label.texts)
    with pytest.raises(RecipeError, match="another model"):
        make_label(model, graph, before=stranger)
    with pytest.raises(RecipeError, match="another text"):
        make_label(model, graph, text="definition", before=label)
    other = SemanticGraph.build("other", [a_node(number) for number in range(12)])
    with pytest.raises(RecipeError, match="not the beginning of the graph 'other'"):
        make_label(model, other, before=label)


def test_a_predictor_without_features_is_refused(model: Any, graph: SemanticGraph) -> None:
    class Ensemble:
        label, hash, preprocess, device = "both", "x", model.preprocess, "cpu"

    with pytest.raises(RecipeError, match=r"both: a label needs the features .* Ensemble does not have"):
        make_label(Ensemble(), graph)  # type: ignore[arg-type]


def test_a_model_with_nan_in_it_is_refused(graph: SemanticGraph, tmp_path: Path) -> None:
    broken = load(save_clip(random_clip(), tmp_path / "clip"), "classifier")
    with torch.no_grad():
        broken.model.visual_projection.weight.fill_(float("nan"))  # type: ignore[attr-defined]
    with pytest.raises(NumericalError, match="sees pictures from 0 on as NaN or infinity"):
        make_label(broken, graph)


def test_equal_weights_with_another_config_or_tokenizer_are_another_model(graph: SemanticGraph, tmp_path: Path) -> None:
    folder = save_clip(random_clip(), tmp_path / "clip")
    model = load(folder, "classifier")
    key = label_key(model, graph)
    content = json.loads((folder / "config.json").read_text())
    content["vision_config"]["num_attention_heads"] = 1 + content["vision_config"]["num_attention_heads"] % 2
    (folder / "config.json").write_text(json.dumps(content))
    heads = load(folder, "classifier")
    assert heads.hash == model.hash
    assert label_key(heads, graph).digest != key.digest
    content["vision_config"]["num_attention_heads"] = model.config["vision_config"]["num_attention_heads"]
    (folder / "config.json").write_text(json.dumps({**content, "transformers_version": "0.0.0"}))
    assert label_key(load(folder, "classifier"), graph).digest == key.digest
    words = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**words, "model_max_length": 3}))
    assert label_key(load(folder, "classifier"), graph).digest != key.digest


def test_pictures_that_were_seen_with_other_texts_are_not_run_again(
    model: Any, graph: SemanticGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions, names = make_label(model, graph), make_label(model, graph, text="name")
    monkeypatch.setattr("smelt.hub.labels.runner.Runner._see", lambda *_: pytest.fail("seen already"))
    shared = make_label(model, graph, text="name", seen_in=captions)
    assert shared.key == names.key
    assert shared.pictures.tobytes() == names.pictures.tobytes()
    assert shared.texts.tobytes() == names.texts.tobytes()
    other = Label(LabelKey("other", *list(vars(captions.key).values())[1:]), captions.pictures, captions.texts)
    with pytest.raises(RecipeError, match="another model"):
        make_label(model, graph, text="name", seen_in=other)
