#!/usr/bin/env bash
# locus perplexity and extrapolate as people run them: counts, files, resuming, refusals.
# shellcheck disable=SC2016 # eval expands them
set -u
# shellcheck source=tests/cli_testing.sh
. "$(dirname "$0")/cli_testing.sh"

model=$data/perplexity.gguf text=$data/perplexity.txt
n_predictions=$(($(wc -c <"$text") - 1))
n_windows=$(((n_predictions + 1) / 32))
printf 'short text' >"$folder/short.txt"
base=(-m "$model" -t 1)

# column FILE NAME: that column of a CSV whose cells before it hold no comma but in SPECs.
column() {
    "$python" -c 'import csv, sys
for row in csv.DictReader(open(sys.argv[1], encoding="utf-8")):
    print(row[sys.argv[2]])' "$1" "$2"
}
# settled FILE: a CSV without what may differ between two runs: threads and seconds.
settled() { sed 's/,[0-9]*,[0-9.]*$//' "$1"; }
# rows FILE N: so many rows after the header.
rows() { is "$(($(wc -l <"$1") - 1)) rows" "$2 rows"; }
# only NAME...: $folder/files holds just those.
only() { is "$(cd "$folder/files" && printf '%s ' *)" "$* "; }

# ---- perplexity ------------------------------------------------------------------------------

check "a table with every prediction counted" succeeds perplexity "${base[@]}" -f "$text" --length 32
check "its numbers" prints "^perplexity.txt +32 +$n_predictions +6\\.2650"
check "nothing else is said" silent
check "two texts and their pool" succeeds perplexity "${base[@]}" -f "$text" "$folder/short.txt"
check "the pool counts both" prints "^pooled +32 +$((n_predictions + 9)) "
check "standard input" bash -c "'$locus' perplexity ${base[*]@Q} -f - <'$text' | grep -q '^- '"
check "the pool's length is the longest, a text's its own" prints '^short.txt +9 +9 '
check "a text shorter than the default" succeeds perplexity "${base[@]}" -f "$folder/short.txt"
check "has its own length" prints '^short.txt +9 +9 '
for length in 10 999999999; do
    check "a text shorter than --length $length" refuses 1 \
        "short.txt: the longest window that it fills has 9 tokens, fewer than --length $length" \
        perplexity "${base[@]}" -f "$folder/short.txt" "$text" --length "$length"
done
check "one that just fills it" succeeds perplexity "${base[@]}" -f "$folder/short.txt" --length 9
check "sliding's holds what is predicted last" succeeds perplexity "${base[@]}" \
    -f "$folder/short.txt" --length 10 --protocol sliding
check "all but its first token count" prints '^short.txt +10 +9 '
check "a default that half can't use" succeeds perplexity "${base[@]}" -f "$folder/short.txt" \
    --protocol half
check "is the text's" prints '^short.txt +10 +4 '
check "the scheme is told" succeeds perplexity "${base[@]}" -P alibi -f "$folder/short.txt"
check "on stderr, and in the table" eval 'says "position alibi.*trained with rope" && prints alibi'
mkdir "$folder/files"
if has_python; then
    check "JSON" succeeds perplexity "${base[@]}" --json -f "$text" --protocol half
    check "its keys" is_json \
        'list(it)[:4] == ["task", "model", "model_sha", "weight_type"] and it["begin_of_text"] == "none"
         and it["stride"] is None and len(it["texts"]) == 1 and len(it) == 32'
    sha=$(sha256sum "$text" | cut -c1-16)
    check "what tells the run apart" is_json \
        "list(it)[-9:-1] == ['text_sha', 'begin', 'longest_window', 'documents', 'windows', 'version',
                             'threads', 'seconds'] and it['text_sha'] == '$sha' and it['begin'] == 'none'
         and it['longest_window'] == 32 and it['documents'] == 'whole' and it['windows'] == 'all'"
    check "exact counts under half" is_json "it['tokens'] == $((n_windows * 15))"
    check "per token" succeeds perplexity "${base[@]}" -f "$text" --length 32 --protocol sliding \
        --stride 8 --per-token "$folder/files/tokens.csv"
    check "a line a prediction" rows "$folder/files/tokens.csv" "$n_predictions"
    check "their mean is the table's" "$python" -c 'import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], encoding="utf-8")))
