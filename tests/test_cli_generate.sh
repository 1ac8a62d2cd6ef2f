#!/usr/bin/env bash
# locus generate: what it writes and where, every option, the same bits however it is run.
# shellcheck disable=SC2016 # eval expands them
set -u
# shellcheck source-path=SCRIPTDIR source=cli_testing.sh
. "$(dirname "$0")/cli_testing.sh"

model=$root/models/tales.gguf
if ! make_stories; then
    stories=
    skip "no LOCUS_TEST_DATA, or no Python with numpy: stories260K"
fi
[ -f "$model" ] || model=$stories
if [ -z "$model" ]; then
    report
    exit
fi
export LOCUS_MODEL=$model
trained=$("$locus" inspect | sed -n 's/^trained length  *//p')

# writes FILE ARGUMENT...: what generate writes to stdout.
writes() {
    local file=$1
    shift
    "$locus" generate -q -t 1 "$@" >"$file" 2>"$err" </dev/null
}

# ---- stories260K, as llama2.c writes it ------------------------------------------------------

if [ -n "$stories" ]; then
    expected=$LOCUS_TEST_DATA/stories260K.expected.txt
    head -c -1 "$expected" >"$folder/expected" # its last newline is llama2.c's own
    for options in '-t 1' '-t 2' '-b 1' '-b 512' '--kernels reference' '--special --ignore-eos'; do
        # shellcheck disable=SC2086 # they are words
        check "stories260K runs with $options" \
            writes "$folder/text" -m "$stories" --temperature 0 -n 200 -p '' $options
        check "and writes llama2.c's text" \
            same <(head -c "$(wc -c <"$folder/expected")" "$folder/text") "$folder/expected"
    done
    # A prompt in one pass or token by token leaves the same text to follow.
    head -c 120 "$expected" >"$folder/prompt"
    for options in '-b 512' '-b 1' '-b 7'; do
        # shellcheck disable=SC2086
        check "its beginning as a prompt, $options" \
            writes "$folder/text" -m "$stories" --temperature 0 -n 60 -f "$folder/prompt" $options
        check "goes on the same way" \
            same <(head -c 250 "$folder/text") <(head -c 250 "$folder/expected")
    done
fi

# ---- streams and prompts ---------------------------------------------------------------------

check "generate runs" succeeds generate -p 'Once upon a time' -n 20 --seed 1 -t 1
check "the prompt comes first" grep -q '^Once upon a time' "$out"
check "speed and counts go to stderr" says 'tokens/s'
cp "$out" "$folder/reference"
check "-q says nothing" eval 'run generate -q -p "Once upon a time" -n 20 --seed 1 -t 1; silent'
check "and writes the same" same "$out" "$folder/reference"
check "its last line has an end" test "$(tail -c 1 "$folder/reference" | wc -l)" -eq 1
check "--no-prompt" writes "$folder/new" -p 'Once upon a time' -n 20 --seed 1 --no-prompt
check "leaves the prompt out" same <(printf 'Once upon a time'; cat "$folder/new") "$folder/reference"
printf 'Once upon a time' >"$folder/prompt"
check "-f" writes "$folder/text" -f "$folder/prompt" -n 20 --seed 1
check "is the same" same "$folder/text" "$folder/reference"
for dash in '' '-f -'; do
    # shellcheck disable=SC2086
    "$locus" generate -q -t 1 $dash -n 20 --seed 1 <"$folder/prompt" >"$folder/text"
    check "standard input, '$dash', is the same" same "$folder/text" "$folder/reference"
done
check "-n 0 writes the prompt" writes "$folder/text" -f "$folder/prompt" -n 0
check "as it is, and ends the line" same "$folder/text" <(cat "$folder/prompt"; echo)
printf 'a \xff\0 b\r\n' >"$folder/bytes"
check "any bytes are a prompt" writes "$folder/text" -f "$folder/bytes" -n 0
check "and come out as they are, their line being ended" same "$folder/text" "$folder/bytes"
"$locus" generate -p 'One day' -n 5 -t 1 >"$folder/both" 2>&1 </dev/null
check "in one file with the messages each has its line" eval \
    'is "$(grep -c "^locus: " "$folder/both")" 2 && is "$(grep -c "^One day" "$folder/both")" 1 &&
    ! grep -q ".locus: " "$folder/both"'
