#!/usr/bin/env python3
"""The API reference: a page for each public header, and one with the options of all, from what Doxygen read.

write(xml, out) makes them. Nothing is written twice: each text is a docstring, each default and type is the code's, and
a range is the part of a docstring that has the form of one. missing(xml) names the fields of options that say nothing.
"""

import pathlib
import re
import xml.etree.ElementTree as ElementTree

# A clause of a docstring that says which values a field may have.
RANGE = re.compile(r"(-?[\d'][\w'^.]*(?: \(\w+\))? (?:to|…) [\w'^.()-]+|more than \d\w*|\d\w* or more"
                   r"|least to [\w',]+|any but `?[\w:]+`?|up to \d[\w',]*|required)", re.I)
UNITS = [(re.compile(r"optional<.*duration|hedge_delay"), "time span, or none"),
         (re.compile(r"\bduration"), "time span"), (re.compile(r"time_point|deadline_point"), "instant"),
         (re.compile(r"\bbool$"), "yes or no"),
         (re.compile(r"\bstring"), "text"), (re.compile(r"\*$"), "pointer"), (re.compile(r"function<"), "function"),
         (re.compile(r"^(std::)?(u?int\w*|size_t|int|double|float)$"), "number")]
LABELS = re.compile(r"(?<=[.;:)]) (?=(?:Errors|Cancellation|Threads|Lifetime|Allocates|Throws|Source|Completes)\b)")
LABEL = re.compile(r"^(Errors(?: of [\w ]+)?|Cancellation|Threads|Lifetime|Allocates|Source(?: of [\w ]+)?)(: )", re.M)
SPECIAL = re.compile(r"([*\[\]])")
CODE = re.compile(r"(?<![\w/`.:])(?:\w+(?:::\w+)+(?:<\w+>|\(\))?|[a-z]\w*\(\)|[a-z]+(?:_[a-z]+)+)(?![\w/`])")
NO_COMPILE = "Does not compile"


def escaped(text):
    """Text of a docstring; a name of code in it looks like one."""
    parts, end, text = [], 0, text or ""
    for found in CODE.finditer(text):
        parts += [SPECIAL.sub(r"\\\1", text[end:found.start()]).replace("<", "&lt;"), f"`{found.group()}`"]
        end = found.end()
    return "".join(parts) + SPECIAL.sub(r"\\\1", text[end:]).replace("<", "&lt;")


def inline(node):
    """The text of a paragraph as Markdown. Blocks inside of it stand between empty lines."""
    parts = [escaped(node.text)]
    for child in node:
        kind = child.tag
        if kind == "computeroutput":
            parts.append("`" + "".join(child.itertext()) + "`")
        elif kind == "bold":
            parts.append("**" + inline(child) + "**")
        elif kind == "emphasis":
            parts.append("*" + inline(child) + "*")
        elif kind == "ulink":
            url, words = child.get("url"), "".join(child.itertext())
            parts.append(f"[{words}]({url})" if "://" in url else f"`{words}`")  # http::client is no address
        elif kind in ("itemizedlist", "orderedlist"):
            mark = "-" if kind == "itemizedlist" else "1."
            items = []
            for item in child:
                body = "\n\n".join(inline(p).strip() for p in item).replace("\n", "\n    ")
                items.append(f"{mark}   {body}")
            parts.append("\n\n" + "\n".join(items) + "\n\n")
        elif kind in ("verbatim", "programlisting", "preformatted"):
            code = "\n".join("".join(line.itertext()) for line in child) if len(child) else child.text
            parts.append(f"\n\n```cpp\n{code.strip(chr(10))}\n```\n\n")
        elif kind == "sp":
            parts.append(" ")
        elif kind == "linebreak":
            parts.append("\n")
        elif kind == "ndash":
            parts.append("–")
        else:
            parts.append(inline(child))
        parts.append(escaped(child.tail))
    return "".join(parts)


