#!/usr/bin/env python3
"""dashboard.py ROOT: the gateway's dashboard for Grafana against the table of its metrics in docs/gateway-admin.md.

tests/gateway/admin.py compares that table with the running program. Each family is on the dashboard. A query asks only
for families and labels that there are, and for a counter as a rate. Mistakes made on purpose show that this can fail.
"""

import json
import pathlib
import re
import sys

TABLE = re.compile(r"^\| `(canigo_gateway_\w+)` \| (\w+) \| ([\w, ]*) \| .* \|$", re.MULTILINE)
SUFFIXES = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def check_query(text, legend, known, asked):
    for name, matchers, window in re.findall(r"\b(canigo_\w+)(\{[^}]*\})?(\[[^\]]*\])?", text):
        family = next((f for f in known for suffix in SUFFIXES[known[f][0]] if name == f + suffix), None)
        if family is None:
            yield f"the gateway has no {name}"
            continue
        asked.add(family)
        kind, labels = known[family]
        if (kind == "gauge") != (window == ""):
            yield f"{name} is a {kind}: a rate of it is {'wrong' if kind == 'gauge' else 'wanted'}"
        used = set(re.findall(r"(\w+)\s*=~?", matchers)) | set(re.findall(r"\{\{(\w+)\}\}", legend))
        for group in re.findall(r"\bby \(([^)]*)\)", text):
            used |= set(re.split(r"[,\s]+", group.strip()))
        for label in sorted(used - set(labels) - {"instance"} - ({"le"} if kind == "histogram" else set())):
            yield f"{name} has no label {label}"
        if 'instance=~"$instance"' not in matchers or ("upstream" in labels) != ('upstream=~"$upstream"' in matchers):
            yield f"{name} is not chosen by the variables that it has"


def check(dashboard, known):
    asked, ids, places = set(), set(), set()
    if dashboard["id"] is not None or dashboard["templating"]["list"][0]["type"] != "datasource":
        yield "it belongs to one Grafana, or its data source is no variable"
    for panel in dashboard["panels"]:
        title, place = panel["title"], panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        if panel["id"] in ids or cells & places or place["x"] + place["w"] > 24:
            yield f"{title}: its id or its place is another's"
        ids.add(panel["id"])
        places |= cells
        if panel["type"] == "row":
            continue
        if not panel.get("description") or not panel["targets"]:
            yield f"{title}: no description, or no query"
        for target in panel["targets"]:
            if target["datasource"] != SOURCE or panel["datasource"] != SOURCE:
                yield f"{title}: its data source is not ${{datasource}}"
            yield from (f"{title}: {w}" for w in check_query(target["expr"], target["legendFormat"], known, asked))
    for family in sorted(set(known) - asked):
        yield f"{family} is not on the dashboard"


def main(root):
    root = pathlib.Path(root)
    text = (root / "packaging/grafana/canigo-gateway.json").read_text(encoding="utf-8")
    page = (root / "docs/gateway-admin.md").read_text(encoding="utf-8")
    known = {name: (kind, labels.split(", ")) for name, kind, labels in TABLE.findall(page)}
    wrong = list(check(json.loads(text), known))
    mistakes = {"has no canigo_gateway_typo": text.replace("canigo_gateway_running", "canigo_gateway_typo"),
                "canigo_gateway_running is not on": text.replace("canigo_gateway_running", "canigo_gateway_waiting"),
                "a rate of it is wanted": text.replace("[$__rate_interval]", ""),
                "has no label colour": text.replace("by (reason)", "by (colour)"),
                "is not chosen by": text.replace('upstream=~\\"$upstream\\", ', "")}
    if not wrong:
        wrong = [f"a mistake is not found: {said}" for said, other in mistakes.items()
                 if not any(said in w for w in check(json.loads(other), known))]
    print("\n".join(wrong) or f"{len(known)} families, {len(json.loads(text)['panels'])} panels and rows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