text = open(sys.argv[2], "rb").read()
assert list(rows[0]) == ["index", "position", "id", "piece", "nll"]
assert [int(r["id"]) for r in rows] == list(text[1:])
assert [int(r["index"]) for r in rows] == list(range(1, len(text)))
assert all(int(r["position"]) in range(24, 32) for r in rows[31:])
mean = sum(float(r["nll"]) for r in rows) / len(rows)
assert abs(mean - 6.226019121) < 1e-5, mean' "$folder/files/tokens.csv" "$text"
    rm "$folder/files/tokens.csv"
fi
if imports numpy; then
    check "logits" succeeds perplexity "${base[@]}" -f "$text" --length 100 \
        --logits "$folder/files/logits.npy"
    check "they give the same loss" "$python" -c 'import sys
import numpy as np
logits = np.load(sys.argv[1]).astype(float)
ids = list(open(sys.argv[2], "rb").read())[1:]
assert logits.shape == (len(ids), 257), logits.shape
top = logits.max(axis=1)
nll = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - logits[np.arange(len(ids)), ids]
assert abs(nll.mean() - 6.233159980) < 1e-4, nll.mean()' "$folder/files/logits.npy" "$text"
    rm "$folder/files/logits.npy"
fi
check "a model against itself" succeeds perplexity "${base[@]}" --reference "$model" -f "$text"
check "is not apart from it" prints '^perplexity.txt +525\.839[0-9] +0 +0 +0 +0 +0 +100\.000 +0$'
check "a smaller one" run quantize -q "$model" "$folder/small.gguf" q8_0
small=(perplexity -m "$folder/small.gguf" -t 1 --cache-type f32 --length 100)
tail -c 150 "$text" >"$folder/end.txt"
check "against its original" succeeds "${small[@]}" --reference "$model" -f "$text" "$folder/end.txt"
check "with a pooled line, too" prints '^pooled +511\.9[0-9]+ +0\.001[0-9]* '
if imports numpy; then
    run "${small[@]}" -f "$text" --logits "$folder/small.npy"
    run perplexity "${base[@]}" -f "$text" --length 100 --logits "$folder/large.npy"
    check "per token" succeeds "${small[@]}" --reference "$model" -f "$text" --json \
        --per-token "$folder/both.csv"
    check "NumPy finds the same" "$python" -c 'import csv, json, sys
import numpy as np
def log_softmax(path):
    x = np.load(path).astype(float)
    return x - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)) - x.max(1, keepdims=True)
q, p = log_softmax(sys.argv[1]), log_softmax(sys.argv[2])
kl, same = (np.exp(p) * (p - q)).sum(1), p.argmax(1) == q.argmax(1)
it = json.load(open(sys.argv[3], encoding="utf-8"))["reference"]
expected = {"kl": kl.mean(), "kl_error": kl.std() / np.sqrt(len(kl) - 1), "kl_median": np.median(kl),
            "kl_99": np.quantile(kl, 0.99), "kl_max": kl.max(), "same_top": same.mean()}
for key, value in expected.items():
    assert abs(it[key] - value) <= 1e-6 * value, (key, it[key], value)
rows = list(csv.DictReader(open(sys.argv[4], encoding="utf-8")))
assert np.allclose([float(row["kl"]) for row in rows], kl, rtol=1e-6, atol=1e-12)
assert [row["same_top"] == "1" for row in rows] == same.tolist()
mean = sum(float(row["reference_nll"]) for row in rows) / len(rows)
assert abs(mean - it["nll"]) < 1e-6 and abs(mean - 6.233159980) < 1e-4, mean' \
        "$folder/small.npy" "$folder/large.npy" "$out" "$folder/both.csv"
fi
LC_ALL=C sed 's/<|endoftext|>/<|endoftexu|>/' "$model" >"$folder/other.gguf"
check "another vocabulary" refuses 1 'token 256 of .* is another in .*one vocabulary' \
    "${small[@]}" --reference "$folder/other.gguf" -f "$text"
