#!/usr/bin/env bash
# The trainer: every scheme trains, and the program reads what comes of it as PyTorch does; stopped
# runs go on; wrong requests are refused. Random tokenizers have transformers' ids. Needs PyTorch and
# transformers, which `make test` does not.
set -u
# shellcheck source=tests/cli_testing.sh
. "$(dirname "${BASH_SOURCE[0]}")/cli_testing.sh"

needs='import gguf, tokenizers, torch; torch.optim.Muon'
"$python" -c "$needs" 2>/dev/null || python=python3
if ! "$python" -c "$needs" 2>/dev/null; then
    skip "the trainer (scripts/setup.sh python-train)"
    exit 0
fi
mkdir "$folder"/{tokenizers,training}
if "$python" -c 'import transformers' 2>/dev/null; then
    "$python" "$here/tokenizer_cases.py" "$folder/tokenizers" "$locus"
else
    skip "random tokenizers beside transformers' (scripts/setup.sh python-train)"
fi
"$python" "$here/train_cases.py" "$folder/training" "$locus" "$root/models/evaluation.txt"
