#!/usr/bin/env python3
"""Compares greedy decoding of a target with transformers, token for token, both in float32.

    tools/parity_target.py draftsmith target drafter [--tokens N]

`draftsmith generate --plain --ids` encodes each prompt with the target's chat template and decodes; transformers must
render the same prompt ids and then choose the same tokens. Where two logits are closer than float32 can tell apart the
choice is nobody's, so a difference is also reported with the gap between the two candidates. Exits 1 on any difference.
"""
import argparse
import subprocess
import sys

import torch
import transformers

PROMPTS = [
    "What is the capital of France?",
    "What is the capital of Japan?",
    "What is 2 plus 2?",
    "Write a short poem about the sea.",
    "Write a Python function that returns the 10th Fibonacci number.",
    "Übersetze ins Englische: Guten Morgen, 1234 Freunde! 日本語 😀",
]


def ours(arguments, prompt):
    command = [arguments.draftsmith, "generate", arguments.drafter, "--target", arguments.target, "--plain", "--ids",
               "--compute", "float32", "--max-new-tokens", str(arguments.tokens), "--prompt", prompt]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()
    return [[int(token) for token in line.split()] for line in lines]


def theirs(model, prompt_ids, count):
    """The greedy tokens, and the gap between the two greatest logits before each."""
    prompt = torch.tensor([prompt_ids])
    output = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, do_sample=False,
                            return_dict_in_generate=True, output_logits=True)
    best = [step[0].topk(2).values for step in output.logits]
    return output.sequences[0, len(prompt_ids):].tolist(), [(first - second).item() for first, second in best]


def compare(arguments, model, tokenizer, prompt):
    prompt_ids, found = ours(arguments, prompt)
    message = [{"role": "user", "content": prompt}]
    rendered = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    expected_prompt = tokenizer.encode(rendered, add_special_tokens=False)
    if prompt_ids != expected_prompt:
        print(f"{prompt!r}: the prompt's ids differ:\n  transformers {expected_prompt}\n  draftsmith   {prompt_ids}")
        return False
    expected, gaps = theirs(model, prompt_ids, arguments.tokens)
    if found != expected:
        at = next(i for i, (a, b) in enumerate(zip(expected + [None], found + [None])) if a != b)
        gap = f"; its two greatest logits are {gaps[at]:.2g} apart" if at < len(gaps) else ""
        print(f"{prompt!r}: differs at token {at}: transformers {expected[at:at + 1]}, draftsmith {found[at:at + 1]}{gap}")
        return False
    print(f"{prompt!r}: prompt of {len(prompt_ids)} and {len(found)} greedy tokens equal, least gap of logits {min(gaps):.2g}")
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("draftsmith")
    parser.add_argument("target")
    parser.add_argument("drafter")
    parser.add_argument("--tokens", type=int, default=32)
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.target)
    model = transformers.AutoModelForCausalLM.from_pretrained(arguments.target, dtype=torch.float32).eval()
    equal = [compare(arguments, model, tokenizer, prompt) for prompt in PROMPTS]
    print(f"{sum(equal)} of {len(equal)} greedy continuations equal to transformers {transformers.__version__}")
    sys.exit(not all(equal))


if __name__ == "__main__":
    main()
