#!/usr/bin/env bash
# The command line apart from generate: help, exit statuses, refusals, inspect, tokenize, positions.
# shellcheck disable=SC2016 # eval expands them
set -u
# shellcheck source-path=SCRIPTDIR source=cli_testing.sh
. "$(dirname "$0")/cli_testing.sh"

tiny=$data/llama-adjacent.gguf # has no tokenizer

# ---- help ------------------------------------------------------------------------------------

# usage_is_whole: the usage of the help printed last has all that its list of options has.
usage_is_whole() {
    local usage option
    usage=$(sed '/^$/q' "$out")
    grep -qF '[options]' <<<"$usage" && return
    while read -r option; do
        grep -qE -e "(^|[^a-z-])$option([^a-z-]|\$)" <<<"$usage" || { echo "usage lacks $option"; return 1; }
    done < <(sed -n '/^Options of [a-z]*:/,/^$/ s/^  *\(-[-a-z]*\)\(, [-a-z]*\)\{0,1\} .*/\1/p' "$out")
}

# narrow COLUMNS: no line of what was printed last is wider.
narrow() { ! grep -nE "^.{$(($1 + 1)),}" "$out"; }

check "help goes to stdout" succeeds help
check "in 80 columns" narrow 80
check "and only there" silent
commands=$(sed -n '/^Commands:/,/^$/ s/^  \([a-z]*\) .*/\1/p' "$out")
check "help lists the commands" test "$(wc -w <<<"$commands")" -ge 5
for command in $commands; do
    check "help $command" succeeds help "$command"
    cp "$out" "$folder/help"
    check "$command --help is the same" succeeds "$command" --help
    check "to the byte" same "$out" "$folder/help"
    check "its usage line names it" prints "^usage: locus $command"
    check "and every option, or that there are some" usage_is_whole
    check "in 80 columns" narrow 80
done
check "--help" succeeds --help
for words in positions 'positions rope' 'inspect --families'; do
    read -ra words <<<"$words"
    check "${words[*]}" succeeds "${words[@]}"
    check "has 80 columns" narrow 80
done
if command -v script >/dev/null; then
    for words in 'help extrapolate' positions 'inspect --families' 'inspect -m tests/data/gpt2-learned.gguf' \
        "perplexity -q -t 1 -m $data/perplexity.gguf -f $data/perplexity.txt" \
        "extrapolate -q -t 1 -m $data/perplexity.gguf -P rope:scaling=yarn,factor=4 -P none -P alibi \
            -f $data/perplexity.txt --lengths 8,16"; do
        script -qec "cd '$root'; stty cols 50; '$locus' $words" /dev/null </dev/null | tr -d '\r' >"$out"
        check "on a narrow terminal, ${words%% -*}" test -s "$out"
        check "has its columns" narrow 50
    done
else
    skip "script(1) is not there: no narrow terminal"
fi
check "--version" succeeds --version
check "prints a version" prints '^locus [0-9]+\.[0-9]+\.[0-9]+$'

for option in model position attention threads context batch cache-type kernels seed quiet verbose \
    prompt file tokens temperature top-k top-p min-p typical-p repeat-penalty repeat-last-n \
    presence-penalty frequency-penalty logit-bias samplers stop ignore-eos no-prompt special json; do
    run help generate
    check "help generate lists --$option" prints "^ .*--$option( |\$)"
done
for alias in temp n-predict predict ctx-size batch-size; do
    check "help doesn't list --$alias" eval "! prints '--$alias '"
done

# ---- wrong usage: 2; failure: 1 ----------------------------------------------------------------

run
check "no command" eval 'done_with 2 && says "^locus: error: no command given" && says "^usage: locus COMMAND"'
check "lists them, on stderr alone" eval 'says "^  generate +Write text" && [ ! -s "$out" ]'
check "an unknown command" refuses 2 "unknown command 'generat'.*'generate'" generat
check "an option for a command" refuses 2 "where the command is expected" --seed
check "an unknown option" refuses 2 "unknown option '--promt'.*'--prompt'" generate --promt x
check "other spellings are not offered" refuses 2 "unknown option '--ctxsize'\$" generate --ctxsize 5
check "an unknown letter" refuses 2 "unknown option '-Z'" generate -Z
check "an option that may mean two" refuses 2 'may mean --presence-penalty, --prompt|may mean' \
    generate --pr x
