// The table itself. A new option is a member of RunConfig and a row here.
#include "app/option_table.h"

#include <limits>

namespace draftsmith {
namespace {

constexpr std::int64_t kMany = 1'000'000'000;
constexpr double kLarge = 1e12;  // no real option has a meaning beyond

constexpr AllowedReals above_zero(double most) { return {.least = 0, .most = most, .excludes_least = true}; }

template <typename Access>
Option integer(std::string_view name, AllowedIntegers range, std::string_view help, Access access) {
  Option option = declare(name, help, access);
  option.integers = range;
  return option;
}

template <typename Access>
Option real(std::string_view name, AllowedReals range, std::string_view help, Access access) {
  Option option = declare(name, help, access);
  option.reals = range;
  return option;
}

Option required(Option option) {
  option.is_required = true;
  return option;
}

Option or_auto(Option option) {
  option.may_be_auto = true;
  return option;
}

Option or_null(Option option) {
  option.may_be_null = true;
  return option;
}

Option exactly(std::int64_t entries, Option option) {
  option.entries = {entries, entries};
  return option;
}

std::vector<Option> rope_options() {
  return {
      real(
          "drafter.rope.theta", {.least = 1, .most = kLarge, .excludes_least = true},
          "base of the rotary embedding; auto: the target's",
          [](auto& run) -> auto& { return run.drafter.rope.theta; }),
      declare(
          "drafter.rope.scaling.type", "scaling of the rotary embedding; the target's is never taken over",
          [](auto& run) -> auto& { return run.drafter.rope.scaling.type; }),
      real(
          "drafter.rope.scaling.factor", {1, 1e6}, "how far linear and yarn stretch",
          [](auto& run) -> auto& { return run.drafter.rope.scaling.factor; }),
      integer(
          "drafter.rope.scaling.original_max_position_embeddings", {1, std::int64_t{1} << 31},
          "positions that yarn stretches from",
          [](auto& run) -> auto& { return run.drafter.rope.scaling.original_max_position_embeddings; }),
      real(
          "drafter.rope.scaling.attention_factor", above_zero(kLarge),
          "what yarn multiplies cosines and sines by; auto: 0.1 ln(factor) + 1",
          [](auto& run) -> auto& { return run.drafter.rope.scaling.attention_factor; }),
      real(
          "drafter.rope.scaling.beta_fast", above_zero(1e6), "turns from which yarn keeps; auto: 32",
          [](auto& run) -> auto& { return run.drafter.rope.scaling.beta_fast; }),
      real(
          "drafter.rope.scaling.beta_slow", above_zero(1e6), "turns to which yarn stretches; auto: 1",
          [](auto& run) -> auto& { return run.drafter.rope.scaling.beta_slow; }),
  };
}

std::vector<Option> drafter_options() {
  return {
      required(declare(
          "target", "Hugging Face folder of the target", [](auto& run) -> auto& { return run.target; })),
      integer(
          "drafter.layers", {1, 128}, "transformer layers of the drafter",
          [](auto& run) -> auto& { return run.drafter.layers; }),
      integer(
          "drafter.block_size", {2, 32}, "slots of a draft block: the anchor and what is drafted",
          [](auto& run) -> auto& { return run.drafter.block_size; }),
      or_auto(integer(
          "drafter.taps", {0, 4096}, "target layers read, ascending; auto: evenly spread",
          [](auto& run) -> auto& { return run.drafter.taps; })),
      integer(
          "drafter.intermediate", {1, 1 << 20}, "width of the MLP; auto: the target's",
          [](auto& run) -> auto& { return run.drafter.intermediate; }),
      integer(
          "drafter.query_heads", {1, 4096}, "attention heads; auto: the target's",
          [](auto& run) -> auto& { return run.drafter.query_heads; }),
      integer(
          "drafter.kv_heads", {1, 4096}, "key and value heads; auto: the target's",
          [](auto& run) -> auto& { return run.drafter.kv_heads; }),
      integer(
          "drafter.head_dim", {2, 256}, "width of a head, even; auto: the target's",
          [](auto& run) -> auto& { return run.drafter.head_dim; }),
      real(
          "drafter.rms_norm_eps", above_zero(1), "epsilon of every norm; auto: the target's",
          [](auto& run) -> auto& { return run.drafter.rms_norm_eps; }),
      declare(
          "drafter.attention_bias", "a bias in q, k, v and o",
          [](auto& run) -> auto& { return run.drafter.attention_bias; }),
      or_auto(declare(
          "drafter.layer_types", "one a layer; auto: all full_attention",
          [](auto& run) -> auto& { return run.drafter.layer_types; })),
      integer(
          "drafter.sliding_window", {2, 1 << 24},
          "positions that a sliding layer sees, its own included; at least drafter.block_size",
          [](auto& run) -> auto& { return run.drafter.sliding_window; }),
      declare(
          "drafter.is_causal",
          "whether sliding layers are causal inside the block; auto: true, and false without any",
          [](auto& run) -> auto& { return run.drafter.is_causal; }),
      integer(
          "drafter.mask_token_id", {0, 1 << 24},
          "an unused row of the embedding table; auto: the tokenizer's mask token",
          [](auto& run) -> auto& { return run.drafter.mask_token_id; }),
      or_null(declare(
          "drafter.init", "a drafter's folder whose weights training begins with; without it they are random",
          [](auto& run) -> auto& { return run.drafter.init; })),
  };
}

std::vector<Option> data_options() {
  return {
      required(declare(
          "data.train", "JSON lines to train on: conversations, texts or tokens",
          [](auto& run) -> auto& { return run.data.train; })),
      or_null(declare(
          "data.eval", "JSON lines held out, of the same kinds; without them nothing is evaluated",
          [](auto& run) -> auto& { return run.data.eval; })),
      integer(
          "data.max_length", {2, 1 << 24}, "tokens kept of a conversation",
          [](auto& run) -> auto& { return run.data.max_length; }),
  };
}

std::vector<Option> train_options() {
  return {
      integer(
          "train.steps", {1, kMany}, "optimizer steps; auto: 400, or what epochs says",
          [](auto& run) -> auto& { return run.train.steps; }),
      integer(
          "train.epochs", {1, kMany}, "passes over the data, instead of steps",
          [](auto& run) -> auto& { return run.train.epochs; }),
      integer(
          "train.context_tokens", {2, 1 << 24}, "token budget of one micro-batch of one drafter device",
          [](auto& run) -> auto& { return run.train.context_tokens; }),
      integer(
          "train.blocks", {1, 1 << 20}, "draft blocks in that budget",
          [](auto& run) -> auto& { return run.train.blocks; }),
      integer(
          "train.anchors_per_document", {1, 1 << 20}, "draft blocks drawn from a conversation, at most",
          [](auto& run) -> auto& { return run.train.anchors_per_document; }),
      integer(
          "train.accumulate", {1, 1 << 20}, "micro-batches of each drafter device in a step",
          [](auto& run) -> auto& { return run.train.accumulate; }),
      declare(
          "train.compute", "type of weights and activations; auto: bf16 with AVX-512-BF16, else float32",
          [](auto& run) -> auto& { return run.train.compute; }),
      declare(
          "train.loss.type",
          "decayed cross-entropy, or D-PACE, whose loss is a sum over a document's blocks, often hundreds",
          [](auto& run) -> auto& { return run.train.loss.type; }),
      real(
          "train.loss.gamma", {0, kLarge}, "decay over offsets; 0: none; auto: by block size (16: 7, 8: 4)",
          [](auto& run) -> auto& { return run.train.loss.gamma; }),
      real(
          "train.loss.alpha", {0, 1}, "smoothing of D-PACE; auto: 0.5",
          [](auto& run) -> auto& { return run.train.loss.alpha; }),
      real(
          "train.loss.distill.weight", {0, 1}, "share of the target's own distribution in the loss; 0: none",
          [](auto& run) -> auto& { return run.train.loss.distill.weight; }),
      real(
          "train.loss.distill.temperature", {1e-3, 1000}, "softens both distributions",
          [](auto& run) -> auto& { return run.train.loss.distill.temperature; }),
      declare(
          "train.noise.type", "noise on the drafter's copy of the target's features",
          [](auto& run) -> auto& { return run.train.noise.type; }),
      real(
          "train.noise.scale", {0, kLarge}, "half the width of uniform noise, deviation of gaussian",
          [](auto& run) -> auto& { return run.train.noise.scale; }),
      declare(
          "train.noise.schedule", "linear: the noise falls to 0 at the last step",
          [](auto& run) -> auto& { return run.train.noise.schedule; }),
      declare(
          "train.recompute", "layer: keep one layer's activations and run the others twice; the same bits",
          [](auto& run) -> auto& { return run.train.recompute; }),
      real(
          "train.optimizer.lr", above_zero(kLarge), "highest learning rate",
          [](auto& run) -> auto& { return run.train.optimizer.lr; }),
      exactly(2,
              real(
                  "train.optimizer.betas", {.least = 0, .most = 1, .excludes_most = true},
                  "decay of AdamW's moments", [](auto& run) -> auto& { return run.train.optimizer.betas; })),
      real(
          "train.optimizer.eps", above_zero(1), "epsilon of AdamW",
          [](auto& run) -> auto& { return run.train.optimizer.eps; }),
      real(
          "train.optimizer.weight_decay", {0, kLarge}, "decoupled weight decay",
          [](auto& run) -> auto& { return run.train.optimizer.weight_decay; }),
      real(
          "train.optimizer.warmup_ratio", {0, 1}, "share of the steps that warm up",
          [](auto& run) -> auto& { return run.train.optimizer.warmup_ratio; }),
      declare(
          "train.optimizer.schedule", "learning rate after warm-up",
          [](auto& run) -> auto& { return run.train.optimizer.schedule; }),
      real(
          "train.optimizer.min_lr_ratio", {0, 1}, "where the schedule ends, as a share of lr",
          [](auto& run) -> auto& { return run.train.optimizer.min_lr_ratio; }),
      real(
          "train.optimizer.clip", {0, kLarge}, "largest global gradient norm; 0: no clipping",
          [](auto& run) -> auto& { return run.train.optimizer.clip; }),
      declare(
          "train.optimizer.shard", "share masters and moments out among the drafters; the same bits",
          [](auto& run) -> auto& { return run.train.optimizer.shard; }),
      integer(
          "train.seed", {0, std::numeric_limits<std::int64_t>::max()}, "seed of all random numbers",
          [](auto& run) -> auto& { return run.train.seed; }),
      integer(
          "train.checkpoint.every", {0, kMany},
          "steps between checkpoints, beside those at evaluations; 0: no others",
          [](auto& run) -> auto& { return run.train.checkpoint.every; }),
      integer(
          "train.checkpoint.keep", {1, kMany}, "newest checkpoints kept, besides the best",
          [](auto& run) -> auto& { return run.train.checkpoint.keep; }),
      integer(
          "train.eval.every", {0, kMany}, "steps between evaluations; 0: only at the end",
          [](auto& run) -> auto& { return run.train.eval.every; }),
      integer(
          "train.eval.conversations", {1, kMany}, "held-out conversations evaluated, from the first",
          [](auto& run) -> auto& { return run.train.eval.conversations; }),
  };
}

std::vector<Option> device_options() {
  return {
      declare(
          "devices.targets", "devices that run the target",
          [](auto& run) -> auto& { return run.devices.targets; }),
      declare(
          "devices.drafters", "devices that train the drafter; may be the same ones",
          [](auto& run) -> auto& { return run.devices.drafters; }),
      integer(
          "devices.queue.slots", {1, 4096}, "micro-batches between targets and drafters",
          [](auto& run) -> auto& { return run.devices.queue.slots; }),
      declare(
          "devices.queue.path",
          "where features wait: pinned host memory, or the drafters' own; auto: peer where GPUs allow",
          [](auto& run) -> auto& { return run.devices.queue.path; }),
      declare(
          "devices.attention", "implementation of attention on GPUs; auto: the fastest for each shape",
          [](auto& run) -> auto& { return run.devices.attention; }),
      real(
          "devices.memory_gib", above_zero(1e6),
          "most memory of each device that the run may take, in GiB; auto: what is available",
          [](auto& run) -> auto& { return run.devices.memory_gib; }),
      integer(
          "devices.threads", {1, 4096}, "CPU threads of each logical device; auto: cores shared out",
          [](auto& run) -> auto& { return run.devices.threads; }),
      real(
          "devices.watchdog_s", above_zero(1e6),
          "ends a run that stands still for so long; auto: 60, or ten times the warm-up",
          [](auto& run) -> auto& { return run.devices.watchdog_s; }),
      required(declare(
          "output", "folder of the run: log, checkpoints, export",
          [](auto& run) -> auto& { return run.output; })),
  };
}

}  // namespace

std::vector<Option> make_option_table() {
  std::vector<Option> table;
  for (auto part : {drafter_options(), rope_options(), data_options(), train_options(), device_options()}) {
    table.insert(table.end(), part.begin(), part.end());
  }
  return table;
}

}  // namespace draftsmith
