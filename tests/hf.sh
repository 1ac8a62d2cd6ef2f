#!/usr/bin/env bash
# The converter of Hugging Face folders: models of each family by transformers' own classes give the
# same logits, tokens and texts here. Needs PyTorch and transformers, which `make test` does not.
set -u
# shellcheck source=tests/cli_testing.sh
. "$(dirname "${BASH_SOURCE[0]}")/cli_testing.sh"

needs='import gguf, safetensors, tokenizers, torch, transformers'
"$python" -c "$needs" 2>/dev/null || python=python3
if ! "$python" -c "$needs" 2>/dev/null; then
    skip "models of Hugging Face (scripts/setup.sh python-train)"
    exit 0
fi
mkdir "$folder/models"
"$python" "$here/hf_cases.py" "$folder/models" "$locus"
