// Two rows of logits side by side: their maxima, their sums of exponentials and the divergence, then the gradient.
#include "kernels/distillation.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/parallel.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

namespace {

template <typename T>
float softened_log_sum_exp(const T* row, std::int64_t count, float inverse_temperature) {
  Lanes best = broadcast(-kInfinity);
  for_lanes(0, count, [&](auto place) {
    const Lanes x = place.load(row, -kInfinity);
    best = x > best ? x : best;
  });
  float maximum = best[0];
  for (int lane = 1; lane < kLanes; ++lane) maximum = std::max(maximum, best[lane]);
  Lanes sums{};
  for_lanes(0, count,
            [&](auto place) { sums += exp((place.load(row, -kInfinity) - maximum) * inverse_temperature); });
  return maximum * inverse_temperature + std::log(sum_of(sums));
}

}  // namespace

template <typename T>
void distillation_forward(const Stream& stream, const DistillationForward<T>& arguments) {
  const auto& [logits, teacher, labels, temperature, divergence, log_sum_exp, teacher_log_sum_exp] =
      arguments;
  const std::int64_t rows = logits.rows, vocabulary = logits.columns;
  DRAFTSMITH_CHECK(teacher.rows == rows && teacher.columns == vocabulary && labels.size == rows &&
                       divergence.size == rows && log_sum_exp.size == rows &&
                       teacher_log_sum_exp.size == rows,
                   "teacher and draft have logits of one shape, and one of each result for every row");
  const float inverse = 1.0f / temperature;
  parallel_ranges(stream, rows, 2 * rows * vocabulary, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      divergence[row] = log_sum_exp[row] = teacher_log_sum_exp[row] = 0;
      if (labels[row] < 0) continue;
      const T *s = logits.row(row), *t = teacher.row(row);
      const float s_norm = softened_log_sum_exp(s, vocabulary, inverse);
      const float t_norm = softened_log_sum_exp(t, vocabulary, inverse);
      Lanes sums{};
      for_lanes(0, vocabulary, [&](auto place) {
        const Lanes log_t = place.load(t, -kInfinity) * inverse - t_norm;
        const Lanes log_s = place.load(s) * inverse - s_norm;
        const Lanes p = exp(log_t);
        sums += p > 0.0f ? p * (log_t - log_s) : Lanes{};
      });
      divergence[row] = sum_of(sums);
      log_sum_exp[row] = s_norm;
      teacher_log_sum_exp[row] = t_norm;
    }
  });
}

template <typename T>
void distillation_backward(const Stream& stream, const DistillationBackward<T>& arguments) {
  const auto& [logits, teacher, labels, hard_log_sum_exp, log_sum_exp, teacher_log_sum_exp, share,
               temperature, grad_logits] = arguments;
  const std::int64_t rows = logits.rows, vocabulary = logits.columns;
  DRAFTSMITH_CHECK(grad_logits.rows == rows && grad_logits.columns == vocabulary,
                   "gradients are like the logits");
  const float inverse = 1.0f / temperature, hard = 1 - share, soft = share * temperature;
  parallel_ranges(stream, rows, 3 * rows * vocabulary, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* gradient = grad_logits.row(row);
      if (labels[row] < 0) {
        for_lanes(0, vocabulary, [&](auto place) { place.store(gradient, Lanes{}); });
        continue;
      }
      const T *s = logits.row(row), *t = teacher.row(row);
      const float normalizer = hard_log_sum_exp[row];
      const float s_norm = log_sum_exp[row], t_norm = teacher_log_sum_exp[row];
      const auto gradient_of = [&](Lanes x, Lanes y) {
        return hard * exp(x - normalizer) + soft * (exp(x * inverse - s_norm) - exp(y * inverse - t_norm));
      };
      // The label's entry anew, from floats: what is stored may be rounded. The gradient may take its logit's place.
      const std::int32_t label = labels[row];
      const Lanes at_label =
          gradient_of(broadcast(static_cast<float>(s[label])), broadcast(static_cast<float>(t[label])));
      for_lanes(0, vocabulary,
                [&](auto place) { place.store(gradient, gradient_of(place.load(s), place.load(t))); });
      gradient[label] = static_cast<T>(at_label[0] - hard);
    }
  });
}

template void distillation_forward(const Stream&, const DistillationForward<float>&);
template void distillation_forward(const Stream&, const DistillationForward<bf16>&);
template void distillation_backward(const Stream&, const DistillationBackward<float>&);
template void distillation_backward(const Stream&, const DistillationBackward<bf16>&);

}  // namespace draftsmith::cpu
