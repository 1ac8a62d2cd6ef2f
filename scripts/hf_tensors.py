"""A family's tensors in a folder as those of a checkpoint: found by name, checked, not read yet."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from checkpoint import Tensor
from hf_decoder import Decoder, Rope
from hf_experts import alternating
from hf_folder import Found, Weights, say
from hf_names import (
    Place,
    Transform,
    is_by_rows,
    is_of_weights_alone,
    squeezed,
    transpose,
    transpose_scaled_by_layer,
)
from output import Failure

OF_EXPERTS = ("ffn_gate_inp", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")
DENSE = ("ffn_gate", "ffn_up", "ffn_down")
TRANSPOSED = (transpose, transpose_scaled_by_layer)


def shapes_of(d: Decoder) -> dict[str, tuple[int, ...]]:
    """Of a layer's parts and of the whole model's, by their names in the checkpoint."""
    width, q, k, ff = d.n_embd, d.n_queries, d.n_keys, d.n_ff
    head_norms = [(d.head_dim,), (d.head_dim,)]
    if d.norms_over_heads:
        head_norms = [(q,), (k,)]
    if d.norms_by_head:
        head_norms = [(d.n_head, d.head_dim), (d.n_head_kv, d.head_dim)]
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd": (d.n_vocab, width),
        "output": (d.n_vocab, width),
        "attn_qkv": (q + 2 * k, width),
        "attn_q": (q, width),
        "attn_k": (k, width),
        "attn_v": (k, width),
        "attn_output": (width, q),
        "attn_sinks": (d.n_head,),
        "attn_q_norm": head_norms[0],
        "attn_k_norm": head_norms[1],
        "ffn_gate": (ff, width),
        "ffn_up": (2 * ff if d.fused_gate else ff, width),
        "ffn_down": (width, ff),
    }
    if isinstance(d.position.spec(), str) and d.position.spec().startswith("learned"):
        offset = int(d.position.spec().partition("offset=")[2] or 0)
        shapes["position_embd"] = (d.n_context + offset, width)
    if d.scan is not None:
        shapes |= d.scan.shapes(width)
    if d.experts is not None:
        e, shared = d.experts, d.experts.n_ff_shared
        shapes |= {
            "ffn_gate_inp": (e.n, width),
            "ffn_gate_exps": (e.n_ff, width),
            "ffn_up_exps": (e.n_ff, width),
            "ffn_down_exps": (width, e.n_ff),
            "ffn_gate_shexp": (shared, width),
            "ffn_up_shexp": (shared, width),
            "ffn_down_shexp": (width, shared),
            "ffn_gate_inp_shexp": (1, width),
        }
    return shapes


class Finder:
    """The folder's tensors, by the family's names, of which a file of the decoder alone leaves the
    base out."""

    def __init__(self, decoder: Decoder, weights: Weights) -> None:
        self.decoder, self.weights = decoder, weights
        self.shapes = shapes_of(decoder)
        first = f"{decoder.names.whole['token_embd']}.weight"
        self.bare = first not in weights and self.stripped(first) in weights
        self.elsewhere = decoder.names.elsewhere
        if self.elsewhere and any(self.elsewhere[0] in name for name in weights.found):
            self.elsewhere = None

    def stripped(self, name: str) -> str:
        return name.removeprefix(self.decoder.names.base)

    def name(self, name: str) -> str:
        name = self.stripped(name) if self.bare else name
        return name.replace(*self.elsewhere) if self.elsewhere else name

    def has(self, name: str) -> bool:
        return self.name(name) in self.weights

    def take(self, name: str, shape: tuple[int, ...]) -> Found:
        return self.weights.take(self.name(name), shape)

    def take_bytes(self, name: str, shape: tuple[int, ...]) -> Found:
        return self.weights.take_of(("U8",), self.name(name), shape)

    @property
    def n_experts(self) -> int:
        return self.decoder.experts.n if self.decoder.experts else 0

    def tensors(
        self, ours: str, theirs: str, part: str, layer: int = 0, transform: Transform | None = None
    ) -> Iterator[Tensor]:
        """A weight, and its bias where there is one."""
        d = self.decoder
        place = Place(d.n_head, d.n_head_kv, layer)
        shape = self.shapes.get(part, (d.n_embd,))
        for suffix in ("weight", "bias"):
            if suffix == "bias":
                if not self.has(f"{theirs}.bias"):
                    return
                shape = shape[:1]
            stored = shape[::-1] if transform in TRANSPOSED else shape
            if transform is squeezed and suffix == "weight":
                stored = (shape[0], 1, shape[1])
            if part in d.names.flat:
                stored = (math.prod(shape),)
            found = self.take(f"{theirs}.{suffix}", stored)
            name = f"{ours}.{suffix}"
            if part in d.names.flat:
                yield Tensor(name, shape, shaped(found.read, shape))
            elif transform is None or (suffix == "bias" and is_of_weights_alone(transform)):
                yield Tensor(name, shape, found.read, found.blocks)
            else:
                yield Tensor(
                    name, shape, changed(found, transform, place), rows(found, transform, place)
                )

    def apart(self, ours: str, theirs: str, layer: int) -> Iterator[Tensor]:
        """attn_q, attn_k and attn_v of attn_qkv, which isn't transformed as they are."""
        d, transforms = self.decoder, self.decoder.names.transforms
        place = Place(d.n_head, d.n_head_kv, layer)
        for whole in self.tensors(ours, theirs, "attn_qkv", layer, transforms.get("attn_qkv")):
            first = 0
            for part in ("attn_q", "attn_k", "attn_v"):
                shape = (self.shapes[part][0], *whole.shape[1:])
                mine = share(whole, first, shape[0], transforms.get(part), place)
                yield Tensor(whole.name.replace("attn_qkv", part), shape, mine)
                first += shape[0]

    def tables(self) -> Iterator[Tensor]:
        """Those of the position scheme."""
        d = self.decoder
        for table in d.tables:
            for i in range(d.n_layer if "{}" in table.ours else 1):
                found = self.take(table.theirs.format(i), table.shape)
                read = found.read
                if table.transform:
                    read = changed(found, table.transform, Place(d.n_head, d.n_head_kv, i))
                yield Tensor(table.ours.format(i), table.shape, read)

    def part(self, ours: str, theirs: str, part: str, at: int, n: int) -> Tensor:
        """Rows [at, at + 1) n-ths of a matrix, or of each expert's."""
        rows, cols = self.shapes[part]
        if not part.endswith("_exps"):
            found = self.take(f"{theirs}.weight", (n * rows, cols))
            first = at * rows
            return Tensor(f"{ours}.weight", (rows, cols), lambda: found.rows(first, first + rows))
        experts = self.n_experts
        found = self.take(f"{theirs}.weight", (experts, n * rows, cols))

        def blocks() -> Iterator[np.ndarray]:
            for e in range(experts):
                yield found.rows(e, e + 1)[:, at * rows : (at + 1) * rows]

        shape = (experts, rows, cols)
        return Tensor(f"{ours}.weight", shape, lambda: np.concatenate([*blocks()]), blocks)

    def stacked(self, ours: str, theirs: str, n: int, shape: tuple[int, ...]) -> Tensor:
        """n tensors as one, [n, *shape]."""
        found = [self.take(f"{theirs.format(i)}.weight", shape) for i in range(n)]
        return Tensor(
            f"{ours}.weight",
            (n, *shape),
            lambda: np.stack([one.read() for one in found]),
            lambda: (one.read()[None] for one in found),
        )


