"""Show a page to whoever waits for it: in a browser, where there is a screen."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path


def show_page(page: Path) -> None:
    """Open it if somebody watches the output and has a screen."""
    if sys.stdout.isatty() and (os.environ.get("DISPLAY") or sys.platform in ("darwin", "win32")):
        webbrowser.open(page.resolve().as_uri())
