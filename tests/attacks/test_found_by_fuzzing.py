"""What the campaign of damaged files found, each as the smallest file that shows it. All are one line now."""

import gzip
import io
import json
import struct
import zipfile
import zlib

import numpy as np
import pytest
import torch

import smelt
from checkpoints import random_state, write_model, write_yaml
from smelt.errors import CorruptFile, SmeltError

SHAPES = {"embed.weight": (8, 4), "head.weight": (4, 8)}


def fault(call, *arguments, **words):
    """The one line that a call ends in."""
    with pytest.raises(SmeltError) as caught:
        call(*arguments, **words)
    return str(caught.value)


def repacked(path, method=zipfile.ZIP_STORED, **changes):
    """A zip with other content under some names, or packed by another method."""
    with zipfile.ZipFile(path) as old:
        entries = {info.filename: old.read(info) for info in old.infolist()}
    with zipfile.ZipFile(path, "w", method) as new:
        for name, content in entries.items():
            new.writestr(name, changes.get(name.rpartition("/")[2], content))
    return path


# ---- pickles


@pytest.fixture
def pickled(tmp_path):
    """Two models as pickles, whose tensors are 32 and 8 floats."""
    for seed, name in enumerate(("cars", "birds")):
        (tmp_path / name).mkdir()
        tensors = random_state(seed, {"a.weight": (8, 4), "b.weight": (8,)})
        torch.save(tensors, tmp_path / name / "pytorch_model.bin")
    return {name: str(tmp_path / name) for name in ("cars", "birds")}


@pytest.mark.parametrize("content", [b"", bytes(32), bytes(129)])
def test_a_pickle_whose_record_has_another_size_is_refused_not_read_from_its_neighbour(tmp_path, pickled, content):
    """Mapped into memory, a tensor of 128 bytes is whatever follows its place: it was merged, with exit code 0."""
    path = tmp_path / "birds/pytorch_model.bin"
    repacked(path, **{"0": content})
    assert "a tensor has 128 bytes, but no record of its own has" in fault(smelt.merge, pickled, allow_pickle=True)


def test_a_pickle_that_was_packed_again_is_read_right(tmp_path, pickled):
    """Its packed bytes were taken for numbers, and merged with exit code 0."""
    path = tmp_path / "birds/pytorch_model.bin"
    before = smelt.merge(pickled, allow_pickle=True)
    repacked(path, method=zipfile.ZIP_DEFLATED)
    after = smelt.merge(pickled, allow_pickle=True)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_pickle_whose_record_has_lost_its_head_is_refused(tmp_path, pickled):
    path = tmp_path / "birds/pytorch_model.bin"
    with zipfile.ZipFile(path) as archive:
        (entry,) = (one for one in archive.infolist() if one.filename.endswith("data/1"))
    content = bytearray(path.read_bytes())
    content[entry.header_offset] ^= 0xFF
    path.write_bytes(content)
    assert "cannot be read as a zip of weights" in fault(smelt.merge, pickled, allow_pickle=True)


def test_a_pickle_that_torch_stumbles_over_in_its_own_way_is_refused(tmp_path, pickled):
    repacked(tmp_path / "birds/pytorch_model.bin", **{"data.pkl": b"\x80\x02R."})  # an IndexError in torch
    assert "pytorch_model.bin: cannot be read with weights_only" in fault(smelt.merge, pickled, allow_pickle=True)


# ---- arrays and pictures of tasks


@pytest.fixture
def task(tmp_path):
    from pico_clip import write_task

    return write_task(tmp_path / "colours", dict.fromkeys(("red", "green", "blue"), 2))


def opened(task):
    from smelt.tasks.pictures.splits import open_split
    from smelt.tasks.registry import find_task

    return open_split(find_task(task), "test")


def npy(descr="'<i8'", shape="(6,)", data=bytes(48)):
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


@pytest.mark.parametrize(
    "content",
    [
        npy("'<U99999999'"),  # made room for 2.2 GiB
        npy(shape="(1000000000000,)"),
        npy("'|O'"),
        npy("'<i3'"),
        npy("[('a', '<i8')]"),
        npy(data=bytes(47)),
        b"no array",  # came out as bytes, which have no shape
        b"",
    ],
)
def test_labels_that_are_no_array_are_refused(task, content):
    repacked(task / "labels.npz", **{"test.npy": content})
    assert "labels.npz: " in fault(opened, task)


