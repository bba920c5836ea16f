"""A real browser over the DevTools protocol's pipe: messages in JSON, each ended by a zero byte. No library needed."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-dev-shm-usage --remote-debugging-pipe --window-size=1280,1000""".split()


def find_browser() -> str:
    names = (os.environ["SMELT_BROWSER"],) if os.environ.get("SMELT_BROWSER") else NAMES
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and os.environ.get("SMELT_REQUIRE_BROWSER") == "1":
        pytest.fail(f"SMELT_REQUIRE_BROWSER is set, but there is no browser ({', '.join(names)})")
    if found is None:
        pytest.skip(f"PAGES ARE NOT CHECKED IN A BROWSER: none of {', '.join(names)} is installed")
    return found


class Browser:
    """One page. `console` has every warning and error that it wrote; `asked` every address that it loaded."""

    def __init__(self, reader: int, writer: int):
        self._reader, self._writer, self._left, self._number = reader, writer, b"", 0
        self.console: list[str] = []
        self.asked: list[str] = []
        self._loads = 0
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **words: Any) -> dict[str, Any]:
        return self._call(method, session=self._session, **words)

    def open(self, url: str) -> None:
        with self.loading():
            self.call("Page.navigate", url=url)

    @contextlib.contextmanager
    def loading(self, seconds: float = 240.0) -> Iterator[None]:
        """What happens inside leads to another page; wait until that is loaded."""
        before = self._loads
        yield
        end = time.monotonic() + seconds
        while self._loads == before:
            self._hear(end)

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float = 240.0) -> Any:
        """The value of an expression as soon as it is true on a page that is there to its end."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(AssertionError):  # a page that is just being replaced
                if value := self.run(f"document.readyState === 'complete' && ({script})"):
                    return value
            assert time.monotonic() < end, f"never true: {script}\n{self.run('document.body.innerText')}"
            time.sleep(0.1)

    def fill(self, selector: str, text: str) -> None:
        """Type into a field, as a person does."""
        self.run(f"document.querySelector({json.dumps(selector)}).select()")
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def choose(self, selector: str, *paths: Path) -> None:
        """Files of a file input."""
        node = self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")["result"]
        self.call("DOM.setFileInputFiles", files=[str(path) for path in paths], objectId=node["objectId"])

    def click(self, selector: str) -> None:
        """With the mouse, where the element is."""
        x, y = self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)}); "
            "one.scrollIntoView({block: 'center', behavior: 'instant'}); const box = one.getBoundingClientRect(); "
            "return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def resize(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def theme(self, name: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def scripts(self, *, on: bool) -> None:
        self.call("Emulation.setScriptExecutionDisabled", value=not on)

    def picture(self, path: Path) -> None:
        """A screenshot of the whole page."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def _call(self, method: str, session: str | None = None, **words: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": words, **({"sessionId": session} if session else {})}
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 240
        while True:
            answer = self._hear(end)
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _hear(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._reader], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser says nothing"
            data = os.read(self._reader, 1 << 20)
            assert data, "the browser is gone"
            self._left += data
        text, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, words: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loads += 1
        elif method == "Network.requestWillBeSent":
            self.asked.append(words["request"]["url"])
        elif method == "Log.entryAdded" and words["entry"]["level"] in ("warning", "error"):
            self.console.append(words["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.console.append(json.dumps(words["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.console.append(json.dumps(words["args"]))


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own; it ends with the block."""
    binary = find_browser()
    to_it, to_us = os.pipe(), os.pipe()
    # The protocol wants the numbers 3 and 4; high numbers are moved there in between, so that none is in the way.
    read_end, write_end = fcntl.fcntl(to_it[0], fcntl.F_DUPFD, 30), fcntl.fcntl(to_us[1], fcntl.F_DUPFD, 30)
    move = f"import os, sys; os.dup2({read_end}, 3); os.dup2({write_end}, 4); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", move, binary]
    with open(folder / "browser.log", "wb") as log:
        process = subprocess.Popen(
            [*command, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            pass_fds=(read_end, write_end),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    for end in (to_it[0], to_us[1], read_end, write_end):
        os.close(end)
    try:
        yield Browser(to_us[0], to_it[1])
    finally:
        os.close(to_it[1])
        os.close(to_us[0])
        process.terminate()
        try:
            process.wait(240)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
