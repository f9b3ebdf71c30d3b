// Which attention a launch takes: a fast path where the shape has one and every row begins on 16 bytes, the
// plain path otherwise (float always). A launch without a plan cuts one from the scratch that it is lent and fills it,
// which costs a fraction of the attention.
#include <string>

#include <fmt/core.h>

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

const char* name_of(AttentionPath path) {
  switch (path) {
    case AttentionPath::hopper:
      return "hopper";
    case AttentionPath::portable:
      return "portable";
    case AttentionPath::none:
      break;
  }
  return "plain";
}

std::string text_of(const AttentionShape& shape) {
  const std::string rows =
      shape.block_size == 0 ? "rows of a context" : fmt::format("blocks of {}", shape.block_size);
  return fmt::format("{}, {}/{} heads of {}", rows, shape.query_heads, shape.kv_heads, shape.head_dim);
}

// What Device::attention makes of the fastest path for a shape. Hopper cards have the portable one too.
AttentionPath wanted_path(const Device& device, const AttentionShape& shape, AttentionPath fastest) {
  const auto refuse = [&](const char* wanted) -> AttentionPath {
    throw Error(
        fmt::format("devices.attention: {} does not serve {} on {}, where the fastest is {}. Use "
                    "auto, or another type or shape",
                    wanted, text_of(shape), device.name.text(), name_of(fastest)));
  };
  switch (device.attention) {
    case AttentionChoice::automatic:
      break;
    case AttentionChoice::plain:
      return AttentionPath::none;
    case AttentionChoice::portable:
      return fastest == AttentionPath::none ? refuse("portable") : AttentionPath::portable;
    case AttentionChoice::hopper:
      return fastest != AttentionPath::hopper ? refuse("hopper") : AttentionPath::hopper;
  }
  return fastest;
}

template <typename Arguments>
AttentionPath path_of(const Device& device, const Arguments& arguments) {
  if (arguments.query.rows == 0 || arguments.context_key.rows == 0) return AttentionPath::none;
  const AttentionPath fastest = operands_on_sixteen_bytes(arguments)
                                    ? choose_attention_path(arguments.shape, device.traits.compute)
                                    : AttentionPath::none;
  return wanted_path(device, arguments.shape, fastest);
}

AttentionPath forward_path(const Device& device, const AttentionForward<float>& arguments) {
  return wanted_path(device, arguments.shape, AttentionPath::none);
}
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

// The path of rows that begin on 16 bytes, as every operand of the product does.
template <typename T>
AttentionPath planned_path(const Device& device, const PrepareAttention<T>& arguments) {
  if (std::is_same_v<T, float> || arguments.intervals.begin.size == 0 || arguments.context_rows == 0) {
    return AttentionPath::none;
  }
  return wanted_path(device, arguments.shape, choose_attention_path(arguments.shape, device.traits.compute));
}

template <typename T>
AttentionBudget budget_of(const PrepareAttention<T>& arguments) {
  return {.shape = arguments.shape,
          .rows = arguments.intervals.begin.size,
          .context_rows = arguments.context_rows,
          .gradients = arguments.passes == AttentionPasses::forward_and_backward};
}
AttentionBudget budget_of(const AttentionForward<bf16>& arguments) {
  return {.shape = arguments.shape,
          .rows = arguments.query.rows,
          .context_rows = arguments.context_key.rows,
          .gradients = false};
}
AttentionBudget budget_of(const AttentionBackward<bf16>& arguments) {
  return {.shape = arguments.shape, .rows = arguments.query.rows, .context_rows = arguments.context_key.rows};
}

Carver over(Vector<std::byte> memory) { return Carver(memory.data, memory.size); }

// The plan that the launch was given, or one in its scratch, filled.
template <typename Arguments>
AttentionPlan find_plan(Carver& scratch, const Arguments& arguments, AttentionPath path, cudaStream_t on) {
  if (arguments.plan.size > 0) {
    Carver given = over(arguments.plan);
    return carve_attention_plan(given, budget_of(arguments), path);
  }
  const AttentionPlan plan = carve_attention_plan(scratch, budget_of(arguments), path);
  fill_attention_plan(plan, arguments.intervals, on);
  return plan;
}