check "a missing value" refuses 2 'wants a value: FILE' generate -m
check "a value for a flag" refuses 2 'takes no value' generate --json=yes
check "a stray operand" refuses 2 "'story' belongs to no option; a text is given by -p 'story'" generate story
check "a stray model" refuses 2 "option; a model is named by -m x.gguf" generate x.gguf
check "also where no text is read" refuses 2 "option; a model is named by -m x.gguf" inspect x.gguf
check "but no text is offered there" refuses 2 "'story' belongs to no option\$" inspect story
check "tokenize as well" refuses 2 "a text is given by -p 'story'" tokenize story
check "a model as a text" refuses 2 "is a GGUF file, expected a text; a model is named by -m" \
    perplexity "$data/perplexity.gguf"

# hints OPTION[=VALUE]... at what says the same here.
while read -r option hint; do
    check "$option" refuses 2 "unknown option '${option%%=*}': .*$hint" generate -p x "$option" 1
done <<'END'
--rope-scaling -P rope:scaling=TYPE
--rope-freq-base=1e6 -P rope:base=B
--rope_theta -P rope:base=B
--rope-freq-scale -P linear:factor=F
--yarn-orig-ctx trained=N
-ngl CPU alone
--n-gpu-layers CPU alone
--max-new-tokens -n N
--max_new_tokens -n N
-r --stop TEXT
-s --seed N
-i no chat
-cnv no chat
--color no colours
--no-display-prompt --no-prompt
--repetition_penalty --repeat-penalty
--ctk --cache-type
END
check "-r is bench's own" refuses 2 "'-1', expected a whole number from" bench -r -1
check "a glued number is a number" succeeds generate -q -t1 -p x -n3 -c9 -m "$root/models/tales.gguf"
check "--families beside a model" refuses 2 "no file: -m .* doesn't go with it" inspect --families -m "$tiny"
check "or what is asked of one" refuses 2 "no file: --tensors doesn't go with it" inspect --families --tensors
check "lengths that go down" refuses 2 "'64:32' ends before it begins" \
    extrapolate -f "$data/perplexity.txt" --lengths 64:32
for pair in threads=0 threads=two threads=5000 context=0 batch=0 cache-type=f64 kernels=best seed=x \
    seed=18446744073709551616 tokens=-2 tokens=1.5 temperature=-1 temperature=nan top-p=2 min-p=x \
    typical-p=-1 repeat-penalty=0 repeat-last-n=-2 logit-bias=7 logit-bias=x=1 \
    samplers=top-k,top-k samplers=topk stop=; do
    check "--$pair" refuses 2 "--${pair%%=*}.*(found|twice)" generate -p x "--$pair"
done
check "a sampler's nearest name" refuses 2 "'tpo-k'.*'top-k'" generate -p x --samplers tpo-k
check "two prompts" refuses 2 'not from both' generate -p x -f y
check "two commands to help" refuses 2 'one command' help inspect tokenize
check "help on what there isn't" refuses 2 "unknown command 'bnech'" help bnech

check "a missing model" refuses 1 '/none/x.gguf: No such file' generate -p x -m /none/x.gguf
check "a folder as model" refuses 1 'is a folder' generate -p x -m "$folder"
echo '<!DOCTYPE html><html><body>Not found</body></html>' >"$folder/page.gguf"
check "a page as model" refuses 1 'HTML' generate -p x -m "$folder/page.gguf"
: >"$folder/empty.gguf"
check "an empty file as model" refuses 1 'empty file' inspect -m "$folder/empty.gguf"
head -c 1000 "$tiny" >"$folder/cut.gguf"
check "a cut file as model" refuses 1 'cut.gguf: ' inspect -m "$folder/cut.gguf"
check "a model without a tokenizer" refuses 1 'no tokenizer' generate -p x -m "$tiny"
LOCUS_MODEL=$folder/page.gguf check "LOCUS_MODEL names the model" refuses 1 'page.gguf.*HTML' inspect
LOCUS_MODEL=$folder/page.gguf check "-m goes before it" succeeds inspect -m "$tiny"

