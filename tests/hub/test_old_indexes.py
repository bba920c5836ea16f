"""A hub of an older Smelt, with a file for each label's index, is brought to segments when it is opened."""

import hashlib
import json
import struct

import numpy as np
import pytest

from pico_hub import CLASSES, model, new_hub
from smelt.errors import CorruptFile
from smelt.hub.hub import Hub
from smelt.hub.labels.index import Index
from smelt.hub.store.old_indexes import convert


def old_file(index: Index) -> bytes:
    """An index as it was kept: one list after the other, masks of one width."""
    segment = index.segment
    found = [segment.of_node(node) for node in range(segment.nodes)]
    width = int(segment.widths.max())
    masks = [np.pad(one.masks, ((0, 0), (0, width - one.masks.shape[1]))) for one in found]
    columns = [
        np.cumsum([0, *(len(one.beaters) for one in found)]).astype("<u8"),
        segment.numbered.astype("<u4"),
        segment.pictures.astype("<u4"),
        np.concatenate([one.beaters for one in found]).astype("<u2"),
        np.concatenate(masks),
    ]
    body = b"".join(array.tobytes() + bytes(-array.nbytes % 64) for array in columns)
    head = {
        "key": index.key.dump(),
        "nodes": segment.nodes,
        "graph_pictures": segment.graph_pictures,
        "pictures": len(segment.pictures),
        "entries": len(columns[3]),
        "id_bytes": 2,
        "width": width,
        "blake2b": hashlib.blake2b(body, digest_size=16).hexdigest(),
    }
    text = json.dumps(head, sort_keys=True).encode()
    text += b" " * (-(len(text) + 12) % 64)
    return b"SMELTIX1" + struct.pack("<I", len(text)) + text + body


def made_old(hub: Hub) -> None:
    """Have a hub as an older Smelt left it."""
    table = hub._labelling.indexes(None, hub.graph)
    for index in table.values():
        (hub.folder / "labels" / f"{index.key.digest}.index").write_bytes(old_file(index))
    for path in (hub.folder / "indexes").iterdir():
        path.unlink()
    (hub.folder / "indexes").rmdir()


@pytest.fixture
def hub(tmp_path):
    with new_hub(tmp_path / "hub", embedder="hashed") as hub:
        for name in ("knows", "guesses1"):
            hub.add(model(tmp_path / name, name))
        yield hub


def test_an_old_hub_answers_as_before_and_its_old_files_are_gone(hub):
    before = hub.select(CLASSES, nodes=2, k=2)
    kept = sorted(path.read_bytes() for path in (hub.folder / "indexes").glob("*.segment"))
    made_old(hub)
    with Hub.open(hub.folder) as opened:
        after = opened.select(CLASSES, nodes=2, k=2)
        assert opened.label() == []
    assert (after.recall.tolist(), after.chosen) == (before.recall.tolist(), before.chosen)
    assert sorted(path.read_bytes() for path in (hub.folder / "indexes").glob("*.segment")) == kept
    assert list((hub.folder / "labels").glob("*.index")) == []


def test_a_damaged_old_index_is_dropped_and_its_label_made_anew(hub, tmp_path):
    made_old(hub)
    first = min((hub.folder / "labels").glob("*.index"))
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    with pytest.raises(CorruptFile, match="cannot be read as an index"):
        convert(first, tmp_path / "new", lambda version: hub.graph)
    with Hub.open(hub.folder) as opened:
        with pytest.raises(CorruptFile, match=r"is damaged .*`smelt hub label \w+ --force`"):
            opened.select(CLASSES, nodes=2)
        assert len(opened.label()) == 1
        assert len(opened.select(CLASSES, nodes=2).models) == 2