def changed(found: Found, transform: Transform, place: Place) -> Callable[[], np.ndarray]:
    return lambda: transform(found.read(), place)


def shaped(read: Callable[[], np.ndarray], shape: tuple[int, ...]) -> Callable[[], np.ndarray]:
    return lambda: read().reshape(shape)


def rows(
    found: Found, transform: Transform, place: Place
) -> Callable[[], Iterator[np.ndarray]] | None:
    """The same, rows after rows, where that can be."""
    if not is_by_rows(transform):
        return None
    return lambda: (transform(some, place) for some in found.blocks())


def share(
    whole: Tensor, first: int, n: int, transform: Transform | None, place: Place
) -> Callable[[], np.ndarray]:
    """n rows, transformed."""

    def read() -> np.ndarray:
        values = whole.read()[first : first + n]
        return values if transform is None else transform(values, place)

    return read


# ---- the whole model -----------------------------------------------------------------------


def same_values(a: Found, b: Found) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a.blocks(), b.blocks(), strict=True))


def head(finder: Finder) -> Iterator[Tensor]:
    """The head, where it isn't the embedding, and its bias."""
    d, name = finder.decoder, finder.decoder.names.whole["output"]
    weights = finder.weights
    if not finder.has(f"{name}.weight"):
        if not d.tied:
            raise Failure(f"{weights.folder}: {name}.weight is missing, and the head is not tied")
        return
    embedding = finder.take(f"{d.names.whole['token_embd']}.weight", finder.shapes["token_embd"])
    transform = d.names.transforms.get("output")
    found = list(finder.tensors("output", name, "output", 0, transform))
    own = finder.take(f"{name}.weight", finder.shapes["output"])
    if len(found) > 1 or transform or not same_values(own, embedding):
        yield from found


