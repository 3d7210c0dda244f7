"""All changes of a source at once: its text with a choice at every place that scripts/mutate may change.

A mutant is one operator changed, or one statement dropped. `with_choices` puts the mutants of a statement into the
source, each behind `canigo_mutation::is(ID)`: as the branches of an `if` around a statement, else as those of `?:`
around a condition, the step of a loop or the value of a declaration. So one build holds all mutants, and a program
becomes one of them as it starts, by CANIGO_MUTANT.
"""

import re

OPERATORS = [
    (re.compile(r" == "), " != "), (re.compile(r" != "), " == "),
    (re.compile(r" < "), " <= "), (re.compile(r" <= "), " < "),
    (re.compile(r" > "), " >= "), (re.compile(r" >= "), " > "),
    (re.compile(r" && "), " || "), (re.compile(r" \|\| "), " && "),
    (re.compile(r" \+ "), " - "), (re.compile(r" - "), " + "),
    (re.compile(r" \* "), " / "), (re.compile(r" / "), " * "),
    (re.compile(r" \+= "), " -= "), (re.compile(r" -= "), " += "),
    (re.compile(r"\+\+(?=\w)"), "--"), (re.compile(r"(?<![\w-])--(?=\w)"), "++"),
    (re.compile(r"(?<![\w=!])!(?=[\w(])"), ""),
    (re.compile(r"\btrue\b"), "false"), (re.compile(r"\bfalse\b"), "true"),
    (re.compile(r"\bstd::min\b"), "std::max"), (re.compile(r"\bstd::max\b"), "std::min"),
]
# An expression that stands for itself, a jump, or an `if` with its one statement. Not a declaration.
STATEMENT = re.compile(r"^\s+(?:(?:break|continue|return)|"
                       r"(?:if \(.*\) )?(?!return\b|co_return\b|using\b|goto\b|else\b|case\b)"
                       r"(?:co_await |delete |throw |\+\+|--|\*?[\w:.\->\[\]()*&]+(?: [|&+-]?= |\())[^{}]*);$")
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^#[^\n]*',
                     re.S | re.M)
LABEL = re.compile(r"\s*(?:(?:case [\w:]+|default):(?!:)|else(?= [^{]))")
CONDITION = re.compile(r"\s*(?:\} else )?(?:if|while) \(")
FOR = re.compile(r"\s*for \(")
VALUE = re.compile(r"\s*(?:\.\w+|(?!return\b|co_return\b|throw\b|delete\b|if\b)(?:\[\[\w+\]\] )?(?:static )?(?:const )*"
                   r"(?:auto|[\w:]+(?:<[^=;]*>)?)(?: const)?[&*]*(?: const)?\s+[&*]*(?:\w+|\[[\w, ]+\])) =\s")
DECLARES = re.compile(r"\s*(?:using|typedef|friend|static_assert|public|private|extern|template|enum|class|struct|"
                      r"constexpr)\b|"
                      r"\s*(?!return\b|co_return\b|throw\b|delete\b|co_await\b)"
                      r"(?:const |static |mutable |inline |virtual |explicit )*[\w:]+(?:<[^;]*>)?[&*]*\s+[&*]*\w+\s*"
                      r"(?:\{.*\}|\(.*\))?;\s*$", re.S)


def blanked(text, what=lambda _: True):
    """The text with comments, strings and the preprocessor's lines blanked out, of the same length."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0)) if what(match.group(0)) else match.group(0)
    return NO_CODE.sub(blank, text)


def edits_of(text):
    """(first, last, new text) of every mutant of the source, in a fixed order."""
    start = 0
    before = ""
    for line in blanked(text).split("\n"):
        # An assertion is a check itself, so nothing notices that it is gone.
        if not any(word in line for word in ("assert(", "= delete", "= default", "template")):
            for pattern, instead in OPERATORS:
                for match in pattern.finditer(line):
                    yield start + match.start(), start + match.end(), instead
            if STATEMENT.match(line) and balance(line, "()") == 0 and (before[-1:] in ";{}" or not before):
                yield start + len(line) - len(line.lstrip()), start + len(line), ""
        start += len(line) + 1
        before = line.strip() or before


def balance(text, pair):
    return text.count(pair[0]) - text.count(pair[1])


def at_top(text, what):
    """Where `what` stands outside of all brackets."""
    found, depth = [], 0
    for at, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == what and depth == 0:
            found.append(at)
    return found


def closing(text, at):
    """Where the bracket closes that opens there."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        if depth == 0:
            return end
    return len(text)


