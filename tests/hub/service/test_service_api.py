"""The JSON API: the same hub for programs, described by its own schema."""

import pytest
from service_hub import png


def test_the_schema_lists_every_operation_and_asks_for_a_token_where_one_is_needed(client):
    schema = client.get("/openapi.json").json()
    found = {(method, path) for path, methods in schema["paths"].items() for method in methods}
    assert found == {
        ("get", "/api/v1/hub"),
        ("get", "/api/v1/models"),
        ("get", "/api/v1/models/{name}"),
        ("get", "/api/v1/graph"),
        ("get", "/api/v1/graph/{id}"),
        ("post", "/api/v1/select"),
        ("post", "/api/v1/predict"),
        ("post", "/api/v1/submit"),
        ("get", "/api/v1/jobs"),
        ("get", "/api/v1/jobs/{id}"),
        ("post", "/api/v1/jobs/{id}/cancel"),
    }
    for path in ("/api/v1/submit", "/api/v1/jobs/{id}/cancel"):
        assert schema["paths"][path]["post"]["security"] == [{"token": []}]
    assert schema["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_the_page_of_the_api_needs_no_network_and_names_every_operation(client):
    text = client.get("/api").text
    schema = client.get("/openapi.json").json()
    assert all(f"<code>{path}</code>" in text for path in schema["paths"])
    assert "cdn" not in text
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404


def test_the_hub_at_a_glance(client):
    found = client.get("/api/v1/hub").json()
    assert (found["models"], found["labelled"], found["nodes"], found["pictures"]) == (2, 2, 4, 24)


def test_models_are_listed_searched_and_shown_with_strengths(client):
    assert [one["name"] for one in client.get("/api/v1/models").json()["models"]] == ["guesses", "knows"]
    assert [one["name"] for one in client.get("/api/v1/models?search=knows").json()["models"]] == ["knows"]
    strengths = client.get("/api/v1/models/knows").json()["strengths"]
    assert strengths["overall"] == 1.0
    assert strengths["by_style"] == {"photo": 1.0, "sketch": 1.0}
    assert strengths["best"][0] == {"id": "red.n.01", "name": "red", "recall": 1.0, "pictures": 8}


def test_a_node_comes_with_neighbours_and_the_origin_of_its_pictures(client):
    found = client.get("/api/v1/graph/red.n.01").json()
    assert found["path"] == ["colour.n.01"]
    assert [one["id"] for one in found["siblings"]] == ["green.n.01", "blue.n.01"]
    assert found["pictures"][0]["source"] == "made up red 0"
    assert (found["node"]["pictures"], found["node"]["unseen"], found["pictures"][0]["seen"]) == (8, 8, False)
    assert client.get(found["pictures"][0]["url"]).headers["Content-Type"] == "image/webp"
    assert [one["id"] for one in client.get("/api/v1/graph?search=blue").json()["found"]] == ["blue.n.01"]
    assert [one["id"] for one in client.get("/api/v1/graph").json()["found"]] == ["colour.n.01"]


def test_a_selection_says_who_and_why(client):
    found = client.post("/api/v1/select", json={"classes": ["red", "green", "blue"], "nodes": 1}).json()
    assert found["used"] == ["knows"]
    assert [(one["model"], one["classes"]) for one in found["ranking"]] == [("knows", 3), ("guesses", 0)]
    (node,) = found["classes"][0]["nodes"]
    assert (node["id"], node["recall"]["knows"]) == ("red.n.01", 1.0)


def test_pictures_are_classified_and_every_class_has_a_score(client):
    files = [("pictures", (f"{name}.png", png(name), "image/png")) for name in ("blue", "red")]
    answer = client.post("/api/v1/predict", data={"classes": ["red", "green", "blue"]}, files=files)
    found = answer.json()
    assert [(one["picture"], one["best"]) for one in found["predictions"]] == [("blue.png", "blue"), ("red.png", "red")]
    assert list(found["predictions"][0]["scores"]) == ["red", "green", "blue"]
    assert found["used"] == ["knows"]


def test_the_page_of_predictions_shows_the_pictures_and_who_answered(client):
    text = client.post("/predict", data={"classes": "red\nblue"}, files={"pictures": ("me.png", png("blue"))}).text
    assert "<h2>blue</h2>" in text
    assert "me.png · answered by knows" in text
    assert 'src="data:image/webp;base64,' in text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"classes": []}, "name at least one class"),
        ({"classes": ["a"], "topk": 3}, "topk"),
        (
            {"classes": ["a", "a"], "k": 0, "alpha": -1},
            "twice: a; k, the models for each class, is from 1 to 20, not 0",
        ),
        ({}, "classes: Field required"),
        ("no json", "body: "),
    ],
)
def test_a_wrong_request_is_told_every_fault_in_json(client, body, said):
    answer = client.post("/api/v1/select", json=body)
    assert answer.status_code == 422
    assert said in answer.json()["error"]["message"]


def test_unknown_names_and_paths_answer_in_json_with_the_nearest(client):
    answer = client.get("/api/v1/models/know")
    assert answer.status_code == 404
    assert "'knows'" in answer.json()["error"]["message"]
    assert client.get("/api/v1/graph/x").json()["error"]["status"] == 404
    assert client.get("/api/v1/other/thing").json()["error"]["status"] == 404
    assert client.post("/api/v1/models").json()["error"]["status"] in (404, 405)
    assert client.get("/api/v1/jobs/5").json()["error"]["status"] == 404
