"""Limits and layers: rates, sizes of bodies and pictures, headers on every answer, and no traceback for anyone."""

import io
import struct
import zlib

import pytest
from PIL import Image
from service_hub import png

from smelt.hub.service.http.limits import Buckets, kind_of
from smelt.hub.service.http.limits import client_of as address_of
from smelt.hub.service.pictures import decode
from smelt.hub.service.problems import without_paths
from smelt.hub.service.settings import Rate, Settings

PREDICT = "/api/v1/predict"
FEW = {"read": Rate(1000, 1000.0), "think": Rate(2, 6.0), "submit": Rate(1, 1.0)}


def test_a_bucket_gives_its_burst_then_one_at_a_time():
    now = [0.0]
    bucket = Buckets(Rate(burst=2, per_minute=30.0), clock=lambda: now[0])
    assert [bucket.take("a") for _ in range(3)] == [0.0, 0.0, 2.0]
    assert bucket.take("b") == 0.0
    now[0] = 1.0
    assert bucket.take("a") == 1.0
    now[0] = 2.0
    assert bucket.take("a") == 0.0
    now[0] = 1000.0
    assert [bucket.take("a") for _ in range(3)] == [0.0, 0.0, 2.0]


def test_old_clients_are_forgotten_so_memory_is_bounded():
    bucket = Buckets(Rate(1, 1.0), most=10)
    for number in range(100):
        bucket.take(str(number))
    assert len(bucket._left) == 10


def test_one_owner_of_many_addresses_is_one_client():
    def of(host):
        return address_of({"client": (host, 1)})

    assert of("2001:db8::1") == of("2001:db8::ffff:2") != of("2001:db8:0:1::1")
    assert of("10.0.0.1") != of("10.0.0.2")
    assert address_of({"client": None}) == "unknown"


def test_kinds_of_requests():
    def of(method, path, query=b""):
        return kind_of({"method": method, "path": path, "query_string": query})

    assert of("POST", "/submit/") == of("POST", "/api/v1/submit") == "submit"
    assert of("GET", "/task", b"classes=a") == of("POST", "/predict") == of("POST", "/api/v1/select") == "think"
    assert of("GET", "/task") == of("GET", "/submit") == of("GET", "/") == "read"


def test_too_many_questions_are_told_when_to_come_back(hub, client_of):
    client = client_of(hub, rates=FEW)
    body = {"classes": ["red"]}
    codes = [client.post("/api/v1/select", json=body).status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    answer = client.get("/task?classes=red")
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 10
    assert "too many requests" in answer.text
    assert client.get("/models").status_code == 200
    assert [client.post("/api/v1/submit").status_code for _ in range(2)] == [400, 429]


def test_every_answer_has_the_security_headers(hub, client_of, monkeypatch):
    client = client_of(hub, rates=FEW)
    monkeypatch.setattr(hub, "jobs", lambda *_: 1 / 0)
    answers = {
        200: client.get("/"),
        404: client.get("/nothing"),
        405: client.put("/models"),
        413: client.post("/predict", content=b"x", headers={"Content-Length": "99999999999"}),
        422: client.post("/api/v1/select", json={}),
        500: client.get("/api/v1/jobs"),
    }
    client.post("/api/v1/select", json={})
    answers[429] = client.post("/api/v1/select", json={})
    for code, answer in answers.items():
        assert answer.status_code == code
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "Set-Cookie" not in answer.headers
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_fault_inside_shows_a_number_and_no_trace(hub, client_of, monkeypatch, caplog):
    secret = "/home/someone/secret.db"
    monkeypatch.setattr(hub, "models", lambda *_: (_ for _ in ()).throw(RuntimeError(secret)))
    client = client_of(hub)
    for url in ("/models", "/api/v1/models"):
        answer = client.get(url)
        assert answer.status_code == 500
        assert "RuntimeError" not in answer.text
        assert secret not in answer.text
        mark = answer.text.split("(fault ")[1][:8]
        assert any(mark in record.getMessage() for record in caplog.records)


def test_the_log_has_no_query(client, caplog):
    caplog.set_level("INFO")
    client.get("/models?search=my-secret-word")
    lines = [record.getMessage() for record in caplog.records if record.name == "smelt.hub.service"]
    assert any(line.startswith("GET '/models' 200") for line in lines)
    assert not any("my-secret-word" in line for line in lines)


def test_a_line_break_in_a_path_does_not_forge_a_line_of_log(client, caplog):
    caplog.set_level("INFO")
    client.get("/models/x%0AGET '/admin' 200")
    assert all("\n" not in record.getMessage() for record in caplog.records if record.name == "smelt.hub.service")


def test_only_named_hosts_are_served_where_they_are_given(hub, client_of):
    client = client_of(hub, hosts=("hub.example",))
    assert client.get("/", headers={"Host": "hub.example"}).status_code == 200
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/var/lib/hub/models/a.safetensors: cut off", "a.safetensors: cut off"),
        ("cannot read '/srv/x y/z' or C:\\Users\\ann\\m.bin", None),
        ("dir:/home/ann/model is gone", "dir:model is gone"),
        ("postgresql://ann:secret@db/hub is away", "postgresql://db/hub is away"),
        ("see https://example.org/a/b, or a/b", "see https://example.org/a/b, or a/b"),
    ],
)
def test_messages_lose_the_paths_and_logins_of_the_machine(text, shown):
    found = without_paths(text)
    assert found == shown or shown is None
    assert not any(word in found for word in ("/var", "/srv", "/home", "Users", "secret"))