def places_of(bare):
    """(first, last, how) of all parts of a statement that can be chosen: `if` of a whole one, else what an operand of
    `?:` is made with."""
    label = LABEL.match(bare)
    if label:
        return [(label.end() + a, label.end() + b, how) for a, b, how in places_of(bare[label.end():])]
    text = bare.rstrip()
    if text.endswith("{") and CONDITION.match(bare):
        first = bare.index("(") + 1
        last = closing(bare, first - 1)
        first += max(at_top(bare[first:last], ";"), default=-1) + 1
        return [] if VALUE.match(" " + bare[first:last].lstrip()) else [(first, last, "bool")]
    if text.endswith("{") and FOR.match(bare):
        first = bare.index("(") + 1
        last = closing(bare, first - 1)
        ends = [first + at for at in at_top(bare[first:last], ";")]
        return [(ends[0] + 1, ends[1], "bool"), (ends[1] + 1, last, "void")] if len(ends) == 2 else []
    if balance(bare, "()") or balance(bare, "{}"):
        return []
    if text.endswith("}") and not text.lstrip().startswith("}"):
        first = next(at for at in range(len(text)) if text[at] == "{" and closing(text, at) == len(text) - 1)
        if ")" not in text[:first] or not text[first + 1:-1].rstrip().endswith(";"):
            return []
        return [(first + 1 + a, first + 1 + b, how) for a, b, how in places_of(text[first + 1:-1])]
    value = VALUE.match(bare)
    if value and "constexpr" not in value.group(0):
        ends = at_top(bare, ";") or at_top(bare, ",")
        if len(ends) != 1:
            return []
        commas = [value.end() + at for at in at_top(bare[value.end():ends[0]], ",")]
        others = [re.match(r"\s*\w+ = ", bare[at + 1:]) for at in commas]
        if not commas or None in others:
            return [(value.end(), ends[0], "")]
        # Several are declared at once.
        firsts = [value.end()] + [at + 1 + other.end() for at, other in zip(commas, others)]
        return [(a, b, "") for a, b in zip(firsts, commas + ends)]
    if not text.endswith(";") or DECLARES.match(bare):
        return []
    return [(len(bare) - len(bare.lstrip()), len(text), "if")]


def statements(bare):
    """(first, last, what comes before, what comes next) of what may be a statement."""
    lines = bare.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    at, before = 0, ""
    while at < len(lines):
        last, text = at, lines[at]
        while last + 1 < len(lines) and last - at < 12 and not text.rstrip().endswith("{") and text.strip() and not (
                text.rstrip().endswith((";", "}", ":")) and balance(text, "()") <= 0 and balance(text, "{}") <= 0):
            last += 1
            text += "\n" + lines[last]
        if text.strip():
            yield starts[at], starts[last + 1] - 1, before, next((x.strip() for x in lines[last + 1:] if x.strip()), "")
            before = lines[last].strip() or before
        at = last + 1


def with_choices(text, edits):
    """The source with a choice for each of {ID: edit} that fits one, and those IDs."""
    code = blanked(text, lambda part: part.startswith(("//", "/*")))
    bare = blanked(text)
    done, out, at = set(), [], 0
    for first, last, before, after in statements(bare):
        inside = {i: e for i, e in edits.items() if first <= e[0] and e[1] <= last}
        begins = before[-1:] in ";{}:," or before in ("", "else") or re.match(r"(\} else )?(if|while|for) ?\(", before)
        if not inside or not begins or after.startswith("else"):
            continue
        for a, b, how in places_of(bare[first:last]):
            a, b = first + a, first + b
            here = {i: e for i, e in inside.items() if a <= e[0] and e[1] <= b}
            # g++ 12 destroys the temporaries of a co_await twice that stands in an operand of `?:`.
            if not here or (how != "if" and "co_await" in bare[a:b]):
                continue
            out.append(code[at:a])
            for i, (begin, end, new) in here.items():
                changed = (code[a:begin] + new + code[end:b]).strip()
                out.append(f"if (canigo_mutation::is({i})) {{ {changed} }} else " if how == "if" else
                           f"canigo_mutation::is({i}) ? {how}({changed}) : ")
            out.append(f"{{ {code[a:b]} }}" if how == "if" else f"{how}({code[a:b].strip() or 'true'})")
            at = b
            done |= here.keys()
    out.append(code[at:])
    return "".join(out), done
