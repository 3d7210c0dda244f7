#!/usr/bin/env bash
# Boost.JSON makes NaN of a zero with a large exponent.
#
# A good guess: JSON has no NaN, so a parser of JSON never gives one, and what is written as zero is zero: 0e309 is 0.0,
# as 0e308 is. A number that is too large is an error, or infinite, as 1e309.
#
# Seen with Boost 1.81, and with 1.88 of Debian 13: 0e309 and 0.0e400 are NaN, and not an error. The mantissa is
# multiplied by ten to the power of the exponent, which is infinite there. A comparison such as `value < 0` lets NaN
# pass, and to make an integer of it is undefined.
#
#     0e308 0
#     0e309 nan
#     0.0e400 nan
#     1e309 inf
#
# Prints what each version did, and fails if that is no longer so. Needs g++ 12 or later, and apt on Debian.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/program.cpp" <<'PLAY'
#include <boost/json/src.hpp>
#include <cmath>
#include <cstdio>

int main() {
  for (const char* text : {"0e308", "0e309", "0.0e400", "1e309"}) {
    const double value = boost::json::parse(text).as_double();
    if (std::isnan(value)) {
      std::printf("%s nan\n", text);
    } else {
      std::printf("%s %g\n", text, value);
    }
  }
}
PLAY

# boost SUITE PACKAGE VERSION: that package of Debian, unpacked; from the mirror that this machine has.
boost() {
  local root=$folder/$1 mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Created-By: Packages')
  mirror=$(sed -n 's/ Debian$//p' <<<"$mirror" | head -n 1)
  mkdir -p "$root"/{lists/partial,archives/partial,unpacked}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$root/sources.list"
  : >"$root/status"
  local own=(-q -o "Dir::Etc::SourceList=$root/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$root/lists" -o "Dir::State::Status=$root/status" -o "Dir::Cache=$root"
    -o Acquire::Languages=none -o APT::Sandbox::User=root)
  { apt-get "${own[@]}" update && cd "$root" && apt-get "${own[@]}" download "$2=$3"; } >"$root/log" 2>&1 ||
    { cat "$root/log" >&2; return 1; }
  dpkg-deb -x "$root/$2"_*.deb "$root/unpacked"
}

for package in 'bookworm libboost1.81-dev 1.81.0-5+deb12u1' 'trixie libboost1.88-dev 1.88.0-1'; do
  read -r suite name version <<<"$package"
  boost "$suite" "$name" "$version"
  g++ -std=c++20 -O1 -I"$folder/$suite/unpacked/usr/include" "$folder/program.cpp" -o "$folder/play"
  said=$("$folder/play")
  printf '%s %s:\n%s\n' "$name" "$version" "$said"
  [ "$said" = '0e308 0
0e309 nan
0.0e400 nan
1e309 inf' ] || { echo 'it does otherwise now' >&2; exit 1; }
done
echo 'as described'
