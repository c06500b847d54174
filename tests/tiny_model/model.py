"""A small Llama (RMSNorm, interleaved RoPE as llama.cpp's "llama" has it, SwiGLU, tied embeddings).

Trained by train.py; export.py writes its weights for llama.cpp. Knows nothing of tokens, data or files.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Config:
    """The model's size; the defaults are those of the shipped one."""

    vocab: int = 896
    dim: int = 160
    layers: int = 4
    heads: int = 5
    hidden: int = 400
    context: int = 2048
    rope_base: float = 500000.0
    eps: float = 1e-5

    @property
    def head(self) -> int:
        """The width of one attention head."""
        return self.dim // self.heads


def rope_frequencies(cfg: Config) -> Tensor:
    """How fast each pair of a head turns with the position."""
    return cfg.rope_base ** (-torch.arange(0, cfg.head, 2) / cfg.head)


def rope_tables(cfg: Config) -> tuple[Tensor, Tensor]:
    """Cosine and sine for every position and pair."""
    angle = torch.outer(torch.arange(cfg.context), rope_frequencies(cfg))
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[2i], x[2i+1]) by the position's angle; x is (batch, heads, time, head)."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class Block(nn.Module):
    """Attention, then a gated feed-forward layer."""

    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.heads = cfg.heads
        self.eps = cfg.eps
        self.attn_norm = nn.Parameter(torch.ones(cfg.dim))
        self.ffn_norm = nn.Parameter(torch.ones(cfg.dim))
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.out = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.gate_up = nn.Linear(cfg.dim, 2 * cfg.hidden, bias=False)
        self.down = nn.Linear(cfg.hidden, cfg.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, time, dim = x.shape
        qkv = self.qkv(functional.rms_norm(x, (dim,), self.attn_norm, self.eps))
        q, k, v = qkv.view(batch, time, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time, dim))
        gate, up = self.gate_up(functional.rms_norm(x, (dim,), self.ffn_norm, self.eps)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


class Model(nn.Module):
    """The whole model; the output layer is the embedding."""

    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = nn.Parameter(torch.ones(cfg.dim))
        cos, sin = rope_tables(cfg)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        nn.init.normal_(self.embed.weight, std=0.05)
        for block in self.blocks:
            for linear in (block.qkv, block.gate_up):
                nn.init.normal_(linear.weight, std=cfg.dim**-0.5)
            for linear in (block.out, block.down):
                nn.init.normal_(linear.weight, std=0.002)
        self.start_with_copying()

    @torch.no_grad()
    def start_with_copying(self) -> None:
        """Begin with a working induction circuit; a short training would spend most of its time finding one.

        Layer 0, head 0 attends to the token before and writes a sketch of it into the last `head` dimensions.
        Layer 1, heads 0 and 1 look for places whose sketch is like the token at hand, and write the token
        found there towards the output (embeddings are tied). Heads that look 1 to 3 tokens back need a
        constant, so one embedding dimension starts as one.
        """
        cfg, head, scale = self.cfg, self.cfg.head, 0.05
        words = cfg.dim - head - 1  # dimensions of the word itself; then the constant; then the sketch
        self.embed.weight[:, words] = 4 * scale
        self.embed.weight[:, words + 1 :] = 0
        frequencies = rope_frequencies(cfg)

        def look_back(block: Block, index: int, distance: int) -> None:
            q = block.qkv.weight[index * head : (index + 1) * head]
            k = block.qkv.weight[cfg.dim + index * head : cfg.dim + (index + 1) * head]
            q.mul_(0.1)
            k.mul_(0.1)
            for i in range(4):  # the fast-turning pairs; a score that peaks at this distance
                q[2 * i, words] = k[2 * i, words] = 2.5
                angle = frequencies[i] * distance
                k[2 * i, words], k[2 * i + 1, words] = 2.5 * angle.cos(), 2.5 * angle.sin()

        sketch = torch.randn(head, words) / words**0.5
        first, second = self.blocks[0], self.blocks[1]
        for index in range(3):
            look_back(first, index, index + 1)
        look_back(second, 2, 1)
        v = first.qkv.weight[2 * cfg.dim : 2 * cfg.dim + head]
        v.zero_()[:, :words] = sketch
        first.out.weight[:, :head] = 0
        first.out.weight[words + 1 :, :head] = scale * torch.eye(head)
        half = head // 2  # the slow-turning pairs, where RoPE hardly disturbs a match
        for index in range(2):
            q, k, v = (second.qkv.weight[part * cfg.dim + index * head :][:head] for part in range(3))
            q.mul_(0.1)
            k.mul_(0.1)
            q[half:, :words] = 1.7 * sketch[index * half : (index + 1) * half]
            k[half:, words + 1 :] = 1.7 * torch.eye(head)[index * half : (index + 1) * half]
            copy = torch.linalg.qr(torch.randn(words, head))[0]
            v.zero_()[:, :words] = copy.T
            second.out.weight[:, index * head : (index + 1) * head] = 0
            second.out.weight[:words, index * head : (index + 1) * head] = 2 * scale * copy

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (batch, time, vocab)."""
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        return functional.linear(functional.rms_norm(x, (self.cfg.dim,), self.norm, self.cfg.eps), self.embed.weight)
