#!/usr/bin/env python3
"""Checks a software bill of materials against what SPDX 2.3 requires and against the tree: sbom.py FILE ROOT

Also that the check can fail: it does for copies of the file that lack a field, or say something else.
"""

import copy
import hashlib
import json
import pathlib
import re
import sys

NOTHING = ("NOASSERTION", "NONE")
ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")
LICENCE = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*")
PURPOSES = ("APPLICATION", "FRAMEWORK", "LIBRARY", "CONTAINER", "OPERATING-SYSTEM", "DEVICE", "FIRMWARE", "SOURCE",
            "ARCHIVE", "FILE", "INSTALL", "OTHER")
CHECKSUMS = {"SHA1": 40, "SHA256": 64}

# Required by the specification, by clause: 6 the document, 7 a package, 8 a file, 11 a relationship.
DOCUMENT = ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo")
PACKAGE = ("name", "SPDXID", "downloadLocation")
PACKAGE_ANALYZED = ("packageVerificationCode", "licenseConcluded", "licenseDeclared", "licenseInfoFromFiles",
                    "copyrightText")
FILE = ("fileName", "SPDXID", "checksums", "licenseConcluded", "licenseInfoInFiles", "copyrightText")
RELATIONSHIP = ("spdxElementId", "relationshipType", "relatedSpdxElement")
# What we ask for beside that.
OURS = ("versionInfo", "licenseConcluded", "licenseDeclared", "primaryPackagePurpose")


def lacking(thing, fields, what):
    for field in fields:
        if not thing.get(field):
            yield f"{what}: no {field}"


def licences(thing, what):
    for field in ("licenseConcluded", "licenseDeclared"):
        if field in thing and thing[field] not in NOTHING and not LICENCE.fullmatch(thing[field]):
            yield f"{what}: {field} is no licence expression: {thing[field]}"


def check_document(d):
    yield from lacking(d, DOCUMENT, "document")
    if d.get("spdxVersion") != "SPDX-2.3" or d.get("dataLicense") != "CC0-1.0" or d.get("SPDXID") != "SPDXRef-DOCUMENT":
        yield "document: not as SPDX 2.3 begins"
    if not re.fullmatch(r"https?://[^#\s]+", d.get("documentNamespace", "")):
        yield "document: the namespace is no absolute URI without a fragment"
    created = d.get("creationInfo", {})
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created.get("created", "")):
        yield "document: no time of creation in UTC"
    creators = created.get("creators", [])
    if not creators or not all(re.match(r"(Person|Organization|Tool): \S", c) for c in creators):
        yield "document: no creator"


def check_package(p, files_of):
    what = f"package {p.get('name')}"
    yield from lacking(p, PACKAGE + OURS, what)
    yield from licences(p, what)
    if p.get("primaryPackagePurpose") not in PURPOSES:
        yield f"{what}: no such purpose"
    for reference in p.get("externalRefs", []):
        yield from lacking(reference, ("referenceCategory", "referenceType", "referenceLocator"), what)
        if not re.fullmatch(r"pkg:[a-z]+/[\w./-]+@[\w.+~:-]+", reference.get("referenceLocator", "")):
            yield f"{what}: no package URL: {reference.get('referenceLocator')}"
    if p.get("filesAnalyzed", True):
        yield from lacking(p, PACKAGE_ANALYZED, what)
        sums = sorted(c["checksumValue"] for f in files_of.get(p.get("SPDXID"), ()) for c in f.get("checksums", ())
                      if c["algorithm"] == "SHA1")
        code = hashlib.sha1("".join(sums).encode()).hexdigest()
        if p.get("packageVerificationCode", {}).get("packageVerificationCodeValue") != code:
            yield f"{what}: the verification code is not that of its files"


def check_file(f, root):
    what = f"file {f.get('fileName')}"
    yield from lacking(f, FILE, what)
    yield from licences(f, what)
    path = root / f.get("fileName", "?")
    if not f.get("fileName", "").startswith("./") or not path.is_file():
        yield f"{what}: not there"
        return
    sums = {c["algorithm"]: c["checksumValue"] for c in f.get("checksums", ())}
    if "SHA1" not in sums:
        yield f"{what}: no SHA1"
    for algorithm, value in sums.items():
        if len(value) != CHECKSUMS[algorithm] or hashlib.new(algorithm, path.read_bytes()).hexdigest() != value:
            yield f"{what}: {algorithm} is not that of the file"


