"""What a trained decoder is measured by: losses on windows of a text, and samples."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from decoder import Decoder
from positions import SpecError
from tasks import TASKS, UNSEEN, exact_match
from texts import read_documents, read_text
from vocabulary import ByteBpe, Bytes

TOKENS_AT_ONCE = 8192


@torch.no_grad()
def window_loss(
    model: Decoder, stream: np.ndarray, length: int, device: torch.device, max_windows: int = 0
) -> tuple[float, int]:
    """Mean loss in nats a token over windows of `length`, one after another, and the number of
    tokens it is over. A window feeds tokens t .. t+length-1 and predicts the next of each: all
    tokens but the first in the end, or those of `max_windows` whole windows, every n-th from the
    first on with the same whole n. A text shorter than a window is one."""
    if len(stream) < 2:
        raise ValueError("nothing to predict: the text has fewer than 2 tokens")
    tokens = torch.from_numpy(stream.astype(np.int64))
    starts = range(0, len(stream) - 1, length)
    whole = [s for s in starts if s + length < len(stream)]
    at_once = max(1, TOKENS_AT_ONCE // length)
    rest = [[s] for s in starts if s + length >= len(stream)]
    if max_windows > 0 and whole:
        whole, rest = whole[:: max(1, len(whole) // max_windows)][:max_windows], []
    groups = [whole[i : i + at_once] for i in range(0, len(whole), at_once)] + rest
    total, count = 0.0, 0
    for group in groups:
        rows = torch.stack([tokens[s : s + length + 1] for s in group]).to(device)
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten(), reduction="sum")
        total += loss.item()
        count += rows[:, 1:].numel()
    return total / count, count


@torch.no_grad()
def generate(
    model: Decoder,
    tokenizer: ByteBpe | Bytes,
    prompt: str,
    device: torch.device,
    *,
    n_tokens: int,
    temperature: float,
    top_k: int,
    seed: int,
) -> str:
    """Continue `prompt` up to an end of text. Contexts past the trained length lose their start."""
    rng = torch.Generator().manual_seed(seed)
    ids = [tokenizer.end_of_text, *tokenizer.encode(prompt)]
    for _ in range(n_tokens):
        window = torch.tensor([ids[-model.config.n_context :]], device=device)
        logits = model(window)[0, -1].float().cpu()
        if temperature == 0:
            logits[logits < logits.max()] = -math.inf
        else:
            logits /= temperature
        if 0 < top_k < len(logits):
            logits[logits < logits.topk(top_k).values[-1]] = -math.inf
        token = int(torch.multinomial(logits.softmax(-1), 1, generator=rng))
        if token == tokenizer.end_of_text:
            break
        ids.append(token)
    return tokenizer.decode(ids[1:])


def print_documents(
    model: Decoder, tokenizer: ByteBpe | Bytes, paths: list[Path], device: torch.device
) -> None:
    """The loss on the documents of `paths`, each followed by an end of text."""
    documents = read_documents(paths)
    n, stream = model.config.n_context, tokenizer.encode_documents(documents)
    loss, count = window_loss(model, stream, n, device)
    n_bytes = sum(len(d.encode()) + 1 for d in documents)
    print(
        f"loss {loss:.5f} nats/token, perplexity {math.exp(loss):.4f}, "
        f"{loss * count / n_bytes / math.log(2):.4f} bits/byte, {count} tokens, windows of {n}"
    )


def print_lengths(
    model: Decoder,
    tokenizer: ByteBpe | Bytes,
    paths: list[Path],
    lengths: list[int],
    device: torch.device,
) -> None:
    """Perplexity of each text as it is, byte for byte, in windows of every length: CSV. A scheme
    that depends on the text's length takes the window's."""
    streams = [(path, np.array(tokenizer.encode(read_text(path)))) for path in paths]
    n_served = 0
    for path, stream in streams:
        for length in lengths:
            model.position.at_length(length)
            try:
                loss, count = window_loss(model, stream, length, device)
            except SpecError as error:
                print(f"{path.name}, length {length}: {error}", file=sys.stderr)
                continue
            if n_served == 0:
                print("position,text,length,tokens,nll,perplexity")
            n_served += 1
            print(
                f'"{model.position.spec()}",{path.name},{length},{count},{loss:.6f},'
                f"{math.exp(loss):.6f}",
                flush=True,
            )
    if n_served == 0:
        raise ValueError(f"none of the lengths can be served by position {model.position.spec()}")


def print_task(
    model: Decoder,
    name: str,
    lengths: list[int] | None,
    device: torch.device,
    *,
    trials: int,
    seed: int,
) -> None:
    """Exact matches of a task at every length: CSV."""
    task = TASKS[name]
    print("position,task,length,trials,accuracy")
    for length in lengths or range(task.shortest, task.trained + 1):
        model.position.at_length(task.longest(length))
        try:
            right = exact_match(
                model, task, length, trials=trials, seed=seed + UNSEEN, device=device
            )
        except SpecError as error:
            print(f"{name}, length {length}: {error}", file=sys.stderr)
            continue
        print(f'"{model.position.spec()}",{name},{length},{trials},{right:.4f}', flush=True)
