#!/usr/bin/env python3
"""dashboard.py ROOT: the exporter's families against the dashboard and the table that show them.

- packaging/grafana/canigo.json is a dashboard of Grafana that asks only for what the exporter has: its families, with
  their suffixes and labels, a counter as a rate, through a data source that is a variable.
- Each family is on the dashboard, or in LEFT_OUT with the reason.
- docs/metrics.md names each family with its type, its labels and its help text, and no others.

Mistakes that are made on purpose show, in the same run, that each of these can fail.
"""

import copy
import json
import pathlib
import re
import sys

LEFT_OUT = {
    "canigo_pool_attempts_total": "a series for each name of a task; the pool's outcomes are there",
    "canigo_pool_submitted_total": "in the long run it is the sum of the outcomes",
    "canigo_flow_weight": "it is what the program said",
    "canigo_client_answered_total": "the same as canigo_client_sent_total, but for what is in flight",
}

ROWS = ["Limits", "Flows", "Pools", "Policies", "Redis", "HTTP", "Event loops", "Durable jobs"]
SUFFIXES = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
TABLE = re.compile(r"^\| `(canigo_\w+)` \| (\w+) \| ([\w, ]*) \| (.*) \|$", re.MULTILINE)


def argument_list(text, start):
    """The text between the parenthesis at `start` and its partner."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1:at]
    raise ValueError("no closing parenthesis")


def families(source):
    """{name: (type, labels, help)} of what the exporter's source shows."""
    found = {}
    for body in source.split("\n}\n"):
        own = re.search(r"const labels l(\{.*?\});", body, re.DOTALL)
        for call in re.finditer(r"\b(?:f\.(counter|gauge|histogram)|(show_ends))(?=\()", body):
            arguments = argument_list(body, call.end())
            texts = re.findall(r'"((?:[^"\\]|\\.)*)"', arguments)
            if not texts or not texts[0].startswith("canigo_"):
                continue  # what show_ends() itself says
            if call.group(2):
                labels = ["name", "outcome"]
            else:
                labels = re.findall(r'\{"(\w+)", ', arguments) or re.findall(r'\{"(\w+)", ', own.group(1))
            if call.group(1) == "histogram":
                labels = labels + ["le"]
            shown = (call.group(1) or "counter", tuple(labels), texts[1])
            if found.setdefault(texts[0], shown) != shown:
                sys.exit(f"{texts[0]} is shown in two ways: {shown} and {found[texts[0]]}")
    literals = set(re.findall(r'"(canigo_\w+)"', source))
    if literals != set(found):
        sys.exit(f"dashboard.py does not understand how the exporter shows {literals ^ set(found)}")
    return found


