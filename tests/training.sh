#!/usr/bin/env bash
# The trainer: every scheme trains, and the program reads what comes of it as PyTorch does; stopped
# runs go on; wrong requests are refused. Needs PyTorch, which `make test` does not.
set -u
# shellcheck source=tests/cli_testing.sh
. "$(dirname "${BASH_SOURCE[0]}")/cli_testing.sh"

needs='import gguf, tokenizers, torch; torch.optim.Muon'
"$python" -c "$needs" 2>/dev/null || python=python3
if ! "$python" -c "$needs" 2>/dev/null; then
    skip "the trainer (scripts/setup.sh python-train)"
    exit 0
fi
"$python" "$here/train_cases.py" "$folder" "$locus" "$root/models/evaluation.txt"
