"""Model Label Learning (Tan et al. 2025): its models, targets and graph, all in small, from the stand-in hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from smelt.hub.graph.graph import find_graph
from smelt.hub.paper import paper_hub
from stand_in_hub.published import mll
from tiny_wordnet import tiny_wordnet

PAPER = paper_hub()
KINDS = (
    "RN50.openai",
    "ViT-B-32.laion2b_e16",
    "ViT-B-16.dfn2b",
    "roberta-ViT-B-32.laion2b_s12b_b32k",
    "convnext_base_w.laion2b_s13b_b82k",
    "coca_ViT-B-32.laion2b_s13b_b90k",
    "nllb-clip-base-siglip.v1",
)
"""Models of most kinds; Apple's and NLLB-CLIP's are pickles. EVA, whose pictures are large, is in the long form."""
NOUNS = {
    "entity.n.01": (("entity",), "that which exists", ()),
    "fish.n.01": (("fish",), "an animal that swims", ("entity.n.01",)),
    "tench.n.01": (("tench", "Tinca_tinca"), "a freshwater food fish", ("fish.n.01",)),
    "goldfish.n.01": (("goldfish",), "a small golden fish", ("fish.n.01",)),
    "bubble_eye.n.01": (("bubble_eye",), "a goldfish with bags under its eyes", ("goldfish.n.01",)),
}
WNIDS = {"tench.n.01": "n01440764", "goldfish.n.01": "n01443537", "bubble_eye.n.01": "n01450000"}
"""Labels 0 and 1 of ImageNet. Goldfish is label 0 of ImageNet-R; ImageNet-A has neither."""
SAMPLES = {
    "clip-benchmark/wds_imagenet1k": {0: 3, 1: 2},
    "clip-benchmark/wds_imagenetv2": {0: 1, 1: 1},
    "clip-benchmark/wds_imagenet_sketch": {0: 1, 1: 1},
    "clip-benchmark/wds_imagenet-a": {0: 2},
    "clip-benchmark/wds_imagenet-r": {1: 2},
}


@pytest.fixture
def small_world(stand_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The stand-in's MLL with some models and tasks; a WordNet of five nouns; a data folder of the test's own."""

    def fill(models, tasks):
        mll.fill(stand_in.contents, {PAPER.model(name).open_clip: PAPER.model(name).architecture for name in models})
        mll.fill_data(stand_in.contents, {task.task_name: task.as_task().classes[:3] for task in tasks}, SAMPLES)

    places = tmp_path / "nltk"
    tiny_wordnet(places / "corpora" / "wordnet", nouns=NOUNS, wnids=WNIDS)
    monkeypatch.setattr("smelt.hub.graph.wordnet._places", lambda: iter([places / "corpora" / "wordnet"]))
    monkeypatch.setenv("SMELT_GRAPHS", str(tmp_path / "graphs"))
    return fill


def _make_the_graph(cli, tmp_path):
    """From the five sample sets."""
    ran = cli("hub", "graph", "imagenet-family")
    assert ran.code == 0, ran.err
    assert "ImageNet-1k: fetching clip-benchmark/wds_imagenet1k (test) from the Hugging Face hub" in ran.err
    assert "imagenet-family: 5 nodes; 9,055 were expected" in ran.err
    graph = find_graph("imagenet-family")
    assert {node.id for node in graph.nodes} == set(NOUNS)
    sources = [graph.pictures[number].source.split()[0] for number in graph.node("goldfish.n.01").pictures]
    assert sorted(sources) == ["ImageNet-1k", "ImageNet-1k", "ImageNet-Sketch", "ImageNet-V2"]
    assert graph.node("bubble_eye.n.01").pictures == graph.node("goldfish.n.01").pictures, "it inherits them"
    assert len(list((tmp_path / "graphs" / "imagenet-family-pictures" / "imagenet" / "n01440764").iterdir())) == 3


def test_graph_hub_and_bench_of_the_paper_are_one_command_each(cli, small_world, tmp_path):
    tasks = [PAPER.target(name) for name in ("mnist", "clevr-d", "dmlab")]
    small_world(KINDS, tasks)
    _make_the_graph(cli, tmp_path)
    place = ("--hub", tmp_path / "hub")
    words = ("--graph", "imagenet-family", "--embedder", "hashed", "--models", "paper", "--only", ",".join(KINDS))
    ran = cli("hub", "init", *place, *words)
    assert ran.code == 2, "two of them are pickles, which have to be allowed"
    assert "made with 5 models" in ran.err
    assert ran.err.count("later: smelt hub add open_clip:") == 2
    assert "holds open_clip's weights as a pickle only (open_clip_pytorch_model.bin)" in ran.err
    added = cli("hub", "add", *place, "open_clip:ViT-B-16/dfn2b", "--allow-pickle")
    assert added.code == 0, added.err
    cards = {one["name"]: one for one in json.loads(cli("hub", "ls", *place, "--json").out)}
    assert len(cards) == 6
    assert cards["RN50.openai"]["architecture"] == "open_clip ResNet, 32 px"
    assert cards["convnext_base_w.laion2b_s13b_b82k"]["family"] == "open_clip"
    assert all(one["status"] == "ready" for one in cards.values())

    named = ",".join(task.task_name for task in tasks)
    bench = cli("bench", "hub", "--preset", "paper", "--tasks", named, "--executor", "inline", "-o", tmp_path / "bench")
    assert bench.code == 0, bench.err
    assert "Model RN101.openai: LEFT OUT, hf:timm/resnet101_clip.openai is not on the Hugging Face Hub" in bench.err
    rows = [json.loads(line) for line in (tmp_path / "bench" / "rows.jsonl").read_text().splitlines()]
    alone = {row["entry"] for row in rows if row.get("part") == "hub: models"}
    assert alone == {f"model-{name}" for name in KINDS}
    missing = json.loads((tmp_path / "bench" / "analyses" / "hub-left-out.json").read_text())["models"]
    assert len(missing) == 49 - len(KINDS)
    report = (tmp_path / "bench" / "report.html").read_text()
    assert "Table 1" in report
    assert "0.8101" in report, "what the paper prints for MNIST"
    assert "Models and methods that were left out" in report
    assert "RN101.openai" in report


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_49_models_and_17_targets_run_to_the_report(cli, small_world, tmp_path):
    small_world([model.name for model in PAPER.models], PAPER.targets)
    _make_the_graph(cli, tmp_path)
    place = ("--hub", tmp_path / "hub")
    words = ("--graph", "imagenet-family", "--embedder", "hashed", "--models", "paper", "--allow-pickle")
    ran = cli("hub", "init", *place, *words)
    assert ran.code == 0, ran.err
    assert len(json.loads(cli("hub", "ls", *place, "--json").out)) == 49
    methods = "mll,inb,oracle,sweeps,growth"  # ModelGPT reads 8,208 texts with each model
    bench = cli(
        "bench", "hub", "--preset", "paper", "--methods", methods, "--executor", "inline", "-o", tmp_path / "bench"
    )
    assert bench.code == 0, bench.err
    rows = [json.loads(line) for line in (tmp_path / "bench" / "rows.jsonl").read_text().splitlines()]
    table = [row for row in rows if row.get("part") == "hub: k = 1" and row.get("entry") == "mll"]
    assert [row["task"] for row in table] == [task.task_name for task in PAPER.targets]
    assert not (tmp_path / "bench" / "analyses" / "hub-left-out.json").exists()
