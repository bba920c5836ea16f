"""Make the notebooks: run the cells of each source, and store them with what they showed.

    python examples/notebooks/execute.py                 all
    python examples/notebooks/execute.py merge_and_look  one

A source is a Python file. `# %%` begins a cell of code, `# %% [markdown]` one of text. Its first line says what the
notebook needs: `# needs: smelt[clip] smelt-zoo`. Two cells are put in front: a badge, and one that installs.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

__all__ = ["NAMES", "REPOSITORY", "execute", "notebook_of"]

REPOSITORY = "OWNER/smelt"
"""Where the project is hosted on GitHub. It is not yet: whoever hosts it writes the address here and runs this."""
HERE = Path(__file__).parent
NAMES = ("merge_and_look", "your_own_tasks", "which_models", "language_model")
SOURCES = {
    "smelt": f"git+https://github.com/{REPOSITORY}",
    "smelt-zoo": f"git+https://github.com/{REPOSITORY}#subdirectory=zoo",
    "smelt-zoo-more": f"git+https://github.com/{REPOSITORY}#subdirectory=zoo-more",
}
"""What is installed from there: `smelt` on PyPI is another project."""
SECONDS = 900
"""That one cell may take on a busy machine."""

_BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
_INSTALL = """\
# Installs what this notebook needs, where it is not there yet.
import importlib.util
import subprocess
import sys

PACKAGES = [{packages}
]
if not all(importlib.util.find_spec(name) for name in ({modules})):
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)"""


def notebook_of(name: str) -> NotebookNode:
    """The notebook of a source, without outputs."""
    first, _, rest = (HERE / f"{name}.py").read_text(encoding="utf-8").partition("\n")
    needed = first.removeprefix("# needs: ").split()
    packages = "".join(f'\n    "{_package(word)}",' for word in needed)
    own = [word.partition("[")[0] for word in needed if word.partition("[")[0] in SOURCES]
    modules = ", ".join(f'"{name.replace("-", "_")}"' for name in own)
    link = f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/examples/notebooks/{name}.ipynb"
    cells = [
        new_markdown_cell(f"[![Open in Colab]({_BADGE})]({link})"),
        new_code_cell(_INSTALL.format(packages=packages, modules=modules)),
    ]
    for part in re.split(r"(?m)^# %%", rest)[1:]:
        kind, _, body = part.partition("\n")
        if "[markdown]" in kind:
            text = re.sub(r"(?m)^# ?", "", body.strip("\n"))
            cells.append(new_markdown_cell(text))
        else:
            cells.append(new_code_cell(body.strip("\n")))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    # The title comes first, then the badge.
    cells[0], cells[1], cells[2] = cells[2], cells[0], cells[1]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def _package(needed: str) -> str:
    """`smelt[clip]` as pip finds it."""
    source = SOURCES.get(needed.partition("[")[0])
    return f"{needed} @ {source}" if source else needed


def execute(name: str, folder: Path) -> NotebookNode:
    """Run all cells in a folder. What is kept of each is what it showed; not its progress, nor when it ran."""
    notebook = notebook_of(name)
    client = NotebookClient(
        notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}, record_timing=False
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
            cell.metadata = {}
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main(names: list[str]) -> None:
    for name in names or NAMES:
        with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
            notebook = execute(name, Path(folder))
        target = HERE / f"{name}.ipynb"
        nbformat.write(notebook, target)
        print(f"{target.name}: {len(notebook.cells)} cells, {target.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
