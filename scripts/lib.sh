# Functions that the scripts share. Source it; it moves to the repository's root and sets $root.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

logs=$root/build/logs
jobs=$(nproc 2>/dev/null || echo 2)

# One cache for every checkout: compiled code does not depend on where the tree lies, and precompiled
# headers of g++ are hashed by what is in them.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

say() { printf '== %s\n' "$*" >&2; }

# need_packages PURPOSE...: installs those packages of scripts/packages that are missing.
need_packages() {
  local purpose package missing=() sudo=()
  while read -r purpose package; do
    case " $* " in *" $purpose "*) ;; *) continue ;; esac
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done < <(grep -vE '^(#|$)' "$root/scripts/packages")
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here; this needs what Debian calls: ${missing[*]}"
    return 0
  fi
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
           apt-get install -qy --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    say "could not install ${missing[*]}"
    return 1
  fi
  rm -f "$log"
}

# first_of COMMAND...: the first that is there.
first_of() {
  local command
  for command; do
    if command -v "$command" >/dev/null; then
      echo "$command"
      return 0
    fi
  done
  say "none of these is installed: $*"
  return 1
}

# variant_compiler VARIANT: the C++ compiler of a variant, with ccache if it is there.
variant_compiler() {
  local compiler
  case $1 in
    asan* | tsan* | clang* | fuzz* | coverage*) compiler=$(first_of clang++-19 clang++) ;;
    *) compiler=$(first_of g++-12 g++) ;;
  esac || return 1
  if command -v ccache >/dev/null; then echo "ccache $compiler"; else echo "$compiler"; fi
}

# asio_version [DIR]: the ASIO_VERSION of the asio.hpp in DIR, or of the system's.
asio_version() {
  "$(first_of g++-12 g++)" ${1:+"-I$1"} -E -P -x c++ - <<<$'#include <asio/version.hpp>\nASIO_VERSION' | tail -n 1
}

# variant_args VARIANT: the meson arguments of a variant, one a line.
variant_args() {
  # clang writes a precompiled header's time into it, and what uses it would never be in the cache.
  local clang_pch="'-Xclang','-fno-pch-timestamp'"
  # The counters lie in the profile itself, so those of a program that was killed are kept (%c in its name).
  local counters="'-fprofile-update=atomic','-mllvm','-runtime-counter-relocation'"
  local frames="'-fno-omit-frame-pointer','-D_GLIBCXX_ASSERTIONS','-g1'"
  case $1 in
    release*)
      printf '%s\n' --buildtype=release -Doptimization=2 -Dtests=false ;;
    gxx*)
      printf '%s\n' -Dwerror=true -Dcpp_args=-g0 -Dhardening=enabled -Dgateway=enabled -Dat_once=enabled \
        "--prefix=$root/build/${1}-prefix" ;;
    clang*)
      printf '%s\n' -Dwerror=true -Dgateway=enabled "-Dcpp_args=[$clang_pch]" ;;
    asan*)
      [[ $1 == asan-all* ]] || printf '%s\n' -Dexamples=false -Dinterleaving=false
      printf '%s\n' -Dwerror=true -Doptimization=1 -Ddefault_library=static -Dbench=false -Dgateway=enabled \
        -Db_sanitize=address,undefined -Db_lundef=false \
        "-Dcpp_args=[$clang_pch,$frames,'-fno-sanitize=function','-fno-sanitize-recover=all']" ;;
    tsan*)
      [[ $1 == tsan-all* ]] || echo -Dthreads_only=true
      printf '%s\n' -Dwerror=true -Doptimization=1 -Ddefault_library=static -Dbench=false -Dexamples=false \
        -Dgateway=enabled -Db_sanitize=thread -Db_lundef=false \
        "-Dcpp_args=[$clang_pch,$frames]" ;;
    uring*)
      printf '%s\n' -Dwerror=true -Doptimization=0 -Ddefault_library=static -Dbench=false -Dinterleaving=false \
        "-Dcpp_args=['-g0','-DASIO_HAS_IO_URING','-DASIO_DISABLE_EPOLL']" -Dcpp_link_args=-luring ;;
    coverage*)
      printf '%s\n' -Doptimization=0 -Ddefault_library=static -Dbench=false -Dexamples=false -Db_lundef=false \
        -Dgateway=enabled \
        "-Dcpp_args=[$clang_pch,'-g1','-fprofile-instr-generate','-fcoverage-mapping',$counters]" \
        -Dcpp_link_args=-fprofile-instr-generate ;;
    gateway*)  # as it is installed
      printf '%s\n' --buildtype=release -Doptimization=2 -Dtests=false -Dexamples=false -Dbench=false \
        -Ddefault_library=static -Dgateway=enabled ;;
    boost*)
      printf '%s\n' -Dwerror=true -Doptimization=0 -Dcpp_args=-g0 -Dbench=false -Dinterleaving=false \
        -Ddefault_library=static ;;
    stealing*)
      printf '%s\n' -Dwerror=true -Doptimization=0 -Dcpp_args=-g0 -Dbench=false -Dexamples=false \
        -Dinterleaving=false -Dat_once=enabled -Ddefault_library=static -Dgateway=disabled ;;
    flavours*)
      # As gxx, whose compiled code serves here, too; of optimised code g++ warns more.
      printf '%s\n' -Dwerror=true -Dcpp_args=-g0 -Dhardening=enabled "--prefix=$root/build/${1}-prefix" \
        -Dboost=enabled -Dtests=false -Dexamples=false -Dbench=false ;;
    fuzz*)
      printf '%s\n' -Dfuzz=true -Doptimization=1 -Ddefault_library=static -Dbench=false -Dexamples=false \
        -Dgateway=enabled -Db_sanitize=address,undefined -Db_lundef=false \
        "-Dcpp_args=[$clang_pch,$frames,'-fno-sanitize=function','-fno-sanitize-recover=all']" ;;
    *) say "no such variant: $1"; return 1 ;;
  esac
}