check "no tokenizer" refuses 1 'bloom-alibi.gguf' \
    "${small[@]}" --reference "$data/bloom-alibi.gguf" -f "$text"
check "no reference" refuses 1 'none.gguf' "${small[@]}" --reference "$folder/none.gguf" -f "$text"
cp "$model" "$folder/original.gguf"
check "an output over the reference" refuses 2 'original.gguf would be written over' \
    "${small[@]}" --reference "$folder/original.gguf" -f "$text" --per-token "$folder/original.gguf"

check "files go into no folder that is not there" refuses 1 'none/x.csv: cannot be written' \
    perplexity "${base[@]}" -f "$text" --per-token "$folder/none/x.csv"
check "nor onto a full disk" refuses 1 '/dev/full: write failed' \
    perplexity "${base[@]}" -f "$folder/short.txt" --logits /dev/full

: >"$folder/empty.txt"
check "an empty text" refuses 1 'empty.txt: nothing to predict' perplexity "${base[@]}" -f "$folder/empty.txt"
check "no text" refuses 2 'no text' perplexity "${base[@]}"
check "a folder" refuses 1 'Is a directory' perplexity "${base[@]}" -f "$folder"
check "half without a window" refuses 1 'has 10 tokens, fewer than --length 64' \
    perplexity "${base[@]}" -f "$folder/short.txt" --protocol half --length 64
check "half of windows too short" refuses 2 'expected 3 or more' \
    perplexity "${base[@]}" -f "$text" --protocol half --length 2
check "a stride longer than a window" refuses 2 'step of 1 to 16' \
    perplexity "${base[@]}" -f "$text" --protocol sliding --length 16 --stride 17
check "sliding windows too short" refuses 2 'expected 2 or more' \
    perplexity "${base[@]}" -f "$text" --protocol sliding --length 1
check "a first window that slides" refuses 2 '--first takes one window a document' \
    perplexity "${base[@]}" -f "$text" --protocol sliding --first
check "a stride without sliding" refuses 2 'stride belongs to' \
    perplexity "${base[@]}" -f "$text" --stride 4
check "a context below the windows" refuses 2 'less than the windows' \
    perplexity "${base[@]}" -f "$text" -c 8 --length 16
cp "$text" "$folder/own.txt"
check "an output over the text" refuses 2 'own.txt would be written over .*own.txt' \
    perplexity "${base[@]}" -f "$folder/own.txt" --per-token "$folder/./own.txt"
check "a table over the text" refuses 2 'own.txt would be written over .*own.txt' \
    extrapolate "${base[@]}" -f "$folder/own.txt" --lengths 32 --csv "$folder/own.txt"
check "the text is as it was" cmp "$text" "$folder/own.txt"
check "two outputs in one file" refuses 2 'x.out would be written over .*x.out' \
    extrapolate "${base[@]}" -f "$text" --lengths 32 --csv "$folder/x.out" --json "$folder/./x.out"
check "an output over the model" refuses 2 'perplexity.gguf' \
    perplexity "${base[@]}" -f "$text" --logits "$model"
check "a folder as output, before the run" refuses 1 'files: cannot be written: Is a directory' \
    extrapolate "${base[@]}" -f "$text" --lengths 32 --png "$folder/files"
check "two texts with --per-token" refuses 2 'takes one text, found 2' \
    perplexity "${base[@]}" -f "$text" -f "$text" --per-token "$folder/files/x.csv"
check "nothing is left" only '*'

# ---- extrapolate -----------------------------------------------------------------------------

sweep=(extrapolate "${base[@]}" -m "$model" -P alibi -P 'rope:scaling=linear,factor=auto'
    -P rope:scaling=dynamic -f "$text" -f "$folder/short.txt" --lengths 16:128 --by-position -q)
csv=$folder/files/a.csv
check "a sweep" succeeds "${sweep[@]}" --csv "$csv" --json "$folder/files/a.json" --png "$folder/files/a.png"
check "a column a model under a SPEC" prints '^length +A +B +C +D$'
check "factors and lengths that differ, from the least to the largest" eval \
    'prints "base=1000,scaling=linear,factor=1\.\.4$" && prints "dynamic,length=16\.\.128$"'
