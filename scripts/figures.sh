#!/usr/bin/env bash
# Draws the figures of the README from the models of models/: scripts/figures.sh [FIGURE...], all of
# them when none is named.
#
# Each command is shown before it runs. A figure whose models are not there is named and passed over.
# LOCUS=build/locus is the program, MODELS=models and OUT=models/figures are the folders.
set -eu
cd "$(dirname "$0")/.."

locus=${LOCUS:-build/locus}
models=${MODELS:-models}
out=${OUT:-models/figures}
text=models/evaluation.txt
missing=0

usage() {
    sed -n '2,6s/^# \{0,1\}//p' "$0"
    echo "figures: ${all[*]}"
}

# show COMMAND...: says it, wherever its own output goes, then runs it.
exec 3>&1
show() {
    printf '$' >&3
    printf ' %q' "$@" >&3
    printf '\n' >&3
    "$@"
}

# needs MODEL...: whether all of these are there.
needs() {
    local model
    for model in "$@"; do
        [ -f "$models/$model.gguf" ] && continue
        echo "figures: no $models/$model.gguf: $figure is passed over" >&2
        missing=$((missing + 1))
        return 1
    done
}

# plot KIND MODEL OPTION...: the figure of `locus plot`.
plot() {
    local kind=$1 model=$2
    shift 2
    needs "$model" || return 0
    show "$locus" plot "$kind" -q -m "$models/$model.gguf" "$@" -o "$out/$figure.png"
}

# extrapolate OPTION...: that of `locus extrapolate`, its table left out.
extrapolate() {
    show "$locus" extrapolate -q "$@" --png "$out/$figure.png" >/dev/null
}

# ---- the figures: a function each ---------------------------------------------------------------

# What the schemes are.
table_learned() { plot table tales-learned; }
table_sinusoidal() { plot table tales-sinusoidal; }
similarity_learned() { plot similarity tales-learned; }
similarity_sinusoidal() { plot similarity tales-sinusoidal; }
bias_alibi() { plot bias tales-alibi --length 128; }
bias_t5() { plot bias tales-t5; }
rotation() {
    plot rotation tales-rope --length 256 -P rope -P rope:scaling=linear,factor=4 \
        -P rope:scaling=yarn,factor=4
}
attention() {
    plot attention tales --layer 3 --head 2 \
        -p 'Once upon a time there was a little dog. The dog had a red ball. He took the red ball'
}

# tales SCHEME...: how far those of them carry that are there.
tales() {
    local options=() scheme
    for scheme in "$@"; do
        [ -f "$models/tales-$scheme.gguf" ] && options+=(-m "$models/tales-$scheme.gguf")
    done
    if [ ${#options[@]} -eq 0 ]; then
        needs "tales-$1" || return 0
    fi
    extrapolate "${options[@]}" -f "$text" --lengths 64:4096
}
# One scheme in all layers.
extrapolation() {
    tales alibi cope fire kerple learned none recurrent relative rope sandwich sinusoidal t5 \
        transformer-xl xpos
}
# Less of RoPE, biases made of what the tokens are, and what mixes tokens instead of attention.
beyond() { tales rope prope nope-half rope-random alibi fox dape mamba retention hyena; }

# One model under RoPE's scalings, beside schemes that need none. Factor 8: made for eight times 256.
scalings() {
    needs tales-rope tales-alibi tales-t5 tales-none || return 0
    extrapolate -m "$models/tales-rope.gguf" -P rope -P rope:scaling=linear,factor=8 \
        -P rope:scaling=ntk,factor=8 -P rope:scaling=dynamic -P rope:scaling=yarn,factor=8 \
        -m "$models/tales-alibi.gguf" -m "$models/tales-t5.gguf" -m "$models/tales-none.gguf" \
        -f "$text" --lengths 128:4096
}

passkey() {
    local scheme
    scheme=$1
    needs "passkey-$scheme" || return 0
    extrapolate -m "$models/passkey-$scheme.gguf" --task passkey --lengths 192,224,256,320,384,512,768,1024 --seed 1
}
passkey_rope() { passkey rope; }
passkey_alibi() { passkey alibi; }

copy() {
    needs copy-none copy-rope copy-alibi copy-t5 copy-sinusoidal || return 0
    local options=() scheme
    for scheme in none rope alibi t5 sinusoidal; do
        options+=(-m "$models/copy-$scheme.gguf")
    done
    extrapolate "${options[@]}" --task copy --lengths 5,10,15,20,25,30,40,50,60 --seed 1
}

# ---- which -----------------------------------------------------------------------------------------

all=(table-learned table-sinusoidal similarity-learned similarity-sinusoidal bias-alibi bias-t5
    rotation attention extrapolation beyond scalings passkey-rope passkey-alibi copy)

case ${1:-} in
-h | --help) usage && exit ;;
esac
[ $# -gt 0 ] || set -- "${all[@]}"
for figure in "$@"; do
    if [[ " ${all[*]} " != *" $figure "* ]]; then
        echo "figures: no figure is called '$figure'; there are: ${all[*]}" >&2
        exit 2
    fi
done
[ -x "$locus" ] || { echo "figures: no $locus: run make first" >&2; exit 1; }
mkdir -p "$out"
for figure in "$@"; do
    "${figure//-/_}"
done
[ "$missing" -eq 0 ] || echo "figures: $missing passed over" >&2
