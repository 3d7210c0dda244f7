#!/usr/bin/env bash
# g++ 16.2.0: `import std;` before `#include <asio.hpp>` does not compile, and after it works.
#
# A good guess: the order does not matter, as the headers of the standard library know that they are imported already.
#
# Seen with g++ 16.2.0 and Asio 1.36.0: "before: thousands of errors", the first of them redefinitions, and
# "after: runs".
#
# Fails if that is no longer so. Needs Debian with its archive's keys and a mirror with these versions, and root or a
# user who may have namespaces.
set -euo pipefail

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$tree/scripts/debian-root" sid "$dir/root" g++-16=16.2.0-4 libasio-dev=1:1.36.0-1 dash coreutils
mkdir "$dir/root/play"
include='#include <asio.hpp>'
import='import std;'
rest='int main() { asio::io_context io; io.run(); std::puts("runs"); }'
printf '%s\n' "$import" "$include" "$rest" >"$dir/root/play/before.cpp"
printf '%s\n' "$include" "$import" "$rest" >"$dir/root/play/after.cpp"

# play COMMAND...: in the root, in that folder.
play() { "$dir/root/enter" /usr/bin/env -i -C /play PATH=/usr/bin LANG=C.UTF-8 "$@"; }
compile=(g++-16 -std=c++23 -fmodules)
play "${compile[@]}" -fsearch-include-path -c bits/std.cc -o std.o
errors=$(play "${compile[@]}" -fsyntax-only before.cpp 2>&1 | grep -c 'error: redefinition' || true)
echo "before: $errors redefinitions"
play "${compile[@]}" after.cpp std.o -o after
said=$(play ./after)
echo "after: $said"
[ "$errors" -gt 1000 ] && [ "$said" = runs ] || { echo 'it does otherwise now' >&2; exit 1; }
echo 'as described'