def test_sound_labels_are_read_in_both_orders(tmp_path):
    from smelt.files.npz_reader import read_npz

    table = np.arange(6.0).reshape(2, 3)
    np.savez_compressed(tmp_path / "a.npz", rows=table, columns=np.asfortranarray(table), word=np.str_("é"), none=[])
    found = read_npz(tmp_path / "a.npz")
    assert found["rows"].tolist() == found["columns"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (str(found["word"]), found["none"].shape) == ("é", (0,))


def test_an_encrypted_entry_is_refused(task):
    path = task / "labels.npz"
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := content.find(mark, start + 1)) >= 0:
            content[start + at] |= 1
    path.write_bytes(content)
    assert "labels.npz: cannot be read as labels" in fault(opened, task)


def huge_png(side=30_000):
    """A picture of a few bytes that says it has 900 million pixels."""
    size = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = {b"IHDR": size, b"IDAT": zlib.compress(b""), b"IEND": b""}
    parts = [struct.pack(">I", len(data)) + kind + data for kind, data in chunks.items()]
    return b"\x89PNG\r\n\x1a\n" + b"".join(part + struct.pack(">I", zlib.crc32(part[4:])) for part in parts)


def test_a_picture_that_would_fill_the_memory_is_refused(tmp_path):
    from smelt.tasks.pictures.mosaic import read_picture

    (tmp_path / "0.png").write_bytes(huge_png())
    with pytest.raises(CorruptFile, match=r"0\.png: cannot be read as a picture"):
        read_picture(tmp_path / "0.png")


def test_packed_records_that_would_fill_the_memory_are_refused(tmp_path):
    from smelt.tasks.language.records import read_records

    path = tmp_path / "test.jsonl.gz"
    path.write_bytes(gzip.compress(bytes(70_000_000), compresslevel=1))
    assert "unpacks to more than 67,108,864 bytes" in fault(read_records, [path], "up/test")
    path.write_bytes(gzip.compress(b'{"a": "%s"}\n' % (b"x" * 990) * 9_000))  # 9 MB out of 19 kB are a text
    assert len(read_records([path], "up/test")) == 9_000


# ---- words


@pytest.fixture
def pool(tmp_path):
    for seed, name in enumerate(("base", "cars", "birds")):
        write_model(tmp_path / name, random_state(seed, SHAPES))
    return {"base": "base", "models": {"cars": "cars", "birds": "birds"}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"pad_vocab_to": 2**53, "vocab": "rows"}, "pad_vocab_to"),  # made room for 64 PiB
        ({"merge": "x" * 300}, "no merge method named"),  # looked for a file of this name
        ({"vocab": "union"}, "vocab: union"),
    ],
)
def test_a_recipe_with_an_absurd_word_is_refused(tmp_path, pool, words, said):
    write_model(tmp_path / "birds", {"embed.weight": torch.ones(()), "head.weight": torch.ones(4, 8)})
    recipe = write_yaml(tmp_path / "recipe.yaml", {"pool": pool, "merge": "average", **words})
    assert said in fault(smelt.plan, recipe)


def test_an_embedding_without_rows_is_refused_by_its_shape(tmp_path, pool):
    write_model(tmp_path / "birds", {"embed.weight": torch.ones(()), "head.weight": torch.ones(4, 8)})
    assert "'embed.weight' is" in fault(smelt.plan, {name: str(tmp_path / name) for name in ("cars", "birds")})


@pytest.mark.parametrize("tokenizer", ["union", 3, [], {"tokens": "a"}, {"tokens": [1]}, {"tokens": {"a": "cars"}}])
def test_a_mergekit_tokenizer_that_is_no_table_is_refused(tokenizer):
    from smelt.recipe.mergekit.reader import from_mergekit

    models = [{"model": f"./{name}", "parameters": {"weight": 1}} for name in ("cars", "birds")]
    request = {"merge_method": "linear", "models": models, "tokenizer": tokenizer}
    assert "must be a table" in fault(from_mergekit, request)


@pytest.mark.parametrize("path", [3, ["a"], {"a": 1}, ""])
def test_a_mergekit_reference_that_is_no_text_is_refused(path):
    from smelt.recipe.mergekit.reader import from_mergekit

    models = [{"model": {"model": {"path": path}}, "parameters": {"weight": 1}}]
    assert "not a model reference" in fault(from_mergekit, {"merge_method": "linear", "models": models})


