// One head at a time. The halves of a head are walked together, since the rotation mixes column i with i +
// D/2.
#include "kernels/head_norm_rope.h"

#include <cmath>

#include "base/arithmetic.h"
#include "device/cpu/parallel.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

namespace {

constexpr std::int64_t kMaxHeadDim = 512;  // a partial weight gradient lies on the stack

// The two columns that a rotation mixes.
struct Pair {
  Lanes first, second;
};

template <typename T, typename Place>
Pair load_pair(const T* head, std::int64_t half, Place place) {
  return {place.load(head), place.load(head + half)};
}
template <typename T, typename Place>
void store_pair(T* head, std::int64_t half, Place place, Pair pair) {
  place.store(head, pair.first);
  place.store(head + half, pair.second);
}

template <typename T>
float inverse_rms_of(const T* head, std::int64_t head_dim, float epsilon) {
  const std::int64_t half = head_dim / 2;
  Lanes squares{};
  for_lanes(0, half, [&](auto place) {
    const Pair x = load_pair(head, half, place);
    squares += x.first * x.first + x.second * x.second;
  });
  return 1.0f / std::sqrt(sum_of(squares) / static_cast<float>(head_dim) + epsilon);
}

template <typename Arguments>
std::int64_t position_of(const Arguments& arguments, std::int64_t row) {
  const std::int64_t position = arguments.positions[row];
  DRAFTSMITH_CHECK(position >= 0 && position < arguments.rope.cosine.rows, "the table holds every position");
  return position;
}

template <typename T>
void forward_head(const HeadNormRopeForward<T>& arguments, std::int64_t row, std::int64_t head) {
  const std::int64_t half = arguments.head_dim / 2;
  const T* input = arguments.input.row(row) + head * arguments.head_dim;
  T* output = arguments.output.row(row) + head * arguments.head_dim;
  const float* cosine = arguments.rope.cosine.row(position_of(arguments, row));
  const float* sine = arguments.rope.sine.row(position_of(arguments, row));
  const float r = arguments.weight ? inverse_rms_of(input, arguments.head_dim, arguments.epsilon) : 1.0f;
  if (arguments.inverse_rms) arguments.inverse_rms(row, head) = r;
  for_lanes(0, half, [&](auto place) {
    Pair u = load_pair(input, half, place);
    if (arguments.weight) {
      const Pair weight = load_pair(arguments.weight.data, half, place);
      u = {weight.first * rounded<T>(u.first * r), weight.second * rounded<T>(u.second * r)};
    }
    const Lanes c = place.load(cosine), s = place.load(sine);
    store_pair(output, half, place, {u.first * c - u.second * s, u.second * c + u.first * s});
  });
}

// Rotates the gradient back, then goes through the norm; adds to this part's weight gradient.
template <typename T>
void backward_head(const HeadNormRopeBackward<T>& arguments, std::int64_t row, std::int64_t head,
                   float* grad_weight) {
  const std::int64_t half = arguments.head_dim / 2;
  const T* input = arguments.input.row(row) + head * arguments.head_dim;
  const T* grad_output = arguments.grad_output.row(row) + head * arguments.head_dim;
  T* grad_input = arguments.grad_input.row(row) + head * arguments.head_dim;
  const float* cosine = arguments.rope.cosine.row(position_of(arguments, row));
  const float* sine = arguments.rope.sine.row(position_of(arguments, row));
  const auto grad_u = [&](auto place) -> Pair {
    const Pair grad = load_pair(grad_output, half, place);
    const Lanes c = place.load(cosine), s = place.load(sine);
    return {grad.first * c + grad.second * s, grad.second * c - grad.first * s};
  };
  if (!arguments.weight) {
    for_lanes(0, half, [&](auto place) { store_pair(grad_input, half, place, grad_u(place)); });
    return;
  }
  const float r = arguments.inverse_rms(row, head);
  Lanes products{};
  for_lanes(0, half, [&](auto place) {
    const Pair grad = grad_u(place), x = load_pair(input, half, place);
    const Pair weight = load_pair(arguments.weight.data, half, place);
    const Pair so_far = load_pair(grad_weight, half, place);
    store_pair(grad_weight, half, place,
               {so_far.first + grad.first * (x.first * r), so_far.second + grad.second * (x.second * r)});
    products += grad.first * weight.first * x.first + grad.second * weight.second * x.second;
  });
  const float along = r * r * r * sum_of(products) / static_cast<float>(arguments.head_dim);
  for_lanes(0, half, [&](auto place) {
    const Pair grad = grad_u(place), x = load_pair(input, half, place);
    const Pair weight = load_pair(arguments.weight.data, half, place);
    store_pair(grad_input, half, place,
               {grad.first * weight.first * r - x.first * along,
                grad.second * weight.second * r - x.second * along});
  });
}

}  // namespace

template <typename T>
void head_norm_rope_forward(const Stream& stream, const HeadNormRopeForward<T>& arguments) {
  const std::int64_t rows = arguments.input.rows, columns = arguments.input.columns;
  DRAFTSMITH_CHECK(arguments.head_dim % 2 == 0 && columns % arguments.head_dim == 0,
                   "whole heads of even size");
  DRAFTSMITH_CHECK(arguments.positions.size == rows && arguments.output.rows == rows &&
                       arguments.output.columns == columns,
                   "a position for each row, an output like the input");
  const std::int64_t heads = columns / arguments.head_dim;
  parallel_ranges(stream, rows, rows * columns / 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t head = 0; head < heads; ++head) forward_head(arguments, row, head);
    }
  });
}

template <typename T>
void head_norm_rope_backward(const Stream& stream, const HeadNormRopeBackward<T>& arguments) {
  const std::int64_t rows = arguments.input.rows, columns = arguments.input.columns;
  const std::int64_t head_dim = arguments.head_dim, heads = columns / head_dim;
  DRAFTSMITH_CHECK(head_dim % 2 == 0 && head_dim <= kMaxHeadDim && columns % head_dim == 0,
                   "whole heads of even size");
  DRAFTSMITH_CHECK(arguments.positions.size == rows && arguments.grad_input.rows == rows &&
                       arguments.grad_output.rows == rows,
                   "a position for each row, gradients like what they are of");
  // A fixed number of parts, whatever the number of threads, whose weight gradients are added in order.
  constexpr std::int64_t kParts = 32;
  float partial[kParts][kMaxHeadDim] = {};
  parallel_ranges(stream, kParts, rows * columns / 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      for (std::int64_t row = rows * part / kParts; row < rows * (part + 1) / kParts; ++row) {
        for (std::int64_t head = 0; head < heads; ++head) backward_head(arguments, row, head, partial[part]);
      }
    }
  });
  if (!arguments.weight) return;
  DRAFTSMITH_CHECK(arguments.weight.size == head_dim && arguments.grad_weight.size == head_dim,
                   "a weight for each column of a head");
  for (std::int64_t column = 0; column < head_dim; ++column) {
    float sum = 0;
    for (const auto& part : partial) sum += part[column];
    arguments.grad_weight[column] += sum;
  }
}

template void head_norm_rope_forward(const Stream&, const HeadNormRopeForward<float>&);
template void head_norm_rope_forward(const Stream&, const HeadNormRopeForward<bf16>&);
template void head_norm_rope_backward(const Stream&, const HeadNormRopeBackward<float>&);
template void head_norm_rope_backward(const Stream&, const HeadNormRopeBackward<bf16>&);

}  // namespace draftsmith::cpu
