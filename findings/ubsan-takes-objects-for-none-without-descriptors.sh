#!/usr/bin/env bash
# clang's UndefinedBehaviorSanitizer, -fsanitize=vptr, in a process that has used up its file descriptors.
#
# A good guess: the check of an object's dynamic type reads memory and nothing else. A server that is tested at its
# limit of open files behaves as it does without the sanitizer.
#
# Seen (clang 19.1.7 of Debian 12): the first look at a type opens a pair of descriptors, to learn whether
# the object's memory can be read. Without a free descriptor the answer is no, and a sound object of the right type is
# told of as "does not point to an object of type", "object has invalid vptr", "memory cannot be printed". With
# -fno-sanitize-recover the process ends. What was looked at before is remembered, so a second look says nothing.
#
# Prints what the program did, and fails if that is no longer so. Needs clang 19 with its runtime.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
compiler=$(command -v clang++-19 || command -v clang++)
cat >"$folder/play.cpp" <<'PLAY'
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <unistd.h>

struct shape {
  virtual ~shape() = default;
  virtual int corners() const = 0;
};
struct square : shape {
  int corners() const override { return 4; }
};
struct triangle : shape {
  int corners() const override { return 3; }
};

int main(int, char** arguments) {
  const bool looks_before = std::strcmp(arguments[1], "before") == 0;
  const std::unique_ptr<shape> one = std::make_unique<square>();
  const std::unique_ptr<shape> other = std::make_unique<triangle>();
  if (looks_before) std::printf("%d %d\n", one->corners(), other->corners());
  while (::open("/dev/null", O_RDONLY) >= 0) {}
  std::printf("%d %d\n", one->corners(), other->corners());
}
PLAY
"$compiler" --version | head -n 1
"$compiler" -std=c++20 -O0 -g -fsanitize=vptr "$folder/play.cpp" -o "$folder/play"

# run WHEN: how many looks at an object are told of as defects, and the whole of the program's own output.
run() {
  (ulimit -n 64 && "$folder/play" "$1") >"$folder/out" 2>"$folder/err" || true
  echo "first look $1: $(grep -c 'does not point to an object of type' "$folder/err") told of as defects;" \
    "the program says: $(tr '\n' ' ' <"$folder/out")"
}
before=$(run before)
after=$(run after)
printf '%s\n%s\n' "$before" "$after"
[[ $before == "first look before: 0 told"*"4 3 4 3 " ]] && [[ $after == "first look after: "[23]" told"*"4 3 " ]]
