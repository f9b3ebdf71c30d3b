// Which attention a launch takes: a fast path where the shape has one and every row begins on 16 bytes, the
// plain path otherwise (float always). A launch cuts its plan from the scratch that it is lent and fills it,
// which costs a fraction of the attention.
#include "device/cuda/handle.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/operations.h"

namespace draftsmith::cuda {

namespace {

template <typename T>
bool on_sixteen_bytes(const Matrix<T>& matrix) {
  constexpr std::int64_t kElements = 16 / static_cast<std::int64_t>(sizeof(T));
  return reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0 && matrix.stride % kElements == 0;
}

template <typename Arguments>
bool operands_on_sixteen_bytes(const Arguments& arguments) {
  return on_sixteen_bytes(arguments.query) && on_sixteen_bytes(arguments.context_key) &&
         on_sixteen_bytes(arguments.context_value) && on_sixteen_bytes(arguments.block_key) &&
         on_sixteen_bytes(arguments.block_value) && on_sixteen_bytes(arguments.output);
}

template <typename Arguments>
AttentionPath path_of(const Device& device, const Arguments& arguments) {
  if (arguments.query.rows == 0 || arguments.context_key.rows == 0) return AttentionPath::none;
  if (!operands_on_sixteen_bytes(arguments)) return AttentionPath::none;
  return choose_attention_path(arguments.shape, device.traits.compute);
}

AttentionPath forward_path(const Device&, const AttentionForward<float>&) { return AttentionPath::none; }
AttentionPath forward_path(const Device& device, const AttentionForward<bf16>& arguments) {
  return path_of(device, arguments);
}

AttentionPath backward_path(const Device&, const AttentionBackward<float>&) { return AttentionPath::none; }
AttentionPath backward_path(const Device& device, const AttentionBackward<bf16>& arguments) {
  const bool gradients_fit =
      on_sixteen_bytes(arguments.grad_output) && on_sixteen_bytes(arguments.grad_query) &&
      on_sixteen_bytes(arguments.grad_context_key) && on_sixteen_bytes(arguments.grad_context_value) &&
      on_sixteen_bytes(arguments.grad_block_key) && on_sixteen_bytes(arguments.grad_block_value);
  return gradients_fit ? path_of(device, arguments) : AttentionPath::none;
}

template <typename Arguments>
AttentionPlan carve_plan(Carver& carver, const Arguments& arguments, AttentionPath path) {
  return carve_attention_plan(
      carver,
      {.shape = arguments.shape, .rows = arguments.query.rows, .context_rows = arguments.context_key.rows},
      path);
}

// What grad_scores may take: a small share of the card. With less than a pass could use, kv heads take turns.
std::int64_t grad_score_bytes(const Device& device) { return device.traits.memory_bytes / 32; }

struct BackwardScratch {
  AttentionPlan plan;
  AttentionGradientScratch gradient;
};

BackwardScratch carve_backward(Carver& carver, const Device& device, const AttentionBackward<bf16>& arguments,
                               AttentionPath path) {
  BackwardScratch scratch;
  scratch.plan = carve_plan(carver, arguments, path);
  scratch.gradient = carve_attention_gradient_scratch(carver, scratch.plan, grad_score_bytes(device));
  return scratch;
}

void make_current(const Device& device) { check(cudaSetDevice(device.name.index), "choosing a GPU"); }

}  // namespace

template <typename T>
std::int64_t attention_forward_scratch(const Device& device, const AttentionForward<T>& arguments) {
  const AttentionPath path = forward_path(device, arguments);
  if (path == AttentionPath::none) return 0;
  make_current(device);
  prepare_attention(path);
  Carver counting;
  carve_plan(counting, arguments, path);
  return counting.peak();
}

template <typename T>
void attention_forward(const Stream& stream, const AttentionForward<T>& arguments) {
  if constexpr (std::is_same_v<T, bf16>) {
    const AttentionPath path = forward_path(*stream.device, arguments);
    if (path != AttentionPath::none) {
      const cudaStream_t on = native(stream);
      Carver carver(stream.scratch, stream.scratch_bytes);
      const AttentionPlan plan = carve_plan(carver, arguments, path);
      fill_attention_plan(plan, arguments.intervals, on);
      return launch_attention_forward(arguments, plan, on);
    }
  }
  plain_attention_forward(stream, arguments);
}

template <typename T>
std::int64_t attention_backward_scratch(const Device& device, const AttentionBackward<T>& arguments) {
  const AttentionPath path = backward_path(device, arguments);
  if (path == AttentionPath::none) return 0;
  if constexpr (std::is_same_v<T, bf16>) {
    make_current(device);
    prepare_attention(path);
    Carver counting;
    carve_backward(counting, device, arguments, path);
    return counting.peak();
  }
  return 0;
}

template <typename T>
void attention_backward(const Stream& stream, const AttentionBackward<T>& arguments) {
  if constexpr (std::is_same_v<T, bf16>) {
    const AttentionPath path = backward_path(*stream.device, arguments);
    if (path != AttentionPath::none) {
      const cudaStream_t on = native(stream);
      Carver carver(stream.scratch, stream.scratch_bytes);
      const BackwardScratch scratch = carve_backward(carver, *stream.device, arguments, path);
      fill_attention_plan(scratch.plan, arguments.intervals, on);
      return launch_attention_backward(arguments, scratch.plan, scratch.gradient, on);
    }
  }
  plain_attention_backward(stream, arguments);
}

template std::int64_t attention_forward_scratch(const Device&, const AttentionForward<float>&);
template std::int64_t attention_forward_scratch(const Device&, const AttentionForward<bf16>&);
template void attention_forward(const Stream&, const AttentionForward<float>&);
template void attention_forward(const Stream&, const AttentionForward<bf16>&);
template std::int64_t attention_backward_scratch(const Device&, const AttentionBackward<float>&);
template std::int64_t attention_backward_scratch(const Device&, const AttentionBackward<bf16>&);
template void attention_backward(const Stream&, const AttentionBackward<float>&);
template void attention_backward(const Stream&, const AttentionBackward<bf16>&);

}  // namespace draftsmith::cuda
