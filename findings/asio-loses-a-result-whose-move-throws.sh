#!/usr/bin/env bash
# Asio 1.22.1 and 1.36.0: co_await co_spawn(...) of a coroutine whose result throws when it is moved.
#
# A good guess: the exception comes out of the co_await, as all that the spawned coroutine throws. By its signature,
# void(std::exception_ptr, T), the handler of co_spawn gets either one, and nothing says that the move of T must not
# throw: the standard containers of some libraries allocate in theirs.
#
# Seen: that holds for the first two moves only. From the third on, in which the result is on its way to the handler,
# the exception leaves io_context::run(). The coroutine that waits is destroyed in the middle of its co_await: it gets
# neither result nor exception, no catch block of it runs, and its own completion handler is never called.
#
# Prints what each version did, and fails if that is no longer so. Needs g++ 12 or later, and apt on Debian.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/play.cpp" <<'PLAY'
#include <asio.hpp>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>

struct result {
  static inline int throwing_move = 0;
  result() = default;
  result(result&& other) : moves{other.moves + 1} {
    if (moves == throwing_move) throw std::runtime_error{"moved"};
  }
  int moves = 0;
};

asio::awaitable<result> make() { co_return result{}; }

asio::awaitable<void> wait(asio::io_context& io, const char*& end) {
  try {
    result r = co_await asio::co_spawn(io, make(), asio::use_awaitable);
    end = "has it";
  } catch (const std::exception&) {
    end = "catches";
  }
}

int main() {
  for (int move = 1; move <= 4; ++move) {
    result::throwing_move = move;
    asio::io_context io;
    const char* waiting = "never goes on";
    bool has_ended = false, run_threw = false;
    asio::co_spawn(io, wait(io, waiting), [&](std::exception_ptr) { has_ended = true; });
    try {
      io.run();
    } catch (const std::exception&) {
      run_threw = true;
    }
    io.restart();
    io.run();  // to the very end
    std::printf("move %d: it %s, its handler is %scalled, run() %s\n", move, waiting, has_ended ? "" : "not ",
                run_threw ? "throws" : "returns");
  }
}
PLAY

# asio SUITE VERSION: that package of Debian, unpacked; from the mirror that this machine has.
asio() {
  local root=$folder/$1 mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Created-By: Packages')
  mirror=$(sed -n 's/ Debian$//p' <<<"$mirror" | head -n 1)
  mkdir -p "$root"/{lists/partial,archives/partial,unpacked}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$root/sources.list"
  : >"$root/status"
  local own=(-q -o "Dir::Etc::SourceList=$root/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$root/lists" -o "Dir::State::Status=$root/status" -o "Dir::Cache=$root"
    -o Acquire::Languages=none -o APT::Sandbox::User=root)
  { apt-get "${own[@]}" update && cd "$root" && apt-get "${own[@]}" download "libasio-dev=$2"; } >"$root/log" 2>&1 ||
    { cat "$root/log" >&2; return 1; }
  dpkg-deb -x "$root"/libasio-dev_*.deb "$root/unpacked"
}

expected='move 1: it catches, its handler is called, run() returns
move 2: it catches, its handler is called, run() returns
move 3: it never goes on, its handler is not called, run() throws
move 4: it never goes on, its handler is not called, run() throws'
for package in 'bookworm 1:1.22.1-1' 'sid 1:1.36.0-1'; do
  read -r suite version <<<"$package"
  asio "$suite" "$version"
  g++ -std=c++20 -DASIO_HAS_CO_AWAIT=1 -I"$folder/$suite/unpacked/usr/include" "$folder/play.cpp" \
    -o "$folder/play" -pthread
  said=$("$folder/play")
  printf 'libasio-dev %s\n%s\n' "$version" "$said"
  [ "$said" = "$expected" ] || { echo 'it does otherwise now' >&2; exit 1; }
done
echo 'as described'