def described(node):
    """The docstring of a class or a member."""
    paragraphs = []
    for part in ("briefdescription", "detaileddescription"):
        found = node.find(part)
        paragraphs += [inline(p).strip() for p in found if p.tag == "para"] if found is not None else []
    text = "\n\n".join(p for p in paragraphs if p)
    text = LABELS.sub("\n\n", text)
    return LABEL.sub(r"**\1**\2", re.sub(r"^(Errors[^\n:]*):$", r"**\1**:", text, flags=re.M))


def type_of(member):
    return "".join(member.find("type").itertext()).strip() if member.find("type") is not None else ""


def default_of(member):
    found = member.find("initializer")
    start = re.sub(r"\s+", " ", "".join(found.itertext())) if found is not None else ""
    start = re.sub(r"^=\s*", "", start).replace("std::chrono::seconds{", "seconds{")
    start = re.sub(r"(?:std::chrono::)?(\w+)::(max|min|zero)\( ?\)", r"\1::\2()", start)
    return start


def cell(text):
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def code(text):
    return f"`{cell(text)}`" if text else ""


def plain(text):
    """Without the namespaces, so that a column of a table is narrow."""
    return re.sub(r"\b(?:std|canigo|chrono)::|\boverflow(?:_of_keys)?::|\benforcement::|\bduration::", "", text)


def fields_of(compound):
    return [m for m in compound.iter("memberdef") if m.get("kind") == "variable" and m.get("prot") == "public"]


def table(compound, is_options):
    rows = []
    for m in fields_of(compound):
        words = described(m).replace("\n", " ")
        ranges = [r for r in RANGE.findall(words) if not r.startswith("0 (first)")]
        for r in ranges:  # it has a column
            words = re.sub(rf"(^|[;,] ){re.escape(r)}(?:[;,] |$)", lambda m: "; " if m.end() < len(words) and
                           m.start() else "", words.strip())
        kind = type_of(m)
        unit = "percent" if "percent" in words else next((u for pattern, u in UNITS if pattern.search(kind)), "")
        default = default_of(m)
        if is_options and not default and "required" not in words:
            default, ranges = "", ["required", *ranges] if kind.endswith("rate") else ranges
        row = [code(m.findtext("name")), code(plain(kind)), code(plain(default))]
        rows.append(row + ([cell("; ".join(ranges)), unit] if is_options else []) + [cell(words)])
    heads = ["field", "type", "default"] + (["range", "unit"] if is_options else []) + ["what it does"]
    if not any(row[2] for row in rows):
        rows, heads = [row[:2] + row[3:] for row in rows], heads[:2] + heads[3:]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def signature(member, owner):
    parameters = []
    for p in member.findall("templateparamlist/param"):
        words = "".join(p.find("type").itertext())
        name = p.findtext("declname") or ""
        start = "".join(p.find("defval").itertext()) if p.find("defval") is not None else ""
        parameters.append(f"{words} {name}".strip() + (f" = {start}" if start else ""))
    lines = [f"template <{', '.join(parameters)}>"] if parameters else []
    requires = member.find("requiresclause")
    if requires is not None:
        lines.append("  requires " + re.sub(r"\s+", " ", "".join(requires.itertext())).strip())
    text = " ".join(filter(None, ["static" if member.get("static") == "yes" else "",
                                  "explicit" if member.get("explicit") == "yes" else "", type_of(member),
                                  member.findtext("name") + (member.findtext("argsstring") or "")]))
    text = re.sub(r"\s+", " ", text).replace(" ,", ",").replace("< ", "<").replace(" >", ">").replace(" &", "&")
    text = re.sub(r"&(?=\w)", "& ", text).replace("& &", "&&").replace(" *", "*")
    lines.append(re.sub(r"\*(?=\w)", "* ", text) + ";")
    return "\n".join(lines)


