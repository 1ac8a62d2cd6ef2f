#!/usr/bin/env bash
# What `make lint` runs: scripts/lint.sh [CHECK...], all of them when none is named. A tool that is
# not installed is named and passed over; with CI=true that is a failure.
set -u
cd "$(dirname "$0")/.." || exit 1
shopt -s nullglob lastpipe # lastpipe: what counts failures at a pipe's end runs in this shell
export LC_ALL=C PATH=$PWD/.venv/bin:$PATH

headers=(include/*.h)
sources=(src/*/*.c src/cli/*/*.c)
source_files=(src/*/*.[ch] src/cli/*/*.[ch])
c_files=("${headers[@]}" "${source_files[@]}" tests/*.[ch])
scripts=(scripts/*.sh tests/*.sh .ci/run)
failures=0

fail() {
    echo "lint: $*" >&2
    failures=$((failures + 1))
}

# tool NAME: whether it can be run here.
tool() {
    command -v "$1" >/dev/null && return
    if [ "${CI:-}" = true ]; then
        fail "$1 is not installed"
    else
        echo "lint: $1 is not installed (scripts/setup.sh lint): passed over" >&2
    fi
    return 1
}

# refuse WHAT: fails if standard input has a line.
refuse() {
    local lines
    lines=$(cat)
    [ -z "$lines" ] && return
    printf '%s\n' "$lines" >&2
    fail "$1"
}

check_format() {
    tool clang-format || return
    clang-format --dry-run --Werror "${c_files[@]}" || fail "run make format"
}

# Folders of src, lowest first: a file includes from its own folder and from lower ones only.
check_includes() {
    awk '
        BEGIN {
            split("base:1 kernels:2 checkpoint:2 position:3 model:4 forward:5 sample:6 tokenizer:6 " \
                  "experiment:7 chart:7 bench:7 cli:8", rooms, " ")
            for (i in rooms) { split(rooms[i], pair, ":"); level[pair[1]] = pair[2] }
        }
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            split(FILENAME, path, "/"); room = path[2]
            split($0, quoted, "\""); target = quoted[2]
            if (!(room in level)) { print FILENAME ": the folder " room " has no place in the order"; next }
            if (target ~ /\.\./) { print FILENAME ":" FNR ": " target ": write it from src"; next }
            if (split(target, parts, "/") < 2 || parts[1] == room) next
            if (!(parts[1] in level) || level[parts[1]] >= level[room])
                print FILENAME ":" FNR ": " room " may not include " target
        }' "${source_files[@]}" | refuse "the include order of the folders is broken"
    grep -n '#include "cli/commands/' src/cli/kit/* | refuse "the kit doesn't know the commands"
    grep -n '#include "' "${headers[@]}" | grep -v '"locus\.h"' |
        refuse "a public header includes a private one"
}

# C without its comments, each line led by file and number.
without_comments() {
    local file
    for file in "$@"; do
        sed 's/^\( *\)#/\1/' "$file" | ${CC:-cc} -fpreprocessed -E -P -x c - 2>/dev/null |
            sed "s|^|$file: |"
    done
}

# Outside src/position nobody learns which position scheme runs, not even in comments. The names are
# the registry's; those that are also plain words count where they are quoted alone or begin a SPEC.
check_scheme_names() {
    local names plain='none|relative|linear|path' folders=(src/{forward,kernels,experiment,cli,bench,model})
    names=$({
        grep -o '&locus_scheme_[a-z0-9_]*' src/position/registry.c | sed 's/^&locus_scheme_//'
        sed -n 's/^ *{"\([a-z0-9-]*\)", .*/\1/p' src/position/registry.c
    } | tr _ - | grep -vxE "$plain" | sed 's/-/[-_]/g' | paste -sd '|')
    [ "$(tr '|' '\n' <<<"$names" | wc -l)" -ge 18 ] || fail "the registry's names are not found"
    # src/model may name them in these places.
    local allowed=(
        'src/model/family_position\.c:' # a family's keys become a SPEC here,
        'src/model/architectures\.c:[0-9]+: *\.(position|alibi_layers) = ' # and its row says which they add to,
        'src/model/model\.h:[0-9]+:.*("(rope|alibi|yarn)[:"]|alibi_layers)' # as the row's declaration explains;
        'src/model/[a-z]+\.c:[0-9]+:.*"rope[._]'              # files call keys and tensors so
    )
    {
        grep -rniE "(^|[^a-z0-9])($names)([^a-z0-9]|\$)" "${folders[@]}"
        grep -rnE "locus_scheme_($plain)\b" "${folders[@]}"
        # "none" is a word of options and of cells, too; no SPEC begins with it.
        grep -rnE "\"(relative|linear)[\":]|\"none:" "${folders[@]}"
    } | grep -vE "^($(IFS='|' && echo "${allowed[*]}"))" |
        refuse "only src/position may name a position scheme"
}

