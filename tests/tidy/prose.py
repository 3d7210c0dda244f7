"""Checks the style of the pages, and of the comments in the code: named subjects, short sentences, common words.

offences(path, text) yields (line, message). tidy.py calls it for the files of CHECKED. words.txt lists words and
phrases with a better replacement. The samples in self_test.py show which sentences pass.
"""

import pathlib
import re

CHECKED = re.compile(r"(README|CONTRIBUTING|SECURITY|CHANGELOG)\.md|docs/.+\.md|"
                     r"gateway/.+\.([ch]pp|js)|include/.+\.hpp|lib/.+\.[ch]pp")

LONGEST = 30  # words in a sentence

# At the start of a sentence, or of a clause after ";" or ":".
SUBJECT = re.compile(r"(?:^|[;:] (?:(?:and|but|or|so) )?)[\"'(]*(who|whoever|whose|what|whatever)\b(?! (?:if|about)\b)",
                     re.I)
# "A permit goes to who is first": a relative clause without its noun.
NO_NOUN = re.compile(r"\b(?:as|because|before|by|for|from|if|than|that|to|until|when|where|while) who(?:ever)?\b", re.I)
# Both halves of a double negation lie in one clause.
GAP = r"(?:(?!\b(?:and|or|but|if|unless|when|where|that)\b)[^,;:()])*?"
DOUBLE = re.compile("|".join([
    rf"\b(?:never|nobody|nothing|none|nor|neither|no one)\b{GAP}(?:\bnot\b|n't\b|\bno\b|\bnever\b)",
    rf"(?:\bnot|n't)\b{GAP}\b(?:never|nobody|nothing|none|without)\b",
    rf"\bno\b{GAP}\b(?:without|not|never|nobody|nothing)\b",
    r"\bnot (?:un(?!der|til|less|ique|it|ion)\w+|in(?:frequent|consider|signific|visib)\w*|impossible)",
]), re.I)

RULE_OF_TABLE = re.compile(r"\|[-|: ]+")  # below the header


def _read_words():
    """(pattern, suggestion) of each line "word or phrase: better"; "a|b" is either."""
    text = (pathlib.Path(__file__).parent / "words.txt").read_text(encoding="utf-8")
    pairs = [line.split(": ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return [(re.compile(rf"\b(?:{words})\b", re.I), better) for words, better in pairs]


WORDS = _read_words()


def _plain(text):
    """Text as it is read: code is one word, a link is its name."""
    text = re.sub(r"`[^`]+`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^<>\s][^<>]*>|https?://\S+", "link", text)
    return re.sub(r"\*\*|(?<!\w)[*_]|[*_](?!\w)", "", text)


def blocks_of_markdown(text):
    """(line, prose) of each paragraph, list item and table cell; no code, no headings, no header of a table."""
    found, start, gathered = [], 0, []
    lines = text.split("\n")
    in_fence = in_comment = False

    def flush():
        if gathered:
            found.append((start, " ".join(gathered)))
            gathered.clear()

    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if bare.startswith("```"):
            flush()
            in_fence = not in_fence
        elif in_fence or (line.startswith("    ") and not gathered):
            pass  # code
        elif in_comment or bare.startswith("<!--"):
            flush()
            in_comment = "-->" not in bare
        elif not bare or bare.startswith("#"):
            flush()
        elif bare.startswith("|"):
            flush()
            if not any(RULE_OF_TABLE.fullmatch(row.strip()) for row in lines[number - 1:number + 1]):
                # A bar inside code ends no cell.
                cells = re.sub(r"`[^`]*`", "code", bare).strip("|").split("|")
                found += [(number, cell.strip()) for cell in cells if cell.strip()]
        else:
            item = re.match(r"(?:[-*+]|\d+\.)\s+|> ?", bare)
            if item:
                flush()
            if not gathered:
                start = number
            gathered.append(bare[item.end():] if item else bare)
    flush()
    return found


def blocks_of_header(text):
    """(line, prose) of each comment; one that trails code stands by itself, with the lines that go on with it."""
    comments, before = [], (0, "")
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r"(.*?)(//[/!]?<?) ?(.*)", line)
        if not found or found.group(1).count('"') % 2:  # "http://..." in a string
            continue
        code, marker, comment = found.groups()
        if code.strip() or before != (number - 1, marker):
            comments.append((number, []))
        comments[-1][1].append(comment)
        before = (number, marker)
    return [(first + at - 1, prose) for first, lines in comments for at, prose in blocks_of_markdown("\n".join(lines))]


def sentences(prose):
    """The sentences of a block; a full stop inside a word, or after "e.g", ends none."""
    return [s for s in re.split(r"(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<=[.!?…])[\"')]*\s+(?=[\"'(]*[\w`–])", prose) if s]


def offences(path, text):
    """(line, what is wrong) of each sentence that needs a second look."""
    blocks = blocks_of_markdown(text) if path.endswith(".md") else blocks_of_header(text)
    for number, block in blocks:
        for sentence in sentences(_plain(block)):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            shown = f'"{" ".join(sentence.split()[:8])} …"'
            if len(words) > LONGEST:
                yield number, f"{len(words)} words in a sentence; {LONGEST} are allowed: {shown}"
            subject = SUBJECT.search(sentence)
            if subject and not sentence.rstrip("\"')* ").endswith("?"):
                yield number, f'"{subject.group(1)}" is no subject, name it: {shown}'
            no_noun = NO_NOUN.search(sentence)
            if no_noun:
                yield number, f'"{no_noun.group(0)}" has no noun: {shown}'
            double = DOUBLE.search(sentence)
            if double:
                yield number, f'says no twice: "{double.group(0)}"'
            for pattern, better in WORDS:
                word = pattern.search(sentence)
                if word:
                    yield number, f'"{word.group(0)}": write "{better}"'
