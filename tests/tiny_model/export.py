"""Write a trained model as GGUF for llama.cpp (architecture "llama", GPT-2 style byte-level BPE).

    python -m tests.tiny_model.export [--data FOLDER] [--run FOLDER] [--out FOLDER] [--name tiny-tools]

Writes OUT/NAME-f16.gguf and OUT/NAME-q8_0.gguf. Which of them is shipped, and where, README.md says.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tests.tiny_model.make_data import MARKERS, SPECIAL
from tests.tiny_model.model import Config

TYPES = {
    "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
BLOCK = 32


@dataclass(frozen=True, slots=True)
class Trained:
    """All that goes into a GGUF file."""

    name: str
    cfg: Config
    state: Mapping[str, Tensor]
    tokenizer: str  # tokenizer.json's text
    template: str


def add_tokenizer(writer: gguf.GGUFWriter, text: str) -> None:
    """The tokens, their kinds and their merges."""
    spec = json.loads(text)
    vocab: dict[str, int] = dict(spec["model"]["vocab"])
    vocab.update({token["content"]: token["id"] for token in spec["added_tokens"]})
    tokens = sorted(vocab, key=lambda token: vocab[token])
    kinds = {
        **dict.fromkeys(SPECIAL, gguf.TokenType.CONTROL),
        # user-defined tokens, unlike control ones, appear in the server's text
        **dict.fromkeys(MARKERS, gguf.TokenType.USER_DEFINED),
    }
    merges = spec["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([kinds.get(token, gguf.TokenType.NORMAL) for token in tokens])
    writer.add_token_merges([" ".join(merge) if isinstance(merge, list) else merge for merge in merges])
    writer.add_bos_token_id(vocab["<|endoftext|>"])
    writer.add_eos_token_id(vocab["<|im_end|>"])
    writer.add_pad_token_id(vocab["<|endoftext|>"])
    writer.add_add_bos_token(False)


def hidden_width(cfg: Config) -> int:
    """The hidden layer's width in the file: q8_0 has blocks of 32."""
    return -(-cfg.hidden // BLOCK) * BLOCK


def tensors(state: Mapping[str, Tensor], cfg: Config) -> Iterator[tuple[str, Tensor]]:
    """(GGUF name, array) for every tensor; the output layer is the embedding (tied).

    The hidden layer is filled up with zeros, which change nothing.
    """
    more = hidden_width(cfg) - cfg.hidden
    yield "token_embd.weight", state["embed.weight"]
    yield "output_norm.weight", state["norm"]
    for n in range(cfg.layers):
        block = {k.split(".", 2)[2]: v for k, v in state.items() if k.startswith(f"blocks.{n}.")}
        q, k, v = block["qkv.weight"].chunk(3)
        gate, up = block["gate_up.weight"].chunk(2)
        yield f"blk.{n}.attn_norm.weight", block["attn_norm"]
        yield f"blk.{n}.attn_q.weight", q
        yield f"blk.{n}.attn_k.weight", k
        yield f"blk.{n}.attn_v.weight", v
        yield f"blk.{n}.attn_output.weight", block["out.weight"]
        yield f"blk.{n}.ffn_norm.weight", block["ffn_norm"]
        yield f"blk.{n}.ffn_gate.weight", functional.pad(gate, (0, 0, 0, more))
        yield f"blk.{n}.ffn_up.weight", functional.pad(up, (0, 0, 0, more))
        yield f"blk.{n}.ffn_down.weight", functional.pad(block["down.weight"], (0, more))


def write(path: Path, kind: str, trained: Trained) -> None:
    """One GGUF file of this kind."""
    cfg = trained.cfg
    tensor_type, file_type = TYPES[kind]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(trained.name)
    writer.add_context_length(cfg.context)
    writer.add_embedding_length(cfg.dim)
    writer.add_block_count(cfg.layers)
    writer.add_feed_forward_length(hidden_width(cfg))
    writer.add_head_count(cfg.heads)
    writer.add_head_count_kv(cfg.heads)
    writer.add_rope_dimension_count(cfg.head)
    writer.add_rope_freq_base(cfg.rope_base)
    writer.add_layer_norm_rms_eps(cfg.eps)
    writer.add_vocab_size(cfg.vocab)
    writer.add_file_type(file_type)
    add_tokenizer(writer, trained.tokenizer)
    writer.add_chat_template(trained.template)
    for name, value in tensors(trained.state, cfg):
        data = value.float().numpy()
        if data.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(data, tensor_type), raw_dtype=tensor_type)
        else:
            writer.add_tensor(name, data.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("build/tiny-model/data"))
    parser.add_argument("--run", type=Path, default=Path("build/tiny-model/run"))
    parser.add_argument("--out", type=Path, default=Path("build/tiny-model"))
    parser.add_argument("--name", default="tiny-tools")
    args = parser.parse_args()
    saved = torch.load(args.run / "model.pt", map_location="cpu")
    trained = Trained(
        name=args.name,
        cfg=Config(**saved["config"]),
        state=saved["state"],
        tokenizer=(args.data / "tokenizer.json").read_text(),
        template=Path(__file__).with_name("chat_template.jinja").read_text(),
    )
    for kind in TYPES:
        path = args.out / f"{args.name}-{kind}.gguf"
        write(path, kind, trained)
        print(path, path.stat().st_size, "bytes")  # noqa: T201  a command line prints


if __name__ == "__main__":
    main()
