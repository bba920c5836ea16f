"""The hub: models are added and labelled, selected for a task's words, and asked about pictures."""

import json
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sqlalchemy import text

from pico_clip import random_clip, save_clip
from pico_hub import CLASSES, colour_graph, full_hub, model, new_hub, pixels
from smelt.errors import CorruptFile, NumericalError, RecipeError
from smelt.hub.graph.graph import NewNode
from smelt.hub.hub import Hub
from smelt.hub.labels.label import identity_of
from smelt.hub.labels.segment import Segment
from smelt.hub.labels.segment_file import map_columns
from smelt.hub.models.cards import as_json
from smelt.hub.reference import hub_folder
from smelt.hub.selection.model_cache import ModelCache

CAPTIONS = [f"{name} which is the {name} thing" for name in CLASSES]


@pytest.fixture
def hub(tmp_path):
    with new_hub(tmp_path / "hub", embedder="hashed") as hub:
        yield hub


@pytest.fixture
def full(tmp_path):
    """A model that knows colours and one that guesses."""
    with Hub.open(full_hub(tmp_path / "hub")) as hub:
        yield hub


def test_a_model_is_added_labelled_and_on_its_card(hub, tmp_path):
    card = "---\nlicense: mit\n---\n# Knows\n\nIt tells **colours** [apart](../x). And more.\n"
    added = hub.add(model(tmp_path / "knows", README__md=card))
    assert (added.name, added.status, added.label, added.licence) == ("knows", "ready", True, "mit")
    assert added.description == "It tells colours apart."
    assert added.architecture == "CLIP ViT, 1 layers, width 8, patch 4, 8 px"
    assert added.parameters == sum(one.numel() for one in random_clip().parameters())
    names = {name for name, _, _ in added.files}
    assert {"model.safetensors", "config.json", "README.md"} <= names
    assert [one.name for one in hub.models()] == ["knows"]
    assert hub.model_folder("knows") == hub.folder / "models" / "knows"
    json.dumps(as_json(added))


def test_a_reference_finds_a_model_of_the_default_hub(full, monkeypatch):
    monkeypatch.setenv("SMELT_HUB", str(full.folder))
    assert hub_folder("knows") == full.folder / "models" / "knows"


def test_the_hub_keeps_its_own_copy(hub, tmp_path):
    folder = model(tmp_path / "knows")
    hub.add(folder)
    (folder / "model.safetensors").unlink()
    assert hub.predict([pixels("red")], hub.select(CLASSES, captions=CAPTIONS)).names == ["red"]


def test_selection_takes_the_model_that_knows_the_nodes(full):
    chosen = full.select(CLASSES, k=1, nodes=1, captions=CAPTIONS)
    assert chosen.chosen_names == (("knows",),) * 3
    assert chosen.used == ("knows",)
    assert [[node.name for node in chosen.nodes]] == [["red", "green", "blue"]]
    assert chosen.recall[chosen.models.index("knows")].tolist() == [1.0, 1.0, 1.0]
    assert full.select(CLASSES, k=2, nodes=1, captions=CAPTIONS).used == ("guesses1", "knows")
    assert full.select(CLASSES, k=1, nodes=1, captions=CAPTIONS, models=["guesses1"]).used == ("guesses1",)


def test_metrics_that_need_the_archive_find_it(full):
    for metric in ("precision", "f1"):
        assert full.select(CLASSES, nodes=1, captions=CAPTIONS, metric=metric).used == ("knows",)
    assert (
        full.select(CLASSES, nodes=1, captions=CAPTIONS, pictures="domain", domain="photo").settings["style"] == "photo"
    )


def test_pictures_come_as_paths_images_and_arrays(full, tmp_path):
    selection = full.select(CLASSES, nodes=1, captions=CAPTIONS)
    Image.fromarray(pixels("green")).save(tmp_path / "green.png")
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    clear.paste((255, 0, 0, 255), (0, 0, 8, 6))
    done = full.predict([tmp_path / "green.png", Image.fromarray(pixels("blue")), pixels("red"), clear], selection)
    assert done.names == ["green", "blue", "red", "red"]
    assert (done.scores.shape, done.used) == ((4, 3), ("knows",))
    assert full.predict([pixels("red")], CLASSES, k=2, nodes=1, captions=CAPTIONS).used == ("guesses1", "knows")


