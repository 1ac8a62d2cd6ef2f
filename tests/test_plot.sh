#!/usr/bin/env bash
# locus plot: the pictures it writes, what it refuses, and that nothing half-written stays.
# shellcheck disable=SC2016 # eval expands them
set -u
# shellcheck source-path=SCRIPTDIR source=cli_testing.sh
. "$(dirname "$0")/cli_testing.sh"

export LOCUS_MODEL=$data/schemes.gguf
pictures=$folder/pictures
mkdir "$pictures"
picture=$pictures/x.png

# draws ARGUMENT...: exit status 0, no talk, a PNG of some size with an end, and no file beside it.
draws() {
    rm -f "$picture"
    run plot "$@" -o "$picture"
    done_with 0 || return
    if [ -s "$out" ] || ! silent; then echo "it talks"; return 1; fi
    is "$(ls "$pictures")" x.png || return
    is "$(head -c 8 "$picture" | od -An -tx1 | tr -d ' \n')" 89504e470d0a1a0a || return
    is "$(tail -c 8 "$picture" | head -c 4)" IEND || return
    [ "$(wc -c <"$picture")" -gt 3000 ] || { echo "the file is small"; false; }
}

# refuses, and writes nothing.
leaves_nothing() {
    rm -f "$picture"
    refuses "$@" || return
    is "$(ls "$pictures")" ''
}

check "table" draws table -P learned
check "table of a formula, longer" draws table -P sinusoidal --length 300
check "similarity" draws similarity -P sinusoidal
check "bias" draws bias -P alibi --length 100
check "bias of a layer" draws bias -P transformer-xl --layer 1
check "rotation" draws rotation -P rope --head 2
check "rotation, a line a SPEC" draws rotation -P rope -P rope:scaling=linear,factor=4 -P yarn:factor=2
run plot rotation -P rope -o "$folder/one.png"
run plot rotation -P rope -o "$folder/two.png"
check "the same picture again, to the byte" same "$folder/one.png" "$folder/two.png"
check "another scheme gives another" eval \
    'run plot rotation -P rope:base=500 -o "$folder/two.png"; differ "$folder/one.png" "$folder/two.png"'

check "no plot" refuses 2 "no plot named: expected table, similarity, bias, rotation or attention" plot
check "an unknown plot" leaves_nothing 2 "'tabel'.*'table'" plot tabel -o "$picture"
check "two plots" leaves_nothing 2 "'bias'" plot table bias -o "$picture"
check "no file" leaves_nothing 2 'with -o' plot table
check "a wrong SPEC" leaves_nothing 2 "'alibo'" plot bias -P alibo -o "$picture"
check "two SPECs for one map" leaves_nothing 2 'one -P, found 2' plot bias -P alibi -P t5 -o "$picture"
check "no text for attention" leaves_nothing 2 'with -p' plot attention -o "$picture"
check "no text for a table that needs it" leaves_nothing 2 'with -p' plot table -P recurrent -o "$picture"
check "a scheme without the hook" leaves_nothing 1 'rope adds nothing.*rotation' \
    plot table -P rope -o "$picture"
check "more positions than it has" leaves_nothing 1 '24 positions, found 30' \
    plot table -P learned --length 30 -o "$picture"
check "a layer that isn't there" leaves_nothing 2 'layers 0 to 1' plot bias -P t5 --layer 2 -o "$picture"
check "a model without a tokenizer" leaves_nothing 1 'tokenizer' plot attention -p x -o "$picture"

check "a folder that isn't there" leaves_nothing 1 'No such file' plot bias -P alibi -o "$folder/no/x.png"
check "a folder in the file's place" leaves_nothing 1 'Is a directory' plot bias -P alibi -o "$pictures"
[ ! -c /dev/full ] || check "a device in the file's place" leaves_nothing 1 "No space" \
    plot bias -P alibi -o /dev/full
# at_limit: a file may have 1 KB here; the program says so, lives, and leaves nothing.
at_limit() (
    ulimit -f 1
    "$locus" plot bias -P alibi -o "$picture" 2>&1 | grep -q 'write failed: File too large' &&
        is "$(ls "$pictures")" ''
)
rm -f "$picture"
check "a picture beyond the largest file" at_limit
check "a disk that fills up" eval '
    rm -f "$picture"
    (ulimit -f 2; trap "" XFSZ; run plot table -P sinusoidal -o "$picture"; exit $status)
    is $? 1 && says "error: .*x.png: write failed" && is "$(ls "$pictures")" ""'

if make_stories; then
    export LOCUS_MODEL=$stories
    check "attention" draws attention -p 'Once upon a time there was a cat.' --layer 4 --head 7
    check "attention under another scheme" draws attention -p 'Once upon a time' -P alibi
    check "a head that isn't there" leaves_nothing 2 'head' \
        plot attention -p 'Once upon a time' --head 8 -o "$picture"
else
    skip "no LOCUS_TEST_DATA, or no Python with numpy: attention of stories260K"
fi

report
