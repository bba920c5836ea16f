"""The page in a real browser: no error in the console, no sideways scrolling on a phone, and its controls work.

Needs Chromium (SMELT_BROWSER names another binary). Without one these tests are skipped; with SMELT_REQUIRE_BROWSER=1
they fail instead, so that a build that promises the check cannot lose it silently.
"""

import html
import json
import os
import re
import shutil
import subprocess

import pytest

from made_up_data_suites import generalization_rows, robustness_rows, write_heats
from made_up_levels import collaboration_rows
from made_up_suite import write_suite
from smelt.suites.report import report as write_report

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--enable-logging=stderr --v=0 --virtual-time-budget=4000 --window-size=1400,1000 --dump-dom""".split()

WIDTHS = (390, 768, 1280)
# Runs in a page that holds the report in frames of several widths; what it finds goes into the DOM that is dumped.
MEASURE = """
const found = {};
for (const frame of document.querySelectorAll("iframe")) {
  const page = frame.contentDocument, root = page.documentElement;
  const boxes = Array.from(page.querySelectorAll("main *"));
  const inScroll = (node) => node.closest(".scroll, pre, svg, fieldset");
  found[frame.dataset.width] = {
    width: root.clientWidth,
    wide: root.scrollWidth,
    beyond: boxes.filter((node) => !inScroll(node) && node.getBoundingClientRect().right > root.clientWidth + 1)
      .map((node) => node.tagName + "." + node.className),
    sections: page.querySelectorAll("section").length,
    lines: page.querySelectorAll("#table tbody.lines tr").length,
    scrolls: page.querySelector("#table").parentNode.scrollWidth > page.querySelector("#table").parentNode.clientWidth,
  };
}
const page = document.querySelector("iframe").contentDocument, view = page.defaultView;
const merges = page.querySelectorAll("#table tbody.lines")[1];
const averages = () => Array.from(merges.rows, (row) => Number(row.cells[9].dataset.value));
const head = page.querySelectorAll("#table thead th")[9];
found.printed = averages();
head.querySelector("button").click();
found.falling = averages();
found.sort = head.getAttribute("aria-sort");
head.querySelector("button").click();
found.rising = averages();
head.querySelector("button").click();
found.again = averages();
const cell = page.querySelector("#table tbody.lines td");
const tip = page.getElementById("tip");
found.before = tip.hidden;
cell.focus();
found.tip = tip.hidden ? null : tip.textContent;
cell.dispatchEvent(new view.KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
found.next = page.activeElement.cellIndex;
found.interval = view.getComputedStyle(cell.querySelector(".ci")).display;
page.getElementById("intervals").click();
found.shown = view.getComputedStyle(cell.querySelector(".ci")).display;
const shown = () => page.querySelectorAll(".radar .series:not(.off)").length;
found.picked = [shown()];
const boxes = Array.from(page.querySelectorAll("#compare input[type=checkbox]"));
boxes.find((box) => !box.checked).click();
found.picked.push(shown());
boxes[0].click();
found.picked.push(shown());
for (const box of boxes) if (!box.checked && !box.disabled && box.dataset.kind === "merge") box.click();
found.colours = boxes.filter((box) => box.checked).map((box) => box.dataset.colour);
const colour = () => view.getComputedStyle(page.body).backgroundColor;
found.theme = [colour()];
page.getElementById("theme").click();
found.theme.push(colour());
const rows = () => Array.from(page.querySelectorAll("#table tbody.lines tr")).filter((row) => row.offsetParent).length;
page.querySelector("input[value=tuned]").click();
found.filtered = rows();
const out = document.createElement("pre");
out.id = "found";
out.textContent = JSON.stringify(found);
document.body.append(out);
"""


def browser():
    names = (os.environ["SMELT_BROWSER"],) if os.environ.get("SMELT_BROWSER") else NAMES
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and os.environ.get("SMELT_REQUIRE_BROWSER") == "1":
        pytest.fail(f"SMELT_REQUIRE_BROWSER is set, but there is no browser ({', '.join(names)})")
    if found is None:
        pytest.skip(f"THE REPORT IS NOT CHECKED IN A BROWSER: none of {', '.join(names)} is installed")
    return found


def opened(folder, page, script="", widths=WIDTHS):
    """The DOM of a page that frames the report, and what the console said."""
    frames = "".join(
        f'<iframe data-width="{w}" style="border:0;width:{w}px;height:800px" srcdoc="{html.escape(page)}"></iframe>'
        for w in widths
    )
    wrapper = folder / "frames.html"
    body = f'<!doctype html><meta charset="utf-8">{frames}<script>addEventListener("load", () => {{{script}}})</script>'
    wrapper.write_text(body, encoding="utf-8")
    command = [browser(), *FLAGS, f"--user-data-dir={folder / 'profile'}", wrapper.as_uri()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return ran.stdout, [line for line in ran.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(write_suite(tmp_path_factory.mktemp("suite"))).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def seen(report, tmp_path_factory):
    dom, console = opened(tmp_path_factory.mktemp("browser"), report, MEASURE)
    found = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert found, f"the measures did not run: {console}"
    return {**json.loads(html.unescape(found[1])), "console": console}


def test_the_console_is_silent(seen):
    assert seen["console"] == []


def test_an_error_in_the_script_would_be_heard(report, tmp_path):
    broken = report.replace('"use strict";', '"use strict"; nonsense();', 1)
    assert any("nonsense" in line for line in opened(tmp_path, broken, widths=(390,))[1])


def test_a_picture_from_elsewhere_would_be_heard(report, tmp_path):
    asking = report.replace("</main>", '<img src="https://example.org/x.png"></main>', 1)
    assert any("example.org" in line for line in opened(tmp_path, asking, widths=(390,))[1])


SHAPE = """
const found = {};
for (const frame of document.querySelectorAll("iframe")) {
  const page = frame.contentDocument, root = page.documentElement;
  const inScroll = (node) => node.closest(".scroll, pre, svg, fieldset");
  const boxes = Array.from(page.querySelectorAll("main *")).filter((node) => !inScroll(node));
  found[frame.dataset.width] = [
    root.scrollWidth - root.clientWidth,
    boxes.filter((node) => node.getBoundingClientRect().right > root.clientWidth + 1).map((node) => node.className),
  ];
}
const page = document.querySelector("iframe").contentDocument;
const boxed = Array.from(page.querySelectorAll("#results .scroll"));
found.boxed = boxed.filter((box) => box.scrollWidth > box.clientWidth + 1).length;
const table = page.getElementById("table");
const heads = table.querySelectorAll("th[data-sort]"), last = heads.length - 1;
const merges = table.querySelectorAll("tbody.lines")[2];
const averages = () => Array.from(merges.rows, (row) => Number(row.cells[last].dataset.value));
found.printed = averages();
heads[last].querySelector("button").click();
found.falling = averages();
heads[last].querySelector("button").click();
found.rising = averages();
page.getElementById("intervals").click();
const shown = (mark) => page.defaultView.getComputedStyle(mark).display;
found.hidden = Array.from(page.querySelectorAll(".ci")).filter((mark) => shown(mark) === "none").length;
const out = document.createElement("pre");
out.id = "found";
out.textContent = JSON.stringify(found);
document.body.append(out);
"""


@pytest.mark.parametrize("rows", [generalization_rows, robustness_rows, collaboration_rows])
def test_tables_of_parts_and_corruptions_fit_the_page_and_sort(rows, tmp_path):
    write_suite(tmp_path, rows(), analyses=False)
    write_heats(tmp_path)
    dom, console = opened(tmp_path, write_report(tmp_path).read_text(encoding="utf-8"), SHAPE)
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)[1]))
    assert console == []
    assert [found[str(width)] for width in WIDTHS] == [[0, []]] * 3
    assert found["falling"] == sorted(found["printed"], reverse=True)
    assert found["rising"] == sorted(found["printed"]) != found["falling"]
    assert found["hidden"] == 0
    assert found["boxed"] >= (5 if rows is collaboration_rows else 1)  # on a phone a wide table scrolls in its own box


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_never_scrolls_sideways(seen, width):
    measured = seen[str(width)]
    assert measured["beyond"] == []
    assert measured["wide"] == measured["width"] <= width


def test_the_table_is_there_and_scrolls_in_its_own_box_on_a_phone(seen):
    assert (seen["390"]["lines"], seen["390"]["sections"]) == (35, 9)
    assert seen["390"]["scrolls"]
    assert not seen["1280"]["scrolls"]


def test_a_heading_sorts_falling_then_rising_then_as_printed(seen):
    assert seen["falling"] == sorted(seen["printed"], reverse=True) != seen["printed"]
    assert seen["rising"] == sorted(seen["printed"])
    assert seen["again"] == seen["printed"]
    assert seen["sort"] == "descending"


def test_a_focused_number_shows_its_interval_and_arrows_move_on(seen):
    assert seen["before"] is True
    assert "95 % interval" in seen["tip"]
    assert seen["next"] == 2


def test_the_box_shows_all_intervals(seen):
    assert (seen["interval"], seen["shown"]) == ("none", "block")


def test_models_are_picked_and_dropped_and_never_share_a_colour(seen):
    assert seen["picked"] == [6, 7, 6]
    assert len(seen["colours"]) == len(set(seen["colours"])) == 7  # six merges and the experts


def test_the_button_changes_the_theme(seen):
    assert seen["theme"][0] != seen["theme"][1]


def test_the_filter_leaves_references_and_the_tuned(seen):
    assert seen["filtered"] == 2 + 13
