"""A folder in, four files out; what is missing is left out, what is wrong is refused."""

import json
import re
from html.parser import HTMLParser

import pytest
import typer
from typer.testing import CliRunner

from made_up_data_suites import data_rows, generalization_rows, robustness_rows, write_heats
from made_up_suite import row, suite_rows, write_suite
from smelt.cli.evaluation import report as cli
from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.recipe.schema import DataBudget
from smelt.suites.report import report

HEADINGS = {
    "results": "Results",
    "severities": "Accuracy against severity",
    "methods": "Methods compared",
    "experts": "Experts on every task",
    "curves": "How much of the change to keep",
    "learned": "What was learned",
    "vectors": "Task vectors",
    "paths": "Paths between models",
    "costs": "Time and memory",
    "reproduce": "Make it again",
}


class Page(HTMLParser):
    """The tags of a page, its texts, and whether every tag that opens is closed in turn."""

    ALONE = ("meta", "link", "input")

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open, self.ids = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return report(write_suite(tmp_path_factory.mktemp("suite")))


def sections(text):
    return [name for name in HEADINGS if f'<section id="{name}">' in text]


def test_a_whole_suite_has_every_section_and_three_tables_beside_it(whole):
    text = whole.read_text(encoding="utf-8")
    assert sections(text) == [name for name in HEADINGS if name not in ("severities", "learned")]
    assert whole.name == "report.html"
    assert sorted(path.name for path in whole.parent.glob("table.*")) == ["table.csv", "table.md", "table.tex"]
    assert not list(whole.parent.glob(".*"))


def test_the_page_is_well_formed_and_its_links_lead_somewhere(whole):
    page = Page(whole.read_text(encoding="utf-8"))
    assert len(page.ids) == len(set(page.ids))
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= set(page.ids)


def test_nothing_is_loaded_from_anywhere(whole):
    text = whole.read_text(encoding="utf-8")
    page = Page(text)
    loaded = [a.get("src") or a.get("href") for tag, a in page.tags if "src" in a or "href" in a]
    assert all(address.startswith(("#", "data:")) for address in loaded)
    assert "@import" not in text
    assert "url(" not in text
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_the_same_folder_gives_the_same_bytes(whole, tmp_path):
    again = report(whole.parent, tmp_path / "again" / "page.html")
    assert again.read_bytes() == whole.read_bytes()
    assert (again.parent / "table.tex").read_bytes() == (whole.parent / "table.tex").read_bytes()


def test_every_number_of_the_table_has_its_interval_in_words(whole):
    cells = [a for tag, a in Page(whole.read_text(encoding="utf-8")).tags if tag == "td" and "data-value" in a]
    assert len(cells) == 35 * 10
    assert sum("95 % interval" in a["title"] for a in cells) == 35 * 9  # the normalised average has none


def test_rows_alone_make_a_report_without_the_other_parts(tmp_path):
    rows = [row("ties", "photos", 60, 100), row("magmax", "photos", 50, 100)]
    text = report(write_suite(tmp_path, rows, analyses=False)).read_text(encoding="utf-8")
    assert sections(text) == ["results", "methods", "reproduce"]
    Page(text)


@pytest.mark.parametrize("variant", ["single", "reference", "curve", "path"])
def test_rows_of_one_kind_alone_are_a_report_too(tmp_path, variant):
    settings = {"curve": [{"scale": 0.0}, {"scale": 1.0}], "path": [{"from": "a", "to": "b", "t": t} for t in (0, 1)]}
    rows = [row("ties", "photos", 60, 100, variant=variant, setting=s) for s in settings.get(variant, [{}])]
    text = report(write_suite(tmp_path, rows, analyses=False)).read_text(encoding="utf-8")
    Page(text)
    assert sections(text)


SUITES = {"data": data_rows, "parts": generalization_rows, "corruptions": robustness_rows}


@pytest.mark.parametrize("kind", SUITES)
def test_suites_with_data_have_pages_that_are_whole(tmp_path, kind):
    write_suite(tmp_path, SUITES[kind](), analyses=False)
    write_heats(tmp_path)
    text = report(tmp_path).read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    links = {attributes["href"].removeprefix("#") for tag, attributes in page.tags if tag == "a"}
    assert links <= set(page.ids)
    assert "learned" in sections(text)
    assert ("severities" in sections(text)) == (kind == "corruptions")
    tables = sum(tag == "table" and a.get("class") == "results" for tag, a in page.tags)
    assert tables == {"data": 1, "parts": 2, "corruptions": 9}[kind]
    assert "4,526 unlabelled val pictures" in text