check "an empty prompt starts a text" succeeds generate -p '' -n 5
check "so does an empty input" succeeds generate -n 5
check "no such prompt file" refuses 1 "can't read the text from .*: No such" generate -f "$folder/no"
check "a folder as prompt" refuses 1 "can't read the text" generate -f "$folder"

for options in '' '-p x' '-P none' '-v' '--json'; do
    # shellcheck disable=SC2086
    "$locus" generate -n 3 $options 2>/dev/null >"$folder/text" </dev/null
    check "no talk on stdout with '$options'" eval '! grep -q "locus:" "$folder/text"'
done

"$locus" generate -p x -n 50 -t 1 --ignore-eos 2>"$err" | head -c 1 >/dev/null
statuses=("${PIPESTATUS[@]}")
check "a broken pipe ends quietly" is "${statuses[0]}" 0
check "saying nothing of it" eval '! says error'
if [ -c /dev/full ]; then
    "$locus" generate -p x -n 5 >/dev/full 2>"$err"
    check "a full disk is a failure" is "$?" 1
    check "that is said" says "error: can't write to standard output: "
fi

# interrupted COMMAND...: its exit status after one SIGINT, sent once it has written something. One,
# for a second one kills as usual: timeout(1) may send it twice, to the process and to its group.
interrupted() {
    local pid status=0 tries
    : >"$out"
    "$@" >"$out" 2>"$err" </dev/null &
    pid=$!
    for ((tries = 0; tries < 600 && !$(wc -c <"$out"); tries++)); do
        sleep 0.05
    done
    kill -INT "$pid"
    wait "$pid" || status=$?
    return "$status"
}
interrupted "$locus" generate -p x -n -1 -c 60000 -t 1 --ignore-eos
check "SIGINT ends with 130" is "$?" 130
check "what was written stays" grep -q '^x' "$out"
check "and it is said" says 'interrupted'

# ---- seeds and options -----------------------------------------------------------------------

for seed in 0 18446744073709551615 -2 0x10; do
    check "--seed $seed" writes "$folder/one" -p x -n 20 --seed "$seed" -t 1 -b 1
    check "again" writes "$folder/two" -p x -n 20 --seed "$seed" -b 512
    check "writes the same" same "$folder/one" "$folder/two"
done
check "--seed 1, two threads" writes "$folder/two" -p x -n 20 --seed 1 -t 2
writes "$folder/one" -p x -n 20 --seed 1 -b 1
check "writes the same at any -t and -b" same "$folder/one" "$folder/two"
writes "$folder/one" -p x -n 20 --seed 0
check "seeds differ" differ "$folder/one" "$folder/two"
run generate -p x -n 20 -t 1
seed=$(sed -n 's/^locus: seed //p' "$err")
check "a drawn seed is printed" test -n "$seed"
run generate -p x -n 20 -t 1 --seed -1
seeds=$(sed -n 's/^locus: seed //p' "$err")
run generate -p x -n 20 -t 1 --seed -1
check "--seed -1 draws one, and another" differ <(echo "$seeds") <(sed -n 's/^locus: seed //p' "$err")
seed=$(sed -n 's/^locus: seed //p' "$err")
writes "$folder/text" -p x -n 20 --seed "$seed"
check "and reproduces the run" same "$folder/text" "$out"

writes "$folder/greedy" -p x -n 30 --temperature 0
for options in '--temp 0' '--top-k 1' '--top-p 0' '--temperature 0 --seed 5' '--min-p 1' \
    '--temperature 0 --samplers temperature,top-k' '--temperature 0 -c 100' \
    '--temperature 0 --cache-type f32 --kernels reference'; do
    # shellcheck disable=SC2086
    check "$options runs" writes "$folder/text" -p x -n 30 $options
    check "and is greedy" same "$folder/text" "$folder/greedy"
done
# Each of these changes what a seed writes.
writes "$folder/reference" -p x -n 60 --seed 3
for options in '--temperature 1.5' '--top-k 2' '--top-p 0.3' '--min-p 0.5' '--typical-p 0.3' \
    '--repeat-penalty 1.5' '--presence-penalty 2' '--frequency-penalty 2' '--seed 4' \
    '--samplers temperature' '--repeat-penalty 5 --repeat-last-n -1'; do
    # shellcheck disable=SC2086
    check "$options runs" writes "$folder/text" -p x -n 60 --seed 3 $options
    check "and differs" differ "$folder/text" "$folder/reference"