check "nothing is said" silent
# 4 lengths for each of 2 texts and the pool, and the buckets of the one that fills the windows.
check "a row a length, and a bucket" rows "$csv" $((4 * (4 * 3 + 4)))
cut_header='task,model,model_sha,weight_type,position,attention,trained_length,text,length,protocol,stride,begin_of_text,depth,trials,tokens,nll,perplexity,standard_error,bits_per_byte,accuracy,cache_type,kernels,seed,text_sha,begin,longest_window,documents,windows,version,threads,seconds'
check "layers of their own" succeeds extrapolate "${base[@]}" -m "$model" -f "$text" --lengths 16:32 -q \
    -P 'rope:scaling=dynamic; layers 0 none'
check "which a legend ends with" prints 'dynamic,length=16\.\.32; layers 0 none$'
check "layers whose value depends on the length" succeeds extrapolate "${base[@]}" -m "$model" -f "$text" \
    --lengths 16:128 -q -P 'none; layers 0 rope:scaling=linear,factor=auto'
check "a legend has both ends of it" prints '^B .*none; layers 0 .*factor=1\.\.4$'
check "two SPECs that come to one" succeeds extrapolate "${base[@]}" -m "$model" -f "$text" --lengths 16:32 -q \
    -P rope -P rope:base=1000 -P rope:scaling=linear,factor=auto --csv "$folder/twins.csv"
check "have a column each" prints '^ +32 +([0-9.]+) +\1 +\1 +\1$'
check "and a row of the CSV together" rows "$folder/twins.csv" 4
check "the columns" is "$(head -1 "$csv")" "$cut_header"
check "a PNG" is "$(head -c 8 "$folder/files/a.png" | od -An -tx1 | tr -d ' \n')" 89504e470d0a1a0a
check "a second run" succeeds "${sweep[@]}" --csv "$folder/b.csv" -b 17
check "gives the same rows" is "$(settled "$folder/b.csv")" "$(settled "$csv")"
for n in 0 10 300 1000 5000; do
    head -c "$n" "$csv" >"$folder/cut.csv"
    check "taken up after $n bytes" succeeds "${sweep[@]}" --csv "$folder/cut.csv" --resume
    check "it ends the same" is "$(settled "$folder/cut.csv")" "$(settled "$csv")"
done
cp "$csv" "$folder/done.csv"
check "nothing is left to do" succeeds "${sweep[@]}" --csv "$folder/done.csv" --resume
check "and nothing is done" same "$folder/done.csv" "$csv"
if has_python; then
    cp "$folder/files/a.json" "$out"
    check "JSON has the rows" is_json \
        'len(it) == 64 and it[0]["length"] == 128 and it[0]["accuracy"] is None and it[0]["perplexity"] > 1'
    check "those that no text fills have none" is_json \
        'all((row["nll"] is None) == (row["tokens"] is None) == (row["text"] != "perplexity.txt") and
             row["longest_window"] == {"perplexity.txt": row["length"]}.get(row["text"], 9)
             for row in it if row["protocol"] == "windows")'
    check "every prediction counts at every length" is "$(column "$csv" tokens | sort -n | uniq -c | tail -1 |
        awk '{print $1, $2}')" "16 $n_predictions"
    check "factor=auto is resolved, the windows' length is" is \
        "$(column "$csv" position | sort -u)" "alibi
rope:pairs=half,dim=8,base=1000
rope:pairs=half,dim=8,base=1000,scaling=dynamic,length=128
rope:pairs=half,dim=8,base=1000,scaling=dynamic,length=16
rope:pairs=half,dim=8,base=1000,scaling=dynamic,length=32
rope:pairs=half,dim=8,base=1000,scaling=dynamic,length=64
rope:pairs=half,dim=8,base=1000,scaling=linear
rope:pairs=half,dim=8,base=1000,scaling=linear,factor=2
rope:pairs=half,dim=8,base=1000,scaling=linear,factor=4"
fi