def projected(finder: Finder) -> Iterator[Tensor]:
    """OPT's narrower embedding, of tokens and of the head, times the projections that widen and
    narrow it, so that no decoder need know of them."""
    d, folder = finder.decoder, finder.weights.folder
    narrow, base = d.embedding_width, d.names.layer.partition("layers")[0]
    table = finder.take(f"{d.names.whole['token_embd']}.weight", (d.n_vocab, narrow))
    if not d.tied:
        raise Failure(f"{folder}: a head of its own beside a projected embedding isn't read")
    finder.weights.taken.add(finder.name(f"{d.names.whole['output']}.weight"))
    widen = finder.take(f"{base}project_in.weight", (d.n_embd, narrow))
    back = finder.take(f"{base}project_out.weight", (narrow, d.n_embd))

    def product(right: Callable[[], np.ndarray]) -> Callable[[], Iterator[np.ndarray]]:
        def blocks() -> Iterator[np.ndarray]:
            factor = right().astype(np.float64)
            for rows in table.blocks():
                yield (rows.astype(np.float64) @ factor).astype(np.float32)

        return blocks

    for name, right in (
        ("token_embd", lambda: widen.read().T),
        ("output", back.read),
    ):
        rows = product(right)
        shape = (d.n_vocab, d.n_embd)
        yield Tensor(f"{name}.weight", shape, lambda rows=rows: np.concatenate([*rows()]), rows)


def is_other_mixer(d: Decoder, part: str, layer: int) -> bool:
    """Whether it belongs to a mixer that the layer hasn't got."""
    if part.startswith("ssm_"):
        return not d.has_scan(layer)
    return part.startswith("attn_") and part != "attn_norm" and d.has_scan(layer)