# sanitizer_options: how programs that are built with a sanitizer are run.
sanitizer_options() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_init_order=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  local symbolizer
  for symbolizer in llvm-symbolizer-19 llvm-symbolizer; do
    if command -v "$symbolizer" >/dev/null; then
      ASAN_SYMBOLIZER_PATH=$(command -v "$symbolizer")
      export ASAN_SYMBOLIZER_PATH
      TSAN_OPTIONS=$TSAN_OPTIONS:external_symbolizer_path=$ASAN_SYMBOLIZER_PATH
      break
    fi
  done
}

# The thread sanitizer's shadow memory has fixed addresses, which a kernel that randomizes more bits than
# the sanitizer expects may have given away. Prints what to put before a program, if anything.
tsan_launcher() {
  local dir compiler
  dir=$(mktemp -d)
  compiler=$(first_of clang++-19 clang++) || return 1
  echo 'int main() {}' >"$dir/empty.cpp"
  "$compiler" -fsanitize=thread "$dir/empty.cpp" -o "$dir/empty" || return 1
  if ! "$dir/empty" 2>/dev/null && setarch -R "$dir/empty" 2>/dev/null; then echo 'setarch -R'; fi
  rm -rf "$dir"
}

# configure VARIANT [MESON-ARGUMENT...]: makes build/VARIANT, anew if its arguments have changed.
configure() {
  local variant=$1 dir=$root/build/$1 tree=$root args compiler stamp
  shift
  if [[ $variant == boost* ]]; then
    tree=$root/build/boost-src
    "$root/scripts/on-boost" "$tree" || return 1
  elif [[ $variant == *stealing* ]]; then
    tree=$root/build/stealing-src
    "$root/scripts/on-stealing" "$tree" || return 1
  fi
  args=$(variant_args "$variant") || return 1
  compiler=$(variant_compiler "$variant") || return 1
  mapfile -t args <<<"$args"
  args+=("$@")
  stamp=$(printf '%s\n' "$compiler" "${args[@]}")
  if [ -f "$dir/build.ninja" ] && [ "$(cat "$dir/configured-with" 2>/dev/null)" = "$stamp" ]; then
    return 0
  fi
  rm -rf "$dir"
  mkdir -p "$logs"
  local log=$logs/$variant.configure.log
  if ! CXX=$compiler CXXFLAGS='' LDFLAGS='' meson setup "${args[@]}" "$dir" "$tree" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    say "$variant: could not be configured"
    return 1
  fi
  printf '%s\n' "$stamp" >"$dir/configured-with"
}

# build VARIANT [TARGET...]: compiles it; prints what the compilers say, and the progress on a terminal.
build() {
  local variant=$1 quiet=(--quiet) here=()
  shift
  [ -t 1 ] && quiet=()
  # A precompiled header of clang names the files it was made of by where they lay.
  case $variant in
    asan* | tsan* | clang* | fuzz* | coverage*) here=(env -u CCACHE_NOHASHDIR) ;;
  esac
  if ! "${here[@]}" ninja -C "$root/build/$variant" -j "$jobs" -k 0 "${quiet[@]}" "$@" </dev/null >&2; then
    say "$variant: the build failed"
    return 1
  fi
}
