#!/usr/bin/env python3
"""look.py SITE [PICTURES]: looks at a built site in a browser, as a file, at the width of a telephone and of a desk.

No page may be wider than its window, none may report an error, and the search must find what is typed. On a desk every
table of the reference is seen whole. With PICTURES some pages are kept there as they look. It needs chromedriver and
Chromium.
"""

import base64
import json
import pathlib
import subprocess
import sys
import time
import urllib.request

WIDTHS = (390, 1300)
# Pages to keep a picture of, and what is typed into the search and on which page it is to be found.
PICTURED = ["index.html", "tutorial.html", "install.html", "tasks/index.html", "policies.html"]
SEARCHES = {"bulkhead": "index.html", "find_package": "install.html", "deadline_unreachable": "troubleshooting.html"}
WIDER = """const all = document.documentElement;
if (all.scrollWidth <= all.clientWidth) return null;
const right = e => e.getBoundingClientRect().right;
const wide = [...document.body.querySelectorAll('*')].filter(e => right(e) > all.clientWidth + 1);
return all.scrollWidth + ' of ' + all.clientWidth + ': '
  + wide.slice(0, 3).map(e => e.tagName + '.' + e.className).join(', ');"""

HIDDEN = """const frames = [...document.querySelectorAll('.md-typeset__scrollwrap')];
return frames.filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => e.scrollWidth + ' of ' + e.clientWidth + ', ' + e.querySelector('td').textContent);"""


class Browser:
    """A session of WebDriver, https://www.w3.org/TR/webdriver2/."""

    def __init__(self, width):
        for _ in range(10):  # it takes a port of IPv4, and ends if that of IPv6 with the same number is in use
            self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
            line = next((line for line in self.driver.stdout if "successfully on port" in line), None)
            if line:
                break
            self.driver.wait()
        self.url = f"http://127.0.0.1:{line.split('on port ')[1].strip().rstrip('.')}/session"
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
                   "mobileEmulation": {"deviceMetrics": {"width": width, "height": 900, "pixelRatio": 1}}}
        answer = self.ask("POST", "", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.url += "/" + answer["sessionId"]

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return json.load(opener.open(request, timeout=120))["value"]

    def open(self, path):
        self.ask("POST", "/url", {"url": path.resolve().as_uri()})

    def run(self, script):
        return self.ask("POST", "/execute/sync", {"script": script, "args": []})

    def element(self, selector):
        return next(iter(self.ask("POST", "/element", {"using": "css selector", "value": selector}).values()))

    def picture(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.ask("GET", "/screenshot")))

    def complaints(self):
        return [entry["message"] for entry in self.ask("POST", "/se/log", {"type": "browser"})
                if entry["level"] == "SEVERE"]

    def close(self):
        try:
            self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


def search(browser, site, words, page):
    """Types `words` into the search of the first page, and waits for a result on `page`. Returns what is wrong."""
    browser.open(site / "index.html")
    browser.run("document.querySelector('[for=__search]')?.click()")
    field = browser.element("input.md-search__input")
    end = time.monotonic() + 60
    while not browser.run("return document.querySelector('input.md-search__input').offsetWidth > 0"):
        assert time.monotonic() < end, "the search does not open"
        time.sleep(0.1)
    browser.ask("POST", f"/element/{field}/value", {"text": words})
    found = []
    while time.monotonic() < end:
        found = browser.run("return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)")
        if any(f"/{page}" in link for link in found):
            return None
        time.sleep(0.2)
    return f"the search for {words!r} finds {found[:5]} and not {page}"


def look(site, width, pictures):
    browser = Browser(width)
    try:
        for path in sorted(site.rglob("*.html")):
            name = path.relative_to(site).as_posix()
            if name == "404.html":
                continue  # for a server that has the site at its root
            browser.open(path)
            if wider := browser.run(WIDER):
                yield f"{name} at {width}: wider than the window: {wider}"
            if name.startswith("reference/") and width == WIDTHS[-1] and (hidden := browser.run(HIDDEN)):
                yield f"{name} at {width}: tables that are wider than the page: {hidden}"
            for complaint in browser.complaints():
                yield f"{name} at {width}: {complaint}"
            if pictures and name in PICTURED:
                browser.picture(pictures / f"{name.replace('/', '-')}-{width}.png")
        for words, page in SEARCHES.items():
            if wrong := search(browser, site, words, page):
                yield f"at {width}: {wrong}"
            if pictures:
                browser.picture(pictures / f"search-{words}-{width}.png")
    finally:
        browser.close()


def main(site, pictures=None):
    wrong = [e for width in WIDTHS
             for e in look(pathlib.Path(site), width, pathlib.Path(pictures) if pictures else None)]
    print("\n".join(wrong) or f"it looks right at {' and '.join(str(w) for w in WIDTHS)} pixels, and is searched")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
