#!/usr/bin/env bash
# What names and texts of files come to on a terminal: nothing printed but generated text holds a
# character that does more than stand on its line.
# shellcheck disable=SC2016 # eval expands them
set -u
# shellcheck source-path=SCRIPTDIR source=cli_testing.sh
. "$(dirname "$0")/cli_testing.sh"

# A name with a newline, a colour, a terminal's title, U+009B (a control sequence), U+202E (right to
# left) and a byte that is no character's; and what stands for it.
name=$'a\n\e[31m\e]0;b\a\xc2\x9b2J\xe2\x80\xaec\x9b' tame='a??[31m?]0;b??2J?c?'
model=$folder/$name.gguf text=$folder/$name.txt
# The name in the file has as many bytes as the one it replaces.
LC_ALL=C sed $'s/perplexity/x\e[2J\xc2\x9b\xe2\x80\xae/' "$data/perplexity.gguf" >"$model"
cp "$data/perplexity.txt" "$text"

# harmless FILE...: lines of whole characters, none of which does more.
harmless() {
    LC_ALL=C grep -qP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]|[\x00-\x7f][\x80-\xbf]' \
        "$@" && { echo "a control character"; return 1; }
    return 0
}

# shows PATTERN ARGUMENT...: the run succeeds, is harmless, and a line of it fits.
shows() {
    local pattern=$1
    shift
    run "$@"
    done_with 0 && harmless "$out" "$err" && { grep -qF -e "$pattern" "$out" "$err" || {
        echo "nothing fits '$pattern'"
        return 1
    }; }
}

measure=(-t 1 -m "$model" -f "$text")
check "extrapolate's legend" shows "A  $tame.gguf  trained 32" extrapolate "${measure[@]}" --lengths 16
check "has its own line" is "$(grep -c '^A ' "$out") of $(wc -l <"$out")" '1 of 5'
check "its title" prints "^perplexity of a\\?\\?\\[31m.*\\.txt, windows"
check "by position, too" shows "perplexity of $tame.txt, by position" \
    extrapolate "${measure[@]}" --lengths 16 --by-position
check "its note" eval 'run extrapolate "${measure[@]}" --lengths 16:1024; harmless "$err" && says "note: a\?\?.*no result"'
check "perplexity's table" shows "$tame.txt  " perplexity "${measure[@]}"
check "and the one against another model" shows "against $tame.gguf (F32)" \
    perplexity "${measure[@]}" --reference "$model"
check "inspect's file" shows "/$tame.gguf" inspect -m "$model"
check "and name" prints "^name +x\\?\\[2J\\?\\?\$"
check "bench" shows "/$tame.gguf, F32, kernels" bench -m "$model" -t 1 -p 2 -n 2 -r 1
check "-v" shows "model $folder/$tame.gguf: locus" generate -v -m "$model" -t 1 -p x -n 0
check "an error" refuses 1 'none\?\[2J\?: No such file' inspect -m "$folder/"$'none\e[2J\u009b'
check "is harmless" harmless "$err"
check "wrong usage" refuses 2 "found plot '\\?'" plot $'\u202e'
check "is harmless, too" harmless "$err"
if has_python; then
    run inspect --json -m "$model"
    check "JSON is harmless" harmless "$out"
    check "and exact" is_json 'it["name"] == "x\x1b[2J\x9b\u202e"'
fi
check "tokens" shows '"\xc2"' tokenize -m "$model" -p $'\u009b'
mark=$'abcdef\xc2\x9b\xe2\x80\xae\e\r'
LC_ALL=C sed "s/<|endoftext|>/$mark/" "$data/perplexity.gguf" >"$folder/mark.gguf"
check "of several bytes" shows '"abcdef\xc2\x9b\xe2\x80\xae\x1b\r"' \
    tokenize --pieces --special -m "$folder/mark.gguf" -p "$mark"

# ---- progress --------------------------------------------------------------------------------

if command -v script >/dev/null; then
    long="extrapolate -t 1 -m '$root/models/tales-rope.gguf' -f '$root/models/evaluation.txt' --lengths 256 \
        -P rope:scaling=linear,factor=2 -P rope:scaling=yarn,factor=2"
    for columns in 80 50; do
        TERM=xterm script -qec "stty cols $columns; '$locus' $long" /dev/null </dev/null |
            tr -d '\n' | tr '\r' '\n' >"$folder/drawn"
        check "a bar" grep -q '\[#*\.*\] .*% .*left  length 256, scal' "$folder/drawn"
        check "of $columns columns" eval "! sed 's/\x1b\[K//g' '$folder/drawn' | grep '^\[' | grep -qE '^.{$columns,}'"
    done
    TERM=dumb script -qec "'$locus' $long" /dev/null </dev/null >"$folder/drawn"
    check "none where a line can't be drawn again" eval '! grep -q "left" "$folder/drawn"'
else
    skip "script(1) is not there: no bar"
fi

# ---- in a picture ------------------------------------------------------------------------------

# draws NOTES ARGUMENT...: a PNG file, and so many notes that its font hasn't all.
draws() {
    local n=$1
    shift
    rm -f "$folder"/*.png
    run "$@"
    done_with 0 && is "$(head -qc 4 "$folder"/x*.png | tr -cd PNG | head -c 3)" PNG || return
    is "$(grep -c "^locus: note: the picture's font has ASCII only: .* as .xNN\$" "$err") notes" "$n notes"
}
named=$folder/位置.gguf tales=$root/models/tales-rope.gguf
cp "$data/perplexity.gguf" "$named"
bias=(plot bias -P alibi -o "$folder/x.png")
keys=(extrapolate -t 1 --task passkey --lengths 150 --trials 1 --png "$folder/x.png")
check "a name that the font lacks" draws 1 "${bias[@]}" -m "$named"
check "not with -q" draws 0 "${bias[@]}" -q -m "$named"
check "one that it has" draws 0 "${bias[@]}" -m "$tales"
check "of a line chart" draws 1 plot rotation -m "$named" -o "$folder/x.png"
check "tokens" draws 1 plot attention -m "$tales" -p '位置编码' -o "$folder/x.png"
check "a text's name" draws 0 extrapolate -t 1 -m "$tales" -f "$data/perplexity.txt" --lengths 16 --png "$folder/x.png"
cp "$data/perplexity.txt" "$folder/位.txt"
check "that the font lacks" draws 1 extrapolate -t 1 -m "$tales" -f "$folder/位.txt" --lengths 16 --png "$folder/x.png"
check "one note for several pictures" draws 1 "${keys[@]}" -m "$named" -P rope -P alibi
check "none without need" draws 0 "${keys[@]}" -m "$data/perplexity.gguf"

# ---- and in a spreadsheet ----------------------------------------------------------------------

cp "$data/perplexity.gguf" "$folder/=1+1.gguf"
printf -- '-1+2 =3 @you' >"$folder/@x.txt"
cells=(extrapolate -q -t 1 -m "$folder/=1+1.gguf" -f "$folder/@x.txt" --lengths 4 --csv "$folder/cells.csv")
run "${cells[@]}"
check "no cell is a formula" eval 'done_with 0 && grep -q "^perplexity,'"'=1+1.gguf,.*,'@x.txt,"'" "$folder/cells.csv"'
cp "$folder/cells.csv" "$folder/again.csv"
run "${cells[@]}" --resume
check "and the row is found again" eval 'done_with 0 && same "$folder/cells.csv" "$folder/again.csv"'
report
