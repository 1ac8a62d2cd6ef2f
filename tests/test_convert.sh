#!/usr/bin/env bash
# The converters: every published shape of one model gives one file, and the program reads it; wrong
# input is refused in one line; tokenizers are carried whole, and outputs are what they were. Needs
# Python with numpy, gguf and safetensors; torch adds pickles, transformers a reference.
set -u
# shellcheck source=tests/cli_testing.sh
. "$(dirname "${BASH_SOURCE[0]}")/cli_testing.sh"

if ! imports "gguf, numpy, safetensors"; then
    report
    exit
fi
mkdir "$folder"/{cases,families,recent,own,tokenizers,pieces,outputs}
cases() {
    "$python" "$here/$1_cases.py" "${@:2}" >"$out" 2>"$err"
    status=$?
    cat "$out"
}
cases convert "$folder/cases" ${LOCUS_TEST_DATA:+"$LOCUS_TEST_DATA"}
check "the cases of the converters" done_with 0
cases family "$folder/families" "$locus"
check "the cases of families" done_with 0
cases recent "$folder/recent"
check "the cases of recent families" done_with 0
cases own_code "$folder/own"
check "the cases of families with code of their own" done_with 0
cases tokenizer "$folder/tokenizers"
check "the cases of the tokenizers" done_with 0
cases sentencepiece "$folder/pieces"
check "the cases of SentencePiece's file" done_with 0
cases output "$folder/outputs"
check "the cases of what is written" done_with 0
tiny=$folder/cases/gpt2.gguf

check "a converted GPT-2 is described" succeeds inspect -m "$tiny"
check "its family is named" prints 'gpt2'
check "it runs" succeeds generate -m "$tiny" -p "hello" -n 8 --temperature 0 --ignore-eos -q
run tokenize -m "$tiny" --ids -p "hello hello<|endoftext|>"
check "its tokenizer merges" prints '(^|[^0-9])259[^0-9]+260'
check "end of text is text" is "$(grep -c 261 "$out")" 0

printf '{"chat_template": "{{ messages }}"}' >"$folder/cases/plain/tokenizer_config.json"
"$python" "$root/scripts/convert_hf.py" "$folder/cases/plain" -o "$folder/chat.gguf" 2>"$err"
check "a folder with a chat template" succeeds inspect -m "$folder/chat.gguf"
check "it is said to be there" prints "^chat template .* doesn't run"
run inspect -m "$tiny"
check "and not to be where there is none" eval '! prints "chat template"'

# The script itself: exit status and one line.
"$python" "$root/scripts/convert_hf.py" "$folder" -o "$folder/x.gguf" >"$out" 2>"$err"
status=$?
check "a folder without a model" done_with 1
check "is refused in one line" is "$(wc -l <"$err")" 1
check "that names the script" says '^convert_hf.py: error: .*no config.json'
check "and leaves no file" test ! -e "$folder/x.gguf"
report
