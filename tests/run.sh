#!/usr/bin/env bash
# Runs test programs, as many at a time as there are cores (LOCUS_TEST_JOBS), and sums what they
# report: tests/run.sh BUILD PROGRAM...
#
# A program reports by Check's line ("NN%: Checks: X, Failures: Y, Errors: Z"), or by its exit status
# alone, which then counts as one check. Lines "skipped: ..." are counted apart, each instead of a
# check; with LOCUS_TEST_NO_SKIP=1 they are failures, but for what this CPU can't run or
# this user may not do. Prints "N passed, N failed" last; exits 0 if something ran and nothing failed.
set -u

build=$(cd "$1" && pwd) || exit 1
shift
here=$(cd "$(dirname "$0")" && pwd) || exit 1

export LOCUS_TESTS_DIR=$here LOCUS_BUILD=$build LOCUS_PROGRAM=$build/locus
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
# Threads wait asleep: tests use more of them than a busy machine has cores to spare.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
unset LOCUS_MODEL
if [ -n "${LOCUS_TEST_DATA:-}" ]; then
    data=$(cd "$LOCUS_TEST_DATA" 2>/dev/null && pwd) ||
        { echo "tests: LOCUS_TEST_DATA=$LOCUS_TEST_DATA is not a folder" >&2; exit 1; }
    export LOCUS_TEST_DATA=$data
fi

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0 skipped=0

# run_one FOLDER PROGRAM: what it prints, and its exit status, in files of its name.
# shellcheck disable=SC2016 # the inner shell expands them
run_one='
    name=${1##*/}
    case $1 in
    *.sh) bash "$1" >"$0/$name.out" 2>&1 ;;
    *) "$1" >"$0/$name.out" 2>&1 ;;
    esac
    echo $? >"$0/$name.status"'

# Scripts take longest: they begin. (Not by &, under which bash has programs ignore SIGINT.)
jobs=${LOCUS_TEST_JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
for kind in script program; do
    for program in "$@"; do
        case $kind,$program in
        script,*.sh) printf '%s\0' "$program" ;;
        script,* | program,*.sh) ;;
        *) printf '%s\0' "$program" ;;
        esac
    done
done | xargs -0 -n 1 -P "$jobs" bash -c "$run_one" "$folder"

for program in "$@"; do
    name=$(basename "$program") output=$folder/$(basename "$program").out
    status=$(cat "$folder/$name.status" 2>/dev/null || echo 1)
    echo "== $name"
    cat "$output"
    read -r checks bad skips missing < <(awk '
        /^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/ {
            split($0, n, /[^0-9]+/); checks += n[2]; bad += n[3] + n[4]; reported = 1
        }
        /^skipped: / { skips++; missing += !/\(not (on this CPU|permitted here)\)$/ }
        END { print reported ? checks : -1, bad + 0, skips + 0, missing + 0 }' "$output")
    [ "$checks" -ge 0 ] || checks=1
    # Dying, or failing without saying in what, is one failure more.
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        echo "$name: exit status $status"
        bad=1
    elif [ "$missing" -gt 0 ] && [ "$bad" -eq 0 ] && [ "${LOCUS_TEST_NO_SKIP:-0}" = 1 ]; then
        echo "$name: skipped with LOCUS_TEST_NO_SKIP=1"
        bad=$missing skips=$((skips - missing))
    fi
    good=$((checks - bad - skips))
    passed=$((passed + (good > 0 ? good : 0)))
    failed=$((failed + bad))
    skipped=$((skipped + skips))
done

summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary+=", $skipped skipped"
echo "$summary"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