def test_a_reference_of_all_parts_is_to_be_made_again_once(tmp_path):
    text = report(write_suite(tmp_path, generalization_rows(), analyses=False)).read_text(encoding="utf-8")
    commands = text[text.index('<section id="reproduce">') : text.index('id="provenance"')]
    assert commands.count("<h3>Pre-trained") == 1
    assert (commands.count("<h3>Fisher, exp1"), commands.count("<h3>Fisher, exp2")) == (1, 1)


def test_a_line_adapted_on_the_test_is_called_out_on_the_page(tmp_path):
    budget = DataBudget(split="test", images=64)
    rows = [row("ada", "photos", 60, 100, data_budget=budget), row("ties", "photos", 50, 100)]
    text = report(write_suite(tmp_path, rows, analyses=False)).read_text(encoding="utf-8")
    assert '<small class="loud">ADAPTED ON THE VERY TEST PICTURES</small>' in text


def test_a_suite_that_was_stopped_half_way_is_reported_as_far_as_it_went(tmp_path):
    text = report(write_suite(tmp_path, suite_rows()[:84], analyses=False)).read_text(encoding="utf-8")
    assert 'title="not measured"' in text


EVIL = "</script><script>alert('x')</script>\"'&<img src=x onerror=y>{{ 7 * 7 }}"


def test_no_text_of_a_row_becomes_markup(tmp_path):
    words = {"label": EVIL, "command": EVIL, "model": EVIL, "code": EVIL, "device": EVIL, "suite": EVIL}
    rows = [
        row("ties", EVIL, 60, 100, **words, setting={EVIL: EVIL}, recipe={EVIL: EVIL}, model_hash=EVIL),
        row("ties", EVIL, 61, 100, **words, variant="tuned", setting={"scale": 1.0}),
        row("pretrained", EVIL, 50, 100, **words, variant="reference"),
        row("expert-" + EVIL, EVIL, 50, 100, **words, variant="reference"),
        *(row("ties", EVIL, 60, 100, **words, variant="curve", setting={"scale": s}) for s in (0.0, 1.0)),
        row("e", EVIL, 60, 100, **words, corruption=EVIL + "@1", data_budget=DataBudget(split=EVIL, images=3)),
        row("e", EVIL, 60, 100, **words, part=EVIL, seen=True),
        *(row("p", EVIL, 6, 10, **words, variant="path", setting={"from": EVIL, "to": "b", "t": t}) for t in (0, 1)),
    ]
    write_suite(tmp_path, rows)
    (tmp_path / "analyses" / "cosine.json").write_text('{"names": ["<img src=x>"], "matrix": [[1]]}')
    heat = {"title": EVIL, "note": EVIL, "rows": [EVIL], "columns": [EVIL], "matrix": [[1]]}
    (tmp_path / "analyses" / "heat-x.json").write_text(json.dumps(heat))
    text = report(tmp_path).read_text(encoding="utf-8")
    page = Page(text)
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert not any(tag == "img" for tag, _ in page.tags)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "49" not in re.findall(r"onerror=y&gt;(\S*)", text)


def test_a_folder_without_rows_is_refused(tmp_path):
    with pytest.raises(RecipeError, match=r"has no rows\.jsonl"):
        report(tmp_path)
    with pytest.raises(RecipeError, match="no such folder"):
        report(tmp_path / "ghost")
    (tmp_path / "rows.jsonl").write_text("")
    with pytest.raises(RecipeError, match="holds no row of accuracy"):
        report(tmp_path)


def test_a_damaged_row_is_named_and_nothing_is_written(tmp_path):
    write_suite(tmp_path, [row()], analyses=False)
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"kind": "accuracy"}\n')
    with pytest.raises(CorruptFile, match=r"rows\.jsonl, line 2"):
        report(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_torn_last_line_is_left_out(tmp_path):
    write_suite(tmp_path, [row()], analyses=False)
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"kind": "acc')
    assert report(tmp_path).exists()


def test_a_page_that_cannot_be_written_is_said_so(tmp_path):
    write_suite(tmp_path, [row()], analyses=False)
    with pytest.raises(OutputError, match="is a folder"):
        report(tmp_path, tmp_path)
    with pytest.raises(OutputError, match="cannot be written"):
        report(tmp_path, tmp_path / "rows.jsonl" / "page.html")


def command(*words):
    app = typer.Typer()
    app.command()(cli.report)
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_the_command_prints_the_path_of_the_page(tmp_path):
    write_suite(tmp_path, [row()], analyses=False)
    assert command(tmp_path).output.splitlines()[0] == str(tmp_path / "report.html")
    assert command(tmp_path, "--quiet").output == ""
    assert f'"report": "{tmp_path / "x.html"}"' in command(tmp_path, "-o", tmp_path / "x.html", "--json").output
