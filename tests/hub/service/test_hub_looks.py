"""What the hub's pages and its report look like in a real browser, as facts, on a phone and on two screens.

Nothing sticks out sideways, no word is broken in the middle, and the average of a wide table is in sight.

The hub has the long names of the zoo's graph and models. Skipped where there is no Chromium, as test_hub_browser.py is.
"""

from pathlib import Path

import pytest
from service_hub import png, shade
from test_hub_browser import BEYOND, serve

from browser import open_browser
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.hub import Hub
from smelt.suites.report import report

WIDTHS = (390, 1280, 1920)
LONG = {
    "administrative_district.n.01": "administrative district",
    "hymenopterous_insect.n.01": "hymenopterous insect",
    "reproductive_structure.n.01": "reproductive structure",
    "atmospheric_phenomenon.n.01": "atmospheric phenomenon",
}
PATHS = (
    "/",
    "/models",
    "/models/clip-tiny-rn-sketches-own",
    "/task",
    "/task?classes=hymenopterous+insect%0Aadministrative+district%0Ared&pictures=domain",
    "/predict?classes=hymenopterous+insect%0Ared&k=2",
    "/graph",
    "/graph/administrative_district.n.01",
    "/submit",
    "/api",
    "/nowhere",
)
# Words whose letters stand in more than one line; a hyphen may end a line. Code may be broken anywhere.
BROKEN = r"""(() => {
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, around = text.parentElement;
    if (around.closest("code, pre, svg, script, style, textarea, .unseen") || !around.getClientRects().length) continue;
    if (getComputedStyle(around).writingMode !== "horizontal-tb") continue;
    for (const word of text.data.matchAll(/[\p{L}\p{N}_]+/gu)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set(Array.from(range.getClientRects(), (box) => Math.round(box.top)));
      if (lines.size > 1) found.push(word[0]);
    }
  }
  return found;
})()"""
# Buttons, fields and links that stand by themselves, and are too low for a finger.
SMALL = """Array.from(document.querySelectorAll("main :is(a, button, select, summary, input:not([type=checkbox]))"))
  .filter((one) => getComputedStyle(one).display !== "inline" && one.getClientRects().length)
  .filter((one) => one.getBoundingClientRect().height < 24).map((one) => one.outerHTML)"""
AVERAGES = """Array.from(document.querySelectorAll("#results table"), (table) => {
  const heads = Array.from(table.querySelectorAll("thead th")), mean = heads.find((one) => one.innerText === "Avg.");
  return mean && [mean.getBoundingClientRect().right, table.closest(".scroll").getBoundingClientRect().right];
}).filter(Boolean)"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def address(tmp_path_factory, model_folders):
    top = [NewNode(id_, name, f"a kind of {name}", draws=True) for id_, name in LONG.items()]
    below = [
        NewNode(
            f"thing{number}.n.01",
            ("red", "invertebrate", "gallinaceous bird", "conveyance")[number],
            "something with an enumeration of its characteristics",
            parents=[node.id],
            pictures=[(style, "made up", shade("red", number)) for style in ("photo", "sketch", "icon")],
        )
        for number, node in enumerate(top)
    ]
    graph = SemanticGraph.build("long names", [*top, *below])
    with Hub.init(tmp_path_factory.mktemp("long") / "hub", graph=graph, embedder="hashed", node_text="name") as hub:
        hub.add(model_folders["knows"], name="clip-tiny-rn-sketches-own", description="knows a few representations")
        hub.add(model_folders["guesses"], name="clip-tiny-administrative", label=False)
        address, stop = serve(hub)
        yield address
        stop()


@pytest.mark.parametrize("path", PATHS)
def test_no_word_is_broken_nothing_sticks_out_and_nothing_is_too_small(address, browser, path):
    browser.open(address + path)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    for width in WIDTHS:
        browser.resize(width)
        assert browser.run(BROKEN) == [], width
        assert browser.run(BEYOND) == [0, []], width
        assert browser.run(SMALL) == [], width


def test_the_page_of_a_prediction_too(address, browser, tmp_path):
    picture = tmp_path / "a-picture-of-an-administrative-district.png"
    picture.write_bytes(png("red"))
    browser.resize(1280)
    browser.open(f"{address}/predict?classes=red%0Agreen")
    browser.choose("#pictures", picture)
    with browser.loading():
        browser.click("#predict .main")
    assert browser.run("document.querySelectorAll('.seen li.card').length") == 1
    for width in WIDTHS:
        browser.resize(width)
        assert (browser.run(BROKEN), browser.run(BEYOND), browser.run(SMALL)) == ([], [0, []], []), width


def test_the_hubs_report_shows_its_averages_and_breaks_no_word(browser, tmp_path):
    results = Path(__file__).parents[3] / "results" / "hub"
    browser.open(report(results, tmp_path / "report.html").as_uri())
    for width in WIDTHS:
        browser.resize(width)
        assert (browser.run(BROKEN), browser.run(BEYOND)) == ([], [0, []]), width
        averages = browser.run(AVERAGES)
        assert len(averages) == 2
        if width > 390:  # a phone scrolls the table
            assert all(mean <= right + 1 and mean <= width for mean, right in averages), (width, averages)
