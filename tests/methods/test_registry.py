"""Stages are loaded when they are asked for, one by one, and all are there for who looks at all of them."""

import json
import os
import subprocess
import sys

import pytest

from smelt.errors import SmeltError
from smelt.methods import merge_method, stages

REPORT = """
import json, sys
files = [name.rpartition(".")[2] for name in sys.modules if name.startswith("smelt.methods.")]
print(json.dumps([said, [name for name in ("average", "ties", "ram", "tsv") if name in files]]))
"""


def fresh(script, *folders):
    """What a new process says, and which of four files of stages it has loaded."""
    path = os.pathsep.join([*map(str, folders), *filter(None, sys.path)])
    command = [sys.executable, "-c", f"from smelt.methods import stages\n{script}{REPORT}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path})
    return json.loads(done.stdout.splitlines()[-1])


def test_one_stage_loads_one_file():
    assert fresh("said = stages['ties'].name") == ["ties", ["ties"]]
    assert fresh("said = 'average' in stages") == [True, ["average"]]


def test_a_stage_in_the_file_of_another_is_found_among_all():
    assert fresh("said = stages['ram_plus'].name") == ["ram_plus", ["average", "ties", "ram", "tsv"]]


def test_what_is_no_stage_is_none():
    for name in ("tise", "method", "registry", "../merge/ties", "merge.ties", ""):
        assert name not in stages
        with pytest.raises(KeyError):
            stages[name]


def test_their_order_is_that_of_their_files_whichever_came_first():
    names = fresh("stages['ties'], stages['average']; said = list(stages)")[0]
    assert names == fresh("said = list(stages)")[0]
    assert names.index("average") < names.index("slerp") < names.index("ties") < names.index("tsv")


def test_a_name_of_this_room_is_taken_though_its_file_is_not_loaded():
    script = """
from smelt.errors import SmeltError
from smelt.methods import merge_method
try:
    @merge_method("slerp")
    def mine(deltas): ...
    said = ""
except SmeltError as error:
    said = str(error)
"""
    assert fresh(script)[0] == "two stages are named 'slerp': smelt.methods.means.slerp and __main__"


PLUGIN = """
from smelt.methods import merge_method, stages
SEEN = len(stages)
@merge_method("plugged")
def plugged(deltas):
    return deltas.sum(0)
"""


def test_a_plug_in_is_found_when_nothing_else_has_the_name(tmp_path):
    (tmp_path / "plugged_in.py").write_text(PLUGIN)
    note = tmp_path / "plugged_in-1.0.dist-info"
    note.mkdir()
    (note / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-in\nVersion: 1.0\n")
    (note / "entry_points.txt").write_text("[smelt.methods]\nplugged = plugged_in\n")
    assert fresh("said = stages['plugged'].function.__module__", tmp_path)[0] == "plugged_in"
    assert fresh("said = list(stages)[-1]", tmp_path)[0] == "plugged"
    assert fresh("import plugged_in; said = 'plugged' in stages", tmp_path)[0] is True


def test_a_stage_is_registered_once():
    with pytest.raises(SmeltError, match="two stages are named 'ties'"):

        @merge_method("ties")
        def mine(deltas): ...
