// Bounds of the float errors of attention, entry by entry, in units of the float's roundoff. A sum of n
// products is off by at most n times the sum of their magnitudes; errors of factors multiply through. Small
// constants count the operations beside the sums: scaling, exponential, normalising. Where probabilities and
// their gradients are stored as bf16 between two products, each is off by one such rounding more.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/attention.h"

namespace draftsmith::test {

inline double sum_of_magnitudes(const double* a, const double* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::abs(a[i] * b[i]);
  return sum;
}

// What storing once costs, in units of the float's roundoff.
inline double storing_error(DType type) {
  return type == DType::bf16 ? kUnitRoundoff<bf16> / kUnitRoundoff<float> : 0;
}

// The relative error of each probability of a row and head: that of its own score, and of the sum over keys.
inline std::vector<double> probability_errors(const AttentionCase& at, const AttentionInputs<double>& inputs,
                                              std::int64_t row, std::int64_t head,
                                              const SoftmaxReference<double>& softmax) {
  const std::vector<VisibleKey> keys = visible_keys(at, row);
  const auto head_dim = static_cast<std::size_t>(at.shape.head_dim);
  std::vector<double> errors;
  double normalizer = static_cast<double>(keys.size()) + 8 + std::abs(softmax.log_sum_exp);
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const auto& key_rows = keys[k].in_block ? inputs.block_key : inputs.context_key;
    const double magnitude = sum_of_magnitudes(&inputs.query[query_place(at, row, head)],
                                               &key_rows[key_place(at, keys[k].row, head)], head_dim);
    errors.push_back(static_cast<double>(head_dim + 4) * magnitude * static_cast<double>(at.shape.scale));
    normalizer += softmax.probabilities[k] * errors.back();
  }
  for (double& error : errors) error += normalizer;
  return errors;
}

struct AttentionErrors {
  std::vector<double> output;
  AttentionInputs<double> gradient;
};

inline AttentionErrors attention_errors(const AttentionCase& at, const AttentionInputs<double>& inputs,
                                        const std::vector<double>& output,
                                        const std::vector<double>& grad_output,
                                        DType probabilities = DType::float32) {
  AttentionErrors errors;
  errors.output.resize(inputs.query.size());
  errors.gradient.query.resize(inputs.query.size());
  errors.gradient.context_key.resize(inputs.context_key.size());
  errors.gradient.context_value.resize(inputs.context_value.size());
  errors.gradient.block_key.resize(inputs.block_key.size());
  errors.gradient.block_value.resize(inputs.block_value.size());
  const auto head_dim = static_cast<std::size_t>(at.shape.head_dim);
  const double terms = static_cast<double>(head_dim + 4), scale = at.shape.scale;
  // A key collects from every row and head of its kv head, at most.
  const auto rows = static_cast<double>(at.rows() * at.shape.query_heads / at.shape.kv_heads + 4);
  for (std::int64_t row = 0; row < at.rows(); ++row) {
    const std::vector<VisibleKey> keys = visible_keys(at, row);
    const auto count = static_cast<double>(keys.size() + 4);
    for (std::int64_t head = 0; head < at.shape.query_heads; ++head) {
      const SoftmaxReference<double> softmax = softmax_reference(at, inputs, row, head);
      std::vector<double> p_errors = probability_errors(at, inputs, row, head, softmax);
      for (double& error : p_errors) error += storing_error(probabilities);
      const std::size_t query = query_place(at, row, head);
      const double delta = sum_of_magnitudes(&grad_output[query], &output[query], head_dim);
      for (std::size_t k = 0; k < keys.size(); ++k) {
        const bool own = keys[k].in_block;
        const std::size_t place = key_place(at, keys[k].row, head);
        const double* key = &(own ? inputs.block_key : inputs.context_key)[place];
        const double* value = &(own ? inputs.block_value : inputs.context_value)[place];
        double* key_errors = &(own ? errors.gradient.block_key : errors.gradient.context_key)[place];
        double* value_errors = &(own ? errors.gradient.block_value : errors.gradient.context_value)[place];
        const double p = softmax.probabilities[k];
        const double grad_p = sum_of_magnitudes(&grad_output[query], value, head_dim);
        // |ds| <= p * (grad_p + delta); its error is that of both sums, of p and of storing it.
        const double ds = p * (grad_p + delta),
                     ds_error = ds * (terms + p_errors[k] + storing_error(probabilities));
        for (std::size_t d = 0; d < head_dim; ++d) {
          errors.output[query + d] += p * std::abs(value[d]) * (p_errors[k] + count);
          errors.gradient.query[query + d] += scale * std::abs(key[d]) * (ds_error + ds * count);
          key_errors[d] += scale * std::abs(inputs.query[query + d]) * (ds_error + ds * rows);
          value_errors[d] += p * std::abs(grad_output[query + d]) * (p_errors[k] + rows);
        }
      }
    }
  }
  return errors;
}

}  // namespace draftsmith::test
