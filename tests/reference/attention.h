// Attention as its contract states it, one query and head at a time, for any scalar.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "support/devices.h"

namespace draftsmith::test {

// Rows without gaps, as in the contract.
template <typename Scalar>
struct AttentionInputs {
  std::vector<Scalar> query, context_key, context_value, block_key, block_value;
};

struct AttentionCase {
  AttentionShape shape;
  VisibleVector<std::int32_t> begin, end;
  std::int64_t context_rows = 0;

  std::int64_t rows() const { return static_cast<std::int64_t>(begin.size()); }
};

// A key that a query row sees: a row of the context or of the blocks.
struct VisibleKey {
  bool in_block;
  std::int64_t row;
};

inline std::vector<VisibleKey> visible_keys(const AttentionCase& at, std::int64_t row) {
  std::vector<VisibleKey> keys;
  const auto index = static_cast<std::size_t>(row);
  if (at.end[index] < 0) return keys;
  for (std::int64_t key = at.begin[index]; key < at.end[index]; ++key) keys.push_back({false, key});
  if (at.shape.block_size == 0) return keys;
  const std::int64_t first = row / at.shape.block_size * at.shape.block_size;
  for (std::int64_t key = first; key < first + at.shape.block_size; ++key) {
    if (!at.shape.causal_in_block || key <= row) keys.push_back({true, key});
  }
  return keys;
}

// Places of a query row's head, and of a key's head that it uses.
inline std::size_t query_place(const AttentionCase& at, std::int64_t row, std::int64_t head) {
  return static_cast<std::size_t>((row * at.shape.query_heads + head) * at.shape.head_dim);
}
inline std::size_t key_place(const AttentionCase& at, std::int64_t row, std::int64_t head) {
  const std::int64_t kv_head = head / (at.shape.query_heads / at.shape.kv_heads);
  return static_cast<std::size_t>((row * at.shape.kv_heads + kv_head) * at.shape.head_dim);
}

// Probabilities of the visible keys and the log of their sum.
template <typename Scalar>
struct SoftmaxReference {
  std::vector<Scalar> probabilities;
  Scalar log_sum_exp{};
};

template <typename Scalar>
SoftmaxReference<Scalar> softmax_reference(const AttentionCase& at, const AttentionInputs<Scalar>& inputs,
                                           std::int64_t row, std::int64_t head) {
  SoftmaxReference<Scalar> result;
  const double scale = at.shape.scale;
  Scalar largest{};
  for (const VisibleKey& key : visible_keys(at, row)) {
    const auto& keys = key.in_block ? inputs.block_key : inputs.context_key;
    Scalar score{};
    for (std::int64_t d = 0; d < at.shape.head_dim; ++d) {
      const auto column = static_cast<std::size_t>(d);
      score +=
          inputs.query[query_place(at, row, head) + column] * keys[key_place(at, key.row, head) + column];
    }
    score *= scale;
    if (result.probabilities.empty() || std::real(score) > std::real(largest)) largest = score;
    result.probabilities.push_back(score);
  }
  Scalar sum{};
  for (Scalar& p : result.probabilities) sum += p = std::exp(p - largest);
  for (Scalar& p : result.probabilities) p /= sum;
  result.log_sum_exp = largest + std::log(sum);
  return result;
}

// [rows, query_heads * head_dim]
template <typename Scalar>
std::vector<Scalar> attention_reference(const AttentionCase& at, const AttentionInputs<Scalar>& inputs) {
  std::vector<Scalar> output(inputs.query.size());
  for (std::int64_t row = 0; row < at.rows(); ++row) {
    const std::vector<VisibleKey> keys = visible_keys(at, row);
    for (std::int64_t head = 0; head < at.shape.query_heads; ++head) {
      const SoftmaxReference<Scalar> softmax = softmax_reference(at, inputs, row, head);
      for (std::size_t k = 0; k < keys.size(); ++k) {
        const auto& values = keys[k].in_block ? inputs.block_value : inputs.context_value;
        for (std::int64_t d = 0; d < at.shape.head_dim; ++d) {
          const auto column = static_cast<std::size_t>(d);
          output[query_place(at, row, head) + column] +=
              softmax.probabilities[k] * values[key_place(at, keys[k].row, head) + column];
        }
      }
    }
  }
  return output;
}

// The contract's backward formulas in double; attention_test proves them by complex step. `output` is what
// forward stored.
inline AttentionInputs<double> attention_gradient_reference(const AttentionCase& at,
                                                            const AttentionInputs<double>& inputs,
                                                            const std::vector<double>& output,
                                                            const std::vector<double>& grad_output) {
  AttentionInputs<double> gradient;
  gradient.query.resize(inputs.query.size());
  gradient.context_key.resize(inputs.context_key.size());
  gradient.context_value.resize(inputs.context_value.size());
  gradient.block_key.resize(inputs.block_key.size());
  gradient.block_value.resize(inputs.block_value.size());
  const auto head_dim = static_cast<std::size_t>(at.shape.head_dim);
  const double scale = at.shape.scale;
  for (std::int64_t row = 0; row < at.rows(); ++row) {
    const std::vector<VisibleKey> keys = visible_keys(at, row);
    for (std::int64_t head = 0; head < at.shape.query_heads; ++head) {
      const std::vector<double> p = softmax_reference(at, inputs, row, head).probabilities;
      const std::size_t query = query_place(at, row, head);
      std::vector<double> grad_p(keys.size());
      double delta = 0;
      for (std::size_t k = 0; k < keys.size(); ++k) {
        const auto& values = keys[k].in_block ? inputs.block_value : inputs.context_value;
        auto& grad_values = keys[k].in_block ? gradient.block_value : gradient.context_value;
        const std::size_t place = key_place(at, keys[k].row, head);
        for (std::size_t d = 0; d < head_dim; ++d) {
          grad_p[k] += grad_output[query + d] * values[place + d];
          grad_values[place + d] += p[k] * grad_output[query + d];
        }
      }
      for (std::size_t d = 0; d < head_dim; ++d) delta += grad_output[query + d] * output[query + d];
      for (std::size_t k = 0; k < keys.size(); ++k) {
        const auto& key_rows = keys[k].in_block ? inputs.block_key : inputs.context_key;
        auto& grad_keys = keys[k].in_block ? gradient.block_key : gradient.context_key;
        const std::size_t place = key_place(at, keys[k].row, head);
        const double grad_score = p[k] * (grad_p[k] - delta) * scale;
        for (std::size_t d = 0; d < head_dim; ++d) {
          gradient.query[query + d] += grad_score * key_rows[place + d];
          grad_keys[place + d] += grad_score * inputs.query[query + d];
        }
      }
    }
  }
  return gradient;
}

}  // namespace draftsmith::test
