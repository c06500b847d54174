"""Make the training data, the tokenizer and the held-out set (seeded, no outside data).

    python -m tests.tiny_model.make_data [--train 60000] [--heldout 400] [--seed 0] [--out FOLDER]

Writes OUT/tokenizer.json, OUT/train.npz (token ids, loss classes, document offsets) and OUT/heldout.jsonl
(prefixes with the expected answer, made of tool names and words never used in training).
The conversations themselves are made in conversations.py.
"""

import argparse
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.tiny_model.conversations import Conversation, Loss, heldout_cases, make_conversation, render
from tests.tiny_model.scenarios import TRAINING, as_prompted, heldout_turns, make_chat, make_run, make_talk

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKERS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
EASY_SHARE = 4  # one conversation in so many: few tools and one request, and all of these come first
TOKENIZER_SAMPLE = 6000  # conversations
CHATS = 0.015  # share of conversations without tools
PROMPTED = 0.05  # share of conversations with the tools in the prompt


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Conversations end to end: number n lies between offsets[n] and offsets[n + 1]."""

    ids: npt.NDArray[np.uint16]
    classes: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    easy: int


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Byte-level BPE whose merges never join a space and a letter, two digits, or characters of paths and commands.

    A word then has the same tokens in the request (after a space) and in the JSON (after a quote), so copying
    an argument is copying tokens. It is trained with a fine split and used with GPT-2's own split (as
    llama.cpp does); the result is the same, for no merge crosses a finer border.
    """
    fine = pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}|[/~.\-@=$#*_`]| ?[^\s\p{L}\p{N}/~.\-@=$#*_`]+|\s"), "isolated")
    unsplit = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL) - len(MARKERS),
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    marker = re.compile("|".join(re.escape(text) for text in SPECIAL + MARKERS))

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([fine, unsplit])
    tokenizer.train_from_iterator((part for text in texts for part in marker.split(text) if part), trainer)
    special = [AddedToken(text, special=True, normalized=False) for text in SPECIAL]
    markers = [AddedToken(text, special=False, normalized=False) for text in MARKERS]
    # the library's own types say no more than `list` here
    tokenizer.add_special_tokens(special)  # pyright: ignore[reportUnknownMemberType]
    tokenizer.add_tokens(markers)  # pyright: ignore[reportUnknownMemberType]
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def encode(tokenizer: Tokenizer, parts: Sequence[tuple[str, Loss]]) -> tuple[list[int], list[int]]:
    """The token ids, and the loss class of each."""
    ids: list[int] = []
    classes: list[int] = []
    for (_, loss), encoded in zip(parts, tokenizer.encode_batch([text for text, _ in parts]), strict=True):
        ids += encoded.ids
        classes += [int(loss)] * len(encoded.ids)
    return ids, classes


def some_conversation(rng: random.Random, *, easy: bool) -> Conversation:
    """One of a kind: no tools at all, the words of conversations.py, plain words, or a run.

    A few are written as the proxy's prompt mode writes them.
    """
    pick = rng.random()
    if pick < CHATS:
        return make_chat(rng)
    if pick < (0.4 if easy else 0.3):
        made = make_conversation(rng, max_tools=3, max_requests=1) if easy else make_conversation(rng)
    elif pick < 0.62:
        made = make_talk(rng, TRAINING, turns=1 if easy else 2)
    else:
        made = make_run(rng, TRAINING, max_steps=1 if easy else 3)
    return as_prompted(made) if not easy and rng.random() < PROMPTED else made


def training_conversations(rng: random.Random, count: int) -> Iterator[Conversation]:
    """The easy ones, then the others."""
    for number in range(count):
        yield some_conversation(rng, easy=number < count // EASY_SHARE)


def make_training_set(rng: random.Random, tokenizer: Tokenizer, count: int) -> TrainingSet:
    """The conversations as tokens."""
    ids: list[npt.NDArray[np.uint16]] = []
    classes: list[npt.NDArray[np.uint8]] = []
    offsets = [0]
    for conversation in training_conversations(rng, count):
        one_ids, one_classes = encode(tokenizer, render(conversation))
        ids.append(np.array(one_ids, np.uint16))
        classes.append(np.array(one_classes, np.uint8))
        offsets.append(offsets[-1] + len(one_ids))
    return TrainingSet(np.concatenate(ids), np.concatenate(classes), np.array(offsets), count // EASY_SHARE)


def write_heldout(count: int, seed: int, path: Path) -> None:
    """One case a line."""
    with path.open("w") as file:
        for case in chain.from_iterable(
            zip(heldout_cases(count // 2, seed), heldout_turns(count // 2, seed), strict=True)
        ):
            file.write(json.dumps(case) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, default=70000)
    parser.add_argument("--heldout", type=int, default=400)
    parser.add_argument("--tokenizer", type=Path, help="keep this tokenizer instead of training one")
    parser.add_argument("--vocab", type=int, default=896)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/tiny-model/data"))
    args = parser.parse_args()
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)

    # drawn even where the tokenizer is given: the training set follows it in the random numbers
    rng = random.Random(args.seed)
    sample = ["".join(text for text, _ in render(some_conversation(rng, easy=False))) for _ in range(TOKENIZER_SAMPLE)]
    tokenizer = Tokenizer.from_file(str(args.tokenizer)) if args.tokenizer else train_tokenizer(sample, args.vocab)
    tokenizer.save(str(out / "tokenizer.json"))

    write_heldout(args.heldout, args.seed, out / "heldout.jsonl")

    made = make_training_set(rng, tokenizer, args.train)
    np.savez(out / "train.npz", ids=made.ids, classes=made.classes, offsets=made.offsets, easy=made.easy)

    lengths = np.diff(made.offsets)
    print(  # noqa: T201  a command line prints
        f"vocab {tokenizer.get_vocab_size()}, {args.train} conversations, {made.offsets[-1]} tokens; "
        f"length mean {lengths.mean():.0f}, 99% {np.percentile(lengths, 99):.0f}, max {lengths.max()}"
    )


if __name__ == "__main__":
    main()