# ---- lengths that no text fills ----------------------------------------------------------------

head -c 46 "$text" >"$folder/one.txt"
one=(extrapolate "${base[@]}" -f "$folder/one.txt" --lengths)
check "lengths past the text" succeeds "${one[@]}" 16:1024 --png "$folder/past.png"
check "have no result" eval 'prints "^ +32 +[0-9.]+$" && prints "^ +64 +-$" && prints "^ +1024 +-$"'
check "and one line says why" is "$(cat "$err")" \
    "locus: note: one.txt: the longest window that it fills has 45 tokens: no result for lengths past that"
check "without them" succeeds "${one[@]}" 16:32 -q --png "$folder/within.png"
check "the picture is the same" same "$folder/past.png" "$folder/within.png"
check "no length at all" refuses 1 'has 45 tokens, fewer than the shortest length, 64' "${one[@]}" 64:128
check "texts that differ in it" succeeds "${one[@]}" 16:128 -f "$text" --by-position
check "the windows that they lie in are told" prints '^windows of +128( +128)*$'
check "have no pool past the shorter" prints '^ +32 +[0-9.]+$'

# ---- windows and where they begin --------------------------------------------------------------

check "first windows alone" succeeds perplexity "${base[@]}" -f "$text" --length 64 --first
check "predict no more than their length" prints '^perplexity.txt +64 +64 +6\.1652'
check "of each document" succeeds extrapolate "${base[@]}" -f "$text" --lengths 16:64 --first --by-position
check "the first bucket is the shortest length" is "$(awk '$1 == 16 {print $2}' "$out")" \
    "$(awk '$3 == 16 {print $4}' "$out")"
check "sliding steps by half a window, or 256" succeeds extrapolate "${base[@]}" -f "$text" \
    --lengths 16:64 --protocol sliding
check "and says so" prints 'sliding by 8 to 32$'
check "a stride longer than a window" refuses 2 'windows of 16 tokens that step by 32' \
    extrapolate "${base[@]}" -f "$text" --lengths 16:64 --protocol sliding --stride 32
declare -A begins=([none]="$n_predictions +6\\.26500" [first]="$((n_predictions + 1)) +6\\.24139"
    [every]="$((n_predictions + 1)) +6\\.29665")
for begin in none first every; do
    check "begin-of-text: $begin" succeeds perplexity "${base[@]}" -f "$text" --length 32 --begin $begin
    check "its numbers" prints "^perplexity.txt +32 +${begins[$begin]} "
    check "of a task, too" succeeds extrapolate "${base[@]}" --task copy --lengths 4 --trials 2 \
        --begin $begin --csv "$folder/task.csv" --force
    ! has_python || check "says its row" is "$(column "$folder/task.csv" begin)" "$begin"
done
check "half knows no first" refuses 2 "protocol half puts .*expected every or none" \
    perplexity "${base[@]}" -f "$text" --protocol half --begin first
LC_ALL=C sed 's/tokenizer.ggml.bos_token_id/xokenizer.ggml.bos_token_id/' "$model" >"$folder/bare.gguf"
for begin in first every; do
    check "a model without the token, --begin $begin" refuses 1 "bare.gguf: --begin: .*no begin-of-text" \
        perplexity -m "$folder/bare.gguf" -f "$text" --begin "$begin"
done

# ---- results are kept --------------------------------------------------------------------------