# ---- inspect -----------------------------------------------------------------------------------

check "inspect describes" succeeds inspect -m "$tiny"
check "on stdout alone" silent
check "the family" prints '^family +llama$'
check "the position scheme" prints '^position +rope:pairs=adjacent,dim=8,base=5000$'
check "the trained length" prints '^trained length +64$'
check "--tensors" succeeds inspect -m "$tiny" --tensors
check "names tensors, rows first" prints '^blk\.1\.ffn_down\.weight +F32 +\[32, 96\] +12288$'
check "inspect knows GPT-2" succeeds inspect -m "$data/gpt2-learned.gguf"
check "as gpt2" prints '^family +gpt2$'
check "with its scheme" prints '^position +learned$'
check "layers that differ" succeeds inspect -m "$data/gemma3-local-bases.gguf"
check "with their windows and positions" \
    prints '^  layers 0-4,6: window 5, rope:pairs=half,dim=8,base=100,scaling=none$'
check "and the others" \
    prints '^  layers 5: all positions seen, rope:.*,base=5000,scaling=linear,factor=4$'
check "scales and norms" prints '^scales +embeddings times 5\.65685$'
check "a mixture of experts" succeeds inspect -m "$data/deepseek-experts.gguf"
check "after layers without" prints '^  layers 0: all positions seen, no experts$'
check "sinks" succeeds inspect -m "$data/gpt-oss-sinks.gguf"
check "are told" prints '^attention .*, a sink a head$'
check "a selective scan" succeeds inspect -m "$data/mamba-scans.gguf"
check "in place of attention" prints '^mamba +64 channels of 6 states, convolution over 4, rank 3$'
check "one of heads" succeeds inspect -m "$data/mamba2-heads.gguf"
check "in groups" prints \
    '^mamba2 +4 heads of 24 channels of 6 states, 2 groups, convolution over 4$'
check "and of an MLP" eval '! grep -qE "^(attention|MLP) " "$out"'
check "retention" succeeds inspect -m "$data/retention-mixed.gguf"
check "in some layers" prints '^retention +3 heads of width 10, values of 20$'
check "beside attention" prints '^  layers 1: attention, all positions seen$'
check "Hyena" succeeds inspect -m "$data/hyena.gguf"
check "by its filter" prints \
    '^hyena +convolutions over 3, and over all by a filter of length 16: 16 bands, 3 layers of 64$'
check "a scheme for retention alone" refuses 1 \
    "position rope: the model's layers are retention, which has no use for positions" \
    bench -m "$data/retention.gguf" --position rope
check "--families" succeeds inspect --families
check "without a model, what is special" eval \
    'grep -A1 "^smollm3 " "$out" | grep -q "of 4 layers the last has no positions\$"'
check "on stdout alone, again" silent
missing=$(sed -n 's/^\([^ ]*\) .*/\1/p' "$out" | while read -r family; do
    grep -qE "(^|[ (])$family([ ,.)]|$)" "$root/README.md" || echo "$family"
done)
check "README has each" is "missing: $missing" "missing: "
check "a full disk" eval '! "$locus" inspect -m "$tiny" >/dev/full 2>"$err"'
check "is told" says "can't write to standard output: "
cp "$tiny" "$folder/seven.gguf"
key=$(grep -abo -m1 rope.dimension_count "$tiny" | head -n1) # then 4 bytes of type, and the value
printf '\007' | dd of="$folder/seven.gguf" bs=1 conv=notrunc status=none seek=$((${key%%:*} + 20 + 4))
check "what no session takes" refuses 1 'seven.gguf: position rope: dim is 7; expected an even' \
    inspect -m "$folder/seven.gguf"
