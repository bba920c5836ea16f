"""What an installed Smelt has to do: merge two small models by the command. Prints what it was and what came out.

python merge_two.py [FOLDER]    where the models and the result go, a temporary one by default

With SMELT_REQUIRE_FUSED=1 it fails where the compiled machine is missing.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import smelt
from smelt.engine.run.cpu.machine import library
from smelt.testing import digest, load, pico, save


def main(folder: Path) -> None:
    models = pico(2)
    base = save(models.base, folder / "base")
    tuned = [save(state, folder / name) for name, state in models.models.items()]
    words = ["--base", base, "--model", tuned[0], "--model", tuned[1], "--set", "density=0.5", "-o", folder / "out"]
    run = "from smelt.cli import process; process()"
    subprocess.run([sys.executable, "-c", run, "merge", "-m", "ties", *map(str, words), "--quiet"], check=True)
    found = {
        "version": smelt.__version__,
        "package": str(Path(smelt.__file__).parent),
        "machine": library() is not None,
        "weights": digest(load(folder / "out")),
    }
    assert found["machine"] or os.environ.get("SMELT_REQUIRE_FUSED") != "1", "the package has no compiled machine"
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
