"""Train the tiny model on what make_data.py wrote.

    python -m tests.tiny_model.train [--steps 14000] [--data FOLDER] [--out FOLDER]

The schedule follows the steps and the seeds are fixed, so a slower machine makes the same model, later.
(The same to the last bit only with the same torch and processor.)
Writes OUT/model.pt and OUT/train.log (one JSON line per report).
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from tests.tiny_model.conversations import HeldoutJson
from tests.tiny_model.make_data import TrainingSet
from tests.tiny_model.model import Config, Model

CLASS_WEIGHT = [0.1, 1.0, 1.0, 0.0]  # context, mistaken answer, right answer, padding
RIGHT, PADDING = 2, 3
WIDTHS = 64  # tokens from one width of batches to the next
STEPS = 14_000  # of the shipped model
# Its learning rate, by the share of the steps done: a short rise, level, then down to nearly nothing.
RATES = [(0.0, 0.0), (0.01, 1.0), (0.45, 1.0), (1.0, 0.02)]
EASY_STEPS = 1500  # spent on the easy conversations, first of all
QUICK_CASES = 100  # held-out cases looked at in each report

Numbers = npt.NDArray[np.int64]


def width(length: int) -> int:
    """How long a batch is made for a document of this length.

    Few widths: each new shape costs the CPU's matrix library more time than the step itself. The one token more is
    the one that no input needs.
    """
    return -(-(length - 1) // WIDTHS) * WIDTHS + 1


def batches(
    lengths: Numbers, first: int, last: int, tokens_per_batch: int, rng: np.random.Generator
) -> Iterator[list[int]]:
    """Endless lists of document numbers, all of one width, about tokens_per_batch together."""
    waiting: dict[int, list[int]] = {}
    while True:
        for document in rng.permutation(np.arange(first, last)).tolist():
            wide = width(lengths[document])
            some = waiting.setdefault(wide, [])
            some.append(document)
            if len(some) >= tokens_per_batch // wide:
                yield waiting.pop(wide)


def pad(data: TrainingSet, documents: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Token ids and loss classes of these documents, all as long as the width."""
    offsets = data.offsets
    length = width(max(offsets[d + 1] - offsets[d] for d in documents))
    ids = np.zeros((len(documents), length), np.int64)
    classes = np.full((len(documents), length), PADDING, np.int64)
    for row, d in enumerate(documents):
        a, b = offsets[d], offsets[d + 1]
        ids[row, : b - a] = data.ids[a:b]
        classes[row, : b - a] = data.classes[a:b]
    return torch.from_numpy(ids), torch.from_numpy(classes)


