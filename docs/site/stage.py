#!/usr/bin/env python3
"""stage.py ROOT XML OUT: the pages of the site as MkDocs wants them, in OUT.

The pages of docs/ stay what they are. Here their links to other files of the repository become links of the site, lists
get the indentation that Python-Markdown asks for, and pages are made of the headers, the examples and the decisions.
"""

import os
import pathlib
import re
import shutil
import sys

import reference

AT_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
           "SECURITY.md": "security.md", "LICENSE": "license.md"}
FENCE = re.compile(r"^\s*```")
ITEM = re.compile(r"^(\s*)([-*]|\d+\.)(\s+)\S")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def page_of(path, root):
    """The page of the site that shows a file of the repository, or None."""
    if path in AT_ROOT:
        return AT_ROOT[path]
    if path == "docs/decisions":
        return "decisions/index.md"
    if path == "examples":
        return "examples/index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/") if (root / path).is_file() else None
    if path.startswith("include/canigo/") and path.endswith(".hpp"):
        return None if "/detail/" in path else "reference/" + path.removeprefix("include/canigo/")[:-4] + ".md"
    if re.fullmatch(r"examples/\d\d_\w+\.cpp", path):
        return path.removesuffix(".cpp") + ".md"
    return None


def with_links(text, source, page, root):
    """`source`: the path in the repository that `text` is of; `page`: the page of the site."""
    def new(match):
        mark, words, target = match.groups()
        path, hash_mark, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return match.group()
        wanted = os.path.normpath(os.path.join(os.path.dirname(source), path))
        found = page_of(wanted, root)
        if found is None:
            return words if re.search("`", words) else f"`{wanted}`" if words == wanted else words
        return f"{mark}[{words}]({os.path.relpath(found, os.path.dirname(page) or '.')}{hash_mark}{anchor})"

    lines, fenced = [], False
    for block in re.split(r"(^```.*?^```$)", text, flags=re.M | re.S):
        lines.append(block if block.startswith("```") else LINK.sub(new, block))
    return "".join(lines)


def with_lists(text):
    """Items of lists in steps of four spaces, and an empty line before the first one."""
    out, stack, fenced = [], [], False
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if FENCE.match(line):
            fenced = not fenced
        found = None if fenced else ITEM.match(line)
        if not line.strip():
            out.append(line)
            continue
        if found:
            while stack and indent < stack[-1]:
                stack.pop()
            if not stack and indent >= 4:
                out.append(line)  # code
                continue
            if out and out[-1].strip() and (not stack or out[-1].lstrip()[:1] not in "-*0123456789"):
                if not ITEM.match(out[-1]) and not stack:
                    out.append("")
            mark = found.group(2) if not found.group(2)[:-1].isdigit() else found.group(2)
            out.append(" " * 4 * len(stack) + f"{mark:<3} " + line[found.end() - 1:])
            stack.append(indent + len(found.group(2)) + len(found.group(3)))
        else:
            while stack and indent < stack[-1]:
                stack.pop()
            out.append(" " * (4 * len(stack) + indent - (stack[-1] if stack else 0)) + line.lstrip(" "))
    return "\n".join(out)


def title_of(name):
    return re.sub(r"_", " ", re.sub(r"^\d+_", "", name)).capitalize()


def example(root, name):
    text = (root / f"examples/{name}.cpp").read_text(encoding="utf-8")
    about = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        about.append(line.removeprefix("//").strip())
    body = "\n".join(text.splitlines()[len(about):]).strip("\n")
    body = re.sub(r"^// \[readme\]\n", "", body, flags=re.M)
    parts = [f"# {title_of(name)}", re.sub(r"(\w+)\.cpp", r"`\1.cpp`", " ".join(about)),
             f"`examples/{name}.cpp`; a test runs it.", f"```cpp\n{body}\n```"]
    output = root / f"examples/expected/{name}.txt"
    if output.exists():
        printed = output.read_text(encoding="utf-8")
        note = " Here a line between slashes is a pattern." if re.search(r"^/.*/$", printed, re.M) else ""
        parts += [f"It prints:{note}", f"```text\n{printed.rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def main(root, xml, out):
    root, out = pathlib.Path(root), pathlib.Path(out)
    shutil.rmtree(out, ignore_errors=True)
    sources = {page: page_of(page, root) for page in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
               if (root / page).exists()}
    sources |= {f"docs/{p.relative_to(root / 'docs')}": str(p.relative_to(root / "docs"))
                for p in sorted(root.glob("docs/**/*.md"))}
    for source, page in sources.items():
        target = out / page
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (root / source).read_text(encoding="utf-8")
        target.write_text(with_lists(with_links(text, source, page, root)), encoding="utf-8")
    for picture in root.glob("docs/**/*.svg"):
        target = out / picture.relative_to(root / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    for file in ("extra.css", "worker.js"):
        shutil.copy(root / "docs/site" / file, out / file)
    (out / "license.md").write_text("# Licence\n\n```text\n" + (root / "LICENSE").read_text(encoding="utf-8") + "```\n",
                                    encoding="utf-8")

    rows = []
    (out / "examples").mkdir()
    for source in sorted((root / "examples").glob("[0-9]*.cpp")):
        text = example(root, source.stem)
        (out / f"examples/{source.stem}.md").write_text(text, encoding="utf-8")
        about = re.split(r"(?<=[.:])\s", text.split("\n\n")[1])[0]
        rows.append(f"| [{title_of(source.stem)}]({source.stem}.md) | {about} |")
    about = "# Examples\n\nEach runs as a test, which compares all it prints.\n\n| example | about |\n|---|---|\n"
    (out / "examples/index.md").write_text(about + "\n".join(rows) + "\n", encoding="utf-8")

    made = reference.Reference(xml)
    reference.write(made, out / "reference")
    errors = list(reference.missing(made))
    print("\n".join(errors) or f"{len(list(out.rglob('*.md')))} pages")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
