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

# What the button of each block with commands copies.
COPIED = """() => [...document.querySelectorAll('.language-console pre > code')].map(code => {
    code.setAttribute('data-md-copying', '')
    const text = code.innerText
    code.removeAttribute('data-md-copying')
    return text
})"""
SCALES = """() => [...document.querySelectorAll('article img[src$=".svg"]')]
    .map(one => [one.src.split('/').pop(), one.clientWidth / one.naturalWidth])"""
# Their text has 12 to 14 pixels at their own size.
LEAST_SCALE = 0.6
EMPTY_HEADS = """() => [...document.querySelectorAll('article thead')]
    .filter(head => head.offsetHeight && !head.innerText.trim()).length"""
# What people look for, and a page that helps: one of the first three.
SEARCHES = [
    ("container has no gpu", "how-to/doctor"),
    ("queue", "how-to/any-free-gpu"),
    ("could not select device driver", "how-to/troubleshoot"),
    ("permission denied", "how-to/troubleshoot"),
    ("userns-remap", "explanation/access"),
    ("time slicing", "explanation/access"),
    ("mps", "explanation/access"),
    ("install", "how-to/install"),
    ("uninstall", "how-to/uninstall"),
    ("docker compose", "how-to/compose"),
    ("podman", "how-to/configure-engines"),
    ("cdi", "how-to/cdi"),
    ("gpus option", "how-to/gpus-option"),
    ("slurm", "how-to/slurm"),
    ("swarm", "how-to/swarm"),
    ("kubernetes", "how-to/kubernetes"),
    ("jupyterhub", "how-to/clusters"),
    ("ray", "how-to/clusters"),
    ("htcondor", "how-to/clusters"),
    ("vllm", "how-to/frameworks"),
    ("pytorch", "how-to/frameworks"),
    ("partition", "how-to/partitions"),
    ("share gpus with users", "how-to/share"),
    ("reserve", "how-to/gpu-tracker"),
    ("exclusive", "how-to/gpu-tracker"),
    ("who used what", "how-to/report"),
    ("top", "how-to/watch-gpus"),
    ("sick gpu", "how-to/service-gpus"),
    ("drain", "how-to/service-gpus"),
    ("nvidia", "how-to/from-nvidia"),
    ("unresolvable CDI devices", "how-to/troubleshoot"),
    ("--gpus all", "how-to/gpus-option"),
    ("--device amd.com/gpu=0", "how-to/cdi"),
    ("unknown or invalid runtime name: amd", "how-to/troubleshoot"),
    ("install ubuntu", "how-to/install"),
    ("docker: Error response from daemon: could not select device driver", "how-to/troubleshoot"),
    ("limit vram", "how-to/limit-gpu-memory"),
    ("roll back", "how-to/roll-back"),
    ("backup", "how-to/back-up"),
    ("pip", "how-to/install-with-pip"),
]


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
def searches(browser, address):
    """Return a function that types words into the search and returns the pages that it shows, best first."""
    page = browser.new_page(viewport=SCREEN)

    def search(words):
        page.goto(address)
        page.click("input[name=query]")
        page.keyboard.type(words)
        page.wait_for_selector(".md-search-result__item a", state="attached")
        links = page.eval_on_selector_all(
            ".md-search-result__item > a", "links => links.map(link => new URL(link.href).pathname)"
        )
        # A page, and then its sections.
        return list(dict.fromkeys(link.strip("/") for link in links))

    return search


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


@pytest.mark.parametrize(("words", "wanted"), SEARCHES)
def test_a_search_leads_to_the_page_that_helps(searches, words, wanted):
    assert wanted in searches(words)[:3]


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


def test_a_button_copies_commands_one_after_the_other(browser, address, pages):
    page = browser.new_page(viewport=SCREEN)
    copied = {}

    for path in pages:
        page.goto(f"{address}/{path}")
        copied |= {f"{path}: {text[:40]}": text for text in page.evaluate(COPIED)}

    assert len(copied) > 100
    assert {where for where, text in copied.items() if not text.strip() or "\n\n" in text or "$ " in text[:2]} == set()


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


def test_a_page_that_is_not_there_has_a_search_and_five_links(browser, address, site):
    page = browser.new_page(viewport=SCREEN)
    page.goto(f"{address}/404.html")

    links = page.eval_on_selector_all("article li a", "links => links.map(link => link.getAttribute('href'))")
    assert len(links) == 5
    assert [link for link in links if not (site / link.strip("/") / "index.html").exists()] == []
    assert page.locator("input[name=query]").count() == 1


def test_pictures_of_terminals_keep_their_colours_in_the_dark(browser, address):
    page = browser.new_page(viewport=SCREEN, color_scheme="dark")
    page.goto(address)

    filters = page.eval_on_selector_all(
        "article img", "all => all.map(one => [one.src.split('/').pop(), getComputedStyle(one).filter])"
    )

    assert dict(filters) == {
        "terminal.svg": "none",
        "top.svg": "none",
        "docker-run.svg": "invert(0.9) hue-rotate(180deg)",
    }


def test_the_text_of_pictures_can_be_read_on_a_phone(browser, address, pages):
    page = browser.new_page(viewport=PHONE)
    small = []

    for path in pages:
        page.goto(f"{address}/{path}")
        small += [f"{path}: {name}" for name, scale in page.evaluate(SCALES) if scale < LEAST_SCALE]

    assert small == []


def test_a_block_wider_than_a_phone_shows_that_it_scrolls(browser, address):
    page = browser.new_page(viewport=PHONE)
    marked = {}

    for path in ("reference/engines", "explanation/access", "how-to/install"):
        page.goto(f"{address}/{path}/", wait_until="networkidle")
        page.wait_for_timeout(500)
        marked[path] = page.eval_on_selector_all(
            ".scrolls", "all => all.map(one => getComputedStyle(one, '::before').content)"
        )

    hint = '"Scroll sideways to see all of it \u2192"'
    assert marked == {"reference/engines": [hint], "explanation/access": [hint, hint], "how-to/install": []}


def test_no_table_begins_with_an_empty_line(browser, address, pages):
    page = browser.new_page(viewport=SCREEN)
    empty = []

    for path in pages:
        page.goto(f"{address}/{path}")
        if page.evaluate(EMPTY_HEADS):
            empty.append(path)

    assert empty == []


def test_each_command_is_in_the_contents_of_its_page(browser, address):
    page = browser.new_page(viewport=SCREEN)
    page.goto(f"{address}/reference/cli/")

    links = page.eval_on_selector_all(".md-sidebar--secondary a", "links => links.map(link => link.textContent.trim())")
    assert {"amd-ctk runtime configure", "amd-ctk cdi generate", "amd-ctk gpu-tracker status"} <= set(links)


def test_the_line_that_installs_stands_above_the_fold_of_a_laptop(browser, address):
    page = browser.new_page(viewport={"width": 1366, "height": 650})
    page.goto(address)

    box = page.locator("pre:has-text('./install')").first.bounding_box()

    assert box["y"] + box["height"] < 650