def many_pixels(width, height):
    """A small PNG that says it is large, and is."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(bytes((width + 7) // 8 + 1) * height, 9)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(client):
    bomb = many_pixels(10_000, 8_000)
    assert len(bomb) < 100_000
    answer = client.post(PREDICT, data={"classes": "red"}, files={"pictures": ("big.png", bomb)})
    assert answer.status_code == 413
    assert "10,000 × 8,000 pixels" in answer.json()["error"]["message"]
    huge = many_pixels(20_000, 20_000)[:2000]
    assert client.post(PREDICT, data={"classes": "red"}, files={"pictures": ("x.png", huge)}).status_code == 413


@pytest.mark.parametrize(
    "data",
    [b"", b"GIF89a", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", b"<svg/>", png("red")[:60], b"\0" * 100],
)
def test_what_is_no_picture_is_refused(client, data):
    answer = client.post(PREDICT, data={"classes": "red"}, files={"pictures": ("a.png", data)})
    assert answer.status_code == 400
    assert "PNG, JPEG" in answer.json()["error"]["message"]


def test_formats_beyond_the_five_are_not_even_tried(client):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "TIFF")
    answer = client.post(PREDICT, data={"classes": "red"}, files={"pictures": ("a.tif", buffer.getvalue())})
    assert answer.status_code == 400


def test_pictures_are_limited_in_number_and_bytes(hub, client_of):
    client = client_of(hub, pictures=2, picture_bytes=500, body_bytes=3000)
    picture = ("pictures", ("a.png", png("red")))
    assert client.post(PREDICT, data={"classes": "red"}, files=[picture] * 2).status_code == 200
    answer = client.post(PREDICT, data={"classes": "red"}, files=[picture] * 3)
    assert (answer.status_code, "more than the 2" in answer.text) == (413, True)
    large = client.post(PREDICT, data={"classes": "red"}, files={"pictures": ("a.png", bytes(600))})
    assert (large.status_code, "larger than" in large.text) == (413, True)
    assert client.post(PREDICT, data={"classes": "red"}, files={"pictures": ("a", bytes(9000))}).status_code == 413
    assert client.post(PREDICT, data={"classes": "red"}).status_code == 422


def test_the_pixels_of_all_pictures_together_are_bounded(hub, client_of, monkeypatch):
    monkeypatch.setattr("smelt.hub.service.backend.decode", lambda *_: pytest.fail("it was decoded"))
    client = client_of(hub, request_pixels=10_000)
    sent = [("pictures", (f"{n}.png", many_pixels(64, 64))) for n in range(3)]
    answer = client.post(PREDICT, data={"classes": "red"}, files=sent)
    assert answer.status_code == 413
    assert "together; send fewer at a time" in answer.json()["error"]["message"]
    assert Settings().request_pixels == 64_000_000


def test_pictures_are_decoded_a_few_at_a_time_and_answered_as_one(hub, client_of, monkeypatch):
    monkeypatch.setattr("smelt.hub.service.pictures._AT_ONCE", 2 * 64)
    client, asked, real = client_of(hub), [], hub.predict
    monkeypatch.setattr(hub, "predict", lambda some, *rest, **words: (asked.append(len(some)), real(some, *rest))[1])
    names = ["red", "blue", "green", "blue", "red"]
    sent = [("pictures", (f"{name}.png", png(name, 8))) for name in names]
    found = client.post(PREDICT, data={"classes": "red\ngreen\nblue"}, files=sent).json()["predictions"]
    assert asked == [2, 2, 1]
    assert [one["best"] for one in found] == names
    assert [one["picture"] for one in found] == [f"{name}.png" for name in names]


def test_a_picture_is_turned_as_the_camera_was_held():
    picture, exif, buffer = Image.new("RGB", (40, 20)), Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    picture.save(buffer, "JPEG", exif=exif)
    assert decode("a.jpg", buffer.getvalue(), Settings()).size == (20, 40)


def test_a_large_picture_with_an_alpha_channel_is_made_smaller_on_white():
    buffer = io.BytesIO()
    Image.new("RGBA", (4096, 16), (0, 0, 0, 0)).save(buffer, "PNG")
    picture = decode("a.png", buffer.getvalue(), Settings())
    assert (picture.mode, picture.size, picture.getpixel((9, 4))) == ("RGB", (2048, 8), (255, 255, 255))


def test_a_template_needs_a_place_for_the_class(client):
    files = {"pictures": ("a.png", png("red"))}
    words = {"classes": "red\nblue", "templates": ["a {} thing", "a photo"]}
    answer = client.post(PREDICT, data=words, files=files)
    assert answer.status_code == 422
    assert "'a photo' has no {}" in answer.json()["error"]["message"]
    words["templates"] = ["a photo of a {}", "a {}"]
    assert client.post(PREDICT, data=words, files=files).json()["predictions"][0]["best"] == "red"
    assert client.post(PREDICT, data={**words, "templates": ["{}"] * 101}, files=files).status_code == 422


def test_a_picture_with_an_alpha_channel_is_read_as_seen(client):
    buffer = io.BytesIO()
    Image.new("RGBA", (8, 8), (0, 0, 255, 255)).save(buffer, "WEBP")
    found = client.post(
        PREDICT, data={"classes": "red\nblue"}, files={"pictures": ("a.webp", buffer.getvalue())}
    ).json()
    assert found["predictions"][0]["best"] == "blue"


def test_file_names_are_shown_without_folders_and_escaped(client):
    name = "..\\/../<b>x</b>.png"
    text = client.post("/predict", data={"classes": "red"}, files={"pictures": (name, png("red"))}).text
    assert "<b>x</b>" not in text


def test_selections_and_predictions_do_not_block_the_event_loop(hub, client_of, monkeypatch):
    import threading

    seen = []
    real = hub.select
    monkeypatch.setattr(hub, "select", lambda *a, **k: (seen.append(threading.current_thread().name), real(*a, **k))[1])
    client = client_of(hub)
    client.post("/api/v1/select", json={"classes": ["red", "green"]})
    client.post("/api/v1/select", json={"classes": ["red", "green"]})
    assert len(seen) == 1  # the same question again is answered from memory
    assert "worker" in seen[0].lower()


def test_the_defaults_are_those_of_the_documentation():
    assert (Settings().upload_bytes, Settings().pictures) == (200_000_000, 32)