if has_python; then
    check "inspect --json" succeeds inspect -m "$tiny" --tensors --json
    check "is JSON" is_json 'it["family"] == "llama" and it["n_head_kv"] == 2 and
        len(it["tensors"]) == 21 and it["tensors"][0]["shape"] == [80, 32] and
        it["positions"] == 2 * [it["position"]] and not it["chat_template"]'
    check "mixers in JSON" succeeds inspect -m "$data/mamba-scans.gguf" --json
    check "one a layer" is_json 'it["mixers"] == 2 * ["mamba"] and it["n_head"] == 0'
    check "--families --json" succeeds inspect --families --json
    check "is JSON, too" is_json '[row["position"] for row in it if row["family"] == "gpt2"] == \
        ["learned"]'
fi
for model in "$data"/*.gguf; do
    check "inspect $(basename "$model")" succeeds inspect -m "$model" --tensors
    scheme=$(sed -n 's/^position  *//p' "$out")
    check "its SPEC is one that positions knows" succeeds positions "$scheme"
done

# ---- positions ---------------------------------------------------------------------------------

check "positions lists the registry" succeeds positions
schemes=$(sed -n '/^Position schemes/,/^$/ s/^  \([a-z][a-z0-9-]*\) .*/\1/p' "$out")
shorthands=$(sed -n '/^Shorthands/,/^$/ s/^  \([a-z][a-z0-9-]*\) .*/\1/p' "$out")
for scheme in none learned sinusoidal rope alibi; do
    check "positions lists $scheme" grep -qx "$scheme" <<<"$schemes"
done
# pasted: the example that was printed last, as one would paste it, writes text.
pasted() {
    sed -n '/^Example/,/^$/ { /^ /p }' "$out" >"$folder/example"
    [ -s "$folder/example" ] || return
    { printf 'locus() { "%s" "$@" -q -t 1; }\n' "$locus"; cat "$folder/example"; } >"$folder/paste"
    [ -n "$(bash "$folder/paste" </dev/null)" ]
}
for scheme in $schemes; do
    check "positions $scheme" succeeds positions "$scheme"
    check "has an example that works" pasted
    check "is for that scheme" grep -q -e "-P $scheme" "$folder/example"
    example=$(sed -n 's/.* -P //p' "$out")
    check "that is a SPEC: $example" succeeds positions "$example"
done
for shorthand in $shorthands; do
    check "positions $shorthand" succeeds positions "$shorthand"
    check "says what it stands for" prints "^$shorthand: short for "
    example=$(sed -n 's/.* -P //p' "$out")
    check "its example is a SPEC: $example" succeeds positions "$example"
    check "works, or wants another model" eval \
        'pasted || { prints "^Example, with a model that can do it:" && prints " -m MODEL.gguf"; }'
done
run positions
policies=$(sed -n '/ for -A /,/^$/ s/^  \([a-z][a-z-]*\) .*/\1/p' "$out")
for policy in $policies; do
    check "positions $policy" succeeds positions "$policy"
    check "says that it is a policy" prints '^It is for -A '
    check "has an example that works" pasted
