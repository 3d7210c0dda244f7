#!/usr/bin/env bash
# Asio 1.36.0, _FORTIFY_SOURCE, and two files of one program that hand each other an endpoint.
#
# A good guess: _FORTIFY_SOURCE changes no layout. It adds checks to functions of the C library. Distributions set it
# for their packages only, and files with it and without are linked together everywhere.
#
# Seen: asio::ip::tcp::endpoint has 128 bytes in a file with it and 28 in one without. A function that fills in an
# endpoint of its caller writes past the end of it, without any message of compiler or linker. In 1.22.1 both have 28.
# By its sources 1.37 is as 1.36, and so is Boost 1.89; 1.38 and Boost 1.90 have 28 bytes again.
#
# Prints what each version did, and fails if that is no longer so. Needs g++ 12 or later, and apt on Debian.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/library.cpp" <<'PLAY'
#include <asio.hpp>
#include <cstddef>

std::size_t size_in_library() { return sizeof(asio::ip::tcp::endpoint); }
void fill(asio::ip::tcp::endpoint& e) { e = {asio::ip::address_v4::loopback(), 80}; }
PLAY
cat >"$folder/program.cpp" <<'PLAY'
#include <asio.hpp>
#include <cstddef>
#include <cstdio>
#include <cstring>

std::size_t size_in_library();
void fill(asio::ip::tcp::endpoint&);

int main() {
  struct {
    asio::ip::tcp::endpoint mine;
    unsigned char beside[128];
  } place;
  std::memset(place.beside, 7, sizeof place.beside);
  fill(place.mine);
  std::size_t changed = 0;
  for (unsigned char byte : place.beside) changed += byte != 7;
  std::printf("%zu bytes in the program, %zu in the library, which wrote %s the end\n", sizeof place.mine,
              size_in_library(), changed == 0 ? "up to" : "past");
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
  flags=(-std=c++20 -Wall -Wextra -O2 -U_FORTIFY_SOURCE -I"$folder/$suite/unpacked/usr/include" -pthread)
  g++ "${flags[@]}" -D_FORTIFY_SOURCE=2 -c "$folder/library.cpp" -o "$folder/library.o"
  g++ "${flags[@]}" "$folder/program.cpp" "$folder/library.o" -o "$folder/play"
  said=$("$folder/play")
  printf 'libasio-dev %s: %s\n' "$version" "$said"
  case $version in
    1:1.22.*) expected='28 bytes in the program, 28 in the library, which wrote up to the end' ;;
    *) expected='28 bytes in the program, 128 in the library, which wrote past the end' ;;
  esac
  [ "$said" = "$expected" ] || { echo 'it does otherwise now' >&2; exit 1; }
done
echo 'as described'
