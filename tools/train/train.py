#!/usr/bin/env python3
"""Trains one demo model and writes its directory: models/demo-<kind>/.

The directory is written at 25 % and 50 % of the run (so that useful weights exist early) and at the
end, then with the weights that did best on the held-out text. Run it through train_all.sh, which sets
the allocator up; alone it is about a fifth slower.

Usage: train.py CORPUS TOKENIZER_DIR --kind KIND [options]
"""
import argparse
import copy
import math
import pathlib
import subprocess
import time

import torch
import torch.nn.functional as F

import config
import data
import evaluate
import export
from model import Model
from optimizer import make_optimizers
from tokenizer import Tokenizer

EARLY_EXPORTS = (0.25, 0.5)
GRADIENT_CLIP = 1.0
WARMUP_SHARE = 0.02
LOG_EVERY = 50


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("tokenizer_dir", type=pathlib.Path)
    parser.add_argument("--kind", required=True, choices=config.KINDS)
    parser.add_argument("--tokens", type=int, default=6_000_000, help="training tokens of the whole run")
    parser.add_argument("--batch", type=int, default=8, help="sequences a step")
    parser.add_argument("--learning-rate", type=float, default=1e-2)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--optimizer", choices=("muon", "adamw"), default="muon")
    parser.add_argument("--evaluations", type=int, default=10, help="held-out evaluations in the run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=pathlib.Path, default=evaluate.REPOSITORY / "models")
    return parser.parse_args()


def command_line(args):
    """The command to repeat the run, without this machine's paths."""
    return (f"tools/train/train.py CORPUS TOKENIZER_DIR --kind {args.kind} --tokens {args.tokens} "
            f"--batch {args.batch} --learning-rate {args.learning_rate} --weight-decay {args.weight_decay} "
            f"--dropout {args.dropout} --optimizer {args.optimizer} --seed {args.seed}")


def current_commit():
    """The repository's commit, or None where there is none."""
    result = subprocess.run(["git", "rev-parse", "--verify", "HEAD"], cwd=evaluate.REPOSITORY,
                            capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else None


def learning_rate_factor(progress):
    """Linear warm-up, then linear to zero; progress runs from 0 to 1."""
    return min(progress / WARMUP_SHARE, (1 - progress) / (1 - WARMUP_SHARE))


class Run:
    """One model's training: the loop, its evaluations and its exports."""

    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.args = args
        self.config = config.model_config(args.kind)
        self.context = self.config["max_position_embeddings"]
        self.directory = args.models / config.directory_name(args.kind)
        self.tokenizer = Tokenizer.load(args.tokenizer_dir)
        stream, self.held_out = data.held_out_split(self.tokenizer, args.corpus)
        newline = self.tokenizer.encode("\n")[0]
        self.sampler = data.WindowSampler(stream, newline, self.context, args.batch, args.seed)
        self.model = Model(self.config, args.dropout)
        self.optimizers = make_optimizers(self.model, args.optimizer, args.learning_rate, args.weight_decay)
        self.n_steps = args.tokens // (args.batch * self.context)
        self.best = {"loss": math.inf}
        self.started = time.monotonic()

    def minutes(self):
        return (time.monotonic() - self.started) / 60

    def step(self, index):
        rate = self.args.learning_rate * learning_rate_factor((index + 1) / (self.n_steps + 1))
        windows = self.sampler.draw()
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model(windows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten())
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), GRADIENT_CLIP)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        return loss.item()

    def evaluate(self, step, training_loss):
        """Held-out loss under autocast; keeps the weights if they are the best so far."""
        with torch.autocast("cpu", torch.bfloat16):
            loss, _ = evaluate.stream_loss(self.model, self.held_out, self.context)
        print(f"{self.args.kind} step {step} training {training_loss:.4f} held-out {loss:.4f}", flush=True)
        if loss < self.best["loss"]:
            self.best = {"loss": loss, "step": step, "state": copy.deepcopy(self.model.state_dict())}

    def export(self, step):
        """Writes the best weights so far, with the loss that they have once rounded to bf16."""
        training = {
            "kind": self.args.kind,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "training_tokens": step * self.args.batch * self.context,
            "steps": step,
            "planned_steps": self.n_steps,
            "best_step": self.best["step"],
            "seed": self.args.seed,
            "minutes": round(self.minutes(), 1),
            "command": command_line(self.args),
            "commit": current_commit(),
        }
        state = self.best["state"]
        export.write_model_directory(self.directory, self.config, state, training, self.args.tokenizer_dir)
        on_disk, _ = evaluate.load_model(self.directory)
        loss, n_tokens = evaluate.stream_loss(on_disk, self.held_out, self.context)
        training["held_out_nats_per_token"] = round(loss, 4)
        training["held_out_perplexity"] = round(math.exp(loss), 2)
        training["held_out_tokens"] = n_tokens
        export.write_json(self.directory / "training.json", training)
        if evaluate.DEFAULT_EXCERPT.exists():
            export.write_json(self.directory / "expected-loss.json",
                              evaluate.expected_loss(self.directory, evaluate.DEFAULT_EXCERPT))
        print(f"{self.args.kind} exported at step {step}: best step {self.best['step']}, held-out {loss:.4f}",
              flush=True)

    def train(self):
        early = {round(share * self.n_steps) for share in EARLY_EXPORTS}
        evaluate_every = max(1, self.n_steps // self.args.evaluations)
        average = None
        for step in range(1, self.n_steps + 1):
            loss = self.step(step - 1)
            average = loss if average is None else 0.98 * average + 0.02 * loss
            if step % LOG_EVERY == 0:
                rate = step * self.args.batch * self.context / (self.minutes() * 60)
                print(f"{self.args.kind} step {step}/{self.n_steps} loss {average:.3f} {rate:.0f} tokens/s "
                      f"{self.minutes():.1f} of {self.minutes() * self.n_steps / step:.1f} min", flush=True)
            last = step == self.n_steps
            if step % evaluate_every == 0 or step in early or last:
                self.evaluate(step, average)
            if step in early or last:
                self.export(step)


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    run = Run(args)
    run.train()


if __name__ == "__main__":
    main()
