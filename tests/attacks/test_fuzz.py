"""Damaged files of every format: the right result or a SmeltError, within 5 s and 1 GB. A small part of the campaign.

The inputs are the same every time. `SMELT_FUZZ_SEED` and `SMELT_FUZZ_INPUTS` choose others and more;
`python tests/attacks/fuzz/campaign.py` is the long campaign, and tries one input again.
"""

import os

import pytest
from fuzz import planted
from fuzz.attempt import Place
from fuzz.campaign import Tally, campaign
from fuzz.formats import FORMATS, spread
from fuzz.workers import Chunk, Setting, run_chunks

SEED = int(os.environ.get("SMELT_FUZZ_SEED", "19"))
INPUTS = int(os.environ.get("SMELT_FUZZ_INPUTS", "1500"))


@pytest.mark.timeout(900)
def test_damaged_files_of_every_format_are_read_right_or_refused(capsys):
    tally = Tally()
    for outcome in campaign(spread(INPUTS), SEED, jobs=1):
        tally.add(outcome)
    with capsys.disabled():
        print(f"\nfuzz: seed {SEED}, {tally.inputs} inputs, {len(tally.faults)} faults")  # noqa: T201
    found = [
        f"{len(some)} x {kind}\n  python tests/attacks/fuzz/campaign.py --format {some[0].format} --seed {SEED} "
        f"--index {some[0].index}\n  {some[0].detail}"
        for kind, some in tally.by_kind().items()
    ]
    assert not found, "\n".join(found)
    assert tally.counts.keys() == FORMATS.keys()


def test_an_input_is_the_same_every_time(tmp_path):
    """By format, seed and number alone, in whatever order they are made."""
    for name in ("safetensors", "gguf", "recipe", "hub_archive"):
        first, second = (Place(FORMATS[name], tmp_path / f"{name}-{number}") for number in range(2))
        somewhat = {number: first.damaged(3, number) for number in range(1, 40)}
        for number in reversed(range(1, 40)):
            file, content = second.damaged(3, number)
            assert file == somewhat[number][0]
            one = content.replace(str(tmp_path / f"{name}-1").encode(), str(tmp_path / f"{name}-0").encode())
            assert one == somewhat[number][1]


def test_the_harness_notices_every_kind_of_fault_and_goes_on(tmp_path):
    """A wrong result, a traceback, a hang, a death, too much memory, too many words: each is a fault of its kind."""
    place = Place(planted.FORMATS["planted"], tmp_path / "planted")
    wishes = {number: place.damaged(1, number)[1].decode() for number in range(1, 200)}
    first = {wish: number for number, wish in reversed(wishes.items())}
    assert first.keys() == planted.FAULTS.keys()
    chunks = [Chunk("planted", 1, number, number + 1) for number in first.values()]
    outcomes = list(run_chunks(chunks, 1, Setting("fuzz.planted", seconds=1.0)))
    assert len(outcomes) == len(planted.FAULTS)
    for one in outcomes:
        expected = planted.FAULTS[wishes[one.index]]
        assert (one.result == "fault") == bool(expected)
        assert expected in one.fault
