"""Sending a model in: what is taken, and every trick that is not."""

import io
import json
import pickle
import stat
import struct
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from service_hub import finished

from smelt.engine.convert.pack import pack
from smelt.errors import RecipeError

NAMES = ("config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json")


class Ran:
    """Pickled, it writes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture
def staging(own_hub):
    """Where uploads pass through."""
    place = own_hub.folder / "staging"
    place.mkdir(exist_ok=True)
    return place


@pytest.fixture
def token(own_hub):
    return own_hub.create_token("ann")


@pytest.fixture
def files(model_folders):
    return {name: (model_folders["knows"] / name).read_bytes() for name in NAMES}


def zipped(files, folder="", **options):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(folder + name, data)
    return buffer.getvalue()


def send(client, files, token=None, *, name="mine", where="/api/v1/submit", header=True, **words):
    parts = [("files", (path, data)) for path, data in files.items()]
    headers = {"Authorization": f"Bearer {token}"} if token and header else {}
    data = {**({"token": token} if token and not header else {}), "name": name, **words}
    return client.post(where, data=data, files=parts, headers=headers, follow_redirects=False)


def message(answer):
    return answer.json()["error"]["message"]


def test_the_files_of_a_folder_become_a_labelled_model(own_hub, client_of, files, token, staging):
    answer = send(client_of(own_hub), files, token, description="mine alone", licence="CC0")
    assert answer.status_code == 202
    found = answer.json()
    assert found["url"] == f"/jobs/{found['job']}"
    assert finished(own_hub, found["job"]).status == "done"
    card = own_hub.model("mine")
    assert (card.description, card.licence, card.label, card.status) == ("mine alone", "CC0", True, "ready")
    assert own_hub.select(["red", "blue"]).used == ("mine",)
    assert list(staging.iterdir()) == []


def test_a_zip_with_or_without_a_folder_inside_does_too(own_hub, client_of, files, token):
    client = client_of(own_hub)
    for name, folder in (("flat", ""), ("deep", "my-model/")):
        answer = send(client, {"model.zip": zipped(files, folder)}, token, name=name)
        assert answer.status_code == 202, answer.text
    assert own_hub.model("flat").hash == own_hub.model("deep").hash


def test_the_form_of_the_page_leads_to_the_jobs_page_which_follows_it(own_hub, client_of, files, token):
    client = client_of(own_hub)
    answer = send(client, files, token, where="/submit", header=False)
    assert answer.status_code == 303
    assert finished(own_hub, int(answer.headers["Location"].rpartition("/")[2])).status == "done"
    page = client.get(answer.headers["Location"])
    assert "The model is labelled" in page.text
    assert 'href="/models/mine"' in page.text
    assert page.headers["Cache-Control"] == "no-store"


def test_a_job_that_runs_is_polled_by_the_script_and_refreshed_without(own_hub, client_of, model_folders, monkeypatch):
    own_hub.add(model_folders["knows"], name="slow", label=False)
    monkeypatch.setattr(own_hub._worker, "wake", lambda **_: None)
    job = own_hub.start_label_job("slow")
    client = client_of(own_hub)
    text = client.get(f"/jobs/{job}").text
    assert f'data-job="/api/v1/jobs/{job}"' in text
    assert '<noscript><meta http-equiv="refresh" content="3"></noscript>' in text
    assert client.get(f"/api/v1/jobs/{job}").json()["status"] == "waiting"
    assert f'<a href="/jobs/{job}">Its labelling is waiting</a>' in client.get("/models/slow").text
    assert client.get("/api/v1/jobs").json()[0]["model"] == "slow"


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("secret", [None, "wrong", "ünï"])
def test_without_a_valid_token_nothing_is_stored(own_hub, client_of, files, secret, header, staging):
    if header and secret == "ünï":
        secret = "%C3"
    answer = send(client_of(own_hub), files, secret, header=header)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "token" in message(answer)
    assert own_hub.models() == []
    assert list(staging.iterdir()) == []


def test_no_byte_of_a_file_is_written_before_the_token_is_known(own_hub, client_of, files, token, monkeypatch):
    opened = []
    real = open
    monkeypatch.setattr(
        "builtins.open", lambda path, *rest, **words: (opened.append(str(path)), real(path, *rest, **words))[1]
    )
    boundary = b"--edge\r\n"
    file = b'Content-Disposition: form-data; name="files"; filename="config.json"\r\n\r\n{}\r\n'
    late = b'Content-Disposition: form-data; name="token"\r\n\r\n' + token.encode() + b"\r\n"
    body = boundary + file + boundary + late + b"--edge--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=edge"}
    answer = client_of(own_hub).post("/api/v1/submit", content=body, headers=headers)
    assert answer.status_code == 401
    assert not any(path.endswith("config.json") for path in opened)


def test_a_revoked_token_opens_nothing(own_hub, client_of, files, token):
    own_hub.revoke_token("ann")
    assert send(client_of(own_hub), files, token).status_code == 401


@pytest.mark.parametrize(
    "name",
    ["../config.json", "/etc/config.json", "..\\config.json", "C:/x/config.json", "a/../../config.json"],
)
def test_paths_that_lead_out_are_refused_in_forms_and_zips(own_hub, client_of, files, token, name):
    client = client_of(own_hub)
    answer = send(client, {"model.zip": zipped({**files, name: b"{}"})}, token)
    assert answer.status_code == 400
    assert "leads out of its folder" in message(answer)
    boundary = "--edge\r\n"
    body = f'{boundary}Content-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n{{}}\r\n--edge--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=edge", "Authorization": f"Bearer {token}"}
    answer = client.post("/api/v1/submit", content=body, headers=headers)
    assert answer.status_code == 400
    assert own_hub.models() == []
    assert list(own_hub.folder.parent.rglob("*config.json")) == []


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pkl", "x.ckpt"])
def test_pickles_are_refused_by_name_and_never_read(own_hub, client_of, files, token, name, tmp_path):
    evil = pickle.dumps(Ran(tmp_path / "ran"))
    client = client_of(own_hub)
    for sent in ({**files, name: evil}, {"model.zip": zipped({**files, name: evil})}):
        answer = send(client, sent, token)
        assert answer.status_code == 400
        assert "safetensors" in message(answer)
    assert not (tmp_path / "ran").exists()


def test_a_pickle_under_the_name_of_safetensors_is_refused_by_its_header(own_hub, client_of, files, token, tmp_path):
    answer = send(client_of(own_hub), {**files, "model.safetensors": pickle.dumps(Ran(tmp_path / "ran"))}, token)
    assert answer.status_code == 400
    assert "model.safetensors" in message(answer)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["modeling.py", "run.sh", "model.safetensors.exe", ".env", "tokenizer.model"])
def test_files_that_no_model_needs_are_refused(own_hub, client_of, files, token, name):
    answer = send(client_of(own_hub), {**files, name: b"x"}, token)
    assert answer.status_code == 400
    assert "it takes: LICENSE" in message(answer)


def test_a_link_in_a_zip_is_refused(own_hub, client_of, files, token):
    buffer = io.BytesIO(zipped({name: data for name, data in files.items() if name != "config.json"}))
    with zipfile.ZipFile(buffer, "a") as archive:
        link = zipfile.ZipInfo("config.json")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    answer = send(client_of(own_hub), {"model.zip": buffer.getvalue()}, token)
    assert answer.status_code == 400
    assert "is a link or a device" in message(answer)


def test_a_bomb_is_stopped_by_what_comes_out_not_by_what_it_says(own_hub, client_of, files, token, staging):
    bomb = zipped({**files, "model.safetensors": bytes(30_000_000)})
    assert len(bomb) < 100_000
    answer = send(client_of(own_hub), {"model.zip": bomb}, token)
    assert answer.status_code == 413
    assert "unpacks to more than" in message(answer)
    answer = send(client_of(own_hub, unpacked_bytes=5_000), {"model.zip": zipped(files)}, token)
    assert answer.status_code == 413
    assert list(staging.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"not a zip", "cannot be read"),
        (zipped({"a/config.json": b"{}", "b/tokenizer.json": b"{}"}), "several folders"),
        (zipped({"config.json": b"{}"}), "no safetensors file"),
        (zipped({f"model-{n:05}-of-00050.safetensors": b"" for n in range(50)}), "more than 40 files"),
    ],
)
def test_a_zip_that_is_no_model_is_told_why(own_hub, client_of, token, data, said):
    answer = send(client_of(own_hub), {"model.zip": data}, token)
    assert answer.status_code == 400
    assert said in message(answer)


def header(content, data=b""):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\0\0", "too few"),
        (struct.pack("<Q", 1 << 60), "header would be"),
        (struct.pack("<Q", 9_000_000) + b"{", "header would be 9,000,000"),
        (struct.pack("<Q", 500) + b"{}", "cut off"),
        (header(b"[" * 100_000), "not readable as JSON"),
        (header(b"\xff\xfe"), "not readable as JSON"),
        (header([1]), "is no table"),
        (header({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]}}, b"1234"), "needs"),
        (header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}), "only 0 are there"),
        (header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"12345678"), "follow the last"),
    ],
)
def test_a_malformed_header_is_refused_before_anything_loads(own_hub, client_of, files, token, data, said, monkeypatch):
    monkeypatch.setattr(own_hub, "accept", lambda *_, **__: pytest.fail("it was loaded"))
    answer = send(client_of(own_hub), {**files, "model.safetensors": data}, token)
    assert answer.status_code == 400
    assert said in message(answer)
    assert "/" not in message(answer)


def test_a_config_that_asks_for_code_is_refused(own_hub, client_of, files, token):
    config = {**json.loads(files["config.json"]), "auto_map": {"AutoModel": "evil.Model"}}
    answer = send(client_of(own_hub), {**files, "config.json": json.dumps(config).encode()}, token)
    assert answer.status_code == 400
    assert "auto_map" in message(answer)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", {"text_config": {"num_hidden_layers": 10_000_000}}),
        ("config.json", {"vision_config": {"image_size": 1_000_000}}),
        ("preprocessor_config.json", {"crop_size": {"height": 100_000, "width": 100_000}}),
        ("config.json", {"vision_config": {"model_type": "resnet", "depths": [20_000_000, 2, 2]}}),
        ("config.json", {"vision_config": {"model_type": "resnet", "depths": [900, 99, 2]}}),
        ("config.json", {"vision_config": {"model_type": "resnet", "hidden_sizes": [64, 10**9]}}),
        ("config.json", {"vision_config": {"model_type": "resnet", "depths": [1] * 65}}),
        ("config.json", {"vision_config": {"stages": [{"deep": [[[10**7]]]}]}}),
        ("config.json", {"vision_config": {"num_block_repeats": [100, 100], "depth_coefficient": 10.0}}),
        ("config.json", {"vision_config": {"hidden_act": float("nan"), "width_coefficient": float("inf")}}),
        ("preprocessor_config.json", {"crop_size": -(10**30)}),
    ],
)
def test_a_config_that_would_fill_the_memory_is_refused_before_it_is_used(
    own_hub, client_of, files, token, name, change, monkeypatch
):
    monkeypatch.setattr(own_hub, "accept", lambda *_, **__: pytest.fail("it was loaded"))
    content = json.dumps({**json.loads(files[name]), **change}).encode()
    answer = send(client_of(own_hub), {**files, name: content}, token)
    assert answer.status_code == 400
    assert "more than this hub takes" in message(answer)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vision_config": {"depths": [300, 300, 2], "hidden_sizes": [8, 8, 8]}}, "602 layers, but the weights only"),
        ({"vision_config": {"depths": [2, 2], "hidden_sizes": [8, 900_000]}}, "1,800,016 parameters at the least"),
        ({"text_config": {"hidden_size": 4096, "num_hidden_layers": 2}}, "33,554,432 parameters at the least"),
        ({"text_config": {"hidden_size": 64, "vocab_size": 9_000_000}}, "576,000,000 parameters at the least"),
    ],
)
def test_a_config_of_far_more_than_the_weights_hold_is_refused(
    own_hub, client_of, files, token, change, said, monkeypatch
):
    monkeypatch.setattr(own_hub, "accept", lambda *_, **__: pytest.fail("it was loaded"))
    answer = send(client_of(own_hub), {**files, "config.json": json.dumps(change).encode()}, token)
    assert answer.status_code == 400
    assert said in message(answer)


def test_a_tokenizer_without_a_limit_is_taken(own_hub, client_of, files, token):
    words = {**json.loads(files["tokenizer_config.json"]), "model_max_length": 10**30}
    answer = send(client_of(own_hub), {**files, "tokenizer_config.json": json.dumps(words).encode()}, token)
    assert answer.status_code == 202, answer.text


def test_the_card_of_a_model_names_who_sent_it(own_hub, client_of, files, token):
    client = client_of(own_hub)
    assert send(client, files, token).json()["model"]["submitted_by"] == "ann"
    assert own_hub.model("mine").submitted_by == "ann"
    assert "<b>Submitted by</b> ann" in client.get("/models/mine").text


def test_folders_and_submissions_may_have_the_same_files(own_hub, client_of, files, token):
    more = {"image_processor_config.json": b"{}", "NOTICE.md": b"mine", "recipe.yaml": b"merge: []"}
    assert send(client_of(own_hub), {**files, **more}, token).status_code == 202
    assert {name for name, *_ in own_hub.model("mine").files} == {*files, *more}


def test_a_delta_pack_is_taken_where_its_base_is(own_hub, client_of, model_folders, token, tmp_path):
    pack(str(model_folders["guesses"]), base=str(model_folders["knows"]), out=tmp_path / "sent", bits=8)
    sent = {path.name: path.read_bytes() for path in (tmp_path / "sent").iterdir()}
    client = client_of(own_hub)
    answer = send(client, sent, token)
    assert (answer.status_code, "add the base first" in message(answer)) == (422, True)
    own_hub.add(model_folders["knows"], label=False)
    assert send(client, sent, token).status_code == 202
    assert own_hub.model("mine").base == "hub:knows"


def test_submissions_take_no_worker_from_selections(own_hub, client_of, files, token, model_folders, monkeypatch):
    own_hub.add(model_folders["knows"])
    began, end = threading.Event(), threading.Event()

    def slow(*_, **__):
        began.set()
        end.wait(240)
        raise RecipeError("enough")

    monkeypatch.setattr(own_hub, "accept", slow)
    client = client_of(own_hub, workers=1)
    with ThreadPoolExecutor(3) as pool:
        sent = [pool.submit(send, client, files, token, name=f"m{n}") for n in range(2)]
        try:
            assert began.wait(240)
            asked = pool.submit(client.post, "/api/v1/select", json={"classes": ["red"]})
            assert asked.result(240).status_code == 200
            assert not any(one.done() for one in sent)
        finally:
            end.set()
        assert [one.result().status_code for one in sent] == [422, 422]


def test_a_model_that_does_not_load_is_never_visible_and_the_answer_names_no_path(own_hub, client_of, files, token):
    config = {**json.loads(files["config.json"]), "model_type": "bert", "architectures": ["BertModel"]}
    answer = send(client_of(own_hub), {**files, "config.json": json.dumps(config).encode()}, token)
    assert answer.status_code == 422
    assert "smelt-submit" not in answer.text
    assert str(own_hub.folder) not in answer.text
    assert own_hub.models() == []


def test_weights_that_are_not_numbers_are_refused(own_hub, client_of, files, token):
    weights = bytearray(files["model.safetensors"])
    length = struct.unpack("<Q", weights[:8])[0]
    weights[8 + length :] = b"\xff" * (len(weights) - 8 - length)
    answer = send(client_of(own_hub), {**files, "model.safetensors": bytes(weights)}, token)
    assert answer.status_code == 422
    assert own_hub.models() == []


def test_a_body_over_the_limit_is_stopped_while_it_arrives(own_hub, client_of, files, token, staging):
    client = client_of(own_hub, upload_bytes=20_000)
    answer = send(client, {**files, "README.md": bytes(50_000)}, token)
    assert answer.status_code == 413
    edge = b'--edge\r\nContent-Disposition: form-data; name="files"; filename="README.md"\r\n\r\n'
    read = []

    def endless():
        yield edge
        for number in range(1000):
            read.append(number)
            yield bytes(1000)

    headers = {"Content-Type": "multipart/form-data; boundary=edge", "Authorization": f"Bearer {token}"}
    answer = client.post("/api/v1/submit", content=endless(), headers=headers)  # chunked: no length is announced
    assert answer.status_code == 413
    assert "MB, which is the limit here" in message(answer)
    assert list(staging.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"--edge\r\nbroken", "multipart/form-data; boundary=edge"),
        (b"no edge at all", "multipart/form-data; boundary=edge"),
        (b"", "multipart/form-data"),
        (
            b'--edge\r\nContent-Disposition: form-data; name="name"\r\n\r\n' + b"n" * 9000,
            "multipart/form-data; boundary=edge",
        ),
        (b'--edge\r\nContent-Disposition: form-data; name="admin"\r\n\r\n1', "multipart/form-data; boundary=edge"),
    ],
)
def test_a_malformed_form_is_refused(own_hub, client_of, token, body, kind):
    headers = {"Content-Type": kind, "Authorization": f"Bearer {token}"}
    answer = client_of(own_hub).post("/api/v1/submit", content=body, headers=headers)
    assert answer.status_code == 400


@pytest.mark.parametrize("name", ["", "../x", "a b", ".hidden", "x" * 81, "a/b"])
def test_a_name_is_a_plain_word(own_hub, client_of, files, token, name):
    assert send(client_of(own_hub), files, token, name=name).status_code == 422


def test_a_name_is_given_once(own_hub, client_of, files, token, model_folders):
    own_hub.add(model_folders["guesses"], name="mine", label=False)
    answer = send(client_of(own_hub), files, token)
    assert answer.status_code == 409
    assert "choose another name" in message(answer)


def test_a_hub_may_take_no_models_at_all(own_hub, client_of, files, token):
    client = client_of(own_hub, submit=False)
    assert send(client, files, token).status_code == 403
    assert "takes no models" in client.get("/submit").text


def test_no_secret_is_in_the_log(own_hub, client_of, files, token, caplog):
    caplog.set_level("DEBUG")
    client = client_of(own_hub)
    assert send(client, files, token, header=False).status_code == 202
    assert send(client, files, token, name="second").status_code == 202
    send(client, files, "wrong-secret-1234")
    client.get(f"/models?search={token}")
    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("smelt", "uvicorn"))]
    assert any("POST '/api/v1/submit' 202" in line for line in ours)
    assert not [line for line in ours if token in line or "wrong-secret" in line]


def test_the_secret_is_not_in_the_store(own_hub, token):
    for path in Path(own_hub.folder).rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes()


def test_what_a_file_manager_leaves_in_a_zip_is_passed_over(own_hub, client_of, files, token):
    left = {"__MACOSX/m/._config.json": b"x", "m/.DS_Store": b"x"}
    answer = send(
        client_of(own_hub), {"m.zip": zipped({f"m/{name}": data for name, data in files.items()} | left)}, token
    )
    assert answer.status_code == 202, answer.text
    assert {name for name, *_ in own_hub.model("mine").files} == set(files)