@pytest.mark.parametrize("bad", [np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)])
def test_an_array_that_is_no_picture_is_refused(full, bad):
    with pytest.raises(RecipeError, match="picture 0"):
        full.predict([bad], full.select(CLASSES, captions=CAPTIONS))


def test_a_file_that_is_no_picture_is_refused(full, tmp_path):
    (tmp_path / "x.png").write_text("not a picture")
    selection = full.select(CLASSES, captions=CAPTIONS)
    with pytest.raises(CorruptFile, match=r"x\.png"):
        full.predict([tmp_path / "x.png"], selection)
    with pytest.raises(RecipeError, match="there is no such picture"):
        full.predict([tmp_path / "y.png"], selection)


def test_strengths_are_by_leaf_style_and_branch(full):
    knows = full.strengths("knows")
    assert (knows.overall, knows.nodes, knows.pictures) == (1.0, 3, 9)
    assert knows.by_style == {"photo": 1.0, "drawing": 1.0}
    assert [one.id for one in knows.best] == ["red.n.01", "green.n.01", "blue.n.01"]
    assert knows.worst == []
    guesses = full.strengths("guesses1", limit=1)
    assert guesses.overall < 1
    assert guesses.worst[0].recall <= guesses.best[0].recall


def test_a_model_without_a_label_waits_and_counts_in_no_selection(full, tmp_path):
    added = full.add(model(tmp_path / "late", "guesses2"), label=False)
    assert (added.status, added.label) == ("waiting", False)
    assert "late" not in full.select(CLASSES, captions=CAPTIONS).models
    with pytest.raises(RecipeError, match="smelt hub label late"):
        full.strengths("late")
    assert full.label() == ["late"]
    assert "late" in full.select(CLASSES, captions=CAPTIONS).models
    assert full.label() == []


def test_an_empty_hub_says_what_to_do(hub):
    with pytest.raises(RecipeError, match="smelt hub add"):
        hub.select(CLASSES, captions=CAPTIONS)


@pytest.mark.parametrize(
    ("classes", "words"),
    [([], "1 to"), (["red", "red"], "'red' is given twice"), (["red", " "], "number 2"), ("red", "a list of names")],
)
def test_a_task_that_is_none_is_refused(full, classes, words):
    with pytest.raises(RecipeError, match=words):
        full.select(classes)


def test_a_taken_name_is_refused_before_anything_is_read(full, tmp_path):
    with pytest.raises(RecipeError, match="has a model named 'knows' already"):
        full.add(tmp_path / "nowhere" / "knows")


def test_a_model_with_nan_is_not_added(hub, tmp_path):
    broken = random_clip(3)
    with torch.no_grad():
        broken.visual_projection.weight.fill_(float("nan"))
    with pytest.raises(NumericalError, match="broken was not added: the model's picture features"):
        hub.add(save_clip(broken, tmp_path / "broken"))
    assert hub.models() == []
    assert list((hub.folder / "staging").iterdir()) == []


def test_removing_a_model_takes_its_files_and_label_along(full):
    full.remove("knows")
    assert [one.name for one in full.models()] == ["guesses1"]
    assert not (full.folder / "models" / "knows").exists()
    assert (len(list((full.folder / "labels").iterdir())), len(segments(full))) == (1, 1)
    full.remove("guesses1")
    assert (list((full.folder / "labels").iterdir()), list(full.folder.glob("files/??/*"))) == ([], [])
    assert segments(full) == []


def test_equal_models_share_their_label(hub, tmp_path):
    hub.add(model(tmp_path / "one"))
    hub.add(model(tmp_path / "two"))
    assert len(segments(hub)) == 1
    hub.remove("one")
    assert hub.model("two").label


def test_search_finds_all_words_in_name_description_and_architecture(full, tmp_path):
    full.add(model(tmp_path / "x", "guesses2"), name="late", description="Sees GREY only")
    assert [one.name for one in full.models("grey vit")] == ["late"]
    assert full.models("grey resnet") == []