def members(compound):
    """Blocks of the public members, in their order; members without a text of their own belong to the one before."""
    blocks, kept = [], ""
    owner = re.sub(r"<.*", "", compound.findtext("compoundname")).strip()
    found = [m for m in compound.iter("memberdef") if m.get("prot") in ("public", None) and m.get("kind") != "friend"
             and not (compound.get("kind") == "struct" and m.get("kind") == "variable")]
    for m in sorted(found, key=lambda m: int(m.find("location").get("line"))):
        words = described(m)
        args = m.findtext("argsstring") or ""
        if owner and owner not in re.sub(r"<.*?>", "", m.findtext("definition") or owner):  # by a using-declaration
            kept = kept or words
            continue
        words, kept = words or kept, ""
        name = m.findtext("name")
        if NO_COMPILE in words or args.endswith("=delete") or "For the library itself" in words or name.startswith("~"):
            continue
        if m.get("kind") == "typedef":
            line = (m.findtext("definition") or "").replace(compound.findtext("compoundname") + "::", "") + ";"
        elif m.get("kind") == "variable":
            line = f"{m.findtext('definition')} {m.findtext('initializer') or ''}".strip() + ";"
        elif m.get("kind") == "enum":
            continue
        else:
            line = signature(m, compound)
        if blocks and not words:
            blocks[-1][1].append(line)
        else:
            blocks.append((name, [line], words))
    return blocks


def enum_text(m):
    rows = [f"| {code(v.findtext('name'))} | {cell(described(v))} |" for v in m.findall("enumvalue")]
    return "\n\n".join(filter(None, [f"### enum {m.findtext('name')}", described(m), "| value | meaning |\n|---|---|\n"
                                     + "\n".join(rows)]))


def is_options(name):
    return name.endswith("_options") or name in ("request", "backoff", "retry_policy", "rate_limit", "restart_policy")


def short(name):
    return re.sub(r"^canigo::", "", name)


class Reference:
    def __init__(self, xml):
        self.headers = {}  # path below canigo/: list of compounds
        self.free = {}     # the same: members of namespaces
        for file in sorted(pathlib.Path(xml).glob("*.xml")):
            if file.name in ("index.xml", "Doxyfile.xml"):
                continue
            for c in ElementTree.parse(file).getroot().findall("compounddef"):
                name = c.findtext("compoundname")
                if "detail::" in name or not name.startswith("canigo"):
                    continue
                if c.get("kind") in ("class", "struct", "concept") and c.get("prot") in ("public", None):
                    self._add(self.headers, c.find("location").get("file"), c)
                elif c.get("kind") == "namespace":
                    for m in c.iter("memberdef"):
                        self._add(self.free, m.find("location").get("file"), m)

    @staticmethod
    def _add(where, file, node):
        where.setdefault(re.sub(r"^.*?canigo/", "", file).removesuffix(".hpp"), []).append(node)

    def all_headers(self):
        return sorted(set(self.headers) | set(self.free))

    def compounds(self, header):
        return sorted(self.headers.get(header, []), key=lambda c: int(c.find("location").get("line")))

    def page(self, header):
        parts = [f"# {header}", f"```cpp\n#include <canigo/{header}.hpp>\n```"]
        for c in self.compounds(header):
            name = short(c.findtext("compoundname"))
            kind = c.get("kind")
            parts.append(f"## {kind} {escaped(name)}")
            parts.append(described(c))
            bases = [re.sub(r"<.*", "", short(b.text)) for b in c.findall("basecompoundref")
                     if b.get("prot") == "public"]
            if bases:
                parts.append("It has all members of `" + "`, `".join(bases) + "`, too.")
            if kind == "concept":
                text = "".join(c.find("initializer").itertext()) if c.find("initializer") is not None else ""
                parts.append(f"```cpp\n{text.strip()}\n```")
                continue
            if kind == "struct" and fields_of(c):
                parts.append(table(c, is_options(name)))
            for m in c.iter("memberdef"):
                if m.get("kind") == "enum" and m.get("prot") == "public":
                    parts.append(enum_text(m))
            for title, lines, words in members(c):
                parts.append(f"### {escaped(title)} {{ #{anchor(name, title, parts)} }}")
                parts.append("```cpp\n" + "\n".join(lines) + "\n```")
                parts.append(words)
        free = sorted(self.free.get(header, []), key=lambda m: int(m.find("location").get("line")))
        for m in free:
            if m.get("kind") == "enum":
                parts.append(enum_text(m))
        functions = [m for m in free if m.get("kind") in ("function", "variable", "typedef")]
        if functions:
            holder = ElementTree.Element("compounddef")
            ElementTree.SubElement(holder, "compoundname").text = "canigo"
            holder.extend(functions)
            for title, lines, words in members(holder):
                parts.append(f"## {escaped(title)} {{ #{anchor('free', title, parts)} }}")
                parts.append("```cpp\n" + "\n".join(lines) + "\n```")
                parts.append(words)
        return "\n\n".join(p for p in parts if p) + "\n"

    def about(self, header):
        """The first sentence about what is in a header."""
        compounds = sorted(self.compounds(header), key=lambda c: c.findtext("compoundname").split("::")[-1] !=
                           header.split("/")[-1])
        texts = [described(c) for c in compounds]
        free = sorted(self.free.get(header, []), key=lambda m: int(m.find("location").get("line")))
        texts += [described(m) for m in free]
        first = next((t for t in texts if t), "")
        return re.split(r"(?<=[.:])\s", first.split("\n")[0])[0].rstrip(":")


