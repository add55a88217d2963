"""The page of a report: one file that needs no network; in a headless browser, where there is one."""

import base64
import contextlib
import gzip
import json
import os
import re
import shutil
from html.parser import HTMLParser

import flambeau as torch
import pytest
from flambeau.capture.report import page as pages

from . import programs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TABS = ("overview", "code", "picture-tab", "memory", "compile", "guards", "stages")


class Scripts(HTMLParser):
    """The scripts of a page by id, the tags, and every address that it names."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.addresses, self.at = {}, [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.addresses += [attributes[name] for name in ("src", "href", "action") if attributes.get(name)]
        self.at = attributes.get("id", "main") if tag == "script" else None

    def handle_data(self, text):
        if self.at:
            self.scripts[self.at] = self.scripts.get(self.at, "") + text

    def handle_endtag(self, tag):
        self.at = None


@pytest.fixture(scope="module")
def trained():
    compiled, optimizer = programs.trained()
    return torch.compiler.report(compiled), optimizer


@pytest.fixture(scope="module")
def broken():
    compiled = torch.compile(programs.broken)
    with contextlib.redirect_stdout(None):
        for n in (4, 5):
            compiled(torch.ones(n, 3))
    return torch.compiler.report(compiled)


# -- the file


def test_the_page_names_no_address(trained):
    parsed = Scripts(pages.page(trained[0]))
    assert all(address.startswith("data:") for address in parsed.addresses)
    assert not re.search(r"https?://(?!www\.w3\.org/)", pages.page(trained[0]))


def test_the_page_holds_the_report_and_its_stages(trained):
    report = trained[0]
    scripts = Scripts(pages.page(report)).scripts
    content = json.loads(scripts["data"])
    assert content["title"] == "Net" and len(content["graphs"][0]["nodes"]) == len(report.graphs[0].nodes)
    texts = json.loads(gzip.decompress(base64.b64decode(scripts["texts-0"])))
    assert (
        set(texts)
        == set(report.graphs[0].texts)
        >= {"graph.py", "joint.py", "forward.py", "backward.py", "loops.txt", "kernels.cpp"}
    )
    assert texts["loops.txt"] == report.graphs[0].texts["loops.txt"]


def test_source_that_looks_like_markup_stays_text():
    compiled = torch.compile(programs.text_like_markup)
    compiled(torch.randn(3))
    text = pages.page(torch.compiler.report(compiled))
    assert "</script><b>" not in text
    lines = json.loads(Scripts(text).scripts["data"])["sources"][0]["lines"]
    assert any(line["text"].endswith("# </script><b>") for line in lines)


def test_a_page_of_forty_eight_layers_is_small():
    """Per layer a page grows by what a layer adds: measured on two and six."""

    def size(layers):
        net = programs.Net(layers)
        compiled = torch.compile(net)
        compiled(torch.randn(4, programs.WIDTH), torch.zeros(4, dtype=torch.long)).backward()
        return len(pages.page(torch.compiler.report(compiled)))

    two, six = size(2), size(6)
    assert two + 46 * (six - two) / 4 < 10e6


def test_written_and_embedded(trained, tmp_path):
    path = trained[0].html(str(tmp_path / "deep" / "report.html"))
    with open(path, encoding="utf-8") as file:
        assert file.read() == pages.page(trained[0])
    shown = trained[0]._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and shown.count("<") == 2


# -- in a browser


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as player:
        started = player.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(browser, tmp_path):
    """A function that shows a report; no page may have an error on its console, or ask for an address."""
    problems, made = [], []

    def show(report, scheme="light"):
        page = browser.new_page(viewport={"width": 1366, "height": 768}, color_scheme=scheme)
        page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else problems.append(r.url))
        page.goto("file://" + report.html(str(tmp_path / f"report{len(made)}.html")))
        made.append(page)
        return page

    yield show
    for page in made:
        page.close()
    assert not problems


def test_every_tab_opens(opened, trained, broken):
    for report in (trained[0], broken):
        page = opened(report)
        for name in TABS:
            page.click(f'[data-tab="{name}"]')
            section = page.locator(f"#{name}")
            assert section.is_visible() and section.inner_text().strip()
            assert page.locator("section.on").count() == 1
            assert not re.search(r"undefined|NaN|\[object", section.inner_text())


def test_a_line_leads_to_operations_and_kernels_and_back(opened, trained):
    page = opened(trained[0])
    page.click('[data-tab="code"]')
    page.locator("#pane-lines .row", has_text="return x + self.down(h)").click()
    ops = page.locator("#pane-nodes .hit").all_inner_texts()
    assert len(ops) == 4 and sum(op.startswith("linear(") for op in ops) == 2
    kernels = page.locator("#pane-kernels .hit")
    assert kernels.count() >= 4
    kernels.first.locator(".head").click()
    assert "void" in kernels.first.locator("pre.code").inner_text()
    assert page.locator("#pane-lines .hit").count() >= 1
    page.locator("#pane-nodes .node", has_text="gelu(").first.click()
    assert "F.gelu" in page.locator("#pane-lines .hit").inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".hit").count() == 0


def test_the_picture_unfolds_moves_and_folds(opened, trained):
    page = opened(trained[0])
    page.click('[data-tab="picture-tab"]')
    folded = page.locator(".g-item").count()
    page.locator('[data-item="self.blocks.0"]').click()
    assert page.locator('[data-item="self.blocks.0"]').count() == 0
    assert page.locator('[data-item="self.blocks.0.norm"]').count() == 1
    while page.locator(".g-item.group").count():
        page.click('[data-act="unfold"]')
    assert page.locator(".g-item").count() == len(trained[0].graphs[0].nodes) > folded
    before = page.locator("#world").get_attribute("transform")
    page.mouse.move(300, 600)
    page.mouse.down()
    page.mouse.move(360, 640, steps=3)
    page.mouse.up()
    moved = page.locator("#world").get_attribute("transform")
    page.mouse.wheel(0, -300)
    page.wait_for_function("old => document.getElementById('world').getAttribute('transform') !== old", arg=moved)
    assert before != moved
    page.get_by_text("Fit", exact=True).click()
    page.locator(".g-item:not(.group)").first.click()
    page.get_by_text("Show in the code").click()
    assert page.locator("#pane-nodes .hit").count() == 1
    page.click('[data-tab="picture-tab"]')
    page.click('[data-act="fold"]')
    assert page.locator(".g-item").count() == folded


def test_search_finds_lines_operations_kernels_and_guards(opened, trained):
    page = opened(trained[0])
    page.keyboard.press("/")
    page.keyboard.type("gelu")
    groups = page.locator("#results .group").all_inner_texts()
    assert [group.split(" ")[0].lower() for group in groups[:2]] == ["source", "operations"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#code").is_visible() and page.locator("#pane-nodes .hit").count() >= 1
    page.fill("#search", "has no hooks self.head")
    page.keyboard.press("Enter")
    assert "self.head has no hooks" in page.locator(".guard.hit").inner_text()
    page.fill("#search", "no such words anywhere")
    assert "Nothing" in page.locator("#results").inner_text()


def test_findings_lead_to_their_lines(opened, broken):
    page = opened(broken)
    page.locator(".event", has_text="print() inside").click()
    assert 'print("between")' in page.locator("#pane-lines .hit").inner_text()
    assert page.locator("#pane-lines .row.break").count() == 2


def test_stages_are_unpacked_when_they_are_looked_at(opened, trained):
    page = opened(trained[0])
    page.click('[data-tab="stages"]')
    page.wait_for_function("document.querySelector('pre.text').textContent.includes('def forward')")
    page.locator("#stages select").nth(1).select_option("kernels.cpp")
    assert "fb_run" in page.locator("pre.text").inner_text()


def test_in_a_notebook_the_page_stands_in_a_frame(browser, trained, tmp_path):
    problems = []
    page = browser.new_page()
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    (tmp_path / "notebook.html").write_text(f"<!doctype html><p>Out[1]</p>{trained[0]._repr_html_()}", encoding="utf-8")
    page.goto(f"file://{tmp_path / 'notebook.html'}")
    frame = page.frame_locator("iframe")
    frame.locator('[data-tab="code"]').click()
    assert frame.locator("#pane-lines .row.graph").count() == 4
    page.close()
    assert not problems


def test_light_and_dark(opened, trained):
    def paper(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = opened(trained[0]), opened(trained[0], "dark")
    assert paper(light) != paper(dark)
    before = paper(light)
    light.click("#theme")
    assert paper(light) == paper(dark)
    light.click("#theme")
    assert paper(light) == before


def test_print(opened, trained, tmp_path):
    """Everything but the stages is on paper, on a light ground also where the screen is dark."""
    page = opened(trained[0], "dark")
    pdf = page.pdf(path=str(tmp_path / "report.pdf"), format="A4")
    assert pdf.startswith(b"%PDF") and os.path.getsize(tmp_path / "report.pdf") > 20_000
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    shown = [page.locator(f"#{name}").is_visible() for name in TABS]
    assert shown == [True] * 6 + [False]
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--bg')").strip() == "#fff"
