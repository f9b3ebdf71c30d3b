#include "train/useful_flops.h"

namespace draftsmith {
namespace {

// Multiply-adds of a row in all layers' feed-forwards, routers among them.
double feed_forwards(const TargetShape& shape, std::int64_t layers) {
  const auto width = static_cast<double>(shape.width);
  const ExpertShape& experts = shape.experts;
  const double dense = 3 * width * static_cast<double>(shape.intermediate);
  const double sparse = width * (3 * static_cast<double>(experts.chosen * experts.intermediate) +
                                 static_cast<double>(experts.count));
  double sum = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) sum += shape.sparse(layer) ? sparse : dense;
  return sum;
}

// Multiply-adds of a drafter's forward pass.
struct DrafterWork {
  double draft_rows = 0, context_rows = 0, attention = 0, head = 0;
  double fc = 0;  // of context_rows: its input has no gradient
};

DrafterWork drafter_work(const DrafterShape& shape, const BatchFacts& facts) {
  const auto width = static_cast<double>(shape.width), query = static_cast<double>(shape.query_width()),
             kv = static_cast<double>(shape.kv_width()), layers = static_cast<double>(shape.layers);
  const auto context = static_cast<double>(facts.counts.context_tokens),
             blocks = static_cast<double>(facts.counts.blocks), block = static_cast<double>(shape.block_size);
  const double per_draft_row =
      layers * (2 * width * query + 2 * width * kv + 3 * width * static_cast<double>(shape.intermediate));
  const double fc = static_cast<double>(shape.feature_width()) * width;
  const double per_context_row = fc + layers * 2 * width * kv;
  // Every slot of a block sees the context before its anchor and its own block.
  const double pairs = block * (static_cast<double>(facts.attended_rows) + blocks * block);
  return {
      .draft_rows = blocks * block * per_draft_row,
      .context_rows = context * per_context_row,
      .attention = layers * 2 * query * pairs,
      .head = static_cast<double>(facts.counts.supervised) * width * static_cast<double>(shape.vocabulary),
      .fc = context * fc};
}

}  // namespace

double useful_drafter_flops(const DrafterShape& shape, const BatchFacts& facts) {
  const DrafterWork work = drafter_work(shape, facts);
  return 2 * (3 * work.draft_rows + 3 * work.context_rows - work.fc + 3.5 * work.attention + 2 * work.head);
}

double useful_evaluation_flops(const DrafterShape& shape, const BatchFacts& facts) {
  const DrafterWork work = drafter_work(shape, facts);
  return 2 * (work.draft_rows + work.context_rows + work.attention + work.head);
}

double useful_target_flops(const TargetShape& shape, std::int64_t layers, const BatchFacts& facts) {
  const auto width = static_cast<double>(shape.width), query = static_cast<double>(shape.query_width()),
             kv = static_cast<double>(shape.kv_width());
  const auto depth = static_cast<double>(layers);
  const double per_row = depth * (2 * width * query + 2 * width * kv) + feed_forwards(shape, layers);
  return 2 * (static_cast<double>(facts.counts.context_tokens) * per_row +
              depth * 2 * query * static_cast<double>(facts.target_pairs));
}

}  // namespace draftsmith