done
check "its parameters" eval 'prints "^  window +distances below" && prints "a whole number from 1 on, to be given"'
run positions rope
check "parameters have ranges and defaults" prints 'a number from 1 to 1e\+15 \(default: 10000\)'
run positions yarn
check "a shorthand shows the keys that matter to it" prints '^  beta_fast +yarn: '
check "and no others" eval '! prints "^  low +llama3: "'
check "layers with a scheme of their own" succeeds positions 'rope; layers 3::4 none; layers :2 rope:base=500'
check "are explained" eval 'prints "^rope: queries" && prints "^Layers 3::4: none\$" && prints "^none: "'
check "with their keys, a scheme once" eval 'prints "^Layers :2: rope:.*base=500" && is "$(grep -c "^rope: " "$out")" 1'
check "so is the short form" eval 'run positions rope:nope_every=4 && prints "^Layers 3::4: none\$"'
check "help has their grammar" eval 'run help positions && prints "^  NAME.*\[; layers LIST SPEC\]" && prints "FIRST:END:STEP"'
check "dynamic may be two things" refuses 2 "'recurrent'.*'rope:scaling=dynamic'" positions dynamic
check "an unknown scheme's nearest name" refuses 2 "'alibo'.*nearest is 'alibi'" positions alibo
check "an unknown key's nearest name" refuses 2 "'bsae'.*nearest is 'base'" generate -P rope:bsae=1
check "a value out of range" refuses 2 'base is .0.; expected' generate -P rope:base=0
check "a word where a number belongs" refuses 2 'base is .x.; expected' generate -P rope:base=x
check "a wrong choice" refuses 2 'expected one of half' generate -P rope:pairs=both
check "a key twice" refuses 2 'given twice' generate -P rope:base=2,base=3
check "an empty SPEC" refuses 2 "position '': the SPEC is empty; expected NAME" generate -P ''
check "says where SPECs are explained" says "^locus: see 'locus positions'\$"
check "a scaling without its factor" refuses 2 'no effect alone; expected a factor, as in yarn:' \
    generate -p x -P yarn -m "$data/perplexity.gguf"
check "layers past the last" refuses 2 "layer 99; the model's are 0 to" generate -p x \
    -P 'rope; layers 0,99 none' -m "$data/perplexity.gguf"
check "no layer of so many" refuses 2 'nope_every is 1000, and the model has' generate -p x \
    -P rope:nope_every=1000 -m "$data/perplexity.gguf"
check "bench refuses as others do" refuses 2 "'alibo'.*nearest is 'alibi'" bench -P alibo
check "a context that bench can't do with" refuses 2 'is 4, less than the 10 positions needed' \
    bench -c 4 -p 8 -n 2 -d 2

# ---- tokenize ----------------------------------------------------------------------------------

# decodes TOKENIZER TEXT: the text's ids, decoded, are the text.
decodes() {
    printf '%b' "$2" >"$folder/text"
    "$locus" tokenize -m "$1" --ids <"$folder/text" >"$folder/ids" &&
        "$locus" tokenize -m "$1" --decode <"$folder/ids" >"$folder/decoded" &&
        cmp "$folder/text" "$folder/decoded"
}

test_tokenizer() {
    local text
    check "tokenize -p" succeeds tokenize -m "$1" -p "Once upon a time"
    check "prints numbers and pieces" prints '^ *[0-9]+  "'
    check "tokenize --ids" succeeds tokenize -m "$1" -p "Once upon a time" --ids
    check "prints one line of numbers" grep -qE '^[0-9]+( [0-9]+)*$' "$out"
    read -ra ids <"$out"
    check "--decode ID..." succeeds tokenize -m "$1" --decode "${ids[@]}"
    check "gives the text" is "$(<"$out")" "Once upon a time"
    check "tokenize --pieces" succeeds tokenize -m "$1" -p 'say "a\b"' --pieces
    check "quotes" eval 'grep -qF "\\\"" "$out" && grep -qF "\\\\" "$out"'
    printf 'Once upon' >"$folder/prompt"
    check "tokenize -f" succeeds tokenize -m "$1" -f "$folder/prompt" --ids
    check "an empty text" succeeds tokenize -m "$1" -p "" --ids
    for text in 'a b' ' leading' 'trailing  ' 'two\n\nlines\t' '\xf0\x9f\x90\xb1' '\xf0\x9f' 'a\xffb' \
        'a\0b' '<|endoftext|>' "it's 1234567 \xd9\xa1"; do
        check "'$text' comes back" decodes "$1" "$text"
    done
    check "an id past the last" refuses 1 'token 99999999, expected 0 to' \
        tokenize -m "$1" --decode 99999999
    check "no id at all" refuses 2 "found 'x'" tokenize -m "$1" --decode 1 x
    check "an id below 0" refuses 2 "'-1': expected an option, or a number from 0 on" \
        tokenize -m "$1" --decode 5 -12
}

