"""Results show themselves: the same blocks as text and as HTML, with nothing cut and nothing that could run."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from smelt.display.blocks import Block, Cell, Code, Facts, Lines, Table
from smelt.display.html import as_html
from smelt.display.shades import full_shade
from smelt.display.shown import Shown, ShownList
from smelt.display.text import as_text

TABLE = Table(["task", "accuracy %"], [["photos", "75.0"], ["average", "75.0"]], "a title", rules=[1])


class Both(Shown):
    def shown(self) -> list[Block]:
        return [Facts([("stages", "ties"), ("", "dare")]), TABLE, Lines(["next: go on"]), Code("pool:\n  base: b\n")]


class Sums(ShownList[int]):
    def shown(self) -> list[Block]:
        return [Lines([str(sum(self))])]


@dataclass(frozen=True)
class Sum(Shown):
    one: int
    other: int

    def shown(self) -> list[Block]:
        return [Lines([str(self.one + self.other)])]


def test_a_result_as_text() -> None:
    assert str(Both()).split("\n") == [
        "stages  ties",
        "        dare",
        "",
        "a title",
        "task     accuracy %",
        "───────────────────",
        "photos         75.0",
        "",
        "average        75.0",
        "",
        "next: go on",
        "",
        "pool:",
        "  base: b",
    ]


def test_a_result_as_html_has_the_same_texts() -> None:
    page = Both()._repr_html_()
    assert "<caption>a title</caption>" in page
    assert '<tr><td class="l">photos</td><td>75.0</td></tr>' in page
    assert '<tr class="rule"><td class="l">average</td>' in page
    assert '<th class="l">stages</th><td class="l">ties</td>' in page
    assert "<p>next: go on</p><pre>pool:\n  base: b</pre>" in page


def test_nothing_in_a_name_becomes_a_tag() -> None:
    evil = "<script>alert('x')</script>"
    page = as_html(
        [Table([evil], [[evil], [Cell(evil, best=True)]], evil), Facts([(evil, evil)]), Lines([evil]), Code(evil)]
    )
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 8


def test_markup_of_the_terminal_is_only_text() -> None:
    assert "[red]x[/red]" in as_text([Table(["[bold]"], [["[red]x[/red]"]]), Lines(["[red]x[/red]"])])


def test_numbers_are_never_cut_and_words_are_folded_in_little_room() -> None:
    table = Table(["what it is", "an interval"], [["a long description of it", "12.345 to 67.890"]])
    lines = as_text([table], 20).split("\n")
    assert any(line.endswith("12.345 to 67.890") for line in lines)
    assert "".join("".join(line[:16] for line in lines if "─" not in line).split()) == "whatitisalongdescriptionofit"
    assert as_text([table], 80) == as_text([table])


def test_a_listing_is_cut_at_the_end_of_its_lines_only() -> None:
    table = Table(["name", "about"], [["a-model", "words " * 40]], cut=True, left=(0, 1))
    (line,) = [line for line in as_text([table], 40).split("\n") if "a-model" in line]
    assert line == "a-model  words words words words words…"
    assert max(map(len, as_text([table]).split("\n"))) == 120


def test_a_list_of_results_stays_one_when_another_is_added() -> None:
    both = Sums([1, 2]) + Sums([3])
    assert (str(both), both) == ("6", [1, 2, 3])
    assert repr(both) == "[1, 2, 3]"


def test_ipython_is_given_the_text_and_a_page_the_html() -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    for result in (Sums([1, 2]), Sum(1, 2)):
        data, _ = formatters.DisplayFormatter().format(result)
        assert data["text/plain"] == "3"
        assert data["text/html"].endswith("<p>3</p></div>")


def test_a_table_in_a_notebook_is_written_and_not_shown_by_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "photos         75.0" in as_text([TABLE])


def test_zero_has_no_shade_and_the_sign_chooses_the_colour() -> None:
    page = as_html([Table(["", "a"], [["b", Cell("0.00", 0.0)], ["c", Cell("1.00", 1.0)], ["d", Cell("-0.5", -0.5)]])])
    assert "<td>0.00</td>" in page
    assert '<td style="background:rgba(0,114,178,0.65)">1.00</td>' in page
    assert '<td style="background:rgba(213,94,0,0.325)">-0.5</td>' in page


@pytest.mark.parametrize(
    ("values", "full"), [([], 0.25), ([0.02], 0.25), ([-0.3, 0.1], 0.5), ([0.51], 1.0), ([1.5], 1.0)]
)
def test_shades_are_full_at_a_round_number(values: list[float], full: float) -> None:
    assert full_shade(values) == full


def test_facts_are_printed_without_loading_rich() -> None:
    code = """
import sys
from smelt.display.blocks import Facts
from smelt.display.text import print_blocks
print_blocks([Facts([("a", "b")])])
assert "rich" not in sys.modules
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "a  b\n"