@torch.no_grad()
def heldout_accuracy(model: Model, tokenizer: Tokenizer, cases: Sequence[HeldoutJson]) -> dict[str, float]:
    """Share of held-out answers that greedy decoding gives exactly: all, call's tool, whole call."""
    counts: dict[str, list[bool]] = {"exact": [], "tool": [], "call": []}
    device = model.norm.device
    for case in cases:
        prompt = tokenizer.encode(case["prompt"]).ids
        answer = tokenizer.encode(case["answer"] + "<|im_end|>").ids
        ids = torch.tensor([prompt + answer], device=device)
        # greedy decoding gives the answer just when every token of it is the likeliest
        hit = model(ids)[0, len(prompt) - 1 : -1].argmax(-1).cpu() == torch.tensor(answer)
        counts["exact"].append(bool(hit.all()))
        if case["answer"].startswith("<tool_call>"):
            name = tokenizer.encode(case["answer"].split(', "arguments"')[0]).ids
            counts["tool"].append(bool(hit[: len(name)].all()))
            counts["call"].append(bool(hit.all()))
    return {what: round(sum(hits) / len(hits), 3) for what, hits in counts.items() if hits}


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how fast and on what to train."""

    steps: int
    rate: float
    report_steps: int
    device: str

    def rate_at(self, step: int) -> float:
        """The learning rate of the step, which counts from 0."""
        at, share = zip(*RATES, strict=True)
        return self.rate * float(np.interp((step + 1) / self.steps, at, share))


class Log:
    """Each report as a JSON line, on the screen and in the file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")

    def write(self, **fields: object) -> None:
        line = json.dumps(fields)
        print(line, flush=True)  # noqa: T201  a command line prints
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Trainer:
    """The model, what moves its weights, and one step of it."""

    def __init__(self, model: Model, plan: Plan, *, compiled: bool) -> None:
        self._model = model
        self._fast = torch.compile(model, dynamic=True) if compiled else model
        self._device = plan.device
        self._weight = torch.tensor(CLASS_WEIGHT).to(plan.device)
        matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
        others = [p for p in model.parameters() if not any(p is m for m in matrices)]
        self._optimizers: list[Optimizer] = [
            torch.optim.Muon(matrices, lr=plan.rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    def step(self, ids: Tensor, classes: Tensor, rate: float) -> float:
        """Learn from one batch; answers the mean loss on right answers."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        ids, classes = ids.to(self._device), classes[:, 1:].to(self._device)
        with torch.autocast(self._device, dtype=torch.bfloat16):
            logits = self._fast(ids[:, :-1])
        losses = functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        weight = self._weight[classes]
        loss = (losses * weight.flatten()).sum() / weight.sum()
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        return losses[classes.flatten() == RIGHT].mean().item()


def read_training_set(path: Path) -> TrainingSet:
    """What make_data.py wrote."""
    arrays: Mapping[str, np.ndarray] = np.load(path)
    return TrainingSet(arrays["ids"], arrays["classes"], arrays["offsets"], int(arrays["easy"]))


def save(model: Model, path: Path) -> None:
    torch.save({"config": asdict(model.cfg), "state": model.state_dict()}, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--data", type=Path, default=Path("build/tiny-model/data"))
    parser.add_argument("--out", type=Path, default=Path("build/tiny-model/run"))
    parser.add_argument("--batch-tokens", type=int, default=3072)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--dim", type=int, default=160)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--report", type=int, default=500, help="steps between reports")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    args = parser.parse_args()
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(0)

    data = read_training_set(args.data / "train.npz")
    tokenizer = Tokenizer.from_file(str(args.data / "tokenizer.json"))
    cases = [json.loads(line) for line in (args.data / "heldout.jsonl").read_text().splitlines()]
    lengths = np.diff(data.offsets)
    easy = batches(lengths, 0, data.easy, args.batch_tokens // 2, rng)
    all_others = batches(lengths, data.easy, len(lengths), args.batch_tokens, rng)

    cfg = Config(
        vocab=tokenizer.get_vocab_size(),
        dim=args.dim,
        layers=args.layers,
        heads=args.dim // 32,
        hidden=args.dim * 13 // 5,  # 416, a multiple of the quantisation block of 32
    )
    model = Model(cfg).to(args.device)
    plan = Plan(args.steps, args.lr, args.report, args.device)
    trainer = Trainer(model, plan, compiled=args.compile)

    with closing(Log(out / "train.log")) as log:
        log.write(config=asdict(cfg), parameters=sum(p.numel() for p in model.parameters()))
        begin, seen = time.monotonic(), 0
        losses: list[float] = []
        for step in range(plan.steps):
            ids, classes = pad(data, next(easy if step < EASY_STEPS else all_others))
            losses.append(trainer.step(ids, classes, plan.rate_at(step)))
            seen += ids.numel()
            if (step + 1) % plan.report_steps == 0:
                log.write(
                    minutes=round((time.monotonic() - begin) / 60, 2),
                    step=step + 1,
                    tokens=seen,
                    lr=round(plan.rate_at(step), 5),
                    loss_right=round(float(np.mean(losses)), 4),
                    **heldout_accuracy(model, tokenizer, cases[:QUICK_CASES]),
                )
                losses = []
                save(model, out / "model.pt")
        minutes = round((time.monotonic() - begin) / 60, 1)
        log.write(done=True, step=plan.steps, tokens=seen, minutes=minutes, **heldout_accuracy(model, tokenizer, cases))
    save(model, out / "model.pt")


if __name__ == "__main__":
    main()
