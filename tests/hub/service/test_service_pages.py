"""Every page of the hub's service, as HTML: what it shows, and that it works without a script."""

import re
from html.parser import HTMLParser

import pytest

PAGES = [
    "/",
    "/models",
    "/models?search=knows&sort=size",
    "/models/knows",
    "/task",
    "/task?classes=red%0Ablue&k=2&alpha=0.5",
    "/predict",
    "/predict?classes=red%0Ablue",
    "/graph",
    "/graph?search=blue",
    "/graph/colour.n.01",
    "/graph/red.n.01",
    "/submit",
    "/api",
    "/nowhere",
]
VOID = {"meta", "link", "input", "img", "br"}


class Page(HTMLParser):
    """Tags that are open, and what a strict policy or a keyboard would trip over."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.links, self.ids, self.labels, self.fields = [], [], [], [], set(), []
        self.feed(text)
        if self.open:
            self.faults.append(f"never closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        words = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        self.faults += [f"inline {name} in {tag}" for name in words if name == "style" or name.startswith("on")]
        if tag == "style" or (tag == "script" and "src" not in words):
            self.faults.append(f"inline {tag}")
        if tag == "img" and ("alt" not in words):
            self.faults.append("a picture without alt")
        if "id" in words:
            self.ids.append(words["id"])
        if tag == "label":
            self.labels.add(words.get("for"))
        if tag in ("input", "textarea", "select"):
            self.fields.append(words["id"])
        self.links += [words[name] for name in ("href", "src", "action") if name in words]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> where none is open")


@pytest.mark.parametrize("url", PAGES)
def test_a_page_is_whole_has_nothing_inline_and_labels_every_field(client, url):
    answer = client.get(url)
    page = Page(answer.text)
    assert answer.status_code == (404 if url == "/nowhere" else 200)
    assert page.faults == []
    assert len(page.ids) == len(set(page.ids))
    assert set(page.fields) <= page.labels
    assert "main" in page.ids
    assert page.links[0].startswith("/")


def test_every_link_leads_somewhere_here(client):
    links = {link for url in PAGES[:-1] for link in Page(client.get(url).text).links}
    assert len(links) > 30
    for link in sorted(links):
        if not link.startswith(("#", "data:")):
            assert link.startswith("/"), link
            assert client.get(link).status_code == 200, link


def test_the_home_page_shows_the_hub_and_asks_for_a_task(client):
    text = client.get("/").text
    assert re.search(r"<dt>Models</dt><dd>2</dd>", text)
    assert re.search(r"<dt>Nodes of the graph</dt><dd>4</dd>", text)
    assert re.search(r"<dt>Pictures</dt><dd>24</dd>", text)
    assert '<form action="/task" method="get"' in text


def test_models_are_searched_and_sorted(client):
    def names(url):
        return re.findall(r'<h2><a href="/models/(\w+)">', client.get(url).text)

    assert names("/models") == ["guesses", "knows"]
    assert names("/models?sort=strength") == ["knows", "guesses"]
    assert names("/models?sort=added") == ["guesses", "knows"]
    assert names("/models?search=kno") == ["knows"]
    assert "No model has all of these words" in client.get("/models?search=zebra").text
    assert client.get("/models?sort=colour").status_code == 422


def test_a_models_card_shows_its_strengths_by_style_and_its_best_nodes_with_pictures(client):
    text = client.get("/models/knows").text
    assert "100.0<small> %</small>" in text
    assert re.findall(r'<span class="who">(photo|sketch)</span>', text) == ["photo", "sketch"]
    best = text[text.index("Knows best") : text.index("Knows least")]
    assert re.findall(r'/graph/(\w+)\.n\.01"', best) == ["red", "green", "blue"]
    assert best.count("/pictures/") == 9


def test_a_models_card_tells_no_path_of_the_machine(client, model_folders):
    for url in ("/models/knows", "/api/v1/models/knows", "/api/v1/models"):
        text = client.get(url).text
        assert str(model_folders["knows"].parent) not in text
    assert "<b>From</b>" in client.get("/models/knows").text


def test_a_task_gives_the_ranking_the_choice_and_why(client):
    text = client.get("/task?classes=red%0Ablue&nodes=2").text
    assert "1 of 2 models" in text
    ranking = text[text.index('id="rank"') : text.index('id="why"')]
    assert re.findall(r'href="/models/(\w+)"', ranking) == ["knows", "guesses"]
    assert "2 classes" in ranking
    why = text[text.index('id="why"') :]
    assert re.findall(r"<summary><b>(\w+)</b> <span>(\w+)</span>", why) == [("red", "knows"), ("blue", "knows")]
    assert why.count("/pictures/") == 2 * 2 * 4  # two classes, two nodes each, four thumbnails
    assert re.search(r'<th scope="row" class="chosen">knows</th><td class="v10 strong own">100</td>', why)


def test_classes_may_stand_in_one_line_with_commas(client):
    assert "<b>Classes</b> 3<" in client.get("/task?classes=red, green,blue").text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("classes=red&k=0", "k, the models for each class, is from 1 to 20"),
        ("classes=red&alpha=2", "alpha is from 0"),
        ("classes=red%0Ared", "name every class once; twice: red"),
        ("classes=red&nodes=99", "nodes, those kept for each class"),
        ("classes=red&k=many", "k: "),
        ("classes=" + "x" * 201, "is longer than 200 letters"),
        ("classes=" + "%0A".join(f"c{n}" for n in range(1001)), "more than the 1,000"),
    ],
)
def test_a_wrong_task_is_told_what_is_wrong(client, query, said):
    answer = client.get(f"/task?{query}")
    assert answer.status_code == 422
    assert said in answer.text


def test_words_of_the_task_are_escaped(client):
    evil = "<script>alert(1)</script>"
    for url in ("/task?classes=red&domain=", "/predict?classes=", "/graph?search=", "/models?search="):
        text = client.get(url + evil).text
        assert evil not in text
        assert "&lt;script&gt;" in text


def test_a_node_is_drawn_between_its_hypernyms_and_siblings_with_links(client):
    text = client.get("/graph/green.n.01").text
    for kind in ("sideways", "indented"):
        tree = re.search(rf'<svg[^>]*class="tree {kind}".*?</svg>', text, re.DOTALL)[0]
        links = re.findall(r'<a href="(/graph/[^"]+)" class="([^"]+)"', tree)
        assert ("/graph/green.n.01", "leaf own") in links
        assert ("/graph/colour.n.01", "leaf") in links
    assert re.search(
        r'aria-label="The way from the root"><a href="/graph">Graph</a> <a href="/graph/colour.n.01">', text
    )
    assert text.count('title="made up green') == 8


def test_a_roots_page_lists_its_children(client):
    text = client.get("/graph/colour.n.01").text
    assert "<b>Not in any training</b>" in text
    assert "Kinds of colour" in text
    assert "3 below" in text


def test_what_is_not_there_says_so_and_suggests(client):
    answer = client.get("/models/know")
    assert answer.status_code == 404
    assert "knows" in answer.text
    assert client.get("/graph/reed.n.01").status_code == 404
    assert client.get("/jobs/77").status_code == 404
    assert client.get("/jobs/x").status_code == 422
    for number in (10**22, 2**63, 2**31, 0, -1):
        assert client.get(f"/jobs/{number}").status_code == 404
        assert client.get(f"/api/v1/jobs/{number}").status_code == 404


@pytest.mark.parametrize("url", ["/", "/models/knows", "/task", "/nowhere", "/pictures/3.webp", "/api/v1/models"])
def test_head_has_the_headers_of_get_and_no_body(client, url):
    whole, head = client.get(url), client.head(url)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    for name in ("Content-Type", "Content-Length", "ETag"):
        assert head.headers.get(name) == whole.headers.get(name)


def test_a_page_that_did_not_change_is_not_sent_again(client):
    first = client.get("/models/knows")
    again = client.get("/models/knows", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["Cache-Control"] == "no-cache"


def test_thumbnails_have_a_tag_and_may_be_kept(client):
    first = client.get("/pictures/3.webp")
    assert first.headers["Content-Type"] == "image/webp"
    assert "max-age=86400" in first.headers["Cache-Control"]
    again = client.get("/pictures/3.webp", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert client.get("/pictures/4.webp").headers["ETag"] != first.headers["ETag"]
    assert client.get("/pictures/9999.webp").status_code == 404
    assert client.get("/pictures/-1.webp").status_code == 404


def test_styles_are_shared_with_the_reports(client):
    house = client.get("/static/house.css").text
    assert "--accent:#0a5fa5" in house
    assert "{{" not in house
    assert client.get("/static/../app.py").status_code == 404
    assert client.get("/static/%2e%2e/app.py").status_code == 404


def test_many_models_come_in_pages(client, monkeypatch):
    monkeypatch.setattr("smelt.hub.service.pages._PER_PAGE", 1)
    first = client.get("/models").text
    assert re.findall(r'<h2><a href="/models/(\w+)">', first) == ["guesses"]
    link = re.search(r'href="([^"]+)" rel="next"', first)[1].replace("&amp;", "&")
    second = client.get(link).text
    assert re.findall(r'<h2><a href="/models/(\w+)">', second) == ["knows"]
    assert "2 of 2" in second
    assert client.get("/models?at=99").text.count('rel="prev"') == 1


def test_a_walk_begins_at_the_broadest_meanings_or_at_what_was_searched(client):
    def nodes(url):
        return re.findall(r'<li><a href="/graph/(\w+)\.n\.01">', client.get(url).text)

    assert nodes("/graph") == ["colour"]
    assert nodes("/graph?search=blue") == ["blue"]
    assert nodes("/graph?search=zebra") == []
