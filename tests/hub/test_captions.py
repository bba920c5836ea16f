from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from local_server import serving
from smelt.errors import RecipeError
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.graph.wordnet import Sense, WordNet
from smelt.hub.matching.captions import (
    EndpointCaptions,
    Gloss,
    TemplateCaptions,
    caption_variants,
    find_captioner,
)
from smelt.system.endpoint import Endpoint, EndpointError

SECRET = "sk-very-secret-123"
ABOUT = {"domain": "natural picture", "task": "image classification"}


def _graph() -> SemanticGraph:
    dot = np.zeros((2, 2, 3), dtype=np.uint8)
    return SemanticGraph.build(
        "pets",
        [
            NewNode("dog.n.01", "dog", "a tame wolf", names=("dog", "domestic_dog"), pictures=[("photo", "1", dot)]),
            NewNode("cat.n.01", "cat", "a small feline", names=("cat", "dog"), pictures=[("photo", "2", dot)]),
        ],
    )


def _no_word(word: str) -> None:
    return None


def _template(**words: Any) -> TemplateCaptions:
    return TemplateCaptions(_graph(), **{"lookup": _no_word, **words})


def test_a_class_is_described_by_the_graphs_gloss() -> None:
    assert _template().captions(["dog"], **ABOUT) == ["The natural picture of dog, which is a tame wolf"]


def test_names_are_found_whatever_their_case_underscores_and_number() -> None:
    captions = _template().captions(["Domestic_Dog", "cats"], **ABOUT)
    assert captions == [
        "The natural picture of Domestic Dog, which is a tame wolf",
        "The natural picture of cats, which is a small feline",
    ]


def test_a_word_that_the_graph_lacks_is_looked_up_elsewhere() -> None:
    known = {"ox": Gloss("a draught animal")}
    assert _template(lookup=known.get).captions(["ox", "dog"], **ABOUT) == [
        "The natural picture of ox, which is a draught animal",
        "The natural picture of dog, which is a tame wolf",
    ]


def test_wordnet_is_asked_where_its_data_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    sense = Sense("ox.n.01", "n02403003", ("ox", "steer"), "an adult castrated bull", ())
    nouns = SimpleNamespace(first_sense={"ox": sense}.get)
    monkeypatch.setattr(WordNet, "open", lambda: nouns)
    captioner = TemplateCaptions(_graph())
    captioner.captions(["dog"], **ABOUT)
    assert captioner.name == "template"
    assert captioner.captions(["Ox"], **ABOUT) == ["The natural picture of Ox, which is an adult castrated bull"]
    assert captioner.gloss("ox") == Gloss("an adult castrated bull", ("ox", "steer"))
    assert captioner.name == "template and WordNet"


def test_without_wordnet_the_graph_alone_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise RecipeError("WordNet is not here")

    monkeypatch.setattr(WordNet, "open", absent)
    captioner = TemplateCaptions(_graph())
    assert captioner.captions(["ox", "dog"], **ABOUT)[0] == "The natural picture of ox"
    assert captioner.name == "template"


def test_a_word_that_nothing_knows_gives_the_template_alone() -> None:
    assert _template().captions(["zzz"], domain="icon", task="x") == ["The icon of zzz"]
    assert TemplateCaptions(None, _no_word).captions(["dog"], **ABOUT) == ["The natural picture of dog"]


def test_eight_different_wordings_name_the_class_or_its_synonym() -> None:
    found = caption_variants("dog", Gloss("a tame wolf", ("dog", "hound")), **ABOUT)
    assert len(set(found)) == 8
    assert all("dog" in text or "hound" in text for text in found)
    assert sum("a tame wolf" in text for text in found) == 4
    assert len(set(caption_variants("zzz", None, **ABOUT))) == 8


def _said(text: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def test_a_language_model_writes_the_captions_and_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)

    def answer(path: str, content: dict[str, Any], number: int) -> tuple[int, Any, float]:
        name = "dog" if "of dog" in content["messages"][0]["content"] else "ox"
        return 200, _said(f' "The natural picture of {name}, which is {"very " * 60}big" '), 0

    with serving(answer) as server:
        captioner = EndpointCaptions(server.url, "talker", key_env="MY_KEY", folder=tmp_path)
        first = captioner.captions(["dog", "ox"], **ABOUT)
        assert captioner.captions(["ox", "dog"], **ABOUT) == first[::-1]
        assert len(server.asked) == 2
        captioner.captions(["dog"], domain="icon", task="image classification")
        assert len(server.asked) == 3
    assert [text.split(",")[0] for text in first] == ["The natural picture of dog", "The natural picture of ox"]
    assert all(len(text.split()) == 50 for text in first)
    (one, *_) = server.asked
    assert one["path"] == "/v1/chat/completions"
    assert one["key"] == f"Bearer {SECRET}"
    assert one["content"]["model"] == "talker"
    assert one["content"]["temperature"] == 0
    prompt = one["content"]["messages"][0]["content"]
    assert all(word in prompt for word in ("natural picture", "image classification", "50 words"))
    assert not any(SECRET in path.read_text() for path in tmp_path.iterdir())


