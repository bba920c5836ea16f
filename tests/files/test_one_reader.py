"""JSON and YAML are read in one place each: whoever reads a file in a way of its own reads it without bounds."""

import re
from pathlib import Path

import smelt

ROOM = Path(smelt.__file__).parent
READS = re.compile(r"\bjson\.loads?\(|\byaml\.(safe_)?load(_all)?\(|model_validate_json\(|OmegaConf\.load\(")

ITS_OWN_WORDS = {
    "files/reading.py": "the reader",
    "files/yaml_reader.py": "the reader",
    "jobs/worker.py": "from the process that started it",
    "jobs/local.py": "from a process that it started",
    "engine/cluster/parcels.py": "from a process of the same merge",
    "tasks/language/served/prompts.py": "what json.dumps gave before",
    "testing/hash_seeds.py": "from a process that it started",
    "hub/models/check.py": "from the hub's own database",
    "hub/hub.py": "from the hub's own database",
    "suites/hub/method_scores.py": "an argument from the process that started it",
    "suites/selection/process_cache.py": "what json.dumps gave a line before",
    "search/study.py": "what json.dumps gave a line before",
    "optimise/state.py": "what json.dumps gave a line before",
    "reporting/tables/as_csv.py": "what json.dumps gave before",
}
"""Where text is parsed that Smelt itself has just written, and that is no file."""


def test_no_other_room_parses_json_or_yaml():
    found = {path.relative_to(ROOM).as_posix() for path in ROOM.rglob("*.py") if READS.search(path.read_text())}
    assert found == set(ITS_OWN_WORDS)
