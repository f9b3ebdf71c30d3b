#include "bench/step/shapes.h"

#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "base/random.h"
#include "model/micro_batch.h"

namespace draftsmith::bench {
namespace {

struct Named {
  TargetShape target;
  std::int64_t layers = 0, block_size = 0;
  float gamma = 0;
  std::vector<std::int64_t> taps;
  Documents documents;
};

Named demo() {
  return {.target = {.layers = 6,
                     .width = 256,
                     .intermediate = 768,
                     .query_heads = 4,
                     .kv_heads = 2,
                     .head_dim = 64,
                     .vocabulary = 4096,
                     .max_positions = 2048,
                     .tied_head = true},
          .layers = 3,
          .block_size = 8,
          .gamma = 4,
          .taps = default_taps(6, 3),
          .documents = {.count = 16, .length = 72, .anchors = 16}};
}

Named wide() {
  return {.target = {.layers = 28,
                     .width = 1024,
                     .intermediate = 3072,
                     .query_heads = 16,
                     .kv_heads = 8,
                     .head_dim = 128,
                     .vocabulary = 151936,
                     .max_positions = 40960,
                     .rope = {.theta = 1e6},
                     .tied_head = true},
          .layers = 5,
          .block_size = 16,
          .gamma = 7,
          .taps = default_taps(28, 5),
          .documents = {.count = 2, .length = 256, .anchors = 16}};
}

Named qwen3_8b() {
  return {.target = {.layers = 36,
                     .width = 4096,
                     .intermediate = 12288,
                     .query_heads = 32,
                     .kv_heads = 8,
                     .head_dim = 128,
                     .vocabulary = 151936,
                     .max_positions = 40960,
                     .rope = {.theta = 1e6}},
          .layers = 5,
          .block_size = 16,
          .gamma = 7,
          .taps = {1, 9, 17, 25, 33},
          .documents = {.count = 4, .length = 3072, .anchors = 512}};
}

Named named(const std::string& name) {
  if (name == "demo") return demo();
  if (name == "wide") return wide();
  if (name == "qwen3-8b") return qwen3_8b();
  throw Error(fmt::format("there is no shape '{}'; choose demo, wide or qwen3-8b", name));
}

DrafterShape drafter_of(const Named& one) {
  const TargetShape& target = one.target;
  DrafterShape shape{.layers = one.layers,
                     .width = target.width,
                     .intermediate = target.intermediate,
                     .query_heads = target.query_heads,
                     .kv_heads = target.kv_heads,
                     .head_dim = target.head_dim,
                     .vocabulary = target.vocabulary,
                     .max_positions = target.max_positions,
                     .target_layers = target.layers,
                     .block_size = one.block_size,
                     .taps = one.taps,
                     .mask_token_id = target.vocabulary - 1,
                     .rope = target.rope};
  shape.layer_kinds.assign(one.layers, LayerKind::full);
  check_drafter_shape(shape);
  return shape;
}

// A user's turn of 20 to 119 tokens, then an assistant's of 60 to 359, and so on.
std::vector<std::uint8_t> chat_mask(std::int64_t length, const Random& random) {
  std::vector<std::uint8_t> mask;
  for (std::uint64_t turn = 0; std::ssize(mask) < length; ++turn) {
    const bool assistant = turn % 2 == 1;
    const std::uint64_t tokens = assistant ? 60 + random.below(turn, 300) : 20 + random.below(turn, 100);
    mask.insert(mask.end(), tokens, assistant ? 1 : 0);
  }
  mask.resize(length);
  return mask;
}

}  // namespace

Workload make_workload(const Options& options) {
  Named one = named(options.shape);
  one.target.family = "qwen3";
  one.target.head_norm = true;
  const Documents documents{.count = options.documents.value_or(one.documents.count),
                            .length = options.length.value_or(one.documents.length),
                            .anchors = options.anchors.value_or(one.documents.anchors)};
  if (documents.length + one.block_size > one.target.max_positions) {
    throw Error(fmt::format("--length {} and a block are beyond the target's {} positions; lower it",
                            documents.length, one.target.max_positions));
  }
  Workload workload{.shapes = {.target = one.target, .drafter = drafter_of(one)}, .documents = documents};
  RunShapes& shapes = workload.shapes;
  shapes.budget.context_tokens = documents.count * documents.length;
  shapes.budget.blocks = documents.count * documents.anchors;
  shapes.budget.block_size = one.block_size;
  if (options.chunk_rows) shapes.budget.loss_chunk_rows = *options.chunk_rows;
  shapes.loss.gamma = one.gamma;
  shapes.positions = documents.length + one.block_size;
  return workload;
}

void fill_documents(const Workload& workload, MaskKind mask, Slot& slot) {
  const Documents& documents = workload.documents;
  const RunShapes& shapes = workload.shapes;
  MicroBatchBuilder builder(shapes.budget, shapes.drafter);
  builder.begin(slot.batch);
  BatchFacts facts;
  std::vector<std::int32_t> tokens(documents.length), anchors;
  for (std::int64_t document = 0; document < documents.count; ++document) {
    const Random random(1, RandomStream::sampling, static_cast<std::uint32_t>(document));
    for (std::int64_t i = 0; i < documents.length; ++i) {
      tokens[i] = static_cast<std::int32_t>(random.below(i, shapes.target.vocabulary - 1));
    }
    const std::vector<std::uint8_t> supervised = mask == MaskKind::chat
                                                     ? chat_mask(documents.length, random)
                                                     : std::vector<std::uint8_t>(documents.length, 1);
    draw_anchors(supervised, documents.anchors,
                 Random(1, RandomStream::anchors, static_cast<std::uint32_t>(document)), anchors);
    builder.add_document(tokens, supervised, anchors);
    facts.attended_rows += std::accumulate(anchors.begin(), anchors.end(), std::int64_t{0});
    facts.target_pairs += documents.length * (documents.length + 1) / 2;
  }
  facts.counts = builder.finish();
  slot.facts = facts;
}

}  // namespace draftsmith::bench
