"""Examples in pages: a page shows the text of a file under docs/examples, which tests/docs/test_examples.py runs.

    <!-- example: commands/merge.sh -->
    ```bash
    (written here from the file)
    ```

The comment names the file, and the block after it is the file's text, so that a page reads the same in the repository
and on the site.
"""

from __future__ import annotations

import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
LANGUAGES = {".sh": "bash", ".py": "python", ".yaml": "yaml", ".toml": "toml", ".jsonl": "text"}
BLOCK = re.compile(r"^<!-- example: (\S+) -->\n(```+)(\w*)\n(.*?)^\2$", re.DOTALL | re.MULTILINE)


def fill(text: str) -> str:
    """The page with every example as its file has it."""
    return BLOCK.sub(lambda block: shown(block[1]), text)


def shown(name: str) -> str:
    """The comment and the block of a file under docs/examples."""
    path = EXAMPLES / name
    return f"<!-- example: {name} -->\n```{LANGUAGES[path.suffix]}\n{path.read_text(encoding='utf-8').rstrip()}\n```"
