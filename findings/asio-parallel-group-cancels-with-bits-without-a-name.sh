#!/usr/bin/env bash
# Asio 1.22.1 and 1.36.0: what the losers of a parallel_group and of `a || b` are cancelled with.
#
# A good guess: with one of the three kinds that cancellation_type names, terminal, partial or total, and with the same
# one in both, as `a || b` is made of a parallel_group. So an operation may compare the kind with ==, or switch over it.
#
# Seen: the operation in `a || b` gets terminal, 1. In a parallel_group that waits for one it gets 4294967295: every
# bit, also those that no kind has. A comparison with == finds no kind then, and a switch goes to its default; only a
# test of bits sees the cancellation.
#
# Prints what each version did, and fails if that is no longer so. Needs g++ 12 or later, and apt on Debian.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/play.cpp" <<'PLAY'
#include <asio.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/experimental/parallel_group.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

/// Ends when it is cancelled, and prints with what.
template <class Token>
auto wait_to_be_cancelled(asio::io_context& io, Token&& token) {
  return asio::async_initiate<Token, void(asio::error_code)>(
      [&io](auto handler) {
        auto slot = asio::get_associated_cancellation_slot(handler);
        auto kept = std::make_shared<decltype(handler)>(std::move(handler));
        slot.assign([&io, kept](asio::cancellation_type type) {
          std::printf("%u\n", static_cast<unsigned>(type));
          asio::post(io, [kept] { (*kept)(asio::error_code{asio::error::operation_aborted}); });
        });
      },
      token);
}

int main() {
  using namespace asio::experimental::awaitable_operators;
  asio::io_context io;
  asio::steady_timer soon{io, std::chrono::milliseconds{1}};
  asio::experimental::make_parallel_group([&](auto token) { return wait_to_be_cancelled(io, std::move(token)); },
                                          [&](auto token) { return soon.async_wait(std::move(token)); })
      .async_wait(asio::experimental::wait_for_one(), [](auto&&...) {});
  io.run();
  io.restart();
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        co_await (wait_to_be_cancelled(io, asio::use_awaitable) || soon.async_wait(asio::use_awaitable));
      },
      asio::detached);
  io.run();
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
  g++ -std=c++20 -I"$folder/$suite/unpacked/usr/include" "$folder/play.cpp" -o "$folder/play" -pthread
  said=$("$folder/play" | xargs)
  printf 'libasio-dev %s: %s\n' "$version" "$said"
  [ "$said" = '4294967295 1' ] || { echo 'it does otherwise now' >&2; exit 1; }
done
echo 'as described'
