// A row is read once for its maximum and once for the sum of exponentials, from cache the second time.
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
      if (labels[row] < 0) {
        nll[row] = 0;
        log_sum_exp[row] = 0;
        predictions[row] = -1;
        continue;
      }
      DRAFTSMITH_CHECK(labels[row] < vocabulary, "a label is a token of the vocabulary");
      const Maximum maximum = maximum_of(logits.row(row), vocabulary);
      predictions[row] = maximum.index;
      log_sum_exp[row] = log_sum_exp_of(logits.row(row), vocabulary, maximum.value);
      nll[row] = log_sum_exp[row] - static_cast<float>(logits(row, labels[row]));
    }
  });
}

template <typename T>
void cross_entropy_backward(const Stream& stream, const CrossEntropyBackward<T>& arguments) {
  const auto& logits = arguments.logits;
  const auto& labels = arguments.labels;
  const auto& log_sum_exp = arguments.log_sum_exp;
  const auto& weights = arguments.weights;
  const auto& grad_logits = arguments.grad_logits;
  DRAFTSMITH_CHECK(labels.size == logits.rows && log_sum_exp.size == logits.rows &&
                       weights.size == logits.rows && grad_logits.rows == logits.rows &&
                       grad_logits.columns == logits.columns,
                   "one label and one weight for each row, gradients like the logits");
  const std::int64_t vocabulary = logits.columns;
  parallel_ranges(stream, logits.rows, logits.rows * vocabulary, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* gradient = grad_logits.row(row);
      if (labels[row] < 0) {
        for_lanes(0, vocabulary, [&](auto place) { place.store(gradient, Lanes{}); });
        continue;
      }
      const float weight = weights[row], normalizer = log_sum_exp[row];
      const auto at_label = static_cast<float>(logits(row, labels[row]));  // the gradient may take its place
      for_lanes(0, vocabulary, [&](auto place) {
        place.store(gradient, weight * exp(place.load(logits.row(row)) - normalizer));
      });
      // p - 1 anew, from a float p: the stored one may have been rounded.
      const Lanes p = exp(broadcast(at_label - normalizer));
      gradient[labels[row]] = static_cast<T>(weight * (p[0] - 1.0f));
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
template void cross_entropy_backward(const Stream&, const CrossEntropyBackward<float>&);
template void cross_entropy_backward(const Stream&, const CrossEntropyBackward<bf16>&);
template void argmax_rows(const Stream&, const ArgmaxRows<float>&);
template void argmax_rows(const Stream&, const ArgmaxRows<bf16>&);

}  // namespace draftsmith::cpu