// What grad_scores may take: a small share of the card. With less than a pass could use, kv heads take turns.
std::int64_t grad_score_bytes(const Device& device) { return device.traits.memory_bytes / 32; }

void make_current(const Device& device) { check(cudaSetDevice(device.name.index), "choosing a GPU"); }

}  // namespace

template <typename T>
std::string attention_path_text(const Device& device, const AttentionForward<T>& arguments) {
  return fmt::format("{}: {}", text_of(arguments.shape), name_of(forward_path(device, arguments)));
}

template <typename T>
std::int64_t attention_plan_bytes(const Device& device, const PrepareAttention<T>& arguments) {
  const AttentionPath path = planned_path(device, arguments);
  if (path == AttentionPath::none) return 0;
  make_current(device);
  prepare_attention(path);
  Carver counting;
  carve_attention_plan(counting, budget_of(arguments), path);
  return counting.peak();
}

template <typename T>
void prepare_attention(const Stream& stream, const PrepareAttention<T>& arguments) {
  const AttentionPath path = planned_path(*stream.device, arguments);
  DRAFTSMITH_CHECK(path != AttentionPath::none, "there is memory for a plan only where one is needed");
  const cudaStream_t on = native(stream);
  Carver memory = over(arguments.plan);
  fill_attention_plan(carve_attention_plan(memory, budget_of(arguments), path), arguments.intervals, on);
}

template <typename T>
std::int64_t attention_forward_scratch(const Device& device, const AttentionForward<T>& arguments) {
  const AttentionPath path = forward_path(device, arguments);
  if (path == AttentionPath::none) return 0;
  if constexpr (std::is_same_v<T, bf16>) {
    make_current(device);
    prepare_attention(path);
    Carver counting;
    if (arguments.plan.size == 0) carve_attention_plan(counting, budget_of(arguments), path);
    return counting.peak();
  }
  return 0;
}

template <typename T>
void attention_forward(const Stream& stream, const AttentionForward<T>& arguments) {
  if constexpr (std::is_same_v<T, bf16>) {
    const AttentionPath path = forward_path(*stream.device, arguments);
    if (path != AttentionPath::none) {
      const cudaStream_t on = native(stream);
      Carver scratch(stream.scratch, stream.scratch_bytes);
      return launch_attention_forward(arguments, find_plan(scratch, arguments, path, on), on);
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
    Carver counting, plan_only;
    Carver& plan_memory = arguments.plan.size > 0 ? plan_only : counting;
    const AttentionPlan plan = carve_attention_plan(plan_memory, budget_of(arguments), path);
    carve_attention_gradient_scratch(counting, plan, grad_score_bytes(device));
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
      Carver scratch(stream.scratch, stream.scratch_bytes);
      const AttentionPlan plan = find_plan(scratch, arguments, path, on);
      const AttentionGradientScratch gradient =
          carve_attention_gradient_scratch(scratch, plan, grad_score_bytes(*stream.device));
      return launch_attention_backward(arguments, plan, gradient, on);
    }
  }
  plain_attention_backward(stream, arguments);
}

template std::string attention_path_text(const Device&, const AttentionForward<float>&);
template std::string attention_path_text(const Device&, const AttentionForward<bf16>&);
template std::int64_t attention_plan_bytes(const Device&, const PrepareAttention<float>&);
template std::int64_t attention_plan_bytes(const Device&, const PrepareAttention<bf16>&);
template void prepare_attention(const Stream&, const PrepareAttention<float>&);
template void prepare_attention(const Stream&, const PrepareAttention<bf16>&);
template std::int64_t attention_forward_scratch(const Device&, const AttentionForward<float>&);
template std::int64_t attention_forward_scratch(const Device&, const AttentionForward<bf16>&);
template void attention_forward(const Stream&, const AttentionForward<float>&);
template void attention_forward(const Stream&, const AttentionForward<bf16>&);
template std::int64_t attention_backward_scratch(const Device&, const AttentionBackward<float>&);
template std::int64_t attention_backward_scratch(const Device&, const AttentionBackward<bf16>&);
template void attention_backward(const Stream&, const AttentionBackward<float>&);
template void attention_backward(const Stream&, const AttentionBackward<bf16>&);

}  // namespace draftsmith::cuda
