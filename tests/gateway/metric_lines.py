"""Reads the text format of Prometheus, and refuses what a scraper may refuse.

https://prometheus.io/docs/instrumenting/exposition_formats
"""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def labels_of(text):
    found, at = {}, 0
    while at < len(text):
        label = LABEL.match(text, at)
        assert label and label[1] not in found, f"no labels: {text}"
        found[label[1]] = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), label[2])
        at = label.end()
    return found


def check_histogram(name, samples):
    series = {}
    for sample, labels, value in samples:
        others = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        series.setdefault(others, {})[(sample, labels.get("le"))] = value
    for others, values in series.items():
        edges = [(float(le), v) for (sample, le), v in values.items() if le is not None]
        assert edges == sorted(edges) and edges[-1][0] == float("inf"), f"{name} {others}: {edges}"
        assert [v for _, v in edges] == sorted(v for _, v in edges), f"{name} {others} falls: {edges}"
        assert edges[-1][1] == values[(name + "_count", None)], f"{name} {others}: its count is not that of +Inf"
        assert values[(name + "_sum", None)] >= 0, f"{name} {others}"


def parse(text):
    """{family: (type, help, [(sample's name, labels, value)])}."""
    assert text.endswith("\n")
    families, now, seen = {}, None, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, now, words = line.split(" ", 3)
            assert now not in families, f"{now} begins twice"
            families[now] = [None, words, []]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == now and families[now][0] is None and kind in SUFFIXES, line
            families[now][0] = kind
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, f"no sample: {line}"
            kind = families[now][0]
            assert sample[1] in [now + suffix for suffix in SUFFIXES[kind]], f"{line} is none of {now}"
            labels = labels_of(sample[2] or "")
            key = (sample[1], tuple(sorted(labels.items())))
            assert key not in seen, f"twice: {line}"
            seen.add(key)
            assert kind != "counter" or float(sample[3]) >= 0, line
            families[now][2].append((sample[1], labels, float(sample[3])))
    for name, (kind, words, samples) in families.items():
        assert kind and words.endswith("."), name
        if kind == "histogram":
            check_histogram(name, samples)
    return {name: tuple(family) for name, family in families.items()}
