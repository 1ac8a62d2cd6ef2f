#!/usr/bin/env bash
# What commands write: "-" for standard output, modes and links of files that are there, streams that
# are closed or broken, signals on the way; and weights that are no numbers.
# shellcheck disable=SC2016 # eval expands them
set -u
# shellcheck source-path=SCRIPTDIR source=cli_testing.sh
. "$(dirname "$0")/cli_testing.sh"

model=$root/models/tales-rope.gguf
export LOCUS_MODEL=$model
text=$folder/text.txt
head -c 3000 "$root/models/evaluation.txt" >"$text"
made=$folder/made
mkdir "$made"

# empty: nothing lies in the folder.
empty() { is "$(find "$made" -mindepth 1)" ''; }

# ---- standard output -------------------------------------------------------------------------

# alone FILE COMMAND...: the command, with - as its output, prints what it would have written to FILE.
alone() {
    local file=$1 line=()
    shift
    rm -f "$made"/*
    for word in "$@"; do
        [ "$word" = FILE ] && word=$file
        line+=("$word")
    done
    run "${line[@]}"
    done_with 0 || return
    mv "$file" "$folder/wanted"
    for i in "${!line[@]}"; do
        [ "${line[i]}" = "$file" ] && line[i]=-
    done
    (cd "$made" && "$locus" "${line[@]}" >"$out" 2>"$err" </dev/null)
    status=$?
    done_with 0 && empty && same "$folder/wanted" "$out"
}
sweep=(extrapolate -q -t 1 -f "$text" --lengths 32)
without_seconds() { sed -i -E 's/[0-9.]+$/T/; s/"seconds": [0-9.]+/T/' "$1"; }

check "quantize IN -" alone "$made/x" quantize -q "$model" FILE q8_0
check "plot -o -" alone "$made/x" plot bias -P alibi -o FILE
check "--per-token -" alone "$made/x" perplexity -q -f "$text" --per-token FILE
check "--logits -" alone "$made/x" perplexity -q -f "$text" --logits FILE
check "--png -" alone "$made/x" "${sweep[@]}" --png FILE
for option in --csv --json; do
    rm -f "$folder/wanted"
    run "${sweep[@]}" "$option" "$folder/wanted"
    check "$option FILE prints a table" prints '^perplexity of text.txt'
    run "${sweep[@]}" "$option" -
    without_seconds "$out"
    without_seconds "$folder/wanted"
    check "$option - prints that alone" same "$folder/wanted" "$out"
    run "${sweep[@]}" "$option" /dev/stdout
    without_seconds "$out"
    check "$option /dev/stdout as well" same "$folder/wanted" "$out"
done
check "a text from standard input, its tokens to standard output" eval \
    '"$locus" perplexity -q -f - --per-token - <"$text" | head -1 | grep -qx index,position,id,piece,nll'
check "two of a kind" refuses 2 '--per-token and --logits both go to standard output' \
    perplexity -f "$text" --per-token - --logits -
check "beside --json" refuses 2 '--logits and --json both' perplexity -f "$text" --logits - --json
check "two of extrapolate" refuses 2 '--csv and --png both' "${sweep[@]}" --csv - --png -
check "--resume of it" refuses 2 'resume.*expected a file' "${sweep[@]}" --csv - --resume
check "several pictures" refuses 2 '2 pictures, expected one' extrapolate --task passkey \
    --lengths 200 -P rope -P alibi --png -
if command -v script >/dev/null; then
    script -qec "'$locus' quantize '$model' - q8_0" /dev/null >"$out" </dev/null
    check "binary on a terminal" prints 'standard output is a terminal, and this is binary'
else
    skip "script(1) is not there: no terminal to write to"
fi
echo before >"$made/log"
"$locus" "${sweep[@]}" --csv - >>"$made/log"
check "appended to a file, as standard output is" eval \
    'is "$(head -c 11 "$made/log" | tr "\n" " ")" "before task" && is "$(wc -l <"$made/log")" 3'
"$locus" perplexity -q -f "$text" --per-token - 2>"$err" | head -1 >/dev/null
check "a broken pipe ends quietly" eval 'is "${PIPESTATUS[0]}" 0; silent'

# ---- streams that are closed -----------------------------------------------------------------

rm -f "$made"/*
"$locus" "${sweep[@]}" --csv "$made/x.csv" >&- 2>"$err"
status=$?
check "stdout closed" eval 'done_with 1 && says "standard output: Bad file descriptor"'
check "nothing of it is in the CSV" is "$(cut -d, -f1 "$made/x.csv" | tr '\n' ' ')" "task perplexity "
"$locus" "${sweep[@]}" --lengths 32,4097 -P learned:beyond=none --force --csv "$made/x.csv" >/dev/null 2>&-
"$locus" "${sweep[@]}" -P learned --force --csv "$made/x.csv" >/dev/null 2>&-
check "nor with stderr closed" is "$(grep -c locus: "$made/x.csv")" 0
"$locus" perplexity -q -f "$text" --per-token - >&- 2>"$err"
status=$?
check "- where it is closed" eval 'done_with 1 && says "^locus: error: -: cannot be written: Bad file"'

# ---- files that are there --------------------------------------------------------------------

rm -f "$made"/*
cp "$model" "$made/m.gguf"
chmod 600 "$made/m.gguf"
check "quantize a file onto itself" eval 'run quantize -q "$made/m.gguf" "$made/m.gguf" q8_0; done_with 0'
check "its mode stays" is "$(stat -c %a "$made/m.gguf")" 600
check "and it is a model" eval 'run inspect -m "$made/m.gguf" --check; done_with 0 && prints "Q8_0.*tensors"'
check "nothing lies beside it" is "$(find "$made" -mindepth 1)" "$made/m.gguf"
ln -s real.json "$made/link.json"
run "${sweep[@]}" --json "$made/link.json"
check "a link is followed to what it names" eval '[ -L "$made/link.json" ] && [ -s "$made/real.json" ]'
mkfifo "$made/fifo"
for option in --csv --json --png; do
    timeout 20 "$locus" "${sweep[@]}" "$option" "$made/fifo" >"$out" 2>"$err"
    status=$?
    check "$option into a FIFO that nobody reads" eval 'done_with 1 && says "nobody reads from this pipe"'
    check "is said before the sweep" test ! -s "$out"
done
check "two links to one file that is not there" eval 'ln -s new.out "$made/a.csv"; ln -s ./new.out "$made/b.json"
    refuses 2 "b.json would be written over .*a.csv" "${sweep[@]}" --csv "$made/a.csv" --json "$made/b.json"'
check "and it still isn't" test ! -e "$made/new.out"
exec 7<>"$made/fifo" # it has both ends, however late the reader starts
exec 8<"$made/fifo"
cat <&8 >"$folder/read.png" 7>&- &
reader=$!
exec 8<&-
run "${sweep[@]}" --png "$made/fifo"
check "a picture into a FIFO" done_with 0
exec 7>&-
wait "$reader"
run "${sweep[@]}" --png "$made/plain.png"
check "reaches its reader whole" same "$folder/read.png" "$made/plain.png"
exec 8<>"$made/fifo"
run "${sweep[@]}" --json "$made/fifo"
read -r -t 10 line <&8
exec 8>&-
check "into one that somebody reads" eval 'done_with 0 && [[ $line == "[{\"task\": "*"]" ]]'
check "it stays a FIFO" test -p "$made/fifo"

# ---- no name at all --------------------------------------------------------------------------

check "an empty OUT" refuses 1 "'': cannot be written: No such file" quantize -q "$model" '' q8_0
check "an empty IN" refuses 1 "'': No such file" quantize -q '' "$made/x" q8_0
check "an empty text" refuses 1 "from '': No such file" perplexity -q ''

# ---- signals ---------------------------------------------------------------------------------

# stopped SIGNAL STATUS COMMAND...: once it writes into the folder, the signal ends it so.
stopped() {
    local signal=$1 expected=$2 pid tries
    shift 2
    rm -f "$made"/* "$made"/.locus*
    "$@" >"$out" 2>"$err" </dev/null &
    pid=$!
    for ((tries = 0; tries < 400 && !$(find "$made" -mindepth 1 | wc -l); tries++)); do
        sleep 0.02
    done
    kill "-$signal" "$pid"
    wait "$pid"
    status=$?
    done_with "$expected" && empty
}
logits=("$locus" perplexity -q -t 1 -b 1 -f "$root/models/evaluation.txt" --logits "$made/x.npy")
check "SIGINT while --logits is written" stopped INT 130 "${logits[@]}"
check "SIGTERM" stopped TERM 143 "${logits[@]}"
check "SIGHUP" stopped HUP 129 "${logits[@]}"
mkfifo "$folder/full"
exec 9<>"$folder/full" # a reader that reads one byte
(trap '' HUP && exec "$locus" quantize -q "$model" "$folder/full" f32 2>"$err") &
pid=$!
head -c 1 <&9 >"$folder/read"
sleep 0.2
kill -HUP "$pid"
sleep 0.1
check "an ignored SIGHUP is ignored" kill -0 "$pid"
kill -TERM "$pid"
wait "$pid"
check "SIGTERM ends a write that waits" is "$?" 143
exec 9>&-

# ---- weights that are no numbers -------------------------------------------------------------

check "--check" succeeds inspect --check
check "says how many there are" prints '^checked +all [0-9,]+ values of [0-9]+ tensors are numbers$'
run inspect --check --json
check "as JSON" eval '! has_python || is_json "it[\"finite\"] is True"'
cp "$model" "$folder/odd.gguf"
printf '\377%.0s' {1..64} | dd of="$folder/odd.gguf" bs=1 conv=notrunc status=none \
    seek=$(($(wc -c <"$folder/odd.gguf") / 2 / 64 * 64))
export LOCUS_MODEL=$folder/odd.gguf
odd='[a-z0-9_.]+weight holds -?nan in row [0-9]+, column [0-9]+'
check "one is named" refuses 1 "odd.gguf: $odd, expected numbers\$" inspect --check
check "by perplexity" refuses 1 "is not a number: $odd\$" perplexity -q -f "$text"
check "by plot" refuses 1 "attention weights .*: $odd\$" plot attention -p 'one two' --layer 3 -o "$made/x.png"
run generate -q -p One
check "by generate" eval 'done_with 1 && says "NaN.*: $odd\$"'
"$locus" generate -q -p One >"$out" 2>&1 </dev/null
check "in one pipe, the error has its own line" prints '^locus: error: '
if command -v script >/dev/null; then
    script -qec "'$locus' generate -q -p One" /dev/null >"$out" </dev/null
    check "on a terminal, the error has its own line" prints '^locus: error: '
fi
report
