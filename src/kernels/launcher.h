// Launches operations on a stream of its own of one device: launch(RmsNormForward<T>{...}). Launches of one launcher
// run in order and share its scratch, but for products aside, which may overlap with what follows until they are awaited;
// two launchers of a device may overlap, too. A launcher that is only measuring runs nothing and prepares every product it
// meets, so the code of a real pass is also what prepares kernels and finds how much scratch products and other launches
// need; together with a counting Carver it makes the plan.
#pragma once

#include "device/stream.h"
#include "kernels/kernels.h"
#include "kernels/library.h"

namespace draftsmith {

enum class LaunchMode { run, measure };
// Whether products aside overlap with other launches; the bits are the same.
enum class Overlap { none, products_aside };

template <typename T>
class Launcher {
 public:
  Launcher(const Device& device, const Kernels<T>& kernels)
      : own_stream_(device, StreamPriority::high),
        own_stream_aside_(device),
        stream_(own_stream_.view()),
        stream_aside_(own_stream_aside_.view()),
        ready_(device),
        made_(device),
        kernels_(kernels),
        library_(device, kernels.prepare_matmul, kernels.matmul_scratch_bytes) {}
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Measures what `body` launches; its products are prepared, if they are to, by `choices`, and added to them.
  template <typename Body>
  void measure(Preparation preparation, ProductChoices& choices, const Body& body) {
    const Device& device = *stream_.device;
    library_.use(choices.of(kernels_.product_facts(device), device.name.text()), choices.place());
    library_.set_preparation(preparation);
    mode_ = LaunchMode::measure;
    body();
    mode_ = LaunchMode::run;
    choices.add(library_.choices());
  }
  void set_mode(LaunchMode mode) { mode_ = mode; }
  bool measuring() const { return mode_ == LaunchMode::measure; }
  const Stream& stream() const { return stream_; }
  MatmulLibrary& library() { return library_; }

  // The size that `arguments.plan` is to have; 0 where there is nothing to plan.
  std::int64_t attention_plan_bytes(const PrepareAttention<T>& arguments) const {
    return kernels_.attention_plan_bytes == nullptr
               ? 0
               : kernels_.attention_plan_bytes(*stream_.device, arguments);
  }

  template <typename Out>
  void operator()(const Matmul<T, Out>& matmul) {
    if (measuring()) return library_.meet(shape_of(matmul));
    run_product(matmul, stream_, library_.scratch());
  }

  // A product that nothing needs soon, such as the gradient of a weight: it comes after all launches before it and may
  // overlap with those that follow, which until await_aside() must not write what it reads.
  template <typename Out>
  void aside(const Matmul<T, Out>& matmul) {
    if (measuring()) return library_.meet_aside(shape_of(matmul));
    if (overlap_ == Overlap::none) return (*this)(matmul);
    ready_.record(stream_);
    ready_.wait(stream_aside_);
    run_product(matmul, stream_aside_, library_.scratch_aside());
    made_.record(stream_aside_);
    is_awaited_ = false;
  }
  // What follows comes after all products aside.
  void await_aside() {
    if (is_awaited_) return;
    made_.wait(stream_);
    is_awaited_ = true;
  }
  void set_overlap(Overlap overlap) { overlap_ = overlap; }

  void operator()(const CopyRows<T>& arguments) { run(kernels_.copy_rows, arguments); }
  void operator()(const FillZero& arguments) { run(kernels_.fill_zero, arguments); }
  void operator()(const GatherRows<T>& arguments) { run(kernels_.gather_rows, arguments); }
  void operator()(const SpreadBlockRows<T>& arguments) { run(kernels_.spread_block_rows, arguments); }
  void operator()(const FoldBlockRows<T>& arguments) {
    run(kernels_.fold_block_rows, kernels_.fold_block_rows_scratch, arguments);
  }
  void operator()(const RmsNormForward<T>& arguments) { run(kernels_.rmsnorm_forward, arguments); }
  void operator()(const RmsNormBackward<T>& arguments) {
    run(kernels_.rmsnorm_backward, kernels_.rmsnorm_backward_scratch, arguments);
  }
  void operator()(const HeadNormRopeForward<T>& arguments) {
    run(kernels_.head_norm_rope_forward, arguments);
  }
  void operator()(const HeadNormRopeBackward<T>& arguments) {
    run(kernels_.head_norm_rope_backward, kernels_.head_norm_rope_backward_scratch, arguments);
  }
  void operator()(const SwigluForward<T>& arguments) { run(kernels_.swiglu_forward, arguments); }
  void operator()(const SwigluBackward<T>& arguments) { run(kernels_.swiglu_backward, arguments); }
  void operator()(const PrepareAttention<T>& arguments) {
    if (arguments.plan.size > 0) run(kernels_.prepare_attention, arguments);
  }
  void operator()(const AttentionForward<T>& arguments) {
    if (measuring()) note_attention(arguments);
    run(kernels_.attention_forward, kernels_.attention_forward_scratch, arguments);
  }
  void operator()(const AttentionBackward<T>& arguments) {
    run(kernels_.attention_backward, kernels_.attention_backward_scratch, arguments);
  }
  void operator()(const CrossEntropyForward<T>& arguments) { run(kernels_.cross_entropy_forward, arguments); }
  void operator()(const CrossEntropyWithGradient<T>& arguments) {
    run(kernels_.cross_entropy_with_gradient, arguments);
  }
  void operator()(const DistillationForward<T>& arguments) { run(kernels_.distillation_forward, arguments); }
  void operator()(const DistillationBackward<T>& arguments) {
    run(kernels_.distillation_backward, arguments);
  }
  void operator()(const AddFeatureNoise<T>& arguments) { run(kernels_.add_feature_noise, arguments); }
  void operator()(const ArgmaxRows<T>& arguments) { run(kernels_.argmax_rows, arguments); }
  void operator()(const BlockLoss<T>& arguments) { run(kernels_.block_loss, arguments); }
  void operator()(const ColumnSum<T>& arguments) {
    run(kernels_.column_sum, kernels_.column_sum_scratch, arguments);
  }
  void operator()(const SumOfSquares<T>& arguments) {
    run(kernels_.sum_of_squares, kernels_.sum_of_squares_scratch, arguments);
  }
  void operator()(const RouteExperts<T>& arguments) {
    run(kernels_.route_experts, kernels_.route_experts_scratch, arguments);
  }
  void operator()(const ExpertProducts<T>& arguments) {
    run(kernels_.expert_products, kernels_.expert_products_scratch, arguments);
  }
  void operator()(const CombineExperts<T>& arguments) { run(kernels_.combine_experts, arguments); }
  void operator()(const PrepareUpdate<T>& arguments) { run(kernels_.prepare_update, arguments); }
  void operator()(const AdamWUpdate<T>& arguments) { run(kernels_.adamw_update, arguments); }