done
for options in '--top-k 40 --top-p 0.95 --min-p 0.05 --typical-p 1 --temperature 0.8' \
    '--samplers penalties,top-k,typical-p,top-p,min-p,temperature' '--repeat-penalty 1' \
    '--n-predict 60' '--predict 60' '--ctx-size 200' '--batch-size 3' '--repeat-last-n 0'; do
    # shellcheck disable=SC2086
    check "$options is the default" writes "$folder/text" -p x -n 60 --seed 3 $options
    check "and changes nothing" same "$folder/text" "$folder/reference"
done
check "--cache-type q8_0 runs" succeeds generate -p x -n 5 --cache-type q8_0
check "--cache-type F16 runs" succeeds generate -p x -n 5 --cache-type F16 --json
check "as f16" prints '"cache_type": "f16"'
check "a lone token has no speed" eval 'run generate -p x -n 1 --seed 1; says "; generated 1 token; length"'
check "too many threads" succeeds generate -p x -n 2 -t 300 -q
check "are warned of" says 'warning: 300 threads'
check "-v says the settings" eval 'run generate -p x -n 1 -v; says "position .*context .*kernels"'

# first_token TEXT: the number of the token that greedy generation writes first.
first_token() {
    "$locus" generate -p x -n 1 --temperature 0 -q --json | sed 's/.*"tokens": \[\([0-9]*\)\].*/\1/'
}
token=$(first_token)
check "--logit-bias bans a token" writes "$folder/text" -p x -n 1 --temperature 0 --logit-bias "$token=-inf"
writes "$folder/two" -p x -n 1 --temperature 0
check "so that another comes" differ "$folder/text" "$folder/two"
check "--logit-bias forces one" writes "$folder/text" -p x -n 3 --no-prompt --logit-bias "$token=1000"
"$locus" tokenize --decode "$token" "$token" "$token" >"$folder/two"
check "again and again" same <(sed 's/^ //' "$folder/text") <(sed 's/^ //' "$folder/two"; echo)
check "a bias for no token" refuses 1 'token|logit_bias' generate -p x --logit-bias 99999999=1

# ---- stop texts ------------------------------------------------------------------------------

stop=$(tail -c +8 "$folder/greedy" | head -c 4)
for options in "" "-b 1"; do
    # shellcheck disable=SC2086
    check "--stop" writes "$folder/text" -p x -n 30 --temperature 0 --stop 'never there' \
        --stop "$stop" $options
    check "ends before the text" same "$folder/text" \
        <(new=$(tail -c +2 "$folder/greedy"; echo .) && printf 'x%s\n' "${new%%"$stop"*}")
done
check "a stop text that never comes" writes "$folder/text" -p x -n 30 --temperature 0 --stop '@#@'
check "changes nothing" same "$folder/text" "$folder/greedy"

# ---- positions -------------------------------------------------------------------------------

writes "$folder/own" -p 'Once upon a time' -n 40 --temperature 0
previous=$folder/own
for scheme in alibi none rope:base=500000; do
    check "--position $scheme" writes "$folder/$scheme" -p 'Once upon a time' -n 40 --temperature 0 \
        --position "$scheme"
    check "differs" differ "$folder/$scheme" "$previous"
    previous=$folder/$scheme
done
check "a note names the trained scheme" eval 'run generate -p x -n 1 -P alibi; says "note: position alibi; the model was trained with rope:"'
check "nope is none" eval 'writes "$folder/text" -p "Once upon a time" -n 40 --temperature 0 -P nope; same "$folder/text" "$folder/none"'
check "t6 is refused" refuses 2 "no scheme is named 't6'; the nearest is '" generate -p x -P t6
check "so is bsae" refuses 2 "'bsae'; the nearest is 'base'" generate -p x -P rope:bsae=1
check "an odd dim is refused" refuses 2 'dim is 7; expected an even number' generate -p x -P rope:dim=7
check "learned without its table" refuses 1 'has no tensor position_embd.weight' generate -p x -P learned

dim=$("$locus" inspect | sed -n 's/^position  *rope:.*dim=\([0-9]*\).*/\1/p')
check "naming what is so already" writes "$folder/text" -p 'Once upon a time' -n 40 --temperature 0 -P "rope:dim=$dim"
check "changes nothing" same "$folder/text" "$folder/own"
if [ -n "$stories" ]; then
    # Adjacent pairs and another base: keys that are not named stay the checkpoint's.
    "$python" - "$stories" "$folder/million.gguf" <<'END'