def test_a_new_node_extends_every_label_to_what_a_rebuild_gives(full, tmp_path):
    node = NewNode("dark.n.01", "dark", "the red thing at night", pictures=[("photo", "made", pixels("red", 9))])
    before = full.graph.version
    full.add_node(node)
    assert (full.graph.version != before, len(full.graph.nodes)) == (True, 5)
    assert all(card.label for card in full.models())
    with new_hub(tmp_path / "other", embedder="hashed", graph=colour_graph().with_nodes([node])) as other:
        for name in ("guesses1", "knows"):
            other.add(model(tmp_path / name, name))
        grown = {path.name: path.read_bytes() for path in (full.folder / "labels").iterdir()}
        anew = {path.name: path.read_bytes() for path in (other.folder / "labels").iterdir()}
        assert len(anew) == 2
        assert anew.items() <= grown.items()
        assert {path.read_bytes() for path in segments(other)} <= {path.read_bytes() for path in segments(full)}
    full.add_node(NewNode("dusk.n.01", "dusk", "later", pictures=[("photo", "made", pixels("blue", 9))]))
    assert len(list((full.folder / "graphs").iterdir())) == 2  # this one and the last


def dusk(number=0):
    pictures = [("photo", f"made {number}", pixels("blue", 9 + number))]
    return NewNode(f"dusk{number}.n.01", f"dusk {number}", "later", pictures=pictures)


def labels_of(hub):
    return {path.name: path.read_bytes() for path in (hub.folder / "labels").iterdir()}


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("way", ["add", "label"])
def test_a_graph_that_grows_while_a_model_is_labelled_loses_no_label(hub, tmp_path, nodes, way):
    new = [dusk(number) for number in range(nodes)]

    def grow(done, total):
        if new:
            with Hub.open(hub.folder) as other:
                while new:
                    other.add_node(new.pop(0))

    folder = model(tmp_path / "knows")
    if way == "label":
        hub.add(folder, label=False)
        hub._label_in_background("knows", grow)
    else:
        hub.add(folder, progress=grow)
    assert (len(hub.graph.nodes), hub.model("knows").label) == (4 + nodes, True)
    with new_hub(tmp_path / "anew", embedder="hashed", graph=hub.graph) as anew:
        anew.add(folder)
        assert labels_of(anew).items() <= labels_of(hub).items()


def test_a_label_that_is_finished_while_the_graph_is_replaced_is_extended(full, tmp_path, monkeypatch):
    late, real = model(tmp_path / "late", "guesses2"), full._store.replace_graph

    def with_a_late_one(*words):
        with Hub.open(full.folder) as other:
            other.add(late)
        return real(*words)

    monkeypatch.setattr(full._store, "replace_graph", with_a_late_one)
    full.add_node(dusk())
    assert {card.name: card.label for card in full.models()} == {"guesses1": True, "knows": True, "late": True}


def test_a_model_that_is_removed_while_it_is_labelled_leaves_no_label(hub, tmp_path):
    def remove(done, total):
        with Hub.open(hub.folder) as other:
            if other._store.has_model("knows"):
                other.remove("knows")

    with pytest.raises(RecipeError, match="knows was removed while it was being labelled"):
        hub.add(model(tmp_path / "knows"), progress=remove)
    with hub._store.read() as session:
        assert session.execute(text("SELECT count(*) FROM labels")).scalar() == 0
    assert list(hub.folder.glob("labels/*")) == []


def cut(path):
    path.write_bytes(path.read_bytes()[:-64])


def segments(hub, digest=""):
    """The files of a hub's index, the oldest first; or those that hold a label."""
    paths = sorted((hub.folder / "indexes").glob("*.segment"))
    return [path for path in paths if not digest or digest in Segment.open(path).names]


def flip(path):
    content = path.read_bytes()
    path.write_bytes(content[:66] + bytes([content[66] ^ 1]) + content[67:])


@pytest.mark.parametrize(
    ("kind", "damage"),
    [("index", cut), ("index", flip), ("index", Path.unlink), ("safetensors", cut), ("safetensors", Path.unlink)],
)
def test_label_makes_a_damaged_label_anew(full, kind, damage):
    before = full.select(CLASSES, nodes=1, captions=CAPTIONS, k=2).recall
    digest = full._labelling.digests([full._store.model("knows")], full.graph)["knows"]

    def file():
        return segments(full, digest)[-1] if kind == "index" else full._store.archive_file(digest)

    path = file()
    whole = path.read_bytes()
    path.write_bytes(whole)  # a file of its own: the open one stays as it is
    damage(path)
    with Hub.open(full.folder) as other:
        if damage is not flip:
            metric = "recall" if kind == "index" else "f1"
            with pytest.raises(CorruptFile, match=r"label of knows is damaged .*`smelt hub label knows --force`"):
                other.select(CLASSES, captions=CAPTIONS, metric=metric)
        assert other.label() == ["knows"]
        assert (file().read_bytes(), other.label()) == (whole, [])
        assert len(segments(full)) == 2
        assert other.select(CLASSES, nodes=1, captions=CAPTIONS, k=2).recall.tolist() == before.tolist()


