"""A page of our own in Chromium."""

from __future__ import annotations

from playwright.sync_api import sync_playwright

from browser.test_site import OPTIONS
from support.installed import engine_program

PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 25, 28)"}


def look(file, size, scheme, read):
    """Open a page; return its width, the colour of its paper, what it asked the network for, and what `read` reads."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=engine_program("chromium"), args=OPTIONS)
        page = browser.new_page(viewport=size, color_scheme=scheme)
        asked = []
        page.on("request", lambda request: asked.append(request.url))

        page.goto(file.as_uri())

        width = page.evaluate("document.documentElement.scrollWidth")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        found = read(page)
        browser.close()
    return width, paper, asked, found