def layer_tensors(finder: Finder, i: int) -> Iterator[Tensor]:
    d, names, block = finder.decoder, finder.decoder.names, f"blk.{i}."
    prefix = names.layer.format(i)
    for part, theirs in names.parts.items():
        if part in DENSE and d.has_experts(i):
            continue
        if part.startswith(OF_EXPERTS) and not d.has_experts(i):
            continue
        if is_other_mixer(d, part, i):
            continue
        if part == "attn_qkv" and names.apart:
            yield from finder.apart(block + part, prefix + theirs, i)
            continue
        transform = names.transforms.get(part)
        yield from finder.tensors(block + part, prefix + theirs, part, i, transform)
    for part, theirs in names.stacked.items():
        n = d.n_head if part == "attn_q_norm" else d.n_head_kv
        yield finder.stacked(block + part, prefix + theirs, n, (d.head_dim,))
    for part, (theirs, at, n) in names.fused.items():
        if d.has_experts(i) and finder.shapes[part][0]:
            yield finder.part(block + part, prefix + theirs, part, at, n)
    for part, theirs in names.bare.items():
        if is_other_mixer(d, part, i):
            continue
        shape, transform = finder.shapes[part], names.transforms.get(part)
        found = finder.take(prefix + theirs, (math.prod(shape),) if part in names.flat else shape)
        place = Place(d.n_head, d.n_head_kv, i)
        read = changed(found, transform, place) if transform else found.read
        name = f"{block}{part}" + ("" if part in names.endless else ".weight")
        yield Tensor(name, shape, shaped(read, shape) if part in names.flat else read)
    if d.has_experts(i):
        for part, theirs in names.experts.items():
            shape = finder.shapes[part]
            yield finder.stacked(block + part, prefix + theirs, finder.n_experts, shape)
        if names.alternating:
            yield from alternating(finder, block, prefix + names.alternating)


def read_tensors(decoder: Decoder, weights: Weights) -> list[Tensor]:
    """All tensors of the checkpoint, in the order of a forward pass."""
    finder, names = Finder(decoder, weights), decoder.names
    is_narrow = decoder.embedding_width not in (0, decoder.n_embd)
    tensors = list(projected(finder)) if is_narrow else []
    for part in ("token_embd", "token_embd_norm", "position_embd"):
        if part in names.whole and not (is_narrow and part == "token_embd"):
            tensors += finder.tensors(part, names.whole[part], part)
    tensors += finder.tables()
    for i in range(decoder.n_layer):
        tensors += layer_tensors(finder, i)
    if "output_norm" in names.whole:
        transform = names.transforms.get("output_norm")
        tensors += finder.tensors("output_norm", names.whole["output_norm"], "", 0, transform)
    tensors += [] if is_narrow else head(finder)
    if isinstance(decoder.position, Rope):
        tensors += decoder.position.tensors()
    check_left(decoder, weights)
    return tensors


def renamed(tensors: list[Tensor], names: Mapping[str, str]) -> list[Tensor]:
    """The same, a layer's parts called otherwise."""

    def called(name: str) -> str:
        block, dot, rest = name.rpartition(".")
        stem, part = block.rpartition(".")[0], block.rpartition(".")[2]
        return f"{stem}.{names[part]}{dot}{rest}" if stem and part in names else name

    return [replace(tensor, name=called(tensor.name)) for tensor in tensors]


def bare_norms(decoder: Decoder) -> list[Tensor]:
    """Weights of ones, for an architecture whose norms have some."""
    widths = {"token_embd_norm": decoder.n_embd} if decoder.embedding_norm else {}
    of_layer = {"attn_norm": decoder.n_embd, "ffn_norm": decoder.n_embd}
    if decoder.bare_head_norms:
        of_layer |= dict.fromkeys(("attn_q_norm", "attn_k_norm"), decoder.head_dim)
    for i in range(decoder.n_layer):
        widths |= {f"blk.{i}.{part}": width for part, width in of_layer.items()}
    widths["output_norm"] = decoder.n_embd
    return [Tensor.of(f"{name}.weight", np.ones(n, np.float32)) for name, n in widths.items()]


def check_left(decoder: Decoder, weights: Weights) -> None:
    """Refuse tensors inside the decoder that nobody took; mention others, such as a classifier."""
    names = decoder.names
    prefixes = [*(f"{name}." for name in names.whole.values()), names.layer.partition("{}")[0]]
    stems = {prefix.removeprefix(names.base) for prefix in prefixes}
    for name in weights.left():
        own = name.removeprefix(names.base)
        if re.fullmatch(names.buffers or "(?!)", own):
            continue
        if own != name or own.startswith(tuple(stems)):
            raise Failure(f"{weights.folder}: unexpected tensor {name}; this is another model")
        say(f"left out {name}")