 private:
  template <typename Arguments>
  using Launch = typename Kernels<T>::template Launch<Arguments>;
  template <typename Arguments>
  using ScratchBytes = typename Kernels<T>::template ScratchBytes<Arguments>;

  template <typename Out>
  void run_product(const Matmul<T, Out>& matmul, const Stream& stream, Vector<std::byte> scratch) {
    const PreparedMatmul& prepared = library_.find(shape_of(matmul));
    DRAFTSMITH_CHECK(scratch.size >= prepared.scratch_bytes, "scratch was measured before the run");
    kernels_.matmul(stream, prepared,
                    {.left = matmul.left.data,
                     .right = matmul.right.data,
                     .bias = matmul.bias.data,
                     .output = matmul.output.data,
                     .scratch = scratch.data});
  }

  template <typename Arguments>
  void run(Launch<Arguments> kernel, const Arguments& arguments) {
    if (!measuring()) kernel(stream_, arguments);
  }

  template <typename Arguments>
  void run(Launch<Arguments> kernel, ScratchBytes<Arguments> scratch_bytes, const Arguments& arguments) {
    if (measuring()) {
      if (scratch_bytes != nullptr) library_.reserve_scratch(scratch_bytes(*stream_.device, arguments));
      return;
    }
    Stream stream = stream_;
    stream.scratch = library_.scratch().data;
    stream.scratch_bytes = library_.scratch().size;
    kernel(stream, arguments);
  }

  void note_attention(const AttentionForward<T>& arguments) {
    const Device& device = *stream_.device;
    if (kernels_.attention_path != nullptr) {
      return library_.note(kernels_.attention_path(device, arguments));
    }
    if (device.attention == AttentionChoice::automatic) return;
    throw Error("devices.attention: " + device.name.text() +
                " has one implementation of attention only; leave the option at auto");
  }

  template <typename Out>
  static MatmulShape shape_of(const Matmul<T, Out>& matmul) {
    const bool left_transposed = matmul.form == MatmulForm::tn;
    const std::int64_t rows = left_transposed ? matmul.left.columns : matmul.left.rows;
    const std::int64_t depth = left_transposed ? matmul.left.rows : matmul.left.columns;
    const bool right_transposed = matmul.form == MatmulForm::nt;
    DRAFTSMITH_CHECK((right_transposed ? matmul.right.columns : matmul.right.rows) == depth,
                     "the inner sizes of a product agree");
    DRAFTSMITH_CHECK(matmul.output.rows == rows, "the output has the product's rows");
    DRAFTSMITH_CHECK((right_transposed ? matmul.right.rows : matmul.right.columns) == matmul.output.columns,
                     "the output has the product's columns");
    return {.form = matmul.form,
            .rows = rows,
            .columns = matmul.output.columns,
            .depth = depth,
            .left_stride = matmul.left.stride,
            .right_stride = matmul.right.stride,
            .output_stride = matmul.output.stride,
            .storage = kDType<T>,
            .output = kDType<Out>,
            .accumulate = matmul.accumulate,
            .bias = matmul.bias.size > 0};
  }

  const OwnStream own_stream_, own_stream_aside_;
  const Stream stream_, stream_aside_;
  Event ready_, made_;  // what a product aside waits for, and the newest product aside
  bool is_awaited_ = true;
  Overlap overlap_ = Overlap::products_aside;
  const Kernels<T>& kernels_;
  MatmulLibrary library_;
  LaunchMode mode_ = LaunchMode::run;
};

}  // namespace draftsmith
