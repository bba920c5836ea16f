"""`--resume` where there is nothing left to do says so, and what it did not look at."""

import json


def test_a_resume_of_what_is_finished_says_that_nothing_was_done_or_checked(tmp_path, two, cli):
    words = ("merge", "--model", two[1], "--model", two[2], "-o", tmp_path / "out", "--resume")
    said = f"{tmp_path / 'out'} was finished already: nothing was done and nothing was checked; `smelt verify"
    assert said not in cli(*words).out
    weights = tmp_path / "out" / "model.safetensors"
    damaged = weights.read_bytes()[:-1] + b"?"
    weights.write_bytes(damaged)
    assert f"note: {said}" in cli(*words).out
    assert weights.read_bytes() == damaged, "that is why it is said"
    assert json.loads(cli(*words, "--json").out)["notes"][-1].startswith(said)