check_rules() {
    check_scheme_names
    local library_files=() file
    for file in "${source_files[@]}"; do
        [[ $file == src/cli/* ]] || library_files+=("$file")
    done
    without_comments "${library_files[@]}" | sed 's|"/dev/std[a-z]*"|""|' |
        grep -E '\b(printf|vprintf|puts|putchar|perror|exit|_exit|abort|assert|getenv|setenv)\(|\b(stdout|stderr)\b' |
        refuse "only src/cli prints, exits or reads the environment"
    # printf and strtod follow the locale of the program that uses the library; so does <ctype.h>.
    local other_files=()
    for file in "${source_files[@]}"; do
        [ "$file" = src/base/number.c ] || other_files+=("$file")
    done
    without_comments "${other_files[@]}" | sed -E 's/^[^ ]+: //' | tr '\n' ' ' | tr ';{}' '\n' |
        grep -E '\b(strto[df]|strtold|atof|v?sscanf|is(alnum|alpha|digit|lower|print|punct|space|upper|xdigit)|to(lower|upper)|vs?n?printf)\(|\bs?n?printf\(.*%[-+ #0-9.*]*[aefgAEFG]' |
        refuse "numbers are read and written by base/number.h, characters without the locale"
    grep -nE '\bextern\b' "${sources[@]}" | refuse "prototypes belong in headers"
    grep -nE '^typedef .*_t;|^\} *[a-z_]*_t;|^struct [a-z_]*_t\b' "${c_files[@]}" |
        refuse "types of ours have no _t"
    grep -nE '\b(TODO|FIXME|HACK)\b' "${c_files[@]}" "${scripts[@]}" Makefile scripts/*.py |
        grep -v '^scripts/lint.sh:' | refuse "unfinished work is named"
    grep -nE '(/h[o]me/|/r[o]ot/|/U[s]ers/)[a-z]' "${c_files[@]}" "${scripts[@]}" Makefile scripts/*.py |
        grep -v '^scripts/lint.sh:' | refuse "a path of one machine"
    wc -l "${c_files[@]}" scripts/*.py | awk '$2 != "total" && $1 > ($2 ~ /^tests/ ? 650 : 550)' |
        refuse "files longer than 550 lines (tests: 650): divide them along an idea"
    wc -l include/locus.h | awk '$1 >= 300' | refuse "include/locus.h is to stay under 300 lines"
}

# Objects of the library keep nothing that changes: no .data, no .bss (constants with pointers are
# in .data.rel.ro).
check_globals() {
    local library=${BUILD:-build}/liblocus.a
    [ -f "$library" ] || { echo "lint: no $library: its globals are not checked" >&2; return; }
    size -A "$library" | awk '
        / {2}:?$|:$|\(ex / { object = $1 }
        ($1 ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $1 !~ /^\.data\.rel\.ro/) && $2 > 0 {
            print object ": " $2 " bytes of " $1
        }' | refuse "the library has mutable globals"
}

check_cppcheck() {
    tool cppcheck || return
    cppcheck -q --std=c11 --language=c --library=posix --enable=warning,performance,portability \
        --inline-suppr --error-exitcode=1 --suppress=missingIncludeSystem -D_GNU_SOURCE \
        -Iinclude -Isrc -j "$(getconf _NPROCESSORS_ONLN)" src || fail "cppcheck"
}

check_tidy() {
    tool clang-tidy || return
    # shellcheck disable=SC2016 # the inner shell expands them
    printf '%s\n' "${sources[@]}" | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I{} sh -c '
        case $1 in
        */avx2.c) isa="-mavx2 -mfma -mf16c" ;;
        */avx512*.c)
            isa="-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mfma -mf16c" ;;
        esac
        output=$(clang-tidy --quiet "$1" -- -std=c11 -D_GNU_SOURCE -Iinclude -Isrc $isa \
            -Wno-unknown-pragmas 2>&1) || { printf "%s\n" "$output" >&2; exit 1; }' sh {} ||
        fail "clang-tidy"
}

check_python() {
    tool ruff || return
    ruff check --quiet scripts tests || fail "ruff check"
    ruff format --quiet --check scripts tests || fail "ruff format"
}

check_shell() {
    tool shellcheck || return
    shellcheck "${scripts[@]}" || fail "shellcheck"
}

[ $# -gt 0 ] || set -- format includes rules globals shell python cppcheck tidy
for check in "$@"; do
    "check_$check"
done
[ "$failures" -eq 0 ] && echo "lint: clean"
