#!/usr/bin/env python3
"""Seeded defects of canigo-gateway: conversations must find each of them.

canaries.py --sources              prints each source of gateway/ that has defects
canaries.py --names OUTPUT         writes the source that reads CANIGO_CANARY, which names the defect, at the start
canaries.py SOURCE INPUT OUTPUT    copies INPUT, which is gateway/SOURCE, with its defects, one of which may be chosen
canaries.py --hunt CONVERSATIONS GATEWAY   plays with each; fails if one is not found, or if one finds any without
"""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "canaries"))
from canaries import names_source, spoiled  # noqa: E402

# Each: the source under gateway/, a part of what is said of it, a text that stands there exactly once, whose part
# between the signs is changed, and what is there instead.
DEFECTS = {
    "body_done_too_early": ("wire/message_parser.cpp", "",
                            "«buffer.consume(mended ? mended->of_server(used) : used);»",
                            "if (!machine_->reads_requests || !known().done || machine_->piece.empty()) "
                            "buffer.consume(used);"),
    "rest_of_a_body_forgotten": ("process/connection.cpp", "", "return «goes_on_ && request.is_done()»;", "goes_on_"),
    "link_kept_after_a_failed_write": ("upstream/exchange.cpp", "",
                                       "|| «(x.body != nullptr && !u.is_complete())») {", "false"),
    "engine_of_tls_forgotten": ("wire/byte_stream.cpp", "", "if («!tls_») return is_socket_quiet();",
                                "true"),
    "refused_tunnel_goes_on": ("call/call.cpp", "", "if («may_leave_http(head_)») host_", "false"),
}
COUNT = 40_000  # conversations, after which a defect is missed


def play(conversations, gateway, name, *more):
    environment = {**os.environ, "CANIGO_CANARY": name}
    done = subprocess.run([conversations, "--gateway", gateway, "--seed", "1", "--tls", *more],
                          capture_output=True, text=True, errors="replace", env=environment)
    return done.returncode, done.stdout + done.stderr


def hunt(conversations, gateway):
    missed = []
    for name, (_, kind, _, _) in DEFECTS.items():
        start = time.monotonic()
        status, output = play(conversations, gateway, name, "--count", str(COUNT), "--first")
        # On a slow machine a conversation may not end in time, which is no sign of a defect.
        said = [line for line in output.splitlines() if line.startswith("FAILED") and "does not end" not in line]
        played = next((line for line in output.splitlines() if " conversations in " in line), "nothing was played")
        found = status == 1 and any(kind in line for line in said)
        print(f"{'found ' if found else 'MISSED'} {time.monotonic() - start:5.1f} s  {name}: {played}; "
              f"{said[0] if said else output[-300:]}", flush=True)
        if not found:
            missed.append(name)
    status, output = play(conversations, gateway, "", "--count", "2000")
    if status != 0:
        print(f"something is found where there is no defect:\n{output}")
        missed.append("")
    print(f"{len(DEFECTS) - sum(name in missed for name in DEFECTS)} of {len(DEFECTS)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--sources"]:
        print("\n".join(sorted({source for source, *_ in DEFECTS.values()})))
    elif sys.argv[1:2] == ["--names"] and len(sys.argv) == 3:
        pathlib.Path(sys.argv[2]).write_text(names_source(DEFECTS), encoding="utf-8")
    elif sys.argv[1:2] == ["--hunt"] and len(sys.argv) == 4:
        sys.exit(hunt(sys.argv[2], sys.argv[3]))
    elif len(sys.argv) == 4:
        text = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
        pathlib.Path(sys.argv[3]).write_text(spoiled(sys.argv[1], text, DEFECTS), encoding="utf-8")
    else:
        sys.exit(__doc__)
