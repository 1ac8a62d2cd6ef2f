#!/usr/bin/env bash
# Make the models of models/ again: `make models TEXT="train.txt ..." EVAL="held-out.txt ..."`.
#
# Environment (all have defaults but TEXT and EVAL, which the sets text and tales need):
#   TEXT, EVAL    texts to train on, and held-out ones, names without spaces; lines that read
#                 <|endoftext|> part documents
#   STORIES, EVAL_STORIES   what the set `text` has instead (TEXT, EVAL)
#   SETS          sets to make, in this order (text tales copy reverse addition passkey)
#   TALES_SCHEMES, TASK_SCHEMES   SPECs, in this order; in TALES_SCHEMES mamba, retention and hyena,
#                 too, which are instead of attention
#   TOKENS        tokens each model of tales trains on (10M)
#   TEXT_TOKENS   the same for the set `text` (14M); TASK_TOKENS for a task (10M to 30M)
#   ABOUT         the texts in words, kept in the files; ABOUT_STORIES for those of the set `text`
#   OUT           where models go (models)
#   WORK          where states, logs and the tokenizer of tales are kept, so that a run goes on where
#                 it was (build/models; another OUT has its own, OUT/work)
#   TRAIN         the trainer (scripts/train.py); PYTHON (python3, .venv's if there is one)
#   THREADS       CPU threads (2)
# A model that is there already is not made again. One that fails doesn't stop the others.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

case ${1-} in
    -h | --help)
        sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
        exit 0
        ;;
    '') ;;
    *)
        echo "make_models.sh: no argument is known; see --help" >&2
        exit 2
        ;;
esac

python=${PYTHON:-python3}
[ -z "${PYTHON-}" ] && [ -x "$here/.venv/bin/python" ] && python=$here/.venv/bin/python
train=${TRAIN:-$here/scripts/train.py}
out=${OUT:-$here/models}
work=${WORK:-${OUT:+$OUT/work}}
work=${work:-$here/build/models}
read -ra text <<<"${TEXT-}"
read -ra held_out <<<"${EVAL-}"
read -ra stories <<<"${STORIES:-${TEXT-}}"
read -ra held_out_stories <<<"${EVAL_STORIES:-${EVAL-}}"
read -ra sets <<<"${SETS:-text tales copy reverse addition passkey}"
# What has been compared most comes first.
read -ra tales_schemes <<<"${TALES_SCHEMES:-rope alibi none learned sinusoidal t5 relative kerple \
transformer-xl fire cope sandwich xpos recurrent rope:p=0.5 rope:nope_every=2 mamba retention fox \
dape rope:random=4096 hyena}"
read -ra task_schemes <<<"${TASK_SCHEMES:-none rope alibi t5 sinusoidal}"
mkdir -p "$out" "$work"
failed=0

# name_of SPEC: rope as it is, rope:base=500 as rope-base-500; some have a name of their own.
name_of() {
    case $1 in
        rope:p=0.5) echo prope ;;
        rope:nope_every=2) echo nope-half ;;
        rope:random=4096) echo rope-random ;;
        *) tr ':=,' '---' <<<"$1" ;;
    esac
}

# make_model NAME OPTION...: trains and exports NAME.gguf, which keeps the command that made it.
make_model() {
    local name=$1
    shift
    if [ -e "$out/$name.gguf" ]; then
        echo "$out/$name.gguf is there" >&2
        return
    fi
    echo "== $name" >&2
    local status=0
    "$python" "$train" "$@" --name "$name" --threads "${THREADS:-2}" --state "$work/$name.state" \
        --log "$work/$name.csv" --export "$work/$name.gguf" || status=$?
    if [ "$status" -ne 0 ]; then
        echo "make_models.sh: $name: status $status" >&2
        failed=1
        [ "$status" -le 128 ] || exit "$status" # stopped by a signal, and its state saved
        return
    fi
    mv "$work/$name.gguf" "$out/$name.gguf"
    rm -f "$work/$name.state"
}