check "--ids with --pieces" refuses 2 'not both' tokenize --ids --pieces -p x
check "--decode with -p" refuses 2 'not -p' tokenize --decode -p x
check "tokenize without a tokenizer" refuses 1 'no tokenizer' tokenize -m "$tiny" -p x
if [ -f "$root/models/tales.gguf" ]; then
    test_tokenizer "$root/models/tales.gguf"
fi

# A file that names no pattern of words: what was assumed is said, once.
if [ -f "$root/models/tales.gguf" ]; then
    guessed=$folder/guessed.gguf
    LC_ALL=C sed 's/tokenizer\.ggml\.pre/tokenizer.ggmX.pre/' "$root/models/tales.gguf" >"$guessed"
    printf 'Once upon a time there was' >"$folder/prompt"
    for command in 'tokenize -p x' 'generate -n 1 -p x' 'perplexity -f @/prompt' inspect \
        'extrapolate -f @/prompt --lengths 4' 'plot attention --length 2 -p a.b -o @/map.png'; do
        read -ra words <<<"${command//@/$folder}"
        run "${words[@]}" -m "$guessed"
        check "$command says what it assumed" eval \
            '[ "$(grep -c "note: .*no tokenizer.ggml.pre" "$err")" = 1 ]'
        run "${words[@]}" -q -m "$guessed"
        check "$command -q doesn't" eval '! grep -q "tokenizer.ggml.pre" "$err"'
    done
    run inspect -m "$root/models/tales.gguf"
    check "a file that names it says nothing" eval '! grep -q "tokenizer.ggml.pre" "$err"'
fi
if [ -n "${LOCUS_TEST_DATA:-}" ]; then
    test_tokenizer "$LOCUS_TEST_DATA/ggml-vocab-gpt-2.gguf"
    test_tokenizer "$LOCUS_TEST_DATA/ggml-vocab-llama-spm.gguf"
    vocabulary=$LOCUS_TEST_DATA/ggml-vocab-gpt-2.gguf
    run tokenize -m "$vocabulary" -p '<|endoftext|>' --ids
    check "a special token is text" is "$(wc -w <"$out")" 7
    run tokenize -m "$vocabulary" -p '<|endoftext|>' --ids --special
    check "unless --special" is "$(<"$out")" 50256
    run tokenize -m "$vocabulary" --decode 50256 --special
    check "which decodes it, too" is "$(<"$out")" '<|endoftext|>'
else
    skip "LOCUS_TEST_DATA is not set: published vocabularies"
fi

# ---- quantize ----------------------------------------------------------------------------------

check "quantize wants a type" refuses 2 'found 2 arguments, expected three' quantize a b
check "a type that isn't" refuses 2 "type 'q9_0', expected F32, .* or Q2_K$" quantize a b q9_0
types=$(sed -n 's/.*expected \(.*\)/\1/; s/,\| or//gp' "$err" | head -n1)
check "a type that is only read" refuses 2 "type 'f64' is read, not written" quantize a b f64
run help quantize
missing=$(for type in $types; do
    grep -qw "${type,,}" "$out" && grep -qiw "$type" "$root/README.md" || echo "$type"
done)
check "help and README have each" is "missing: $missing" "missing: "
for type in q4_k_m Q4_K_M; do
    check "$type" run quantize "$tiny" "$folder/$type.gguf" $type
    check "says what has another type" \
        says '^locus: note: rows of 16 matrices are no multiple of 256: written 13 as Q5_0, 3 as Q8_0$'
done
check "in any case" same "$folder/q4_k_m.gguf" "$folder/Q4_K_M.gguf"
check "--quiet says nothing" run quantize -q "$tiny" "$folder/quiet.gguf" q6_k
check "at all" silent

report
