#!/usr/bin/env bash
# Most JSON parsers refuse what JSON.stringify and Python's json.dumps write of a text that was cut in a character.
#
# A good guess: a text that was cut to a number of characters goes through JSON whole, with U+FFFD at its end at worst.
# JavaScript cuts in UTF-16, so the first half of an emoji may stay. RFC 8259, 8.2, allows its escape, and says that
# parsers differ. Writers were even changed (ECMAScript 2019) so that they write "\ud83d" instead of broken UTF-8.
#
# Seen: of seven parsers for Python, json and ujson take it; orjson, msgspec, pydantic-core, jiter and python-rapidjson
# refuse the whole document, and three of them say that it ends too early. So do nlohmann's library 3.11 and Boost.JSON
# 1.81, by reading; Go's encoding/json puts U+FFFD. A proxy that reads such a body to count its tokens has to take it as
# the upstream does.
#
#     json 3.11          {'content': 'a\ud83d'}
#     ujson 6.1.0        {'content': 'a\ud83d'}
#     orjson 3.13.0      no low surrogate in string: line 1 column 15 (char 14)
#     msgspec 0.22.0     Input data was truncated
#     pydantic-core      unexpected end of hex escape at line 1 column 21
#     jiter 0.19.0       unexpected end of hex escape at line 1 column 21
#     python-rapidjson   Parse error at offset 14: The surrogate pair in string is invalid.
#
# Needs python3-venv and PyPI. Prints the seven, and fails if that is no longer so.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check ujson==6.1.0 orjson==3.13.0 msgspec==0.22.0 \
  pydantic-core==2.50.5 jiter==0.19.0 python-rapidjson==1.25
cat >"$dir/main.py" <<'PYTHON'
import json

import jiter
import msgspec
import orjson
import pydantic_core
import rapidjson
import ujson

cut = json.dumps({"content": "a\N{GRINNING FACE}".encode("utf-16-le")[:4].decode("utf-16-le", "surrogatepass")})
for name, parse in (("json", json.loads), ("ujson", ujson.loads), ("orjson", orjson.loads),
                    ("msgspec", msgspec.json.decode), ("pydantic-core", pydantic_core.from_json),
                    ("jiter", lambda text: jiter.from_json(text.encode())), ("python-rapidjson", rapidjson.loads)):
    try:
        seen = ascii(parse(cut))
    except ValueError as error:
        seen = str(error)
    print(f"{name:<18} {seen}")
PYTHON
found=$("$dir/venv/bin/python" "$dir/main.py")
echo "$found"
[ "$found" = "json               {'content': 'a\\ud83d'}
ujson              {'content': 'a\\ud83d'}
orjson             no low surrogate in string: line 1 column 15 (char 14)
msgspec            Input data was truncated
pydantic-core      unexpected end of hex escape at line 1 column 21
jiter              unexpected end of hex escape at line 1 column 21
python-rapidjson   Parse error at offset 14: The surrogate pair in string is invalid." ]