# scale_for SPEC WIDTH: the token embedding times sqrt(WIDTH) beside sinusoidal positions, as in the
# paper; else tokens of deviation 0.02 are lost among sines of amplitude 1.
scale_for() {
    [ "${1%%:*}" != sinusoidal ] || awk -v d="$2" 'BEGIN { printf "--embedding-scale %.1f", sqrt(d) }'
}

# need_texts SET N_TEXTS N_HELD_OUT
need_texts() {
    if [ "$2" -eq 0 ] || [ "$3" -eq 0 ]; then
        echo "make_models.sh: TEXT and EVAL must name texts for the set $1" >&2
        exit 2
    fi
}

# The largest, for text: its own tokenizer.
make_text() {
    need_texts text ${#stories[@]} ${#held_out_stories[@]}
    make_model tales --text "${stories[@]}" --eval "${held_out_stories[@]}" \
        --tokens "${TEXT_TOKENS:-14M}" --position rope --warmup 200k --compile \
        --about "${ABOUT_STORIES:-${ABOUT-}}"
}

# mixer_for SPEC, shape_for SPEC: what is instead of attention has no positions, and layers of a shape
# with as many parameters in all.
mixer_for() {
    case $1 in
        mamba | retention | hyena) echo --mixer "$1" --position none ;;
        *) echo --position "$1" ;;
    esac
}
shape_for() {
    case $1 in
        mamba) echo --n-layer 8 --n-ff 0 ;;
        retention) echo --n-layer 5 --n-head 4 --n-ff 120 ;;
        hyena) echo --n-layer 5 --n-ff 240 ;;
        *) echo --n-layer 5 --n-head 4 --n-ff 288 ;;
    esac
}

# The same model under every scheme: 1.0 M parameters, trained on 256 tokens at a time.
# shellcheck disable=SC2046 # several words, or none
make_tales() {
    need_texts tales ${#text[@]} ${#held_out[@]}
    local spec
    for spec in "${tales_schemes[@]}"; do
        make_model "tales-$(name_of "$spec")" --text "${text[@]}" --eval "${held_out[@]}" \
            --tokenizer "$work/tales.tokenizer.json" $(mixer_for "$spec") --tokens "${TOKENS:-10M}" \
            --context 256 --n-embd 128 $(shape_for "$spec") --warmup 200k --compile \
            --about "${ABOUT-}" $(scale_for "$spec" 128)
    done
}

# tokens_for TASK SPEC TOKENS: more where a scheme takes longer to learn a task.
tokens_for() {
    case $1-${2%%:*} in
        reverse-alibi) echo 20M ;;
        addition-rope | addition-t5) echo 30M ;;
        *) echo "$3" ;;
    esac
}

# make_task TASK WIDTH TOKENS OPTION...: 3 layers, bytes.
# shellcheck disable=SC2046
make_task() {
    local task=$1 width=$2 usual=$3 spec tokens
    shift 3
    for spec in "${task_schemes[@]}"; do
        tokens=${TASK_TOKENS:-$(tokens_for "$task" "$spec" "$usual")}
        make_model "$task-$(name_of "$spec")" --task "$task" --position "$spec" --tokens "$tokens" \
            --n-embd "$width" --n-layer 3 --n-head 4 --n-ff $((2 * width)) --warmup 500k \
            --compile "$@" $(scale_for "$spec" "$width")
    done
}

for set in "${sets[@]}"; do
    case $set in
        text) make_text ;;
        tales) make_tales ;;
        # 0.14 M parameters, enough for each task, so that all of models/ is 55 MiB.
        copy) make_task copy 64 10M --batch 128 ;;
        reverse) make_task reverse 64 10M --batch 128 ;;
        addition) make_task addition 64 20M --batch 128 ;;
        passkey) make_task passkey 64 15M --batch 32 ;;
        *)
            echo "make_models.sh: no set '$set'; known: text tales copy reverse addition passkey" >&2
            exit 2
            ;;
    esac
done
exit "$failed"