def test_lists_that_lead_nowhere_name_the_model_and_what_to_do(full):
    row, graph = full._store.model("guesses1"), full.graph
    (path,) = segments(full, full._labelling.digests([row], graph)["guesses1"])
    content = bytearray(path.read_bytes())
    first = map_columns(path)[1]["columns"]["offsets"][0]
    content[first + 16 : first + 24] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(content)
    with Hub.open(full.folder) as other, pytest.raises(CorruptFile, match="`smelt hub label guesses1 --force`"):
        other.select(CLASSES, nodes=1, captions=CAPTIONS)


def test_a_label_that_was_made_anew_elsewhere_is_opened_anew(full):
    rows, graph = full._store.models(), full.graph
    first = full._labelling.indexes(rows, graph)
    assert full._labelling.indexes(rows, graph)["knows"].segment is first["knows"].segment
    with Hub.open(full.folder) as other:
        other.label("knows", force=True)
    again = full._labelling.indexes(rows, graph)
    assert again["knows"].segment is not first["knows"].segment
    assert again["guesses1"].segment is first["guesses1"].segment


def test_models_that_prepare_pictures_differently_are_two(hub, tmp_path):
    folder = model(tmp_path / "one")
    processor = json.loads((folder / "preprocessor_config.json").read_text())
    other = {**processor, "image_mean": [0.1, 0.2, 0.3]}
    model(tmp_path / "two", preprocessor_config__json=json.dumps(other))
    for name in ("one", "two"):
        hub.add(tmp_path / name)
    assert hub.model("one").hash == hub.model("two").hash
    assert hub.classifier("one").preprocess.mean != hub.classifier("two").preprocess.mean
    assert len(segments(hub)) == 2


def test_a_submitted_model_says_who_sent_it_and_not_where_it_lay(hub, tmp_path):
    sent = hub.add(model(tmp_path / "upload"), name="sent", label=False, submitted_by="ada")
    assert (sent.submitted_by, sent.ref) == ("ada", "submitted")
    local = hub.add(model(tmp_path / "own"), label=False)
    assert (local.submitted_by, local.ref) == ("", str(tmp_path / "own"))
    shutil.rmtree(tmp_path / "upload")
    hub.classifier("sent")


def test_another_process_sees_a_grown_graph(full):
    with Hub.open(full.folder) as other:
        other.add_node(NewNode("dusk.n.01", "dusk", "later", pictures=[("photo", "made", pixels("blue", 9))]))
    assert "dusk.n.01" in full.graph


def test_few_models_stay_in_memory(full):
    loaded = ModelCache(full._store, most=1)
    first, other = (full._store.model(name) for name in ("knows", "guesses1"))
    one = loaded.get(first)
    assert loaded.get(first) is one
    assert (identity_of(loaded.get(other)), len(loaded)) == (other.hash, 1)
    assert loaded.get(first) is not one


def test_a_model_of_the_zoo_stays_where_it_is_and_is_refused_once_it_is_another(tmp_path, monkeypatch):
    guesses = model(tmp_path / "guesses", "guesses1")
    model(tmp_path / "knows")
    zoo = types.ModuleType("smelt_zoo")
    zoo.models = lambda: {"knows": tmp_path / "knows"}
    monkeypatch.setitem(sys.modules, "smelt_zoo", zoo)
    with new_hub(tmp_path / "second", embedder="hashed") as second:
        (card,) = second.add_zoo()
        assert (card.name, card.ref, card.status, card.files) == ("knows", "zoo:knows", "ready", ())
        assert not list(second.folder.glob("files/*"))
        assert second.select(CLASSES, nodes=1, captions=CAPTIONS).used == ("knows",)
        (tmp_path / "knows" / "model.safetensors").write_bytes((guesses / "model.safetensors").read_bytes())
        second._loaded.clear()
        with pytest.raises(CorruptFile, match="no longer the model that was added"):
            second.predict([pixels("red")], CLASSES, captions=CAPTIONS)
