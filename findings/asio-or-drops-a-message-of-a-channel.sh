#!/usr/bin/env bash
# Asio 1.22.1 and 1.36.0: a receive of a channel raced with a timer by the operator ||.
#
# A good guess: a message that is in the channel goes to the receiver, or stays for the next receive. The operator
# cancels the branch that loses, and a cancelled receive takes nothing.
#
# Seen: if a message arrives in the turn of the loop in which the timer expires, the timer wins, the receive has its
# message already, and the operator drops it. A sender with a beat of 5 ms, beside a receiver that gives up after 5 ms
# and tries again, loses a half of its messages: in each run 100 of 200. Neither side sees an error.
#
# Prints what each version did, and fails if that is no longer so. Needs g++ 12 or later, and apt on Debian.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/program.cpp" <<'PLAY'
#include <asio.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/experimental/channel.hpp>
#include <chrono>
#include <cstdio>
#include <system_error>

using namespace asio::experimental::awaitable_operators;
using queue = asio::experimental::channel<void(std::error_code, int)>;
constexpr int beats = 200;

asio::awaitable<void> wait() {
  asio::steady_timer t{co_await asio::this_coro::executor, std::chrono::milliseconds{5}};
  co_await t.async_wait(asio::use_awaitable);
}

asio::awaitable<void> send(queue& q, bool& is_done) {
  for (int i = 0; i < beats; ++i) {
    co_await wait();
    co_await q.async_send({}, i, asio::use_awaitable);
  }
  is_done = true;
}

asio::awaitable<void> receive(queue& q, const bool& is_done, int& got) {
  while (!is_done) {
    auto first = co_await (q.async_receive(asio::use_awaitable) || wait());
    if (first.index() == 0) ++got;
  }
}

int main() {
  asio::io_context io{1};
  queue q{io, 10};
  int got = 0, left = 0;
  bool is_done = false;
  asio::co_spawn(io, send(q, is_done), asio::detached);
  asio::co_spawn(io, receive(q, is_done, got), asio::detached);
  io.run();
  while (q.try_receive([](std::error_code, int) {})) ++left;
  std::printf("%d of %d messages lost\n", beats - got - left, beats);
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

for package in 'bookworm 1:1.22.1-1' 'sid 1:1.36.0-1'; do
  read -r suite version <<<"$package"
  asio "$suite" "$version"
  g++ -std=c++20 -O1 -I"$folder/$suite/unpacked/usr/include" "$folder/program.cpp" -o "$folder/play" -pthread
  said=$("$folder/play")
  printf 'libasio-dev %s: %s\n' "$version" "$said"
  [ "${said%% *}" -gt 20 ] || { echo 'it does otherwise now' >&2; exit 1; }
done
echo 'as described'
