#include "train/run_inputs.h"

#include <string>
#include <vector>

#include "base/log.h"
#include "data/conversations.h"
#include "data/hf_config.h"
#include "data/mask_token.h"
#include "data/tokenizer.h"
#include "model/target_shape.h"
#include "train/resolve.h"

namespace draftsmith {
namespace {

// Of the target's generation: none of them can be the mask token.
std::vector<std::int32_t> stop_tokens(const TargetConfigFile& target, const RunConfig& config) {
  std::vector<std::int32_t> tokens(target.eos_token_ids.begin(), target.eos_token_ids.end());
  const auto generation = read_generation_config(config.target).eos_token_ids;
  tokens.insert(tokens.end(), generation.begin(), generation.end());
  return tokens;
}

}  // namespace

RunInputs load_run_inputs(const RunConfig& config) {
  const TargetConfigFile file = read_target_config(config.target);
  const TargetShape target = target_shape(file);
  const Tokenizer tokenizer = Tokenizer::load(config.target);
  const std::vector<std::int32_t> stops = stop_tokens(file, config);
  const std::int32_t mask = choose_mask_token({.configured = config.drafter.mask_token_id,
                                               .tokenizer = tokenizer,
                                               .table_rows = target.vocabulary,
                                               .stop_tokens = stops});
  RunInputs inputs;
  inputs.shapes = resolve_shapes(config, target, resolve_drafter(config.drafter, target, mask));
  const auto read = [&](const std::string& path) {
    return read_conversations({.file = path,
                               .tokenizer = tokenizer,
                               .target = config.target,
                               .table_rows = target.vocabulary,
                               .max_tokens = config.data.max_length});
  };
  inputs.train = read(config.data.train);
  const std::string warning = mask_token_warning(inputs.train, config.data.train, mask);
  if (!warning.empty()) log_warning(warning);
  if (!config.data.eval.empty()) inputs.evaluation = read(config.data.eval);
  return inputs;
}

}  // namespace draftsmith
