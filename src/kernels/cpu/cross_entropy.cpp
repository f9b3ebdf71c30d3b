// A row is read once for its maximum, once for the sum of exponentials and once for the gradient, from cache after
// the first time.
#include "kernels/cross_entropy.h"

#include <cmath>

#include "device/cpu/parallel.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

namespace {

struct Maximum {
  float value;
  std::int32_t index;  // the lowest of equals
};

// Each lane keeps the first of its own columns; the fold at the end takes the lowest index of equals.
template <typename T>
Maximum maximum_of(const T* row, std::int64_t count) {
  Lanes best = broadcast(-kInfinity);
  IntLanes best_index = lane_index();
  for_lanes(0, count, [&](auto place) {
    const Lanes x = place.load(row, -kInfinity);
    const IntLanes index = lane_index() + static_cast<std::int32_t>(place.column);
    const IntLanes better = x > best;
    best = better ? x : best;
    best_index = better ? index : best_index;
  });
  Maximum result{best[0], best_index[0]};
  for (int lane = 1; lane < kLanes; ++lane) {
    if (best[lane] > result.value || (best[lane] == result.value && best_index[lane] < result.index)) {
      result = {best[lane], best_index[lane]};
    }
  }
  return result;
}

template <typename T>
float log_sum_exp_of(const T* row, std::int64_t count, float maximum) {
  Lanes sums{};
  for_lanes(0, count, [&](auto place) { sums += exp(place.load(row, -kInfinity) - maximum); });
  return maximum + std::log(sum_of(sums));
}

struct RowResult {
  float nll, log_sum_exp;
  std::int32_t prediction;
};

template <typename T>
RowResult forward_row(const T* row, std::int64_t vocabulary, std::int32_t label) {
  if (label < 0) return {0, 0, -1};
  DRAFTSMITH_CHECK(label < vocabulary, "a label is a token of the vocabulary");
  const Maximum maximum = maximum_of(row, vocabulary);
  const float log_sum_exp = log_sum_exp_of(row, vocabulary, maximum.value);
  return {log_sum_exp - static_cast<float>(row[label]), log_sum_exp, maximum.index};
}

template <typename T>
void turn_to_gradient(T* row, std::int64_t vocabulary, std::int32_t label, float log_sum_exp) {
  if (label < 0) {
    for_lanes(0, vocabulary, [&](auto place) { place.store(row, Lanes{}); });
    return;
  }
  // p - 1 from a float p: the one that is stored may have been rounded.
  const Lanes at_label = exp(broadcast(static_cast<float>(row[label]) - log_sum_exp));
  for_lanes(0, vocabulary, [&](auto place) { place.store(row, exp(place.load(row) - log_sum_exp)); });
  row[label] = static_cast<T>(at_label[0] - 1.0f);
}

}  // namespace

template <typename T>
void cross_entropy_forward(const Stream& stream, const CrossEntropyForward<T>& arguments) {
  const auto& logits = arguments.logits;
  const auto& labels = arguments.labels;
  const auto& nll = arguments.nll;
  const auto& log_sum_exp = arguments.log_sum_exp;
  const auto& predictions = arguments.predictions;
  DRAFTSMITH_CHECK(labels.size == logits.rows && nll.size == logits.rows && log_sum_exp.size == logits.rows &&
                       predictions.size == logits.rows,
                   "one label and one result for each row");
  const std::int64_t vocabulary = logits.columns;
  parallel_ranges(stream, logits.rows, logits.rows * vocabulary, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const RowResult result = forward_row(logits.row(row), vocabulary, labels[row]);
      nll[row] = result.nll;
      log_sum_exp[row] = result.log_sum_exp;
      predictions[row] = result.prediction;
    }
  });
}

template <typename T>
void cross_entropy_with_gradient(const Stream& stream, const CrossEntropyWithGradient<T>& arguments) {
  const auto& logits = arguments.logits;
  const auto& labels = arguments.labels;
  const auto& nll = arguments.nll;
  const auto& predictions = arguments.predictions;
  DRAFTSMITH_CHECK(labels.size == logits.rows && nll.size == logits.rows && predictions.size == logits.rows,
                   "one label and one result for each row");
  const std::int64_t vocabulary = logits.columns;
  parallel_ranges(stream, logits.rows, 2 * logits.rows * vocabulary,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) {
                      const RowResult result = forward_row<T>(logits.row(row), vocabulary, labels[row]);
                      nll[row] = result.nll;
                      predictions[row] = result.prediction;
                      turn_to_gradient(logits.row(row), vocabulary, labels[row], result.log_sum_exp);
                    }
                  });
}

template <typename T>
void argmax_rows(const Stream& stream, const ArgmaxRows<T>& arguments) {
  const auto& logits = arguments.logits;
  const auto& predictions = arguments.predictions;
  DRAFTSMITH_CHECK(predictions.size == logits.rows, "one prediction for each row");
  parallel_ranges(stream, logits.rows, logits.rows * logits.columns / 4,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) {
                      predictions[row] = maximum_of(logits.row(row), logits.columns).index;
                    }
                  });
}

template void cross_entropy_forward(const Stream&, const CrossEntropyForward<float>&);
template void cross_entropy_forward(const Stream&, const CrossEntropyForward<bf16>&);
template void cross_entropy_with_gradient(const Stream&, const CrossEntropyWithGradient<float>&);
template void cross_entropy_with_gradient(const Stream&, const CrossEntropyWithGradient<bf16>&);
template void argmax_rows(const Stream&, const ArgmaxRows<float>&);
template void argmax_rows(const Stream&, const ArgmaxRows<bf16>&);

}  // namespace draftsmith::cpu