cp "$model" "$folder/kept.gguf"
kept=(extrapolate -m "$folder/kept.gguf" -t 1 -f "$folder/kept.txt" --lengths "16,32" --csv "$folder/kept.csv")
head -c 200 "$text" >"$folder/kept.txt"
check "a CSV" succeeds "${kept[@]}"
cp "$folder/kept.csv" "$folder/before.csv"
check "is not overwritten" refuses 1 'kept.csv is there already: expected --resume .* or --force' "${kept[@]}"
check "it is as it was" same "$folder/kept.csv" "$folder/before.csv"
check "but with --force" succeeds "${kept[@]}" --force
check "it has the same rows" is "$(settled "$folder/kept.csv")" "$(settled "$folder/before.csv")"
check "not both" refuses 2 'expected one' "${kept[@]}" --force --resume
check "nor force alone" refuses 2 'force replaces a --csv' extrapolate "${base[@]}" -f "$text" --force
: >"$folder/none.csv"
check "an empty file holds nothing" succeeds "${kept[@]}" --csv "$folder/none.csv"
tail -c 200 "$text" >"$folder/kept.txt"
check "a text that changed" succeeds "${kept[@]}" --resume
check "is computed again, and said" is "$(cat "$err")" "locus: note: $folder/kept.csv: 2 results are computed \
again, as the text kept.txt changed"
check "the old rows stay" rows "$folder/kept.csv" 4
cp "$out" "$folder/changed.out"
check "and then it is found" succeeds "${kept[@]}" --resume
check "the new one" same "$out" "$folder/changed.out"
check "nothing is said" silent
LC_ALL=C sed 's/perplexity/perplexitz/' "$model" >"$folder/kept.gguf"
check "a model that changed" succeeds "${kept[@]}" --resume
check "is said, too" says '2 results are computed again, as the model kept.gguf changed'
check "one line" is "$(wc -l <"$err")" 1
sed -i 's/,[0-9.]*,\([0-9]*,[0-9.]*\)$/,0.0.9,\1/' "$folder/kept.csv"
check "another version" succeeds "${kept[@]}" --resume
check "is said, too" says '2 results are computed again, as the version [0-9.]+ changed'
sed -i 's/,text_sha,begin,longest_window,documents,windows,version//' "$folder/kept.csv"
check "a CSV of other columns" refuses 1 'its header has other columns, 25 of them, expected the 31' \
    "${kept[@]}" --resume

killed=$folder/killed.csv
setsid "$locus" "${sweep[@]}" --csv "$killed" >/dev/null 2>&1 &
victim=$!
for _ in $(seq 100); do
    [ "$(wc -l 2>/dev/null <"$killed" || echo 0)" -gt 2 ] && break
    sleep 0.05
done
kill -9 "$victim" 2>/dev/null
wait "$victim" 2>/dev/null
check "a killed sweep is taken up" succeeds "${sweep[@]}" --csv "$killed" --resume
check "and ends like another" is "$(settled "$killed")" "$(settled "$csv")"

passkey=(extrapolate "${base[@]}" --task passkey --lengths '150,200' --trials 3 -q)
check "passkey" succeeds "${passkey[@]}" --csv "$folder/p.csv" --png "$folder/p.png"
check "a row a length and depth" rows "$folder/p.csv" 22
check "its picture" test -s "$folder/p.png"
check "again" succeeds "${passkey[@]}" --csv "$folder/q.csv"
check "the same" is "$(settled "$folder/p.csv")" "$(settled "$folder/q.csv")"

# Of several heat maps each is a file of its own, which is known before the first is drawn.
maps=("${passkey[@]}" -P rope -P alibi)
cp "$model" "$folder/maps-2.gguf"
check "a heat map over a model" refuses 2 'maps-2.gguf would be written over .*maps-2.gguf' \
    extrapolate -m "$folder/maps-2.gguf" "${maps[@]:3}" --png "$folder/maps.gguf"
check "the model is as it was" same "$model" "$folder/maps-2.gguf"
for option in --csv --json; do
    check "a heat map over $option" refuses 2 'maps-1.png would be written over .*maps-1.png' \
        "${maps[@]}" "$option" "$folder/maps-1.png" --png "$folder/maps.png"
done
mkdir "$folder/maps-2.png"
check "one that can't be written, before the run" refuses 1 \
    'maps-2.png: cannot be written: Is a directory' \
    "${maps[@]}" --csv "$folder/maps.csv" --png "$folder/maps.png"
rmdir "$folder/maps-2.png"
ln -s /dev/null "$folder/null.png"
check "several in a device" refuses 2 'null.png: 2 pictures, expected one for what is no file' \
    "${maps[@]}" --png "$folder/null.png"
check "several in a descriptor" refuses 2 '/dev/fd/2: 2 pictures, expected one' \
    "${maps[@]}" --png /dev/fd/2
