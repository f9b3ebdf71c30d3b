// What a run is told: the fields of run.yaml, one struct member per key, nested as in the file.
//
// A value here has the right type and lies in its range (app/options.h declares both, app/config.h reads the
// file). An empty optional, or an empty `taps` or `layer_types`, means "by the rule": the rule is named
// beside the member. Rules that need only this struct are applied by fill_derived_defaults(); those that need
// the target's config.json or tokenizer are applied where the drafter's shape is made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/block_loss.h"
#include "kernels/feature_noise.h"
#include "model/drafter.h"
#include "model/shape.h"
#include "tensor/tensor.h"

namespace draftsmith {

enum class ScheduleType { cosine, constant, linear };
enum class NoiseSchedule { constant, linear };
// How features reach a drafter: through pinned host memory, or straight into its device's.
enum class QueuePath { host, peer };

// As in config.json.
struct RopeScalingConfig {
  RopeScaling type = RopeScaling::none;
  std::optional<double> factor;                                  // linear, yarn: must be said
  std::optional<std::int64_t> original_max_position_embeddings;  // yarn: must be said
  std::optional<double> attention_factor;                        // yarn; 0.1 ln(factor) + 1
  std::optional<double> beta_fast;                               // yarn; 32
  std::optional<double> beta_slow;                               // yarn; 1
};

struct DrafterRopeConfig {
  std::optional<double> theta;  // the target's
  RopeScalingConfig scaling;    // never the target's
};

// The width is always the target's: the drafter shares its embedding table and head.
struct DrafterConfig {
  std::int64_t layers = 3;
  std::int64_t block_size = 8;     // slots of a draft block, the anchor's among them
  std::vector<std::int64_t> taps;  // target layers read, ascending; empty: evenly spread, one a layer
  std::optional<std::int64_t> intermediate;  // this and the three below: the target's
  std::optional<std::int64_t> query_heads;
  std::optional<std::int64_t> kv_heads;
  std::optional<std::int64_t> head_dim;
  DrafterRopeConfig rope;
  std::optional<double> rms_norm_eps;  // the target's
  bool attention_bias = false;
  std::vector<LayerKind> layer_types;          // one a layer; empty: all full
  std::optional<std::int64_t> sliding_window;  // positions seen, the query's own among them
  std::optional<bool> is_causal;              // within the block, in sliding layers: true; false without them
  std::optional<std::int64_t> mask_token_id;  // the tokenizer's mask token
  std::string init;                           // a drafter's folder to begin with; empty: random weights
};

struct DataConfig {
  std::string train;              // JSONL of conversations
  std::string eval;               // the same, held out; empty: no evaluation
  std::int64_t max_length = 512;  // tokens; longer conversations are cut
};

// The divergence from the target's own distribution, in the loss beside its hard labels.
struct DistillConfig {
  double weight = 0;  // its share; 0: none
  double temperature = 1;
};

struct LossConfig {
  LossKind type = LossKind::dflash;
  std::optional<double> gamma;  // dflash only; default_gamma(block_size); 0 weighs every offset alike
  std::optional<double> alpha;  // dpace only; 0.5
  DistillConfig distill;        // dflash only
};

// Noise on the drafter's copy of the features while training.
struct NoiseConfig {
  NoiseKind type = NoiseKind::none;
  double scale = 0.1;                                // half the width of uniform, deviation of gaussian
  NoiseSchedule schedule = NoiseSchedule::constant;  // linear: falls to 0 at the last step
};

struct OptimizerConfig {
  double lr = 3e-3;
  std::vector<double> betas = {0.9, 0.999};  // always two
  double eps = 1e-8;
  double weight_decay = 0;
  double warmup_ratio = 0.04;  // share of all steps
  ScheduleType schedule = ScheduleType::cosine;
  double min_lr_ratio = 0;  // where the schedule ends, as a share of lr
  double clip = 1.0;        // largest global gradient norm; 0: no clipping
  bool shard = false;       // masters and moments are shared out among the drafters
};

struct CheckpointConfig {
  std::int64_t every = 100;  // steps; 0: only at the end
  std::int64_t keep = 3;     // the newest so many, besides the best
};

struct EvaluationConfig {
  std::int64_t every = 100;         // steps; 0: only at the end
  std::int64_t conversations = 60;  // the first so many of data.eval
};

struct TrainConfig {
  std::optional<std::int64_t> steps;  // exactly one of steps and epochs; 400 steps when neither is said
  std::optional<std::int64_t> epochs;
  std::int64_t context_tokens = 1152;      // budget of one micro-batch of one drafter device
  std::int64_t blocks = 256;               // draft blocks in that budget
  std::int64_t anchors_per_document = 16;  // at most
  std::int64_t accumulate = 1;             // micro-batches of each drafter in a step
  std::optional<DType> compute;            // bf16 with AVX-512-BF16, else float32
  LossConfig loss;
  NoiseConfig noise;
  Recompute recompute = Recompute::none;  // layer: keeps one layer's activations; the same bits
  OptimizerConfig optimizer;
  std::int64_t seed = 0;
  CheckpointConfig checkpoint;
  EvaluationConfig eval;
};

struct QueueConfig {
  std::int64_t slots = 4;
  std::optional<QueuePath> path;  // peer where all GPUs reach each other and slots divide among the drafters
};

struct DevicesConfig {
  std::vector<std::string> targets = {"cpu:0"};
  std::vector<std::string> drafters = {"cpu:1"};  // a name in both lists: one device, one thread, both roles
  QueueConfig queue;
  AttentionChoice attention = AttentionChoice::automatic;
  std::optional<double> memory_gib;     // the most a run takes of each device; all that is available
  std::optional<std::int64_t> threads;  // of each logical CPU device; the cores shared out evenly
  std::optional<double> watchdog_s;     // a run in which nobody goes on for so long ends (train/watchdog.h)
};

struct RunConfig {
  std::string target;  // a Hugging Face folder
  DrafterConfig drafter;
  DataConfig data;
  TrainConfig train;
  DevicesConfig devices;
  std::string output;  // the run's folder
};

// The published decay constants: 7 for blocks of 16, 5 for 10, 4 for 8. Any other size takes half its
// supervised offsets, (block_size - 1) / 2 rounded half up, which is what 8 and 10 follow too.
double default_gamma(std::int64_t block_size);

bool has_sliding_layer(const DrafterConfig& drafter);

// Fills train.steps, gamma or alpha of the loss, and is_causal, where they are left to the rule.
void fill_derived_defaults(RunConfig& config);

}  // namespace draftsmith
