#!/usr/bin/env bash
# The public face: each header compiles alone as C11 and C++, the program in locus.h's top comment
# builds against the shared library, runs, and the library exports locus_ names only.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
root=${here%/*}
build=${LOCUS_BUILD:-$root/build}
read -ra cc <<<"${CC:-gcc}"
read -ra cxx <<<"${CXX:-c++}"
read -ra sanitize <<<"${SANITIZE_FLAGS:-}"
strict=(-Wall -Wextra -Werror -pedantic "-I$root/include")
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
checks=0 failures=0

# check WHAT COMMAND...: one check; shows the output of a command that failed.
check() {
    local what=$1
    shift
    checks=$((checks + 1))
    if ! "$@" >"$folder/output" 2>&1; then
        failures=$((failures + 1))
        echo "test_headers: $what"
        head -20 "$folder/output"
    fi
}

for header in "$root"/include/*.h; do
    name=$(basename "$header")
    # Twice: the guard has to hold. Nothing else is included before.
    printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$name" "$name" \
        >"$folder/alone.c"
    check "$name as C11" "${cc[@]}" -std=c11 "${strict[@]}" -c "$folder/alone.c" -o "$folder/alone.o"
    if command -v "${cxx[0]}" >/dev/null; then
        cp "$folder/alone.c" "$folder/alone.cpp"
        check "$name as C++" "${cxx[@]}" "${strict[@]}" -c "$folder/alone.cpp" -o "$folder/alone.o"
    else
        checks=$((checks + 1))
        echo "skipped: test_headers.sh: $name as C++ (no ${cxx[0]})"
    fi
done

sed -n '/^ \*     #include <locus.h>/,/^ \*     }$/ s/^ \* \{0,5\}//p' "$root/include/locus.h" \
    >"$folder/story.c"
check "locus.h shows a program" grep -q 'int main(void)' "$folder/story.c"
check "the program of locus.h builds" "${cc[@]}" -std=c11 "${strict[@]}" "${sanitize[@]}" \
    "$folder/story.c" "-L$build" -llocus "-Wl,-rpath,$build" -o "$folder/story"

writes_a_story() { (cd "$root" && [ "$("$folder/story" | wc -c)" -gt 100 ]); }
if [ -f "$root/models/tales.gguf" ]; then check "the program of locus.h writes" writes_a_story; fi

exports_only_ours() {
    nm -D --defined-only "$build/liblocus.so" >"$folder/symbols" &&
        grep -q ' T locus_model_open$' "$folder/symbols" &&
        ! awk '{ print $NF }' "$folder/symbols" | grep -vE '^locus_|^_(init|fini|edata|end)$|^__bss_start$'
}
# Sanitizers add symbols of their own.
[ ${#sanitize[@]} -gt 0 ] || check "liblocus.so exports locus_ names only" exports_only_ours

declared_and_exported() {
    sed -n 's/^ *LOCUS_API.*[ *]\(locus_[a-z0-9_]*\)(.*/\1/p' "$root"/include/*.h | sort -u \
        >"$folder/declared"
    nm -D --defined-only "$build/liblocus.so" | sed -n 's/.* T \(locus_[a-z0-9_]*\)$/\1/p' | sort -u \
        >"$folder/exported"
    diff "$folder/declared" "$folder/exported"
}
check "liblocus.so exports exactly what the headers declare" declared_and_exported

echo "$((checks ? 100 * (checks - failures) / checks : 0))%: Checks: $checks, Failures: $failures, Errors: 0"
[ "$failures" -eq 0 ]