def check(d, root):
    """All that is wrong with a document."""
    yield from check_document(d)
    packages, files, relationships = d.get("packages", []), d.get("files", []), d.get("relationships", [])
    ids = [e.get("SPDXID", "") for e in [d, *packages, *files]]
    for i in ids:
        if not ID.fullmatch(i) or ids.count(i) > 1:
            yield f"{i!r} is no identifier, or that of two"
    by_id = {f.get("SPDXID"): f for f in files}
    files_of, needed, described = {}, set(), set()
    for r in relationships:
        yield from lacking(r, RELATIONSHIP, "relationship")
        a, kind, b = (r.get(field) for field in RELATIONSHIP)
        if a not in ids or b not in ids:
            yield f"relationship: {a} {kind} {b}: not in the document"
        if kind == "CONTAINS" and b in by_id:
            files_of.setdefault(a, []).append(by_id[b])
        if kind == "DEPENDS_ON":
            needed.add(b)
        if kind == "DESCRIBES":
            described.add(b)
    for p in packages:
        yield from check_package(p, files_of)
        if p.get("SPDXID") not in needed | described:
            yield f"package {p.get('name')}: nothing needs it, and the document does not describe it"
    for f in files:
        yield from check_file(f, root)
    contained = {f["SPDXID"] for own in files_of.values() for f in own}
    if contained != set(by_id):
        yield "files that belong to no package"
    yield from check_ours(d, packages, files, root)


def check_ours(d, packages, files, root):
    """That it is of this library, and complete."""
    names = {p.get("name") for p in packages}
    for name in ("canigo", "asio", "fmt"):
        if name not in names:
            yield f"no package {name}"
    text = (root / "meson.build").read_text(encoding="utf-8")
    version = re.search(r"version: '([\d.]+)'", text).group(1)
    if d.get("name") != f"canigo-{version}":
        yield f"it is named {d.get('name')}, not canigo-{version}"
    # All of the core: an edge that the build leaves out is left out here.
    edges = {path.name for path in (root / "lib").iterdir() if path.is_dir()} - {"detail", "testing"}
    listed = {f.get("fileName") for f in files}
    for path in [*root.glob("lib/**/*.[ch]pp"), *root.glob("include/canigo/**/*.hpp")]:
        inside = path.relative_to(root)
        edge = inside.parts[1 if inside.parts[0] == "lib" else 2]
        if (edge not in edges or "canigo_" + edge in names) and f"./{inside.as_posix()}" not in listed:
            yield f"{inside} is not in it"


def spoiled(d):
    """Copies of a document, each with something missing or wrong."""
    places = [(DOCUMENT, lambda c: c), (PACKAGE + OURS, lambda c: c["packages"][-1]),
              (PACKAGE_ANALYZED, lambda c: c["packages"][0]), (FILE, lambda c: c["files"][0]),
              (RELATIONSHIP, lambda c: c["relationships"][0])]
    for fields, find in places:
        for field in fields:
            c = copy.deepcopy(d)
            del find(c)[field]
            yield f"without {field}", c
    for where, key, value in [("files", "SPDXID", "SPDXRef-DOCUMENT"), ("files", "fileName", "./no/such/file"),
                              ("packages", "licenseDeclared", "free, more or less"),
                              ("packages", "SPDXID", "package 1")]:
        c = copy.deepcopy(d)
        c[where][0][key] = value
        yield f"{key} {value}", c
    c = copy.deepcopy(d)
    c["files"][0]["checksums"][0]["checksumValue"] = "0" * 40
    yield "another checksum", c
    c = copy.deepcopy(d)
    del c["files"][0]
    yield "without a file", c


def main(path, root):
    d = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    root = pathlib.Path(root)
    wrong = list(check(d, root))
    wrong += [f"the check takes a document {what} for a good one" for what, c in spoiled(d) if not list(check(c, root))]
    needs = ", ".join(f"{p['name']} {p['versionInfo']}" for p in d["packages"])
    print("\n".join(wrong) or f"{len(d['files'])} files of {needs}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
