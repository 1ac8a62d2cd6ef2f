#!/usr/bin/env bash
# scripts/bench_peers.py against programs that only pretend to measure: the table, its ratios, and
# what can't be run.
set -u
# shellcheck source=tests/cli_testing.sh
. "$(dirname "$0")/cli_testing.sh"

if ! has_python; then
    report
    exit
fi

# stub NAME: a program of standard input's lines, called as $folder/NAME; it leaves its arguments in
# $folder/calls.
stub() {
    { printf '#!/usr/bin/env bash\necho "%s $*" >>"%s/calls"\n' "$1" "$folder" && cat; } >"$folder/$1"
    chmod +x "$folder/$1"
}

# Speeds that change a call: 100, 900, 500 a round; the median is 500.
stub locus <<EOF
n=\$(grep -c '^locus ' "$folder/calls")
speed=\$((n % 3 == 1 ? 100 : n % 3 == 2 ? 900 : 500))
echo "{\"prompt\": {\"tokens_per_second\": {\"median\": \$speed}, \"fraction_of_ceiling\": 0.8},"
echo " \"generation\": {\"tokens_per_second\": {\"median\": 60}, \"fraction_of_ceiling\": 0.5}}"
EOF
stub peer <<'EOF'
[ "$*" != "${*/-rtr}" ] && prompt=250 gen=20.0
echo "[{\"n_prompt\": 512, \"n_gen\": 0, \"avg_ts\": ${prompt:-200}},"
echo " {\"n_prompt\": 0, \"n_gen\": 64, \"avg_ts\": ${gen:-40}}]"
EOF
stub picky <<'EOF'
case $* in *small*) echo "loading" >&2; echo "ops.c:7: GGML_ASSERT(eps > 0) failed" >&2; echo "backtrace" >&2; kill -ABRT $$ ;; esac
exec "${0%picky}peer" "$@"
EOF
stub babbler <<'EOF'
echo "no JSON at all"
EOF
stub other <<'EOF'
echo '{"unlike": "a benchmark"}'
EOF
stub nonsense <<'EOF'
echo '[{"n_prompt": 512, "n_gen": 0, "avg_ts": "fast"}, {"n_prompt": 0, "n_gen": 64, "avg_ts": 0}]'
EOF
stub endless <<'EOF'
echo '[{"n_prompt": 512, "n_gen": 0, "avg_ts": 7}, {"n_prompt": 0, "n_gen": 64, "avg_ts": NaN}]'
EOF

touch "$folder"/{small-f32,small-q8_0,large-f32}.gguf
# bench ARGUMENT...: the script, as `run` runs the program.
bench() {
    : >"$folder/calls"
    "$python" "$root/scripts/bench_peers.py" --locus "$folder/locus" "$@" >"$out" 2>"$err" </dev/null
    status=$?
}
small=(-m "$folder/small-f32.gguf" "$folder/small-q8_0.gguf")

bench "${small[@]}" "$folder/large-f32.gguf" --peer "A=$folder/peer" -t 1 2 --json "$folder/all.json"
check "a run" done_with 0
check "a table a number of threads" is "$(grep -c '^### ' "$out")" 2
check "a pair of columns a type" prints '^\| \| f32 prompt \| f32 gen \| q8_0 prompt \| q8_0 gen \|$'
check "medians, empty where there is no file" prints '^\| locus, large \| 500 \| 60\.0 \|  \|  \|$'
check "the peer" prints '^\| A, small \| 200 \| 40\.0 \| 200 \| 40\.0 \|$'
check "the ceiling" prints '^\| ceiling, small \| 625 \| 120 \| 625 \| 120 \|$'
check "a ratio to the peer" prints '^\| \*\*locus / A, small\*\* \| 2\.50 \| 1\.50 \| 2\.50 \| 1\.50 \|$'
check "a ratio to the ceiling" prints '^\| \*\*locus / ceiling, large\*\* \| 0\.80 \| 0\.50 \|  \|  \|$'
check "in turn" is "$(head -4 "$folder/calls" | cut -d' ' -f1 | tr '\n' ' ')" "locus peer locus peer "
check "every round of it" is "$(wc -l <"$folder/calls")" $((2 * 3 * 3 * 2))
check "all measurements" "$python" -c 'import json, sys
rows = json.load(open(sys.argv[1], encoding="utf-8"))
assert len(rows) == 6 and rows[5]["threads"] == 2, rows
assert rows[0]["engines"]["locus"][0]["prompt"] == [100, 900, 500], rows[0]' "$folder/all.json"

bench "${small[@]}" -t 1 --peer "A=$folder/peer" --peer "A=$folder/peer -rtr 1"
check "of two ways the faster, cell by cell" prints '^\| A, small \| 250 \| 40\.0 \|'
check "both ways run" is "$(grep -c -- '-rtr 1 -m' "$folder/calls")" 6

bench "${small[@]}" "$folder/large-f32.gguf" -t 1 --peer "picky=$folder/picky" --peer "A=$folder/peer" \
    --peer "babbler=$folder/babbler" --peer "other=$folder/other" --peer "none=$folder/none"
check "a peer that dies" done_with 0
check "its cells say so" prints '^\| picky, small \| fails \[1\] \| fails \[1\] \| fails \[1\] \|'
check "and why" prints '^\[1\] picky: exit status -6: ops.c:7: GGML_ASSERT\(eps > 0\) failed$'
check "the rest is measured" prints '^\| picky, large \| 200 \| 40\.0 \|'
check "others, too" prints '^\| A, small \| 200 \| 40\.0 \|'
check "it is not run again" is "$(grep -c '^picky .*small-f32' "$folder/calls")" 1
check "no ratio to nothing" prints '^\| \*\*locus / picky, small\*\* \|  \|  \|'
check "no JSON" prints '^\[2\] babbler: printed no JSON$'
check "other JSON" prints "^\\[3\\] other: printed JSON that is not a benchmark's$"
check "no program" prints '^\[4\] none: .*/none: No such file or directory$'

bench "${small[@]}" -t 1 -r 1 --locus "$folder/babbler" --peer "A=$folder/peer"
check "without locus it fails" done_with 1
check "but measures" prints '^\| A, small \| 200 \|'
bench "${small[@]}" -t 1 -r 1 --prefix 'env TRIED=1'
check "run by another program" prints '^\| locus, small \| 100 \|'
bench "${small[@]}" -t 1 -r 1 --peer "A=$folder/nonsense" --peer "B=$folder/endless"
check "speeds that are none" done_with 0
check "are shown" prints "^\\[1\\] A: printed the speed 'fast', expected a number above 0\$"
check "not a number is none" prints '^\[2\] B: printed the speed nan, expected a number above 0$'
bench "${small[@]}" -t 1 -r 1 --json /dev/full
check "measurements on a full disk" eval 'done_with 1 && says "/dev/full: No space left"'
check "the table is there" prints '^\| locus, small \| 100 \|'
bench "${small[@]}" --json "$folder/none/all.json"
check "measurements in no folder" done_with 2
check "are refused before the run" is "$(wc -l <"$folder/calls")" 0
bench "${small[@]}" -r 0
check "no rounds" done_with 2
bench -m "$folder/none.gguf"
check "no file" eval 'done_with 2 && says "none.gguf: no such file"'
bench "${small[@]}" --peer nothing
check "a peer without a program" eval 'done_with 2 && says "is not NAME=PROGRAM"'

report
