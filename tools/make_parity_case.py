#!/usr/bin/env python3
"""Loads a z-lab drafter folder into the PyTorch reference and writes what it computes as a training case.

    make_parity_case.py DRAFTER_FOLDER TARGET_FOLDER OUT.safetensors

Inputs are random; weights are the exported ones, loaded strictly by name. The case has the layout of tests/golden."""
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench" / "reference"))
import dflash_torch  # noqa: E402


def read_case(folder):
    config = json.loads((folder / "config.json").read_text())
    same = ["hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size", "vocab_size",
            "num_hidden_layers", "rms_norm_eps", "rope_theta", "attention_bias", "block_size", "layer_types",
            "sliding_window", "is_causal"]
    case = {key: config.get(key) for key in same}
    case["target_layer_ids"] = config["dflash_config"]["target_layer_ids"]
    case["mask_token_id"] = config["dflash_config"]["mask_token_id"]
    case.update(loss_type="dflash", loss_decay_gamma=4.0, dpace_alpha=0.5, distill_weight=0.0, distill_temperature=1.0,
                num_anchors=6, seq_len=40, batch=2)
    return case


def target_tables(folder):
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"].double()
    return embedding, weights.get("lm_head.weight", weights["model.embed_tokens.weight"]).double()


def main(drafter_folder, target_folder, out):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    case = read_case(drafter_folder)
    config = dflash_torch.Config(**case)
    drafter = dflash_torch.Drafter(config)
    drafter.load_state_dict({k: v.double() for k, v in load_file(drafter_folder / "model.safetensors").items()})
    embedding, table = target_tables(target_folder)
    head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
    embed = torch.nn.Embedding(config.vocab_size, config.hidden_size)
    head.weight.data, embed.weight.data = table, embedding
    head.requires_grad_(False), embed.requires_grad_(False)

    batch, length = case["batch"], case["seq_len"]
    ids = torch.randint(0, config.vocab_size, (batch, length))
    features = torch.randn(batch, length, len(config.target_layer_ids) * config.hidden_size).float().double()
    loss_mask = torch.ones(batch, length)
    anchors, keep = dflash_torch.sample_anchors(config, loss_mask)
    loss, accuracy, hidden = dflash_torch.loss_of(config, drafter, head, embed, ids, features, loss_mask, "sdpa", anchors, keep)
    loss.backward()

    tensors = {"input_ids": ids, "target_features": features, "loss_mask": loss_mask, "anchors": anchors,
               "block_keep": keep.to(torch.uint8), "embed_tokens": embedding, "lm_head": table.clone(),
               "loss": loss.detach().reshape(1), "accuracy": accuracy.reshape(1), "draft_hidden": hidden.detach()}
    for name, parameter in drafter.named_parameters():
        tensors["weight." + name] = parameter.detach()
        tensors["grad." + name] = parameter.grad
    save_file({k: v.contiguous() for k, v in tensors.items()}, out, metadata={"case": json.dumps(case)})
    print(f"parity: the reference loaded {drafter_folder} by name and computed a batch of {batch} x {length} tokens")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
