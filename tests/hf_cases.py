#!/usr/bin/env python3
"""Models of Hugging Face, converted and run beside transformers.

    hf_cases.py FOLDER LOCUS [NAME...]

FOLDER is an empty one to work in, LOCUS the program. For each variant of hf_models.py,
hf_own_models.py and hf_t5_models.py (those named, or all) a tiny random model is saved and
converted, and the program's results are held against those of transformers' class, or of a plain
forward pass where it has none, in double precision: logits of a text that goes past the trained
length where the model can, read at once and token by token; 20 tokens by greedy choice; the text's
tokens. Then as architecture `locus`, and from the configuration as transformers 4 wrote it. Prints
a table, a line for each check that fails and "NN%: Checks: N, Failures: N, Errors: 0" at the end;
exits 1 if any failed.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import gguf
import numpy as np
import safetensors
import safetensors.torch
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import convert_hf
from checks import Checks
from golden import randomise
from hf_models import N_VOCAB, VARIANTS, Variant, exact
from hf_own_models import OWN_CODE
from hf_t5_models import T5_DECODERS
from output import Failure

ALL: dict[str, Variant] = VARIANTS | OWN_CODE | T5_DECODERS
TOLERANCE = 1e-5  # of the largest logit
N_NEW = 20
SPLIT = re.compile(  # tensors that are stacked, split or left out
    r"\.(experts|norms)\.\d+\.|input_linear|experts\.\w+_proj|wqkv|W_pack|inv_freq"
)
TEXT = (
    "Once upon a time there was a little girl. She liked to play outside, and one day she saw a "
    "big, red ball under the tree! 'Look,' said her friend Tim, 'it's 12 times as big as my "
    "dog's.' They ran, jumped and laughed until the sun went down\nand the rain came.\n\n\tThen "
    "they went home: "
    "caf\u00e9, \u4f60\u597d, na\u00efve \U0001f600 ..."
)


class Bench:
    """The folder, the program and the tokenizer that all models share."""

    def __init__(self, work: Path, program: str) -> None:
        self.work, self.program = work, program
        self.tokenizer = self.work / "tokenizer"
        self.tokenizer.mkdir()
        self.train_tokenizer()
        auto = transformers.AutoTokenizer.from_pretrained(self.tokenizer)
        self.ids = auto(TEXT).input_ids
        self.auto = auto

    def train_tokenizer(self) -> None:
        """Byte-level BPE of N_VOCAB tokens."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=N_VOCAB,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator([TEXT] * 3, trainer)
        tokenizer.save(str(self.tokenizer / "tokenizer.json"))
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>",
        }
        (self.tokenizer / "tokenizer_config.json").write_text(json.dumps(settings))

    def run(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [self.program, *map(str, arguments), "-q", "-t", "1"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Failure(done.stderr.strip() or f"exit status {done.returncode}")
        return done.stdout

    def text(self, n: int) -> Path:
        """A file whose tokens are the first n of the text."""
        path = self.work / f"text-{n}.txt"
        path.write_text(self.auto.decode(self.ids[:n]), encoding="utf-8")
        return path

    def logits(self, model: Path, n: int, *options: str) -> np.ndarray:
        """Of all tokens but the last of n, [n - 1, N_VOCAB]."""
        out = self.work / "logits.npy"
        self.run("perplexity", "-m", model, "-f", self.text(n), "--length", str(n - 1),
                 "--logits", out, *options)  # fmt: skip
        return np.load(out)

    def greedy(self, model: Path, n: int) -> list[int]:
        told = self.run("generate", "-m", model, "-f", self.text(n), "-n", str(N_NEW),
                        "--temperature", "0", "--json")  # fmt: skip
        return json.loads(told)["tokens"]


def convert(folder: Path, output: Path, generic: bool = False) -> str:
    """The architecture of the file that comes of it."""
    with contextlib.redirect_stderr(io.StringIO()):
        convert_hf.convert(folder, output, "f32", "tiny", generic)
    return gguf.GGUFReader(output).fields["general.architecture"].contents()


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest |difference| over the largest logit, of the worst row."""
    return float((np.abs(ours - theirs).max(axis=1) / np.abs(theirs).max(axis=1)).max())


def expected(
    variant: Variant, state: dict[str, torch.Tensor], ids: list[int]
) -> tuple[np.ndarray, list[int]]:
    """Logits of the text's tokens but the last, and what greedy choice adds to the prompt."""
    tokens = torch.tensor([ids[: variant.longest - 1]])
    prompt = torch.tensor([ids[: variant.prompt]])
    with torch.no_grad(), exact():
        model = variant.make().eval()
        model.load_state_dict(state)
        logits = model(input_ids=tokens).logits[0].numpy()
        no_tokens = list(range(N_VOCAB, logits.shape[1]))  # ids without one
        chosen = model.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
            max_new_tokens=N_NEW, pad_token_id=0, suppress_tokens=no_tokens or None,
        )[0, variant.prompt :].tolist()  # fmt: skip
    return logits, chosen


class Row:
    """A line of the table: what holds, and how far."""

    def __init__(self, checks: Checks, name: str) -> None:
        self.checks, self.name, self.cells = checks, name, dict.fromkeys(COLUMNS, "-")

    def put(self, column: str, holds: bool, text: str, what: str = "") -> None:
        self.checks.that(holds, f"{self.name}: {column}: {what or text}")
        self.cells[column] = text if holds else "WRONG"

    def print(self) -> None:
        cells = (f"{self.cells[column]:>{width}}" for column, width in COLUMNS.items())
        print(f"{self.name:<32}", *cells)


COLUMNS = {
    "folder": 10, "names": 5, "logits": 8, "by token": 8, "greedy": 6, "tokenizer": 9, "locus": 6,
    "older": 6,
}  # fmt: skip


def save(model: Any, folder: Path, variant: Variant) -> None:
    if variant.own is None:
        model.save_pretrained(folder)
        return
    folder.mkdir()
    config, tensors = variant.own(model.state_dict())
    (folder / "config.json").write_text(json.dumps(config))
    held = {name: values.contiguous().clone() for name, values in tensors.items()}
    safetensors.torch.save_file(held, folder / "model.safetensors")


def prepare(bench: Bench, name: str, variant: Variant, folder: Path) -> dict[str, torch.Tensor]:
    """Saves a random model of the variant and the tokenizer into a folder, anew; its weights."""
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(0)
    model = variant.make()
    randomise(model, np.random.default_rng(zlib.crc32(name.encode())))
    for weights_of, parameter in model.named_parameters():
        if parameter.dim() > 1:
            of_layer = re.search(r"\.\d+\.", weights_of)
            parameter.data *= variant.spread if of_layer else 1 / variant.spread
    model.eval()
    save(model, folder, variant)
    for path in bench.tokenizer.iterdir():
        shutil.copy(path, folder)
    state = model.state_dict()
    return state | variant.pack(folder) if variant.pack else state


def check_variant(bench: Bench, row: Row, variant: Variant) -> None:
    folder, file = bench.work / "folder", bench.work / "model.gguf"
    state = prepare(bench, row.name, variant, folder)
    architecture = convert(folder, file)
    if variant.pack:  # the program rounds what it multiplies by such weights
        bench.run("quantize", file, bench.work / "wide.gguf", "f32")
        file = bench.work / "wide.gguf"
    row.put("folder", architecture == variant.architecture, architecture)
    logits, chosen = expected(variant, state, bench.ids)
    at_once = bench.logits(file, variant.longest)
    apart = difference(at_once, logits)
    row.put("logits", apart <= TOLERANCE, f"{apart:.1e}")
    by_token = bench.logits(file, variant.longest, "-b", "1")
    row.put("by token", np.array_equal(by_token, at_once), "same")
    ours = bench.greedy(file, variant.prompt)
    n_alike = next(
        (i for i, (a, b) in enumerate(zip(ours, chosen, strict=False)) if a != b), len(chosen)
    )
    alike = ours == chosen and len(set(chosen)) > 1
    row.put("greedy", alike, str(n_alike), f"{ours}, expected {chosen}")
    told = bench.run("tokenize", "-m", file, "--ids", "-f", bench.text(variant.longest)).split()
    same = list(map(int, told)) == bench.ids[: variant.longest]
    row.put("tokenizer", same, str(len(told)))
    if architecture != "locus" and variant.is_shared:
        check_names(row, folder, file)
    check_generic(bench, row, variant, folder, at_once)
    if variant.old:
        check_older(bench, row, variant, folder, file)


def llama_cpp_keys() -> set[str]:
    """The keys that the gguf package has for llama.cpp, {arch} being the architecture."""
    rooms = [room for room in vars(gguf.Keys).values() if isinstance(room, type)]
    return {value for room in rooms for value in vars(room).values() if isinstance(value, str)}


def check_names(row: Row, folder: Path, file: Path) -> None:
    """Tensors and keys are called as llama.cpp's converter calls them."""
    reader = gguf.GGUFReader(file)
    architecture = reader.fields["general.architecture"].contents()
    ours = {tensor.name for tensor in reader.tensors}
    kind = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    n_layer = reader.fields[f"{architecture}.block_count"].contents()
    names = gguf.get_tensor_name_map(kind, n_layer)
    wrong = []
    with safetensors.safe_open(folder / "model.safetensors", "np") as weights:
        for name in weights.keys():  # noqa: SIM118 (no mapping)
            if SPLIT.search(name):
                continue
            bare = name.removeprefix("transformer.")  # as published BLOOMs are
            bare = bare.replace(".dt_bias", ".dt_proj.bias")  # as llama.cpp's converter calls it
            found = [names.get_name(n, try_suffixes=(".weight", ".bias")) for n in (name, bare)]
            theirs = found[0] or found[1]
            known = theirs in ours or f"{theirs}.weight" in ours
            if not known and not name.startswith("lm_head"):
                wrong.append(f"{name} isn't {theirs}")
    patterns = {gguf.TENSOR_NAMES[tensor] for tensor in gguf.MODEL_TENSORS[kind]}
    for name in ours:
        stem = re.sub(r"^blk\.\d+", "blk.{bid}", re.sub(r"\.(weight|bias)$", "", name))
        if stem not in patterns:
            wrong.append(f"{name} is none of {architecture}'s")
    known = {key.replace("{arch}", architecture) for key in llama_cpp_keys()}
    for key in reader.fields:
        if key.startswith(f"{architecture}.") and key not in known:
            wrong.append(f"{key} is no key")
    row.put("names", not wrong, "same", "; ".join(wrong))


def check_generic(
    bench: Bench, row: Row, variant: Variant, folder: Path, logits: np.ndarray
) -> None:
    """As architecture `locus` the model is the same one."""
    file = bench.work / "generic.gguf"
    if variant.generic != "yes":
        try:
            convert(folder, file, generic=True)
            message = "nothing"
        except Failure as failure:
            message = str(failure)
        row.put("locus", variant.generic in message, "none", message)
        return
    architecture = convert(folder, file, generic=True)
    apart = difference(bench.logits(file, variant.longest), logits)
    row.put("locus", architecture == "locus" and apart <= 1e-6, f"{apart:.0e}")


def check_older(bench: Bench, row: Row, variant: Variant, folder: Path, file: Path) -> None:
    """The same configuration as transformers 4 wrote it makes the same file."""
    config = json.loads((folder / "config.json").read_text())
    assert variant.old
    variant.old(config)
    (folder / "config.json").write_text(json.dumps(config))
    other = bench.work / "older.gguf"
    convert(folder, other)
    row.put("older", other.read_bytes() == file.read_bytes(), "same")


def main() -> None:
    bench = Bench(Path(sys.argv[1]), sys.argv[2])
    names = sys.argv[3:] or list(ALL)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    checks = Checks()
    print(f"{'':<32}", *(f"{column:>{width}}" for column, width in COLUMNS.items()))
    for name in names:
        row = Row(checks, name)
        try:
            check_variant(bench, row, ALL[name])
        except Exception as error:  # shown as what it is, and the others go on
            checks.that(False, f"{name}: {type(error).__name__}: {error}")
        row.print()
    checks.report()


if __name__ == "__main__":
    main()
