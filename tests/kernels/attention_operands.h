// An attention call of a test: its layout, its operands between guards, and the formula in double that it is held
// against.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention.h"
#include "reference/attention.h"
#include "reference/attention_errors.h"
#include "support/budget.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/run_on.h"

namespace draftsmith::test {

struct AttentionLayout {
  std::string name;
  std::int64_t query_heads, kv_heads, head_dim, block_size;
  bool causal;
  std::vector<std::int64_t> documents;             // context rows of each
  std::vector<std::vector<std::int64_t>> anchors;  // of each document; negative: an invalid block
  std::int64_t window = 0;                         // 0: none
};

inline void PrintTo(const AttentionLayout& layout, std::ostream* out) { *out << layout.name; }

inline AttentionShape shape_of(const AttentionLayout& layout) {
  return {.query_heads = layout.query_heads,
          .kv_heads = layout.kv_heads,
          .head_dim = layout.head_dim,
          .block_size = layout.block_size,
          .causal_in_block = layout.causal,
          .scale = 1 / std::sqrt(static_cast<float>(layout.head_dim))};
}

// Draft blocks as in training: offset o of anchor a sees [max(0, a + o - (W - 1)), a) of its document.
inline AttentionCase blocks_of(const AttentionLayout& layout) {
  AttentionCase at{.shape = shape_of(layout)};
  for (std::size_t document = 0; document < layout.documents.size(); ++document) {
    for (const std::int64_t anchor : layout.anchors[document]) {
      for (std::int64_t offset = 0; offset < layout.block_size; ++offset) {
        const std::int64_t low = layout.window == 0 ? 0 : anchor + offset - (layout.window - 1);
        const std::int64_t begin =
            std::min(std::max<std::int64_t>(0, low), std::max<std::int64_t>(0, anchor));
        at.begin.push_back(static_cast<std::int32_t>(at.context_rows + begin));
        at.end.push_back(static_cast<std::int32_t>(anchor < 0 ? -1 : at.context_rows + anchor));
      }
    }
    at.context_rows += layout.documents[document];
  }
  return at;
}

// Every row of every document, seeing up to itself.
inline AttentionCase prefill_of(const AttentionLayout& layout) {
  AttentionCase at{.shape = shape_of(layout)};
  for (const std::int64_t length : layout.documents) {
    for (std::int64_t row = 0; row < length; ++row) {
      const std::int64_t begin =
          layout.window == 0 ? 0 : std::max<std::int64_t>(0, row - (layout.window - 1));
      at.begin.push_back(static_cast<std::int32_t>(at.context_rows + begin));
      at.end.push_back(static_cast<std::int32_t>(at.context_rows + row + 1));
    }
    at.context_rows += length;
  }
  return at;
}

inline AttentionCase case_of(const AttentionLayout& layout) {
  return layout.block_size > 0 ? blocks_of(layout) : prefill_of(layout);
}

// The operands of one call, strided, and everything that it writes.
template <typename T>
struct AttentionOperands {
  AttentionCase at;
  Guarded<T> query, context_key, context_value, block_key, block_value, output, grad_output;
  Guarded<T> grad_query, grad_context_key, grad_context_value, grad_block_key, grad_block_value;
  Guarded<float> log_sum_exp, delta;

  explicit AttentionOperands(const AttentionCase& wanted) : at(wanted) {
    const std::int64_t width = at.shape.query_heads * at.shape.head_dim;
    const std::int64_t kv_width = at.shape.kv_heads * at.shape.head_dim;
    const std::int64_t block_rows = at.shape.block_size > 0 ? at.rows() : 0;
    const auto fill = [](Guarded<T>& tensor, std::int64_t rows, std::int64_t columns, std::int64_t gap,
                         std::uint32_t which) {
      tensor = Guarded<T>(rows, columns, gap, which % 3);
      if (which > 0) tensor.fill_normal(which);
    };
    fill(query, at.rows(), width, 3, 1);
    fill(context_key, at.context_rows, kv_width, 5, 2);
    fill(context_value, at.context_rows, kv_width, 0, 3);
    fill(block_key, block_rows, kv_width, 1, 4);
    fill(block_value, block_rows, kv_width, 7, 5);
    fill(grad_output, at.rows(), width, 2, 6);
    fill(output, at.rows(), width, 4, 0);
    fill(grad_query, at.rows(), width, 1, 0);
    fill(grad_context_key, at.context_rows, kv_width, 3, 0);
    fill(grad_context_value, at.context_rows, kv_width, 2, 0);
    fill(grad_block_key, block_rows, kv_width, 1, 0);
    fill(grad_block_value, block_rows, kv_width, 9, 0);
    log_sum_exp = Guarded<float>(at.rows(), at.shape.query_heads, 1);
    delta = Guarded<float>(at.rows(), at.shape.query_heads, 2);
  }

  // From now on launches use one plan, made here for these passes.
  void plan_for(AttentionPasses passes) {
    const Device device = test_device();
    PrepareAttention<T> prepare{
        .shape = at.shape, .intervals = intervals(), .context_rows = at.context_rows, .passes = passes};
    plan_memory.resize(
        static_cast<std::size_t>(Launcher<T>(device, kernels_of<T>(device)).attention_plan_bytes(prepare)));
    prepare.plan = plan();
    run_on<T>(device, prepare);
  }
  Vector<std::byte> plan() { return {plan_memory.data(), static_cast<std::int64_t>(plan_memory.size())}; }
  VisibleVector<std::byte> plan_memory;

  ContextIntervals intervals() const { return {{at.begin.data(), at.rows()}, {at.end.data(), at.rows()}}; }

