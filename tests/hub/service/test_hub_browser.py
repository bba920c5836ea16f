"""The hub in a real browser, end to end: a model is submitted, a task selects it, and it classifies a dropped picture.

Also what only a browser can tell: no error in its console under the strict policy, nothing loaded from elsewhere, no
sideways scrolling on a phone, the keyboard, dark mode, and pages without scripts. Skipped where there is no Chromium;
with SMELT_REQUIRE_BROWSER=1 it fails instead.
"""

import socket
import threading
import time

import pytest
import uvicorn
from service_hub import png

from browser import open_browser
from smelt.hub.service import create_app

WIDTHS = (360, 390, 768, 1280, 1920)
PATHS = (
    "/",
    "/models",
    "/models/knows",
    "/task",
    "/task?classes=red%0Agreen%0Ablue&k=2",
    "/predict",
    "/graph",
    "/graph/colour.n.01",
    "/graph/red.n.01",
    "/submit",
    "/api",
    "/nowhere",
)
BEYOND = """(() => {
  const root = document.documentElement, inside = (one) => one.closest(".scroll, pre, svg, .unseen, .skip");
  return [root.scrollWidth - root.clientWidth, Array.from(document.querySelectorAll("body *"))
    .filter((one) => !inside(one) && one.getBoundingClientRect().right > root.clientWidth + 1)
    .map((one) => one.tagName + "." + one.className)];
})()"""


