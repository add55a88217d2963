"""Writes docs/report.png and its sisters: a small GPT is trained, its report drawn, and the page photographed.

    python docs/make_report.py [FOLDER]

Needs the packages playwright and pillow, and a chromium. FOLDER (default: docs) also receives report.html unless it is docs.
"""

import importlib.util
import pathlib
import shutil
import sys
import tempfile

import flambeau as torch

HERE = pathlib.Path(__file__).resolve().parent
VIEW = {"width": 1440, "height": 860}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def train():
    spec = importlib.util.spec_from_file_location("gpt", HERE.parent / "examples" / "gpt.py")
    gpt = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gpt)
    torch.manual_seed(gpt.SEED)
    model = gpt.GPT()
    compiled, optimizer = torch.compile(model), torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, gpt.VOCABULARY, (gpt.BATCH, gpt.CONTEXT + 1))
    for _ in range(4):
        optimizer.zero_grad()
        compiled(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()).backward()
        optimizer.step()
    return compiled, optimizer


def photograph(page_file, folder):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport=VIEW, color_scheme=scheme)
            page.goto(f"file://{page_file}")
            SHOTS[scheme](page, folder)
        browser.close()


def light(page, folder):
    page.click('[data-tab="code"]')
    page.locator("#pane-nodes .node", has_text="gelu(").first.click()
    page.locator("#pane-kernels .hit .head").nth(0).click()
    shoot(page, folder / "report.png")
    page.click('[data-tab="overview"]')
    shoot(page, folder / "report_overview.png")


def dark(page, folder):
    page.click('[data-tab="memory"]')
    shoot(page, folder / "report_memory.png")
    page.click('[data-tab="picture-tab"]')
    for name in ("blocks", "blocks.0", "blocks.0.attention"):
        page.locator(f'[data-item="self.{name}"]').dispatch_event("click")
    page.get_by_text("Fit", exact=True).click()
    shoot(page, folder / "report_graph.png")


def shoot(page, path):
    """With 256 colours: a third of the bytes."""
    from PIL import Image

    page.screenshot(path=path)
    few = Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


SHOTS = {"light": light, "dark": dark}


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    compiled, optimizer = train()
    with tempfile.TemporaryDirectory() as temporary:
        kept = temporary if folder == HERE else folder
        photograph(torch.compiler.report(compiled).html(str(pathlib.Path(kept).resolve() / "report.html")), folder)
    del optimizer


if __name__ == "__main__":
    main()
