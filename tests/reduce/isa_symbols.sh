#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Code compiled for one instruction set stays its own. A weak symbol (an inline function, a
# template) could be merged by the linker with the copy of another instruction set, and then run on
# a CPU that lacks it. Usage: isa_symbols.sh NM LIBRARY…
set -eu
nm=$1
shift
for library; do
  # AddressSanitizer adds an indicator of its own beside every global.
  symbols=$("$nm" --defined-only -C "$library" | grep -v ' __odr_asan\.')
  # `if` keeps a failing grep (nothing found) from ending the script.
  if printf '%s\n' "$symbols" | grep -E '^[0-9a-f]+ [VWuvw] '; then
    echo "$library: the symbols above are weak, so the linker may merge them across instruction sets"
    exit 1
  fi
  count=$(printf '%s\n' "$symbols" | grep -E -c '^[0-9a-f]+ [A-Z] ' || true)
  if [ "$count" != 1 ]; then
    printf '%s\n' "$symbols" | grep -E '^[0-9a-f]+ [A-Z] ' || true
    echo "$library: one global symbol expected, its table; found $count"
    exit 1
  fi
done
