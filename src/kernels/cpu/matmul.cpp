// Products by oneDNN. A transposed operand is a matrix whose strides are swapped, so every form and every row
// stride is one memory description. The same thread count gives the same bits.
// oneDNN has fast bf16 products only on CPUs with AVX-512 (fastest with its bf16 instructions); elsewhere it
// offers a reference loop, hundreds of times slower, which is refused. There is nothing to choose: its version,
// the instruction set and the thread count decide.
#include "kernels/cpu/matmul.h"

#include <array>

#include <fmt/core.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/heap.h"
#include "kernels/cpu/operations.h"

namespace draftsmith::cpu {

namespace {

// The library splits by OpenMP's thread count; it must be the device's both when preparing and running.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const int before_;
};

dnnl::memory::data_type data_type(DType type) {
  return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

struct Descriptions {
  dnnl::memory::desc left, right, bias, output;
};

Descriptions describe(const MatmulShape& shape) {
  using Description = dnnl::memory::desc;
  using Strides = dnnl::memory::dims;
  const auto storage = data_type(shape.storage);
  const bool left_transposed = shape.form == MatmulForm::tn;
  const bool right_transposed = shape.form == MatmulForm::nt;
  return {
      .left = Description({shape.rows, shape.depth}, storage,
                          left_transposed ? Strides{1, shape.left_stride} : Strides{shape.left_stride, 1}),
      .right =
          Description({shape.depth, shape.columns}, storage,
                      right_transposed ? Strides{1, shape.right_stride} : Strides{shape.right_stride, 1}),
      .bias =
          shape.bias ? Description({1, shape.columns}, storage, Strides{shape.columns, 1}) : Description(),
      .output =
          Description({shape.rows, shape.columns}, data_type(shape.output), Strides{shape.output_stride, 1})};
}

class LibraryMatmul : public CpuMatmul {
 public:
  LibraryMatmul(const Device& device, const MatmulShape& wanted)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    shape = wanted;
    const ThreadCount threads(device.threads);
    const Descriptions descriptions = describe(shape);
    const dnnl::matmul::primitive_desc plan(
        shape.bias ? dnnl::matmul::desc(descriptions.left, descriptions.right, descriptions.bias,
                                        descriptions.output)
                   : dnnl::matmul::desc(descriptions.left, descriptions.right, descriptions.output),
        attributes(), engine_);
    algorithm = choice = plan.impl_info_str();
    if (algorithm.starts_with("ref")) {
      throw Error(fmt::format(
          "the product {} needs a fast kernel; oneDNN offers only its reference loop on this CPU. "
          "Products of bf16 need AVX-512: set train.compute: float32",
          shape.text()));
    }
    scratch_bytes = static_cast<std::int64_t>(plan.scratchpad_desc().get_size());
    primitive_ = dnnl::matmul(plan);
    left_ = dnnl::memory(descriptions.left, engine_, nullptr);
    right_ = dnnl::memory(descriptions.right, engine_, nullptr);
    output_ = dnnl::memory(descriptions.output, engine_, nullptr);
    scratch_ = dnnl::memory(plan.scratchpad_desc(), engine_, nullptr);
    if (shape.bias) bias_ = dnnl::memory(descriptions.bias, engine_, nullptr);
  }

  void run(const Stream& stream, const MatmulOperands& operands) const override {
    const LibraryCall call;
    const ThreadCount threads(stream.device->threads);
    std::array<dnnl_exec_arg_t, 5> arguments;
    int count = 0;
    const auto pass = [&](int role, const dnnl::memory& memory, const void* data) {
      check(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)));
      arguments[static_cast<std::size_t>(count++)] = {role, memory.get()};
    };
    pass(DNNL_ARG_SRC, left_, operands.left);
    pass(DNNL_ARG_WEIGHTS, right_, operands.right);
    pass(DNNL_ARG_DST, output_, operands.output);
    if (scratch_bytes > 0) pass(DNNL_ARG_SCRATCHPAD, scratch_, operands.scratch);
    if (shape.bias) pass(DNNL_ARG_BIAS, bias_, operands.bias);
    check(dnnl_primitive_execute(primitive_.get(), stream_.get(), count, arguments.data()));
  }

 private:
  dnnl::primitive_attr attributes() const {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape.accumulate) {
      dnnl::post_ops added;
      added.append_sum();
      attributes.set_post_ops(added);
    }
    return attributes;
  }

  static void check(dnnl_status_t status) {
    DRAFTSMITH_CHECK(status == dnnl_success, "a prepared product runs");
  }

  // Constant after construction, but for the data handles, which each run sets.
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  dnnl::memory left_, right_, bias_, output_, scratch_;
};

// What oneDNN uses of this CPU, under its own name.
std::string instruction_set() {
  using Set = dnnl::cpu_isa;
  switch (dnnl::get_effective_cpu_isa()) {
    case Set::sse41:
      return "sse41";
    case Set::avx:
      return "avx";
    case Set::avx2:
      return "avx2";
    case Set::avx2_vnni:
      return "avx2_vnni";
    case Set::avx512_core:
      return "avx512_core";
    case Set::avx512_core_vnni:
      return "avx512_core_vnni";
    case Set::avx512_core_bf16:
      return "avx512_core_bf16";
    case Set::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return fmt::format("{:#x}", static_cast<int>(dnnl::get_effective_cpu_isa()));
  }
}

}  // namespace

std::unique_ptr<PreparedMatmul> prepare_matmul(const Device& device, const MatmulShape& shape,
                                               const std::string&) {
  DRAFTSMITH_CHECK(shape.rows > 0 && shape.columns > 0 && shape.depth > 0, "a product has entries and terms");
  DRAFTSMITH_CHECK(!shape.bias || shape.form == MatmulForm::nt, "only the nt form has a bias");
  if (shape.form == MatmulForm::nt && shape.rows <= kFewRows) return prepare_few_rows(shape);
  try {
    return std::make_unique<LibraryMatmul>(device, shape);
  } catch (const dnnl::error& error) {
    throw Error(
        fmt::format("oneDNN cannot prepare the product {}: {}. Products of bf16 need AVX-512: set "
                    "train.compute: float32",
                    shape.text(), error.message));
  }
}

DeviceFacts product_facts(const Device& device) {
  const dnnl_version_t& version = *dnnl_version();
  return {{"device", "CPU"},
          {"oneDNN", fmt::format("{}.{}.{}", version.major, version.minor, version.patch)},
          {"instruction set", instruction_set()},
          {"threads", fmt::format("{}", device.threads)}};
}

void run_matmul(const Stream& stream, const PreparedMatmul& prepared, const MatmulOperands& operands) {
  static_cast<const CpuMatmul&>(prepared).run(stream, operands);
}

}  // namespace draftsmith::cpu