import struct, sys
bytes_ = bytearray(open(sys.argv[1], "rb").read())
key = b"llama.rope.freq_base\x06\0\0\0"
at = bytes_.index(key) + len(key)
bytes_[at:at + 4] = struct.pack("<f", 1e6)
open(sys.argv[2], "wb").write(bytes_)
END
    settings=(-m "$folder/million.gguf" -p 'Once upon a time' -n 60 --temperature 0)
    check "a checkpoint of base 1e6" writes "$folder/one" "${settings[@]}"
    check "with rope:dim=8" writes "$folder/two" "${settings[@]}" -P rope:dim=8
    check "is the same" same "$folder/one" "$folder/two"
    check "with rope:inherit=0" writes "$folder/two" "${settings[@]}" -P rope:inherit=0
    check "it is not" differ "$folder/one" "$folder/two"
fi

# ---- cache policies --------------------------------------------------------------------------

for policy in window:size=6 sinks:keep=2,size=8 self-extend:group=4,window=4; do
    check "--attention $policy" writes "$folder/text" -p 'Once upon a time' -n 40 --temperature 0 -A "$policy"
    check "differs" differ "$folder/text" "$folder/own"
done
for policy in full window:size=1000 sinks:size=1000 self-extend:group=2,window=1000; do
    check "-A $policy" writes "$folder/text" -p 'Once upon a time' -n 40 --temperature 0 -A "$policy"
    check "has nothing to hide in a short text" same "$folder/text" "$folder/own"
done
check "self-extend says how far it reaches" eval 'run generate -p x -n 1 -A self-extend:group=2,window=8; says "note: attention self-extend:group=2,window=8 reaches [0-9]+ positions"'
check "an unknown policy" refuses 2 "'windw'; the nearest is 'window'" generate -p x -A windw:size=3
check "a policy without its size" refuses 2 'size is missing' generate -p x -A window
check "a size of 0" refuses 2 "size is '0'" generate -p x -A window:size=0

# ---- lengths ---------------------------------------------------------------------------------

long=$((trained + 20))
check "past the trained length" succeeds generate -p x -n "$long" --ignore-eos -t 1
check "one note" is "$(grep -c "note: .*past the trained length of $trained" "$err")" 1
check "-n -1 ends there" eval 'run generate -p "" -n -1 -t 1 --ignore-eos --json; prints "\"generated_tokens\": $trained[,}]|\"generated_tokens\": $((trained + 1))"'
check "or at -c" eval 'run generate -p "" -n -1 -c 9 --ignore-eos --json; prints "\"context\": 9,"'
check "a prompt longer than the context" refuses 1 'prompt is [0-9]+ tokens, more than the context of 2' \
    generate -p 'Once upon a time there was' -c 2
check "more tokens than the context" refuses 1 'need 100 positions, more than the context of 50' \
    generate -p '' -n 100 -c 50
for ((i = 0; i < 300; i++)); do printf 'and then '; done >"$folder/long"
"$locus" tokenize -f "$folder/long" --ids >"$folder/ids"
if [ "$(wc -w <"$folder/ids")" -gt "$trained" ]; then
    check "a prompt past the trained length with -n -1" refuses 1 "more than the trained length of $trained" \
        generate -f "$folder/long" -n -1
fi

# ---- JSON ------------------------------------------------------------------------------------

if has_python; then
    check "--json" succeeds generate -p 'Say "hi"' -n 7 --seed 9 --json --ignore-eos
    check "is one object" is_json 'it["prompt"] == "Say \"hi\"" and len(it["tokens"]) == 7 and
        it["finish_reason"] == "length" and it["settings"]["seed"] == 9 and
        it["timings"]["generated_tokens"] == 7'
    "$locus" generate -q -p 'Say "hi"' -n 7 --seed 9 --ignore-eos --no-prompt >"$folder/text"
    check "its text is the text" is_json "it['text'].removesuffix('\n') + '\n' == open('$folder/text', newline='').read()"
    run generate --json -q -f "$folder/bytes" -n 2
    check "any prompt makes JSON" is_json 'it["prompt"].startswith("a ")'
    run generate --json -p x -n 30 --temperature 0 --stop "$stop"
    check "a stop text is the reason" is_json 'it["finish_reason"] == "stop"'
fi

# ---- streams that are not there --------------------------------------------------------------

"$locus" generate -q -n 3 --seed 1 --ignore-eos <&- >"$out" 2>"$err"
check "without a standard input there is no prompt" is "$?" 0
check "and a text" test -s "$out"

report