@pytest.mark.parametrize("said", ["", "  ", None])
def test_an_empty_caption_is_an_error_that_names_the_class(said: Any, tmp_path: Path) -> None:
    with serving(lambda *_: (200, _said(said), 0)) as server:
        captioner = EndpointCaptions(server.url, "talker", folder=tmp_path)
        with pytest.raises(EndpointError, match="empty caption for the class 'ox'"):
            captioner.captions(["ox"], **ABOUT)
    assert not list(tmp_path.iterdir())


def test_an_answer_of_another_kind_is_an_error() -> None:
    strange = serving(lambda *_: (200, {"nothing": 1}, 0))
    with strange as server, pytest.raises(EndpointError, match="did not answer with a message"):
        EndpointCaptions(server.url, "talker", cache=False).captions(["ox"], **ABOUT)
    with serving(lambda *_: (200, "<html>", 0)) as server, pytest.raises(EndpointError, match="not JSON"):
        EndpointCaptions(server.url, "talker", cache=False).captions(["ox"], **ABOUT)


def test_a_refusal_is_told_at_once_and_without_the_key(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    with serving(lambda *_: (401, {"error": f"the key {SECRET} is not known"}, 0)) as server:
        endpoint = Endpoint(server.url, "talker", "MY_KEY", wait=0)
        with pytest.raises(EndpointError) as caught:
            endpoint.post("chat/completions", {})
    assert len(server.asked) == 1
    assert "answered 401" in str(caught.value)
    assert "the key *** is not known" in str(caught.value)
    for shown in (str(caught.value), repr(endpoint), caplog.text):
        assert SECRET not in shown


def test_a_busy_server_is_asked_again() -> None:
    with serving(lambda path, content, number: (429, "wait", 0) if number < 2 else (200, {"fine": 1}, 0)) as server:
        assert Endpoint(server.url, "talker", wait=0.01).post("x", {}) == {"fine": 1}
    assert len(server.asked) == 3


def test_a_server_that_stays_broken_is_given_up() -> None:
    broken = serving(lambda *_: (503, "down", 0))
    with broken as server, pytest.raises(EndpointError, match="answered 503: down; tried 2 times"):
        Endpoint(server.url, "talker", tries=2, wait=0).post("x", {})
    with pytest.raises(EndpointError, match="cannot be reached"):  # it is gone now
        Endpoint(server.url, "talker", tries=1).post("x", {})


def test_a_server_that_is_too_slow_is_given_up() -> None:
    with serving(lambda *_: (200, {}, 0.4)) as server:
        with pytest.raises(EndpointError, match=r"no answer in 0.1 seconds; tried 2 times"):
            Endpoint(server.url, "talker", timeout=0.1, tries=2, wait=0).post("x", {})
        assert len(server.asked) == 2


def test_a_key_that_is_not_set_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(RecipeError, match="MY_KEY is not set"):
        Endpoint("http://127.0.0.1:9/v1", "talker", "MY_KEY").post("x", {})


@pytest.mark.parametrize(
    "url", ["ftp://host/v1", "host/v1", f"https://me:{SECRET}@host/v1", f"https://host/v1?api_key={SECRET}"]
)
def test_a_url_that_is_none_or_holds_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(RecipeError, match="url: ") as caught:
        Endpoint(url, "talker")
    assert SECRET not in str(caught.value)


def test_captioners_are_found_by_name() -> None:
    assert isinstance(find_captioner("template", _graph()), TemplateCaptions)
    found = find_captioner("endpoint:talker", url="http://localhost:1/v1", key_env="MY_KEY")
    assert isinstance(found, EndpointCaptions)
    assert found.endpoint.model == "talker"
    with pytest.raises(RecipeError, match="need url="):
        find_captioner("endpoint:talker")
    with pytest.raises(RecipeError, match="did you mean 'template'"):
        find_captioner("templates")