def serve(hub):
    """The service on a free port, as `smelt hub serve` runs it; gives its address and how to end it."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(hub), log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    end = time.monotonic() + 120
    while not server.started:
        assert time.monotonic() < end
        time.sleep(0.02)

    def stop():
        server.should_exit = True
        thread.join(240)
        listener.close()

    return f"http://127.0.0.1:{listener.getsockname()[1]}", stop


@pytest.fixture(scope="module")
def address(hub):
    address, stop = serve(hub)
    yield address
    stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(autouse=True)
def fresh(browser):
    browser.open("about:blank")  # what a test before left open asks for no more
    browser.console.clear()
    browser.asked.clear()
    browser.scripts(on=True)
    browser.theme("light")
    browser.resize(1280)


def test_a_model_is_submitted_selected_and_asked_in_the_browser(own_hub, browser, model_folders, tmp_path):
    address, stop = serve(own_hub)
    try:
        token = own_hub.create_token("ann")
        browser.open(f"{address}/submit")
        browser.fill("#token", token)
        browser.fill("#name", "brought")
        browser.fill("#description", "knows three colours")
        browser.choose("#files", *sorted(model_folders["knows"].iterdir()))
        listed = browser.run("document.querySelectorAll('.chosen li').length")
        assert listed == len(list(model_folders["knows"].iterdir()))
        with browser.loading():
            browser.click("#submit button")
        assert "/jobs/" in browser.run("location.pathname")
        browser.wait_for("document.body.innerText.includes('The model is labelled')")

        browser.click(".button")  # the job's page reloads itself too, so the next one is waited for by its title
        browser.wait_for("document.querySelector('h1')?.innerText === 'brought'")
        browser.wait_for("document.querySelector('.tile.best')?.innerText.includes('100.0 %')")

        browser.open(address)
        browser.fill("#classes", "red\ngreen\nblue")
        browser.fill("#domain", "sketch")
        with browser.loading():
            browser.click("form .main")
        assert browser.run("document.querySelector('h1').innerText") == "1 of 1 models"
        assert browser.run("document.querySelector('.ranking .who a').innerText") == "brought"
        assert browser.run("document.querySelectorAll('.why').length") == 3
        thumbs = "Array.from(document.querySelectorAll('.why img'))"
        browser.run(f"{thumbs}.forEach((one) => {{ one.loading = 'eager' }})")
        browser.wait_for(f"{thumbs}.length > 9 && {thumbs}.every((one) => one.complete && one.naturalWidth > 0)")

        with browser.loading():
            browser.click("a.button")
        assert browser.run("document.querySelector('#classes').value") == "red\ngreen\nblue"
        pictures = []
        for name in ("green", "red"):
            pictures.append(tmp_path / f"{name}.png")
            pictures[-1].write_bytes(png(name))
        browser.choose("#pictures", *pictures)
        with browser.loading():
            browser.click("#predict .main")
        assert browser.run("Array.from(document.querySelectorAll('.seen h2'), (one) => one.innerText)") == [
            "green",
            "red",
        ]
        assert "answered by brought" in browser.run("document.querySelector('.seen').innerText")
        assert browser.run("Array.from(document.querySelectorAll('.sent')).every((one) => one.naturalWidth > 0)")
        assert browser.console == []
        assert all(url.startswith((address, "data:", "blob:")) for url in browser.asked)
    finally:
        stop()


def test_a_dropped_picture_is_in_the_form_and_a_wrong_token_says_so(address, browser):
    browser.open(f"{address}/predict?classes=red%0Ablue")
    data = list(png("blue"))
    browser.run(
        f"""(() => {{ const sent = new DataTransfer();
        sent.items.add(new File([new Uint8Array({data})], "dropped.png", {{ type: "image/png" }}));
        document.querySelector("[data-drop]").dispatchEvent(new DragEvent("drop", {{ dataTransfer: sent, bubbles: true,
        cancelable: true }})); }})()"""
    )
    assert "dropped.png" in browser.run("document.querySelector('.chosen').innerText")
    with browser.loading():
        browser.click("#predict .main")
    assert browser.run("document.querySelector('.seen h2').innerText") == "blue"
    assert browser.console == []

    browser.open(f"{address}/submit")
    browser.fill("#token", "wrong")
    browser.fill("#name", "x")
    browser.run(
        """(() => { const sent = new DataTransfer(); sent.items.add(new File(["{}"], "config.json"));
        document.querySelector("#files").files = sent.files; })()"""
    )
    with browser.loading():
        browser.click("#submit .main")
    assert "this token is not valid" in browser.run("document.querySelector('[role=alert]').innerText")


@pytest.mark.parametrize("path", PATHS)
def test_no_page_scrolls_sideways_or_complains(address, browser, path):
    browser.open(address + path)
    for width in WIDTHS:
        browser.resize(width)
        assert browser.run(BEYOND) == [0, []], width
    wrong = [line for line in browser.console if "404" not in line or path != "/nowhere"]
    assert wrong == []
    assert all(url.startswith((address, "data:")) for url in browser.asked)


def test_an_inline_script_or_a_picture_from_elsewhere_would_be_heard(address, browser):
    browser.open(address)
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"https://example.org/x.png\" onerror=\"x()\">')"
    )
    browser.wait_for("true")
    deadline = time.monotonic() + 120
    while not any("Content Security Policy" in line for line in browser.console):
        assert time.monotonic() < deadline
        browser.run("1")


def test_the_keyboard_reaches_the_content_first_and_sees_where_it_is(address, browser):
    browser.open(f"{address}/graph/red.n.01")
    browser.press("Tab", 9)
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left >= 0")
    browser.press("Tab", 9)
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    reached = set()
    for _ in range(60):
        browser.press("Tab", 9)
        reached.add(browser.run("(document.activeElement.getAttribute('href') || document.activeElement.id || '')"))
    assert {"/graph/colour.n.01", "/graph/blue.n.01", "search", "theme"} <= reached


def test_the_system_and_the_button_choose_the_theme(address, browser):
    colour = "getComputedStyle(document.body).backgroundColor"
    browser.open(address)
    light = browser.run(colour)
    browser.theme("dark")
    dark = browser.run(colour)
    assert light != dark
    browser.theme("light")
    browser.click("#theme")
    assert browser.run(colour) == dark
    browser.open(f"{address}/models")
    assert browser.run(colour) == dark  # the choice goes along
    browser.run("localStorage.clear()")


def test_a_task_is_answered_without_scripts(address, browser):
    browser.scripts(on=False)
    browser.open(f"{address}/task?classes=red%0Ablue")
    document = browser.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    found = browser.call("DOM.querySelector", nodeId=document, selector="h1")["nodeId"]
    assert "1 of 2 models" in browser.call("DOM.getOuterHTML", nodeId=found)["outerHTML"]
    assert browser.call("DOM.querySelector", nodeId=document, selector="html.plain")["nodeId"]