def anchor(owner, title, parts):
    base = re.sub(r"\W+", "-", f"{owner}-{title}").strip("-").lower()
    taken = "\n".join(parts)
    number, name = 2, base
    while f"#{name} }}" in taken:
        name, number = f"{base}-{number}", number + 1
    return name


def missing(reference):
    """Fields of options that no docstring explains."""
    for header in reference.all_headers():
        for c in reference.compounds(header):
            name = short(c.findtext("compoundname"))
            if is_options(name):
                for m in fields_of(c):
                    if not described(m) and "The first eight options" not in described(c):
                        yield f"include/canigo/{header}.hpp: {name}.{m.findtext('name')} has no docstring"


def write(reference, out):
    out = pathlib.Path(out)
    groups = {"": [], "http": [], "metrics": [], "redis": [], "testing": []}
    options = ["# All options", "Each table is made from its header, so it says what the code does. A field without a "
               "default is required. Time spans are written with `std::chrono_literals`: `2s`, `500ms`. Instants come "
               "from the time source of the executor: see [deadlines](../guide.md#deadlines)."]
    for header in reference.all_headers():
        page = out / f"{header}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(reference.page(header), encoding="utf-8")
        folder = header.split("/")[0] if "/" in header else ""
        groups.setdefault(folder, []).append(header)
        for c in reference.compounds(header):
            name = short(c.findtext("compoundname"))
            if is_options(name) and fields_of(c):
                options += [f"## {escaped(name)}", f"[canigo/{header}.hpp]({header}.md)", table(c, True)]
    (out / "options.md").write_text("\n\n".join(options) + "\n", encoding="utf-8")
    index = ["# Reference", "A page for each public header. [All options](options.md) are on one page, too. "
             "Promises and errors stand in the [contract](../contract.md)."]
    titles = {"": "The library", "algorithms": "Algorithms", "http": "HTTP", "metrics": "Prometheus",
              "redis": "Redis", "testing": "Tests"}
    for folder, headers in groups.items():
        rows = [f"| [{h}]({h}.md) | {cell(reference.about(h))} |" for h in headers]
        if rows:
            index.append(f"## {titles.get(folder, folder)}\n\n| header | about |\n|---|---|\n" + "\n".join(rows))
    (out / "index.md").write_text("\n\n".join(index) + "\n", encoding="utf-8")
    return groups
