"""The pictures of README.md and docs/index.md: a report and a selection in the hub, as a browser shows them.

    python docs/generators/pictures.py [--hub PLACE]

Needs Chromium, the zoo and the extra `hub`. Without --hub, a hub of the zoo's CLIP experts is made in a temporary
folder and its models are tested on the graph, which takes some minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "docs" / "pictures"
SMELT = [sys.executable, "-c", "from smelt.cli import process; process()"]
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --hide-scrollbars""".split()
MODELS = ("photos", "sketches", "digits", "clothing", "emoji", "letters")
TASK = {"classes": "cat\ndog\nfrog\nthree\neight", "domain": "pencil sketch", "k": "2"}
WINDOW = (1280, 1000)
WIDTH = 960
COLOURS = 96


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hub", type=Path, help="a hub whose models are labelled")
    arguments = parser.parse_args()
    take("report", (ROOT / "results" / "clip8" / "report.html").as_uri())
    with contextlib.nullcontext(arguments.hub) if arguments.hub else small_hub() as hub, served(hub) as address:
        take("hub", f"{address}task?{urlencode(TASK)}")


def take(name: str, address: str) -> None:
    """One page, as large as a window, made small: few colours are enough for text on paper."""
    names = [os.environ.get("SMELT_BROWSER", "chromium"), "chromium-browser", "google-chrome"]
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        sys.exit(f"no browser to take pictures with; looked for {', '.join(names)}")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder, "page.png")
        size = f"--window-size={WINDOW[0]},{WINDOW[1]}"
        words = [browser, *FLAGS, size, f"--user-data-dir={folder}/user", f"--screenshot={shot}", address]
        subprocess.run(words, check=True, capture_output=True, timeout=300)
        page = Image.open(io.BytesIO(shot.read_bytes())).convert("RGB")
    small = page.resize((WIDTH, round(page.height * WIDTH / page.width)), Image.Resampling.LANCZOS)
    path = PLACE / f"{name}.png"
    small.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    sys.stderr.write(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} kB\n")


@contextlib.contextmanager
def small_hub() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        hub = Path(folder, "hub")
        subprocess.run([*SMELT, "hub", "init", "--hub", str(hub)], check=True)
        for name in MODELS:
            subprocess.run([*SMELT, "hub", "add", f"zoo:clip-tiny-{name}", "--hub", str(hub)], check=True)
        yield hub


@contextlib.contextmanager
def served(hub: Path) -> Iterator[str]:
    """The address of the hub's pages."""
    words = [*SMELT, "hub", "serve", "--port", "0", "--no-submit", "--hub", str(hub)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().split()[0]
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
