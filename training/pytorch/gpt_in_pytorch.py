# SPDX-License-Identifier: Apache-2.0
# The GPT of training/model in PyTorch, with the names and shapes that coll-train --export writes.
import json
import struct

import torch
import torch.nn.functional as F
from torch import nn


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        begin, end = about["data_offsets"]
        tensors[name] = torch.frombuffer(data, dtype=torch.float32, offset=begin,
                                         count=(end - begin) // 4).reshape(about["shape"]).clone()
    return tensors


class Block(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv, self.proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).split(c, 2))
        if hasattr(F, "scaled_dot_product_attention"):  # since PyTorch 2.0
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) / q.shape[3]**0.5
            later = torch.ones(t, t, dtype=torch.bool).triu(1)
            y = scores.masked_fill(later, float("-inf")).softmax(3) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, weights, heads):
        """From what read_safetensors() gives."""
        super().__init__()
        (kinds, channels), tokens = weights["head.weight"].shape, weights["embedding.positions"].shape[0]
        blocks = sum(name.endswith(".qkv.bias") for name in weights)
        self.embedding = nn.ParameterDict({"tokens": torch.zeros(kinds, channels),
                                           "positions": torch.zeros(tokens, channels)})
        for i in range(blocks):
            self.add_module(f"block{i}", Block(channels, heads))
        self.blocks = [getattr(self, f"block{i}") for i in range(blocks)]
        self.head = nn.Linear(channels, kinds, bias=False)
        self.head.norm = nn.LayerNorm(channels)
        ours = dict(self.named_parameters())
        assert len(ours) == len(weights)
        with torch.no_grad():
            for name, weight in weights.items():
                ours[name.replace(".gain", ".weight")].copy_(weight)

    def forward(self, sequences):
        """The mean loss of sequences that have one token more than the model reads."""
        x = F.embedding(sequences[:, :-1], self.embedding["tokens"]) + self.embedding["positions"]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.head.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), sequences[:, 1:].flatten())


def adamw(model):
    """As coll-train has it by default: matrices decay; embeddings, norms and biases do not."""
    def decays(name):
        return name.endswith(".weight") and "norm" not in name
    groups = [{"params": [p for name, p in model.named_parameters() if decays(name) == decay],
               "weight_decay": 0.1 if decay else 0.0} for decay in (True, False)]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
