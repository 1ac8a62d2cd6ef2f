"""What a trained decoder is measured by: losses on windows of a text, and samples."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from decoder import Decoder
from vocabulary import ByteBpe, Bytes

TOKENS_AT_ONCE = 8192


@torch.no_grad()
def window_loss(
    model: Decoder, stream: np.ndarray, length: int, device: torch.device, max_windows: int = 0
) -> tuple[float, int]:
    """Mean loss in nats a token over windows of `length`, one after another, and the number of
    tokens it is over. A window feeds tokens t .. t+length-1 and predicts the next of each: all
    tokens but the first in the end, or those of `max_windows` windows."""
    tokens = torch.from_numpy(stream.astype(np.int64))
    starts = range(0, len(stream) - 1, length)
    whole = [s for s in starts if s + length < len(stream)]
    at_once = max(1, TOKENS_AT_ONCE // length)
    rest = [[s] for s in starts if s + length >= len(stream)]
    if max_windows > 0:
        whole, rest = whole[:: max(1, len(whole) // max_windows)][:max_windows], []
    groups = [whole[i : i + at_once] for i in range(0, len(whole), at_once)] + rest
    total, count = 0.0, 0
    for group in groups:
        rows = torch.stack([tokens[s : s + length + 1] for s in group]).to(device)
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten(), reduction="sum")
        total += loss.item()
        count += rows[:, 1:].numel()
    return total / max(count, 1), count


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
        logits = model(window)[0, -1].float().cpu() / temperature
        if 0 < top_k < len(logits):
            logits[logits < logits.topk(top_k).values[-1]] = -math.inf
        token = int(torch.multinomial(logits.softmax(-1), 1, generator=rng))
        if token == tokenizer.end_of_text:
            break
        ids.append(token)
    return tokenizer.decode(ids[1:])