check "none of it was drawn" is "$(find "$folder" -name 'maps*' -o -name 'null-*')" "$folder/maps-2.gguf"
check "several in files" succeeds "${maps[@]}" --png "$folder/maps.png"
check "which are numbered" eval '[ -s "$folder/maps-1.png" ] && [ -s "$folder/maps-2.png" ] && [ ! -e "$folder/maps.png" ]'

check "what a task was trained to" succeeds extrapolate -q -m "$root/models/copy-none.gguf" \
    -m "$root/models/tales-none.gguf" --task copy --lengths 2,5 --trials 2
check "is in letters, and nothing for a model of texts" eval \
    'prints "copy-none.gguf +trained 20 +none" && prints "tales-none.gguf +none"'
for task in copy reverse addition; do
    check "$task" succeeds extrapolate "${base[@]}" --task "$task" --lengths 2,5 --trials 4 -q
    check "its table" prints '^ +5 +[01]\.'
done

# ---- nothing measured --------------------------------------------------------------------------

cp "$model" "$folder/odd.gguf"
printf '\377%.0s' {1..64} | dd of="$folder/odd.gguf" bs=1 conv=notrunc status=none \
    seek=$(($(wc -c <"$folder/odd.gguf") / 2 / 64 * 64))
odd=(extrapolate -q -t 1 -m "$folder/odd.gguf")
for what in "-f $text" "-f $text -f $folder/short.txt --by-position" '--task copy'; do
    # shellcheck disable=SC2086 # several words
    run "${odd[@]}" $what --lengths 4,8
    check "a model that can't be measured, $what" eval \
        'done_with 1 && says "^locus: warning: .*length 8: .* is not a number" && prints "^ +8 +-"'
done
run extrapolate -q -t 1 -m "$folder/odd.gguf" -m "$model" -f "$text" --lengths 4,8
check "beside one that can" eval 'done_with 0 && says "warning" && prints "^ +8 +- +[0-9.]+$"'

check "notes on texts and lengths" refuses 2 'found .64-16., expected N or FROM:TO' \
    extrapolate "${base[@]}" -f "$text" --lengths 64-16
check "a -P before its -m" refuses 2 'comes before the -m' extrapolate -P none "${base[@]}" -f "$text"
check "a wrong SPEC" refuses 2 "nearest is 'factor'" extrapolate "${base[@]}" -P rope:facto=2 -f "$text"
check "a scheme without its table" refuses 1 'no tensor position_embd' \
    extrapolate "${base[@]}" -P learned -f "$text"
check "resuming nothing" refuses 2 'resume takes up a --csv' extrapolate "${base[@]}" -f "$text" --resume
cp "$text" "$folder/notes.txt"
check "a file that is no CSV" refuses 1 'not the header of results' \
    extrapolate "${base[@]}" -f "$text" --resume --csv "$folder/notes.txt" --lengths 16
check "is left alone" same "$folder/notes.txt" "$text"
for option in --csv --json --png -f; do
    check "$option without a name, before the run" refuses 2 "$option.*: found '', expected FILE" \
        extrapolate "${base[@]}" -f "$text" "$option" ''
done
check "a CSV on a full disk" refuses 1 '/dev/full: write failed' \
    extrapolate "${base[@]}" -f "$text" --csv /dev/full --lengths 16
check "heat maps in no folder, before the run" refuses 1 'none/x.png: cannot be written' \
    extrapolate "${base[@]}" --task passkey --png "$folder/none/x.png"
check "a picture in no folder" refuses 1 'none/x.png: cannot be written' \
    extrapolate "${base[@]}" -f "$text" --png "$folder/none/x.png" --lengths 16
check "a task with a text" refuses 2 "doesn't go with --task copy" \
    extrapolate "${base[@]}" -f "$text" --task copy
check "a passkey text too short" refuses 2 'a passkey text has 148 or more' \
    extrapolate "${base[@]}" --task passkey --lengths 100
check "one that is never done" refuses 2 'found 2000000000, a copy text has 1048576 or fewer' \
    extrapolate "${base[@]}" --task copy --lengths 20,2000000000

report
