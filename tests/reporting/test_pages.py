"""A line of work is a set of pages of its own: the room shows what they give, and knows none of them."""

import re
from pathlib import Path

import pytest

import smelt.reporting
from made_up_suite import row
from smelt.reporting.pages import PageSection, ReportView
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.lines import LineReader
from smelt.reporting.write import write_report

ROOM = Path(smelt.reporting.__file__).parent


class SongReader(LineReader):
    unit = "song"


class SongPages(PlainPages):
    reader = SongReader()

    def __init__(self, templates):
        self.templates = templates

    def own_sections(self, view, sheets):
        content = {"longest": view.own}
        return [PageSection("songs.html.jinja", content, (("songs", "Songs"),) if view.own else ())]


@pytest.fixture
def write(tmp_path):
    (tmp_path / "songs.html.jinja").write_text('<section id="songs"><p>{{ longest }}</p></section>\n')

    def text(own):
        rows = (row("ties", "photos", 60, 100), row("magmax", "photos", 50, 100))
        page = write_report(tmp_path / "page.html", SongPages(tmp_path), ReportView(rows, own=own))
        return page.read_text(encoding="utf-8")

    return text


def test_a_section_of_its_own_stands_after_the_tables_with_a_link_and_is_escaped(write):
    text = write("<7 min>")
    assert '<a href="#songs">Songs</a>' in text
    assert text.index('id="results"') < text.index("<p>&lt;7 min&gt;</p>") < text.index('id="methods"')


def test_a_section_without_links_is_left_out(write):
    text = write("")
    assert 'id="results"' in text
    assert "songs" not in re.sub(r"test songs|same songs", "", text)


def test_what_data_is_counted_in_is_said_everywhere(write):
    text = write("")
    assert "test songs of 1 task" in text
    assert "on the same songs" in text
    assert "picture" not in re.sub(r"on small pictures", "", text)


def test_the_room_names_no_line_of_work():
    words = re.compile(r"\b(is_hub|hub|neulig|mergebench|uq-?merge|severity|oracle)\b", re.IGNORECASE)
    files = [path for path in ROOM.rglob("*") if path.suffix in (".py", ".jinja") and "style" not in path.name]
    found = {path.name: words.findall(path.read_text(encoding="utf-8")) for path in files}
    assert {name: some for name, some in found.items() if some} == {}