  void forward(int threads = 1) {
    const Device device = test_device(threads);
    run_on<T>(device, AttentionForward<T>{.shape = at.shape,
                                          .intervals = intervals(),
                                          .plan = plan(),
                                          .query = query.matrix(),
                                          .context_key = context_key.matrix(),
                                          .context_value = context_value.matrix(),
                                          .block_key = block_key.matrix(),
                                          .block_value = block_value.matrix(),
                                          .output = output.matrix(),
                                          .log_sum_exp = log_sum_exp.matrix()});
  }

  void backward(int threads = 1) {
    const Device device = test_device(threads);
    run_on<T>(device, AttentionBackward<T>{.shape = at.shape,
                                           .intervals = intervals(),
                                           .plan = plan(),
                                           .query = query.matrix(),
                                           .context_key = context_key.matrix(),
                                           .context_value = context_value.matrix(),
                                           .block_key = block_key.matrix(),
                                           .block_value = block_value.matrix(),
                                           .output = output.matrix(),
                                           .log_sum_exp = log_sum_exp.matrix(),
                                           .grad_output = grad_output.matrix(),
                                           .delta = delta.matrix(),
                                           .grad_query = grad_query.matrix(),
                                           .grad_context_key = grad_context_key.matrix(),
                                           .grad_context_value = grad_context_value.matrix(),
                                           .grad_block_key = grad_block_key.matrix(),
                                           .grad_block_value = grad_block_value.matrix()});
  }

  AttentionInputs<double> inputs() {
    return {query.values(), context_key.values(), context_value.values(), block_key.values(),
            block_value.values()};
  }

  std::vector<Guarded<T>*> gradients() {
    return {&grad_query, &grad_context_key, &grad_context_value, &grad_block_key, &grad_block_value};
  }

  void expect_guards_intact() {
    output.expect_guards_intact();
    log_sum_exp.expect_guards_intact();
    delta.expect_guards_intact();
    for (Guarded<T>* gradient : gradients()) gradient->expect_guards_intact();
  }

  std::vector<std::byte> result_bits() {
    std::vector<std::byte> bits = output.bits();
    const auto append = [&](const std::vector<std::byte>& more) {
      bits.insert(bits.end(), more.begin(), more.end());
    };
    append(log_sum_exp.bits());
    for (Guarded<T>* gradient : gradients()) append(gradient->bits());
    return bits;
  }
};

// The fast paths of GPUs store probabilities as bf16 between two products.
template <typename T>
DType probabilities_of() {
  return test_device().name.kind == DeviceKind::cuda ? kDType<T> : DType::float32;
}

template <typename T>
void expect_forward(AttentionOperands<T>& run) {
  const AttentionInputs<double> inputs = run.inputs();
  const std::vector<double> expected = attention_reference(run.at, inputs);
  const AttentionErrors errors =
      attention_errors(run.at, inputs, expected, run.grad_output.values(), probabilities_of<T>());
  expect_within(run.output.values(), expected, errors.output, kDType<T>);
}

template <typename T>
void expect_backward(AttentionOperands<T>& run) {
  const AttentionInputs<double> inputs = run.inputs();
  const std::vector<double> output = run.output.values(), grad_output = run.grad_output.values();
  const AttentionInputs<double> expected = attention_gradient_reference(run.at, inputs, output, grad_output);
  const AttentionInputs<double> errors =
      attention_errors(run.at, inputs, output, grad_output, probabilities_of<T>()).gradient;
  expect_within(run.grad_query.values(), expected.query, errors.query, kDType<T>);
  expect_within(run.grad_context_key.values(), expected.context_key, errors.context_key, kDType<T>);
  expect_within(run.grad_context_value.values(), expected.context_value, errors.context_value, kDType<T>);
  expect_within(run.grad_block_key.values(), expected.block_key, errors.block_key, kDType<T>);
  expect_within(run.grad_block_value.values(), expected.block_value, errors.block_value, kDType<T>);
}

// Anchors at 0 (no context), at the end, neighbours, across tile edges; documents of one token; invalid
// blocks.
inline const std::vector<AttentionLayout> kAttentionLayouts{
    {"Gqa2Dim16", 4, 2, 16, 8, false, {5, 1, 130}, {{0, 4, -1}, {0}, {1, 63, 64, 65, 129}}},
    {"Gqa1Dim64Causal", 2, 2, 64, 7, true, {70, 40}, {{0, 1, 69}, {39, -1, -1}}},
    {"Gqa4Dim80", 4, 1, 80, 4, false, {200}, {{0, 127, 128, 129, 199}}},
    {"Gqa2Dim128", 2, 1, 128, 16, true, {66, 3}, {{64, 65}, {2}}},
    {"Block2OddDim", 2, 1, 6, 2, false, {20}, {{0, 3, 19}}},
    {"Block32ManyPackedRows", 4, 1, 16, 32, true, {90}, {{10, 80}}},
    {"AllInvalid", 2, 1, 16, 4, false, {10}, {{-1, -1}}},
    {"WindowBelow", 2, 1, 16, 8, false, {100}, {{15, 16, 17, 99}}, 15},
    {"WindowAt", 2, 1, 16, 8, true, {100}, {{15, 16, 17, 99}}, 16},
    {"WindowAbove", 2, 1, 16, 8, false, {100}, {{15, 16, 17, 99}}, 17},
    {"WindowOfOne", 2, 1, 16, 8, true, {100}, {{0, 1, 99}}, 1},
    {"WindowOverTiles", 2, 1, 16, 8, true, {300}, {{70, 299}}, 140},
    {"Prefill", 4, 2, 64, 0, false, {1, 75, 2, 140}, {}},
    {"PrefillManyHeads", 14, 2, 16, 0, false, {33, 80}, {}},
    {"PrefillWindow", 2, 1, 16, 0, false, {90}, {}, 16},
};

}  // namespace draftsmith::test
