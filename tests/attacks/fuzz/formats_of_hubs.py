"""Formats of a hub: what is sent to it (a zip), its graph, labels and indexes."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.damage_files import json_file, raw, safetensors, yaml_file, zipped
from fuzz.format import Format
from fuzz.sound_models import LLAMA, LLAMA_SHAPES, SETTINGS, WORDS, tokenizer

from checkpoints import random_state, write_model
from smelt.errors import SmeltError

__all__ = ["FORMATS"]


def _refused() -> type[Exception]:
    from smelt.hub.service.problems import Refused

    return Refused


# ---- what is sent in


def _make_archive(place: Path) -> None:
    folder = write_model(place / "model", random_state(0, LLAMA_SHAPES), LLAMA)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer([*WORDS, "c", "d"])))
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"model/{path.name}")
    (place / "model.zip").write_bytes(packed.getvalue())


def _unpack(place: Path, file: str) -> Any:
    from smelt.hub.models.intake import read_in
    from smelt.hub.service.settings import Settings
    from smelt.hub.service.submissions.archive import check_folder, unpack

    sent, kept = place / "sent", place / "kept"
    for folder in (sent, kept):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    shutil.copyfile(place / "model.zip", sent / "upload.zip")
    unpack(sent, Settings())
    check_folder(sent, Settings())
    return read_in(sent, kept)


def _stays_inside(place: Path, found: Any) -> str | None:
    """Nothing lies anywhere but in the two folders, and they hold what the zip holds."""
    strange = {path.name for path in place.iterdir()} - {"model", "model.zip", "sent", "kept"}
    if strange:
        return f"files were written outside: {sorted(strange)}"
    with zipfile.ZipFile(place / "model.zip") as archive:
        for info in archive.infolist():
            name = info.filename.replace("\\", "/").rpartition("/")[2]
            if name in found:
                with archive.open(info) as packed:
                    if (place / "kept" / name).read_bytes() != packed.read(50_000_000):
                        return f"{name} is not what the zip holds"
    return None


# ---- the graph, labels, indexes


def _graph() -> Any:
    from smelt.hub.graph.graph import NewNode, SemanticGraph

    def pixels(value: int, side: int = 4) -> Any:
        return np.full((side, side, 3), value, dtype=np.uint8)

    dog = [("sketch", "dog 1", pixels(1)), ("photo", "dog 2", pixels(2, 6))]
    cat = [("sketch", "cat 1", pixels(3)), ("sketch", "cat 2", pixels(4))]
    nodes = [
        NewNode("animal.n.01", "animal", "a living organism", draws=True),
        NewNode("dog.n.01", "dog", "a canine", names=("dog", "hound"), parents=["animal.n.01"], pictures=dog),
        NewNode("cat.n.01", "cat", "a feline", parents=["animal.n.01"], pictures=cat),
    ]
    return SemanticGraph.build("animals", nodes, notice="made up")


def _make_graph(place: Path) -> None:
    _graph().save(place / "graph")
    for number, path in enumerate(sorted((place / "graph/pictures").iterdir())):
        shutil.copyfile(path, place / f"picture-{number}")
    content = (place / "graph/graph.json").read_text()
    (place / "graph.json").write_text(content)


def _read_graph(place: Path, file: str) -> Any:
    from smelt.hub.graph.graph import SemanticGraph

    graph = SemanticGraph.load(place / "graph")
    graph.verify()
    return graph


def _graph_is_right(place: Path, found: Any) -> str | None:
    return None if found.version == _graph().version else "a graph that was changed is accepted"


def _make_labels(place: Path) -> None:
    from smelt.hub.labels.index import Index
    from smelt.hub.labels.label import Label, LabelKey
    from smelt.hub.labels.merge_segments import merge_segments
    from smelt.hub.labels.segment import Segment

    graph = _graph()
    draw = np.random.default_rng(0)
    rows = [draw.integers(-99, 99, (count, 8)).astype(np.int16) for count in (len(graph.pictures), len(graph.nodes))]
    label = Label(LabelKey("model", graph.version, "as it is", "caption"), *rows)
    label.save(place / "label.safetensors")
    turned = Label(LabelKey("other", graph.version, "as it is", "caption"), -rows[0], rows[1])
    alone = [Segment.open(Index.build(one, graph).save(place / one.key.model)) for one in (label, turned)]
    merge_segments(place / "index", alone, {one.names[0] for one in alone})


def _read_labels(place: Path, file: str) -> Any:
    from smelt.hub.labels.index import Index, right_of_many
    from smelt.hub.labels.label import Label
    from smelt.hub.labels.segment import Segment

    graph = _graph()
    label = Label.open(place / "label.safetensors")
    Index.build(label, graph)
    segment = Segment.open(place / "index")
    right, pictures = right_of_many([Index(segment, number) for number in range(segment.models)], [0, 1, 2])
    segment.of_node(1)
    return label, right.tolist(), pictures.tolist()


CONFIG = {
    "name": "animals",
    "words": ["dog", "cat"],
    "ids": ["animal.n.01"],
    "hyponyms": "none",
    "hypernyms": True,
    "pictures": [{"folder": "pictures", "style": "photo", "source": "made up"}],
    "most": 5,
    "seed": 0,
    "empty": "keep",
    "notice": "none",
}


def _make_graph_config(place: Path) -> None:
    (place / "pictures").mkdir()
    (place / "graph.yaml").write_text(json.dumps(CONFIG))


def _read_graph_config(place: Path, file: str) -> Any:
    from smelt.hub.graph.build import GraphConfig

    return GraphConfig.load(place / "graph.yaml")


FORMATS = [
    Format(
        "hub_archive",
        _make_archive,
        {"model.zip": zipped({".json": json_file, ".safetensors": safetensors})},
        _unpack,
        _stays_inside,
        refusals=(SmeltError, _refused()),
        share=2,
    ),
    Format(
        "graph",
        _make_graph,
        {"graph/graph.json": json_file, "graph/pictures/sketch.webp": raw},
        _read_graph,
        _graph_is_right,
    ),
    Format("label", _make_labels, {"label.safetensors": safetensors, "index": raw}, _read_labels),
    Format("graph_config", _make_graph_config, {"graph.yaml": yaml_file}, _read_graph_config, share=0.5),
]