def panels(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def family_of(name, known):
    return next((f for f in known for suffix in SUFFIXES[known[f][0]] if name == f + suffix), None)


def check_expression(text, legend, known):
    """What is wrong with a query, and the families that it asks for."""
    wrong, asked = [], set()
    for found in re.finditer(r"\b(canigo_\w+)(\{[^}]*\})?(\[[^\]]*\])?", text):
        name, matchers, window = found.groups()
        family = family_of(name, known)
        if family is None:
            wrong.append(f"the exporter has no {name}")
            continue
        asked.add(family)
        kind, labels, _ = known[family]
        if (kind == "gauge") != (window is None):
            wrong.append(f"{name} is a {kind}: a rate of it is {'wrong' if kind == 'gauge' else 'wanted'}")
        used = set(re.findall(r"(\w+)\s*[=!]~?", matchers or ""))
        for group in re.findall(r"\bby \(([^)]*)\)", text):
            used |= set(re.split(r"[,\s]+", group.strip()))
        for label in sorted(used - set(labels) - {"instance"}):
            wrong.append(f"{name} has no label {label}")
        shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
        for label in sorted(shown - set(labels) - {"instance"}):
            wrong.append(f"{name} has no label {label} for its legend")
        if 'name=~"$name"' not in (matchers or "") or 'instance=~"$instance"' not in (matchers or ""):
            wrong.append(f"{name} is not chosen by $name and $instance")
        if name.endswith("_bucket") and "histogram_quantile(" in text and "le" not in used:
            wrong.append(f"{name} loses its label le")
    if not asked and not wrong:
        wrong.append("asks for nothing of the exporter")
    return wrong, asked


def check_dashboard(dashboard, known):
    datasource = {"type": "prometheus", "uid": "${datasource}"}
    variables = {v["name"]: v for v in dashboard["templating"]["list"]}
    if variables.get("datasource", {}).get("type") != "datasource":
        yield "the data source is no variable"
    if dashboard.get("id") is not None:
        yield "it has the id that one Grafana gave it"
    rows = [p["title"] for p in dashboard["panels"] if p["type"] == "row"]
    if rows != ROWS:
        yield f"its rows are {rows}"
    ids, places, asked = set(), set(), set()
    for panel in panels(dashboard):
        title = panel["title"]
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        if panel["id"] in ids or cells & places or place["x"] + place["w"] > 24:
            yield f"{title}: its id or its place is another's"
        ids.add(panel["id"])
        places |= cells
        if panel["type"] == "row":
            continue
        if not panel.get("description"):
            yield f"{title}: no description"
        if not panel["targets"] or len({t["refId"] for t in panel["targets"]}) < len(panel["targets"]):
            yield f"{title}: no query, or two of one name"
        for target in panel["targets"]:
            for owner in (panel, target):
                if owner.get("datasource") != datasource:
                    yield f"{title}: its data source is not ${{datasource}}"
            wrong, families_asked = check_expression(target["expr"], target["legendFormat"], known)
            asked |= families_asked
            yield from (f"{title}: {w}" for w in wrong)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query" and variable["datasource"] != datasource:
            yield f"${variable['name']}: its data source is not ${{datasource}}"
    for family in sorted(set(known) - asked - set(LEFT_OUT)):
        yield f"{family} is not on the dashboard; show it, or say in LEFT_OUT why not"
    for family in sorted(set(LEFT_OUT) & asked) + sorted(set(LEFT_OUT) - set(known)):
        yield f"{family} is in LEFT_OUT for nothing"


def check_table(page, known):
    shown = {}
    for name, kind, labels, text in TABLE.findall(page):
        if name in shown:
            yield f"docs/metrics.md has {name} twice"
        shown[name] = (kind, tuple(filter(None, labels.split(", "))), text)
    for name in sorted(set(known) | set(shown)):
        kind, labels, text = known.get(name, (None, (), None))
        wanted = (kind, tuple(label for label in labels if label != "le"), text)
        if name not in known:
            yield f"docs/metrics.md has {name}, and the exporter has not"
        elif name not in shown:
            yield f"docs/metrics.md lacks: | `{name}` | {kind} | {', '.join(wanted[1])} | {text} |"
        elif shown[name] != wanted:
            yield f"docs/metrics.md has of {name} {shown[name]}, the exporter {wanted}"


def check_help(known):
    for name, (kind, _, text) in sorted(known.items()):
        if not text.endswith(".") or not text[0].isupper() and not text[0].isdigit():
            yield f"{name}: its help text is no sentence: {text}"
        if (kind == "counter") != name.endswith("_total"):
            yield f"{name} is a {kind}"


def find(dashboard, title):
    return next(p for p in panels(dashboard) if p["title"] == title)


def mistakes(dashboard, page, known):
    """Each with what is to be said of it."""
    first = next(p for p in panels(dashboard) if p["type"] != "row")
    title = first["title"]

    def of_query(change):
        other = copy.deepcopy(dashboard)
        target = find(other, title)["targets"][0]
        target["expr"] = change(target["expr"])
        return other

    yield "has no canigo_typo", check_dashboard(of_query(lambda e: re.sub(r"canigo_\w+", "canigo_typo", e)), known)
    yield "a rate of it is", check_dashboard(of_query(lambda e: re.sub(r"\[[^\]]*\]", "", e)), known)
    yield "has no label colour", check_dashboard(of_query(lambda e: re.sub(r"by \(", "by (colour, ", e)), known)
    yield "not chosen by", check_dashboard(of_query(lambda e: e.replace('name=~"$name", ', "")), known)
    other = copy.deepcopy(dashboard)
    find(other, title)["targets"][0]["datasource"] = {"type": "prometheus", "uid": "P1"}
    yield "its data source is not", check_dashboard(other, known)
    yield "canigo_new_total is not on", check_dashboard(dashboard, {**known, "canigo_new_total": ("counter", (), "X.")})
    yield "lacks: | `canigo_new_total`", check_table(page, {**known, "canigo_new_total": ("counter", (), "X.")})
    yield "docs/metrics.md has of", check_table(page.replace("| gauge |", "| counter |", 1), known)


def main(root):
    root = pathlib.Path(root)
    known = families((root / "lib/metrics/show.cpp").read_text(encoding="utf-8"))
    dashboard = json.loads((root / "packaging/grafana/canigo.json").read_text(encoding="utf-8"))
    page = (root / "docs/metrics.md").read_text(encoding="utf-8")
    errors = [*check_help(known), *check_dashboard(dashboard, known), *check_table(page, known)]
    if not errors:
        errors = [f"a mistake is not found: {said}" for said, found in mistakes(dashboard, page, known)
                  if not any(said in error for error in found)]
    print("\n".join(errors) or f"{len(known)} families, {sum(1 for _ in panels(dashboard))} panels and rows")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
