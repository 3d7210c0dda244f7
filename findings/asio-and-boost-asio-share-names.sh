#!/usr/bin/env bash
# One file can't include Asio 1.36 and Boost.Asio 1.92.
#
# A good guess: it can. All names of the one are in the namespace asio, and those of the other in boost::asio. Programs
# include both if a server on Asio uses a library on Boost.Asio, such as Beast.
#
# Seen with Asio 1.30.2 and Boost 1.88 of Debian 13: such a file compiles. With Asio 1.36.0 and Boost 1.92 of Debian's
# unstable it does not. Boost.Asio has taken the prefix "boost_" from its global names, so both now define
# asio_require_fn, asio_handler_cont_helpers and others. The macro BOOST_ASIO_VERSION_NAMESPACE puts another word into
# Boost's names, and the file compiles:
#
#     trixie: compiles
#     sid: errors
#     sid with BOOST_ASIO_VERSION_NAMESPACE: compiles
#
# Two files of one program that include one each do compile. Then the program has two definitions of these global names,
# and the macro avoids that, too.
#
# Prints what each version did, and fails if that is no longer so. Needs g++ 12 or later, and apt on Debian.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '%s\n' '#include <asio.hpp>' '#include <boost/asio.hpp>' 'int main() {}' >"$folder/both.cpp"

# unpack SUITE PACKAGE=VERSION...: these packages of Debian, from the mirror that this machine has.
unpack() {
  local root=$folder/$1 mirror package
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Created-By: Packages')
  mirror=$(sed -n 's/ Debian$//p' <<<"$mirror" | head -n 1)
  mkdir -p "$root"/{lists/partial,archives/partial,unpacked}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$root/sources.list"
  : >"$root/status"
  local own=(-q -o "Dir::Etc::SourceList=$root/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$root/lists" -o "Dir::State::Status=$root/status" -o "Dir::Cache=$root"
    -o Acquire::Languages=none -o APT::Sandbox::User=root)
  { apt-get "${own[@]}" update && (cd "$root" && apt-get "${own[@]}" download "${@:2}"); } >"$root/log" 2>&1 ||
    { cat "$root/log" >&2; return 1; }
  for package in "$root"/*.deb; do dpkg-deb -x "$package" "$root/unpacked"; done
}

# compiles SUITE OPTION...: prints whether the file compiles.
compiles() {
  if g++ -std=c++20 -fsyntax-only "${@:2}" -isystem "$folder/$1/unpacked/usr/include" "$folder/both.cpp" \
    2>"$folder/errors"; then
    echo compiles
  elif grep -q 'boost/asio/.*error' "$folder/errors"; then
    echo errors
  else
    cat "$folder/errors" >&2
    return 1
  fi
}

unpack trixie libasio-dev=1:1.30.2-1 libboost1.88-dev=1.88.0-1
unpack sid libasio-dev=1:1.36.0-1 libboost1.92-dev=1.92.0-4+b1
said="trixie: $(compiles trixie)
sid: $(compiles sid)
sid with BOOST_ASIO_VERSION_NAMESPACE: $(compiles sid -DBOOST_ASIO_VERSION_NAMESPACE=of_boost)"
echo "$said"
[ "$said" = 'trixie: compiles
sid: errors
sid with BOOST_ASIO_VERSION_NAMESPACE: compiles' ] || { echo 'it does otherwise now' >&2; exit 1; }
echo 'as described'
