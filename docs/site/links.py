#!/usr/bin/env python3
"""links.py SITE: each link, anchor and picture of a built site is there, and no page asks another server.

A page may link to another site, but must load nothing from one: no script, style, font or picture.
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse

LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "object": "data"}
OUTSIDE = re.compile(r"(https?:)?//")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[k] for k in ("id", "name") if attrs.get(k)}
        if tag == "a" and attrs.get("href"):
            self.links.append((self.getpos()[0], attrs["href"]))
        if tag in LOADS and attrs.get(LOADS[tag]) and attrs.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append((self.getpos()[0], attrs[LOADS[tag]]))


def errors(site):
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # for a server that has the site at its root
        name = path.relative_to(site)
        for line, target in page.loads:
            if OUTSIDE.match(target):
                yield f"{name}:{line}: loads {target}"
        for line, target in page.links + page.loads:
            if OUTSIDE.match(target) or re.match(r"(mailto|data|javascript):", target):
                continue
            file, _, anchor = target.partition("#")
            wanted = (path.parent / urllib.parse.unquote(file.partition("?")[0])).resolve() if file else path
            if wanted.is_dir():
                yield f"{name}:{line}: {target} is a folder, which a browser lists if there is no server"
            elif not wanted.exists():
                yield f"{name}:{line}: there is no {target}"
            elif anchor and wanted in pages and urllib.parse.unquote(anchor) not in pages[wanted].ids:
                yield f"{name}:{line}: there is no anchor {target}"
    for path in sorted(site.rglob("*.css")):
        for target in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {target}"


def main(site):
    site = pathlib.Path(site).resolve()
    found = list(errors(site))
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages, and each link leads to something")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
