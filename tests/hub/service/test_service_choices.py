"""What the command line takes the service takes too: which pictures of the graph count, and how models are weighed.

And it says of how many models it speaks.
"""

import io
import re

import pytest
from PIL import Image
from service_hub import png

THREE = {"classes": ["red", "green", "blue"], "domain": "sketch"}


def test_a_selection_by_the_pictures_of_the_domain_is_that_of_the_hub(client, hub):
    found = client.post("/api/v1/select", json={**THREE, "pictures": "domain"}).json()
    expected = hub.select(THREE["classes"], domain="sketch", pictures="domain")
    assert (found["settings"]["pictures"], found["settings"]["style"]) == ("domain", "sketch")
    assert [(one["model"], one["precision"]) for one in found["ranking"]] == [tuple(one) for one in expected.ranking]
    every = client.post("/api/v1/select", json=THREE).json()
    assert every["settings"]["pictures"] == "all"
    assert every["ranking"] != found["ranking"]


@pytest.mark.parametrize("weights", ["entropy", "inverse_entropy", "uniform"])
def test_models_of_a_class_are_weighed_as_asked(client, hub, weights):
    words = {"classes": ["red", "blue"], "k": 2, "weights": weights, "graph_pictures": "domain", "domain": "sketch"}
    sent = {"pictures": ("a.png", png("red"))}
    found = client.post("/api/v1/predict", data=words, files=sent).json()
    chosen = hub.select(["red", "blue"], k=2, domain="sketch", pictures="domain")
    expected = hub.predict([Image.open(io.BytesIO(png("red")))], chosen, weights=weights)
    assert list(found["predictions"][0]["scores"].values()) == pytest.approx(expected.scores[0].tolist())


def test_the_three_ways_to_weigh_differ(client):
    """`knows` is certain of a green picture, `guesses` takes it for blue and is less so."""
    words, sent = {**THREE, "k": 2}, {"pictures": ("a.png", png("green"))}
    scores = [
        client.post("/api/v1/predict", data={**words, "weights": one}, files=sent).json()["predictions"][0]["scores"]
        for one in ("entropy", "uniform", "inverse_entropy")
    ]
    assert [round(one["green"], 1) for one in scores] == [0.2, 0.6, 1.0]


def test_other_words_are_refused_and_told_what_there_is(client):
    answer = client.post("/api/v1/select", json={**THREE, "pictures": "some"})
    assert (answer.status_code, "'all', 'domain', 'unseen' or 'domain-unseen'" in answer.text) == (422, True)
    sent = {"pictures": ("a.png", png("red"))}
    answer = client.post("/api/v1/predict", data={"classes": "red", "weights": "mine"}, files=sent)
    assert (answer.status_code, "'inverse_entropy'" in answer.text) == (422, True)
    assert client.get("/task?classes=red&pictures=some").status_code == 422
    assert client.get("/predict?weights=mine").status_code == 422


def test_the_pages_take_them_and_remember_them(client):
    text = client.get("/task?classes=red%0Ablue&domain=sketch&pictures=domain").text
    assert "<b>Of the graph</b> sketch only" in text
    assert 'name="pictures"><option value="all">' in text
    assert '<option value="domain" selected>' in text
    assert "pictures=domain" in re.search(r'class="button" href="(/predict\?[^"]+)"', text)[1]
    words = {"classes": "red\nblue", "k": 2, "graph_pictures": "domain", "weights": "uniform", "domain": "sketch"}
    text = client.post("/predict", data=words, files={"pictures": ("a.png", png("red"))}).text
    assert 'name="graph_pictures"><option value="all">' in text
    assert '<option value="domain" selected>' in text
    assert '<option value="uniform" selected>' in text
    assert "pictures=domain" in re.search(r'href="(/task\?[^"]+)">Why', text)[1]


def test_the_pages_say_how_many_models_are_labelled(own_hub, client_of, model_folders):
    client = client_of(own_hub)
    assert "none here was yet" in client.get("/").text
    answer = client.get("/task?classes=red")
    assert (answer.status_code, "this hub is empty" in answer.text) == (503, True)
    for name, folder in model_folders.items():
        own_hub.add(folder, name=name, label=False)
    answer = client.get("/task?classes=red")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "10"
    assert "none of the 2 models of this hub is labelled yet" in answer.text
    own_hub.label("guesses")
    assert "so far 1 of the 2 here was" in client.get("/").text
    for path in ("/task", "/task?classes=red"):
        assert "1 of 2 models is labelled; only this one can be chosen." in client.get(path).text
    assert "Every model here was tested" not in client.get("/").text
    own_hub.label("knows")
    assert "Every model here was tested once" in client.get("/").text
    assert "All 2 models are labelled." in client.get("/task?classes=red").text
