"""The documentation as a browser shows it: on a phone and on a screen, light and dark, with nothing from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from support.installed import engine_program

pytestmark = [pytest.mark.e2e, pytest.mark.site]

CHECKOUT = Path(__file__).resolve().parents[2]
FORGE = "https://forge.invalid/amd"
PHONE = {"width": 390, "height": 844}
SCREEN = {"width": 1280, "height": 800}
# Nothing of the browser's own calls home; root may not use its sandbox.
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
# Blocks of sentences whose text is wider than what is shown of it.
CUT = """() => [...document.querySelectorAll('.language-text pre > code')]
    .filter(code => code.scrollWidth > code.clientWidth + 1).map(code => code.textContent.slice(0, 60))"""


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing of each request."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the directory of the site."""
    directory = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", directory]
    subprocess.run(words, cwd=CHECKOUT, env={**os.environ, "AMD_CTK_FORGE": FORGE}, check=True)
    return directory


@pytest.fixture(scope="module")
def address(site):
    """Serve the site on the loopback address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=engine_program("chromium"), args=OPTIONS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(site):
    """Return the paths of all pages."""
    found = sorted(f"{page.parent.relative_to(site)}/" for page in site.rglob("index.html"))
    assert len(found) > 40
    return found


@pytest.mark.parametrize("size", [PHONE, SCREEN], ids=["phone", "screen"])
def test_no_page_scrolls_sideways_and_no_sentence_is_cut(browser, address, pages, size):
    page = browser.new_page(viewport=size)
    wide, cut = [], []

    for path in pages:
        page.goto(f"{address}/{path}")
        if page.evaluate("document.documentElement.scrollWidth") > size["width"]:
            wide.append(path)
        cut += [f"{path}: {text}" for text in page.evaluate(CUT)]

    assert (wide, cut) == ([], [])


def test_no_page_loads_anything_from_elsewhere(browser, address, pages):
    page = browser.new_page(viewport=SCREEN)
    asked = set()
    page.on("request", lambda request: asked.add(request.url))

    for path in pages:
        page.goto(f"{address}/{path}", wait_until="networkidle")

    assert {url for url in asked if not url.startswith((address, "data:", "blob:"))} == set()


def test_search_finds_a_page_by_a_word_in_it(browser, address):
    page = browser.new_page(viewport=SCREEN)
    page.goto(address)

    page.click("input[name=query]")
    page.keyboard.type("userns-remap")

    page.wait_for_selector(".md-search-result__item a[href*='/how-to/run-containers/']", state="attached")


def test_the_reader_chooses_light_or_dark(browser, address):
    page = browser.new_page(viewport=SCREEN, color_scheme="dark")
    page.goto(address)
    scheme = "document.body.getAttribute('data-md-color-scheme')"
    assert page.evaluate(scheme) == "slate"

    page.click("label[title='Switch to light mode']")

    assert page.evaluate(scheme) == "default"


def test_a_command_has_a_button_that_copies_it(browser, address):
    page = browser.new_page(viewport=SCREEN)
    page.goto(f"{address}/how-to/install/")

    # Made when it comes into view.
    page.wait_for_selector(".language-console button[title='Copy to clipboard']")


def test_the_button_copies_commands_without_prompt_and_output(browser, address):
    context = browser.new_context(viewport=SCREEN, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{address}/how-to/install/")

    page.locator("pre:has-text('amd-ctk gpu list') button[title='Copy to clipboard']").first.click()
    page.wait_for_selector(".md-dialog[data-md-component=dialog] >> text=Copied to clipboard")

    assert page.evaluate("navigator.clipboard.readText()").strip() == "amd-ctk gpu list"
    context.close()


def test_tabs_lead_to_the_five_parts_of_the_site(browser, address):
    page = browser.new_page(viewport=SCREEN)
    page.goto(address)

    tabs = page.eval_on_selector_all(".md-tabs__link", "links => links.map(link => link.textContent.trim())")
    assert tabs == ["Start", "Guides", "Reference", "Understand", "Maintain"]


def test_a_page_leads_to_its_source_and_to_its_issues(browser, address):
    page = browser.new_page(viewport=SCREEN)
    page.goto(f"{address}/how-to/install/")

    page.wait_for_selector(f"a[href='{FORGE}/edit/main/docs/how-to/install.md']", state="attached")
    page.wait_for_selector(f"a[href='{FORGE}/issues/new?title=how-to/install.md']")


def test_every_page_says_of_which_version_it_is(browser, address):
    page = browser.new_page(viewport=SCREEN)
    page.goto(f"{address}/reference/cli/")

    version = (CHECKOUT / "VERSION").read_text(encoding="utf-8").strip()
    assert f"Version {version}." in page.inner_text(".md-copyright")


def test_each_command_is_in_the_contents_of_its_page(browser, address):
    page = browser.new_page(viewport=SCREEN)
    page.goto(f"{address}/reference/cli/")

    links = page.eval_on_selector_all(".md-sidebar--secondary a", "links => links.map(link => link.textContent.trim())")
    assert {"amd-ctk runtime configure", "amd-ctk cdi generate", "amd-ctk gpu-tracker status"} <= set(links)
