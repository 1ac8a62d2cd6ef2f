#!/usr/bin/env bash
# The converter of Hugging Face folders: models of each family by transformers' own classes, or by a
# plain forward pass where it has none, give the same logits, tokens and texts here, with layers of
# other positions by -P, too, and checkpoints of nanoGPT, nanochat and llm.c those of a plain forward
# pass; tokenizers as the families have them have the tokenizers library's ids and texts. Needs
# PyTorch and transformers, which `make test` does not.
set -u
# shellcheck source=tests/cli_testing.sh
. "$(dirname "${BASH_SOURCE[0]}")/cli_testing.sh"

needs='import gguf, safetensors, tokenizers, torch, transformers'
"$python" -c "$needs" 2>/dev/null || python=python3
if ! "$python" -c "$needs" 2>/dev/null; then
    skip "models of Hugging Face (scripts/setup.sh python-train)"
    exit 0
fi
mkdir "$folder"/{models,layers,nanogpt,nanochat,tokenizers}
failed=0
"$python" "$here/hf_cases.py" "$folder/models" "$locus" || failed=1
"$python" "$here/hf_layer_cases.py" "$folder/layers" "$locus" || failed=1
"$python" "$here/tokenizer_families.py" "$folder/tokenizers" "$locus" \
    "$root/models/evaluation.txt" || failed=1
"$python" "$here/nanogpt_cases.py" "$folder/nanogpt" "$locus" || failed=1
"$python" "$here/nanochat_cases.py" "$folder/nanochat" "$locus" \
    "$root/models/evaluation.txt" || failed=1
if [ -n "${LOCUS_LLAMA_CPP:-}" ]; then
    mkdir "$folder/llama_cpp"
    "$python" "$here/llama_cpp_cases.py" "$folder/llama_cpp" "$locus" "$LOCUS_LLAMA_CPP" || failed=1
else
    skip "files of llama.cpp's own converter (LOCUS_LLAMA_CPP: where it is)"
fi
exit $failed
