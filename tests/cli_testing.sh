# For tests of the program and its installation, sourced by them: checks that count, and the models they run on.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
root=${here%/*}
# shellcheck disable=SC2034 # the tests use what is set here
data=$here/data
locus=${LOCUS_PROGRAM:-$root/build/locus}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
out=$folder/out err=$folder/err
checks=0 failures=0 status=0
unset LOCUS_MODEL

python=$root/.venv/bin/python
[ -x "$python" ] || python=python3

# Runs the program; its streams go to $out and $err, its exit status to $status.
run() {
    "$locus" "$@" >"$out" 2>"$err" </dev/null
    status=$?
}

# check WHAT COMMAND...: one check, passed if the command is.
check() {
    local what=$1
    shift
    checks=$((checks + 1))
    "$@" >"$folder/log" 2>&1 && return
    failures=$((failures + 1))
    printf '%s: %s\n' "$(basename "$0")" "$what"
    head -c 1000 "$folder/log"
    [ ! -s "$err" ] || sed 's/^/  stderr: /' "$err" | head -5
    return 1
}

is() { [ "$1" = "$2" ] || { printf 'found %s, expected %s\n' "$1" "$2"; false; }; }

# done_with STATUS: nothing else ended the last run.
done_with() { is "exit status $status" "exit status $1"; }

# refuses STATUS PATTERN ARGUMENT...: nothing on stdout, and one line on stderr that fits; for wrong
# usage a second one says where to find help.
refuses() {
    local expected=$1 pattern=$2 lines
    shift 2
    run "$@"
    done_with "$expected" || return
    [ ! -s "$out" ] || { echo "stdout is not empty"; return 1; }
    lines=$(grep -vc '^locus: seed ' "$err")
    is "$lines lines" "$expected lines" || return
    grep -qE "^locus: error: .*$pattern" "$err" || { echo "stderr doesn't fit '$pattern'"; false; }
}

# succeeds ARGUMENT...: exit status 0 and something on stdout.
succeeds() {
    run "$@"
    done_with 0 && [ -s "$out" ]
}

# prints PATTERN / says PATTERN: a line of the last run's stdout, or stderr, fits.
prints() { grep -qE -e "$1" "$out"; }
says() { grep -qE -e "$1" "$err"; }
silent() { [ ! -s "$err" ]; }

# differ FILE FILE; same FILE FILE
differ() { ! cmp -s "$1" "$2"; }
same() { cmp "$1" "$2"; }

# What is printed is JSON (where there is a Python to tell), and EXPRESSION on it, as `it`, is true.
is_json() {
    "$python" -c 'import json, sys
it = json.load(open(sys.argv[1], encoding="utf-8"))
sys.exit(not eval(f"({sys.argv[2]})"))' "$out" "${1:-True}"
}

# imports MODULES: whether there is a Python with those (none: at all); if not, what is left out is
# skipped, and said.
imports() {
    "$python" -c "${1:+import $1}" 2>/dev/null || { skip "what needs Python${1:+ with $1}"; false; }
}
has_python() { imports ''; }

# Makes $stories, stories260K as GGUF, from LOCUS_TEST_DATA; false where it can't be made.
make_stories() {
    stories=$folder/stories260K.gguf
    [ -n "${LOCUS_TEST_DATA:-}" ] || return
    "$python" "$root/scripts/convert_llama2c.py" "$LOCUS_TEST_DATA/stories260K.bin" \
        "$LOCUS_TEST_DATA/tok512.bin" -o "$stories" --type F32 2>"$folder/log"
}

# skip WHAT: counts as a check, which run.sh then counts as skipped.
skip() {
    checks=$((checks + 1))
    echo "skipped: $(basename "$0"): $*"
}

report() {
    echo "$((checks ? 100 * (checks - failures) / checks : 0))%: Checks: $checks, Failures: $failures, Errors: 0"
    [ "$failures" -eq 0 ]
}
