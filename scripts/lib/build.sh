# SPDX-License-Identifier: Apache-2.0
# What they share: where things are, how to configure. Sourced by sh; sets `root` (the repository),
# `cores`, `debug_lines` and `together`.
root=$(cd "$(dirname "$0")/.." && pwd)
cores=$(nproc 2>/dev/null || echo 2)
# Lines for backtraces, and no more: all of a debugger's information takes a third of the time that a
# build takes, with the sanitizers half of it.
debug_lines=-g1
# For a build that is made once. Only without it each source is compiled alone, and shows that it includes what it
# needs.
together='-Dunity=on -Dunity_size=64'

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# configure DIRECTORY OPTION…: makes or brings up to date a build directory, quietly.
configure() {
  directory=$1
  shift
  version=$(meson --version 2>/dev/null) || die "no meson: run scripts/setup"
  case $version in
    0.*) die "meson $version is too old, 1.0 is needed: it is $(command -v meson); Debian 12's is /usr/bin/meson" ;;
  esac
  # A sanitizer's program takes the default linker a second, lld a sixth of one.
  linker=
  case " $* " in *-Db_sanitize=*) if command -v ld.lld >/dev/null; then linker=lld; fi ;; esac
  stamp="$directory/configured-with"
  want="$version $* CC=${CC:-} CXX=${CXX:-} LD=$linker"
  if [ -f "$directory/build.ninja" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    return 0
  fi
  mode=
  if [ -f "$directory/build.ninja" ]; then mode=--reconfigure; fi
  log=$(mktemp)
  # What another version or compiler left may not be usable: then from scratch.
  meson_setup() { env ${linker:+CC_LD=$linker CXX_LD=$linker} meson setup "$@" "$directory" "$root" >"$log" 2>&1; }
  # shellcheck disable=SC2086  # $mode may be empty
  if ! meson_setup $mode "$@"; then
    if ! { [ -d "$directory/meson-private" ] && meson_setup --wipe "$@"; }; then
      tail -n 25 "$log" >&2
      rm -f "$log"
      die "configuring $directory failed (above: meson's last lines)"
    fi
  fi
  rm -f "$log"
  echo "$want" >"$stamp"
}

# build DIRECTORY TARGET…: compiles; the full output only when it fails.
build() {
  directory=$1
  shift
  quiet=--quiet
  if [ -t 1 ]; then quiet=; fi
  # shellcheck disable=SC2086  # $quiet may be empty
  ninja $quiet -k 20 -C "$directory" "$@" || die "building in $directory failed"
}

# test_selected DIRECTORY PATIENCE LEFT_OUT ROOMS NAME…: builds and runs the tests of these rooms and names, all of
# them if none is given, but none of the suite LEFT_OUT, if that is not empty.
test_selected() {
  directory=$1 patience=$2 left_out=$3 rooms=$4
  shift 4
  targets=
  if [ -n "$rooms$*" ]; then
    ninja --quiet -C "$directory" build.ninja >/dev/null || true  # its list of tests may be old
    selected=$("$root/scripts/lib/select-tests" "$directory" "$left_out" "$rooms" "$@") || die "nothing to test"
    targets=$(echo "$selected" | sed -n 2p)
    # shellcheck disable=SC2046  # a list of words
    set -- $(echo "$selected" | sed -n 1p)
  fi
  # shellcheck disable=SC2086  # lists of words
  if [ -z "$rooms$*" ] || [ -n "$targets" ]; then build "$directory" $targets; fi
  # shellcheck disable=SC2086
  run_tests "$directory" "$patience" ${left_out:+--no-suite $left_out} "$@"
}

# run_tests DIRECTORY PATIENCE ARGUMENT…: runs `meson test`, time limits times PATIENCE, and counts. The
# counting decides, not meson's exit status; a test that hangs ends at its own limit.
run_tests() {
  directory=$1 patience=$2
  shift 2
  COLL_TEST_RESULTS=$directory/test-results
  export COLL_TEST_RESULTS
  rm -rf "$COLL_TEST_RESULTS" "$directory"/meson-logs/testlog*
  mkdir -p "$COLL_TEST_RESULTS"
  meson test -C "$directory" --no-rebuild --num-processes "$cores" --timeout-multiplier "$patience" \
    --wrapper "$root/scripts/lib/run-one" "$@" </dev/null || true
  "$root/scripts/lib/count-results" "$directory/meson-logs/testlog-run-one.json" "$COLL_TEST_RESULTS"
}