def test_a_method_whose_name_is_no_text_is_refused():
    from smelt.compat.fusionbench.methods import meaning_of

    assert "method.name is a text" in fault(meaning_of, {"name": ["ties_merging"]})


# ---- what Smelt wrote and reads again


@pytest.mark.parametrize("name", ["/proc/self/mem", "../cars/model.safetensors", "x" * 300])
def test_an_index_names_files_of_its_own_folder(tmp_path, pool, name):
    (tmp_path / "birds/model.safetensors").unlink()
    places = dict.fromkeys(SHAPES, name)
    (tmp_path / "birds/model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert str(tmp_path / "birds") in fault(smelt.plan, [str(tmp_path / "cars"), str(tmp_path / "birds")])


def test_a_journal_with_a_line_of_another_kind_is_read_on(tmp_path):
    from smelt.engine.sink.output import Journal

    journal = Journal(tmp_path, "a run")
    journal.start()
    journal.done("a", "b")
    with open(tmp_path / Journal.NAME, "a") as file:
        file.write('{"done": {"c": 1}}\n{"done": [3]}\n{"done": null}\n')
    assert journal.finished() == {"a", "b"}
    journal.close()


@pytest.mark.parametrize("metadata", [{}, {"step": "two"}, {"step": "-1"}])
def test_a_state_that_does_not_say_its_step_is_refused(tmp_path, metadata):
    from smelt.optimise.state import OptimiserState
    from smelt.optimise.tensors import save_tensors

    kept = OptimiserState(tmp_path, {})
    save_tensors(tmp_path / "state.safetensors", {"w": torch.ones(1)}, metadata)
    assert "does not say how many steps" in fault(kept.load)
    kept.close()


def test_a_row_whose_kind_is_a_list_is_refused(tmp_path):
    from smelt.evaluation.row import read_rows

    (tmp_path / "rows.jsonl").write_text('{"kind": ["accuracy"]}\n')
    assert "rows.jsonl, line 1: not a row" in fault(read_rows, tmp_path / "rows.jsonl")


def test_a_small_file_takes_no_memory_for_what_a_large_one_might(tmp_path):
    import tracemalloc

    from smelt.files.reading import read_bytes

    (tmp_path / "a").write_bytes(b"abc")
    tracemalloc.start()
    assert read_bytes(tmp_path / "a", most=1 << 30) == b"abc"
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("width", ["Infinity", "1e400", "-4", "2.5"])
def test_a_portland_of_impossible_width_is_refused(tmp_path, width):
    from smelt.learning.neulig.portland import Portland

    Portland(["cars", "birds"], 4).save(tmp_path)
    words = json.loads((tmp_path / "portland.json").read_text())
    text = json.dumps({**words, "width": "WIDTH"}).replace('"WIDTH"', width)
    (tmp_path / "portland.json").write_text(text)
    assert "portland.json: does not describe a Portland" in fault(Portland.load, tmp_path)


def test_statistics_over_more_examples_than_a_number_holds_are_refused(tmp_path):
    from smelt.formats.statistics import ExampleRun, StatisticsNote, open_statistics, write_statistics

    data = (ExampleRun(task="photos", examples=4, hash="photos"),)
    about = {"kind": "fisher", "estimator": "exact", "model": "cars", "model_hash": "m", "examples": 4, "data": data}
    write_statistics(tmp_path / "s", StatisticsNote(**about), {"w": torch.ones(2)})
    note = json.loads((tmp_path / "s/statistics.json").read_text())
    (tmp_path / "s/statistics.json").write_text(json.dumps({**note, "examples": 2**70}))
    assert "not a note of statistics (examples" in fault(open_statistics, tmp_path / "s")


# ---- what is sent to a hub


def packed(entries):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in entries.items():
            archive.writestr(name, text)
    return bytearray(content.getvalue())


def refusal(tmp_path, content):
    from smelt.hub.service.problems import Refused
    from smelt.hub.service.settings import Settings
    from smelt.hub.service.submissions.archive import unpack

    (tmp_path / "upload.zip").write_bytes(content)
    with pytest.raises(Refused) as caught:
        unpack(tmp_path, Settings())
    assert caught.value.status == 400
    return caught.value.message


def test_a_zip_whose_packed_bytes_are_damaged_is_refused(tmp_path):
    content = packed({"config.json": "{}" * 500})
    content[41] ^= 0xFF  # the first byte after the entry's head of 30 and its name of 11
    assert "the zip cannot be read" in refusal(tmp_path, content)


def test_a_zip_with_an_entry_without_a_name_is_refused(tmp_path):
    content = packed({zipfile.ZipInfo("\0"): "{}"})  # zipfile cuts a name at its first zero
    assert "an entry without a name" in refusal(tmp_path, content)


@pytest.mark.parametrize("word", ["labels", "mosaic"])
def test_a_task_that_names_a_file_longer_than_a_name_can_be_is_refused(tmp_path, word):
    from pico_clip import write_task
    from smelt.tasks.pictures.mosaic import read_mosaic
    from smelt.tasks.pictures.splits import _read_labels

    folder, name = write_task(tmp_path / "colours"), "x" * 300
    if word == "labels":
        assert "the labels are not there" in fault(_read_labels, folder / f"{name}.npz", "test")
    else:
        assert "the mosaic is not there" in fault(read_mosaic, folder / f"{name}.webp", 30, 8)


def test_a_pickle_whose_names_are_no_texts_is_refused(tmp_path, pickled):
    torch.save({("a", "weight"): torch.ones(8, 4)}, tmp_path / "birds/pytorch_model.bin")
    assert "does not hold a plain table of tensors" in fault(smelt.merge, pickled, allow_pickle=True)


def test_records_in_a_file_longer_than_a_name_can_be_are_refused(tmp_path):
    from smelt.tasks.language.records import read_records

    assert "is not there" in fault(read_records, [tmp_path / ("x" * 300)], "a task")


def test_a_graph_whose_tiles_are_no_whole_numbers_is_refused(tmp_path):
    from pico_hub import colour_graph
    from smelt.hub.graph.files import NOTE
    from smelt.hub.graph.graph import SemanticGraph

    colour_graph().save(tmp_path / "graph")
    note = tmp_path / "graph" / NOTE
    content = json.loads(note.read_text())
    for tile in (0.5, float("inf"), "0", None):
        content["pictures"]["tile"][0] = tile
        note.write_text(json.dumps(content))
        assert "graph.json: " in fault(SemanticGraph.load, tmp_path / "graph")


def test_a_mergekit_parameter_without_a_name_is_refused():
    from smelt.recipe.mergekit.reader import from_mergekit

    sources = [{"model": f"./{name}", "layer_range": [0, 1], "parameters": {None: 1}} for name in ("cars", "birds")]
    slices = [{"sources": [one]} for one in sources]
    assert "no parameter of passthrough named None" in fault(
        from_mergekit, {"merge_method": "passthrough", "slices": slices}
    )


def test_a_row_whose_interval_is_beyond_all_scores_is_refused(tmp_path):
    """Its square was more than a number holds, in the middle of a report."""
    from made_up_suite import row
    from smelt.evaluation.row import read_rows

    sound = row().model_dump()
    (tmp_path / "rows.jsonl").write_text(json.dumps({**sound, "high": 1e300}) + "\n")
    assert "line 1: not a row (high: " in fault(read_rows, tmp_path / "rows.jsonl")


def test_a_users_config_that_is_a_number_is_refused(tmp_path):
    (tmp_path / "method").mkdir()
    (tmp_path / "method/mine.yaml").write_text("1.5\n")
    assert "a config is not readable" in fault(smelt.run, "method=mine", config_dir=tmp_path)


def test_a_header_with_infinity_in_it_is_refused_as_others_refuse_it(tmp_path):
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "x": float("-inf")}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    said = fault(smelt.merge, [str(tmp_path / "model.safetensors")] * 2)
    assert "-Infinity is no number of JSON" in said


def test_a_question_about_a_picture_of_a_name_too_long_is_refused(tmp_path):
    from smelt.tasks.questions.records import _faults

    record = {"picture": "x" * 300, "question": "What?", "options": ["a", "b"], "answer": 0}
    assert any("is not there" in one for one in _faults(record, (), tmp_path))


@pytest.mark.parametrize("note", ["x" * 900, "a\0b", "..", "/", ""])
def test_a_run_whose_note_names_no_step_is_refused(tmp_path, note):
    """The name was joined to the folder's and asked for."""
    (tmp_path / "latest_checkpointed_iteration.txt").write_text(note)
    assert "no such iteration is there" in fault(smelt.inspect, tmp_path)
    (tmp_path / "latest_checkpointed_iteration.txt").rename(tmp_path / "latest")
    (tmp_path / "zero_to_fp32.py").write_text("")
    assert "there is no such folder" in fault(smelt.inspect, tmp_path)
