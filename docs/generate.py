"""Write what the documentation takes from code and results: `python docs/generate.py`.

Makers are in docs/generators/. All that they write is committed, and tests/docs holds that it is current. mkdocs calls
`on_config` to list the pages of the methods.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent


def on_config(config: Any) -> Any:
    """List the stages' pages under "Methods" in the site's navigation."""
    kinds = {name: section for entry in config["nav"] for name, section in entry.items()}
    section = next(entry["Methods"] for entry in kinds["Reference"] if "Methods" in entry)
    names = sorted(path.stem for path in (DOCS / "reference" / "methods").glob("*.md") if path.stem != "index")
    folder = "reference/methods"
    section[:] = [f"{folder}/index.md", *({name: f"{folder}/{name}.md"} for name in names)]
    return config


if __name__ == "__main__":
    for maker in ("methods", "api", "pages", "readme"):
        runpy.run_path(str(DOCS / "generators" / f"{maker}.py"))["write"]()
