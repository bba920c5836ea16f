"""The script that writes the question sets asks about a picture once in a set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "zoo" / "build" / "multimodal"
CODE = "import json, sets; print(json.dumps([sets.questions(name) for name in ('objects', 'printed-numbers')]))"


def test_every_question_of_a_set_has_a_picture_of_its_own_and_there_are_no_more_than_pictures():
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([sys.executable, "-c", CODE], cwd=SCRIPTS, env=env, capture_output=True, text=True, check=True)
    objects, numbers = json.loads(ran.stdout)
    assert (len(objects), len(numbers)) == (400, 120)  # there are 120 printed digits
    for found in (objects, numbers):
        assert len({str(one["picture"]) for one in found}) == len(found)
