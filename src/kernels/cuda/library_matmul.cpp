// Products by cuBLASLt, which thinks column-major: output^T = right'^T left'^T, so its first operand is our
// right one. Sums are in fp32, also of floats (no TF32). Among the algorithms that the library proposes, the
// fastest is chosen by measuring; those that split the depth are taken only if they add the parts in a fixed
// order, and those that give other bits in a second run are left out, whatever the reason.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include <fmt/core.h>

#include "base/arithmetic.h"
#include "base/heap.h"
#include "device/cuda/handle.h"
#include "device/memory.h"
#include "device/stream.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/tuning.h"
#include "kernels/tuning_cache.h"

namespace draftsmith::cuda {

namespace {

constexpr std::int64_t kScratchAlignment = 256;  // the library demands it
constexpr std::int64_t kMaxScratchBytes = kLibraryScratchBytes - kScratchAlignment;
constexpr int kCandidates = 16;
constexpr std::size_t kFinalists = 4;  // measured again; the shortest time of each counts
constexpr int kFinalRounds = 3;
// Of products that take a millisecond and more fewer are measured, and less often: they are timed well at once.
constexpr double kLargeMs = 1;
constexpr std::size_t kLargeCandidates = 10;
constexpr int kLargeRounds = 1;

cudaDataType_t data_type(DType type) { return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }
std::int64_t bytes_of(DType type) { return type == DType::bf16 ? 2 : 4; }

std::int64_t left_elements(const MatmulShape& shape) {
  return (shape.form == MatmulForm::tn ? shape.depth : shape.rows) * shape.left_stride;
}
std::int64_t right_elements(const MatmulShape& shape) {
  return (shape.form == MatmulForm::nt ? shape.columns : shape.depth) * shape.right_stride;
}

CublasLtHandle<cublasLtMatrixLayoutOpaque_t> make_layout(DType type, std::int64_t rows, std::int64_t columns,
                                                         std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublaslt().layout_create(&layout, data_type(type), static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), stride),
        "describing a matrix");
  return CublasLtHandle<cublasLtMatrixLayoutOpaque_t>(layout);
}

CublasLtHandle<cublasLtMatmulDescOpaque_t> make_desc(const MatmulShape& shape) {
  cublasLtMatmulDesc_t desc = nullptr;
  check(cublaslt().desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  CublasLtHandle<cublasLtMatmulDescOpaque_t> owned(desc);
  const cublasOperation_t first = shape.form == MatmulForm::nt ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = shape.form == MatmulForm::tn ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublaslt().desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first), "describing a product");
  check(cublaslt().desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
        "describing a product");
  if (shape.bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    check(cublaslt().desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
          "adding a bias");
  }
  return owned;
}

CublasLtHandle<cublasLtMatmulPreferenceOpaque_t> make_preference() {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublaslt().preference_create(&preference), "asking for algorithms");
  CublasLtHandle<cublasLtMatmulPreferenceOpaque_t> owned(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublaslt().preference_set(preference, attribute, &value, sizeof value), "asking for algorithms");
  };
  const std::uint32_t alignment = 16;  // what views of the arena have
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(kMaxScratchBytes));
  // Parts of a split depth go to scratch in fp32 and are added by a step of their own, in order.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  return owned;
}

// What runs of one product share.
struct Plan {
  Plan(const Device& device, const MatmulShape& shape)
      : handle(handle_of(device)),
        desc(make_desc(shape)),
        first(shape.form == MatmulForm::nt
                  ? make_layout(shape.storage, shape.depth, shape.columns, shape.right_stride)
                  : make_layout(shape.storage, shape.columns, shape.depth, shape.right_stride)),
        second(shape.form == MatmulForm::tn
                   ? make_layout(shape.storage, shape.rows, shape.depth, shape.left_stride)
                   : make_layout(shape.storage, shape.depth, shape.rows, shape.left_stride)),
        output(make_layout(shape.output, shape.columns, shape.rows, shape.output_stride)),
        beta(shape.accumulate ? 1.0f : 0.0f),
        bias(shape.bias) {}

  cublasStatus_t run(const Stream& stream, const MatmulOperands& operands, const Algorithm& algorithm) const {
    if (bias) {
      const void* pointer = operands.bias;
      check(cublaslt().desc_set(desc.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer),
            "naming a bias");
    }
    const float alpha = 1;
    return cublaslt().matmul(handle, desc.get(), &alpha, operands.right, first.get(), operands.left,
                             second.get(), &beta, operands.output, output.get(), operands.output,
                             output.get(), &algorithm.description, operands.scratch,
                             static_cast<std::size_t>(algorithm.scratch_bytes), native(stream));
  }

  cublasLtHandle_t handle;  // the device's
  CublasLtHandle<cublasLtMatmulDescOpaque_t> desc;
  CublasLtHandle<cublasLtMatrixLayoutOpaque_t> first, second, output;
  float beta;
  bool bias;
};

bool still_runs(const Plan& plan, const Algorithm& algorithm) {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublaslt().algo_check(plan.handle, plan.desc.get(), plan.first.get(), plan.second.get(),
                            plan.output.get(), plan.output.get(), &algorithm.description, &result);
  return status == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<std::size_t>(algorithm.scratch_bytes);
}

std::vector<Algorithm> propose(const Plan& plan) {
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int count = 0;
  const cublasStatus_t status = cublaslt().heuristic(
      plan.handle, plan.desc.get(), plan.first.get(), plan.second.get(), plan.output.get(), plan.output.get(),
      make_preference().get(), kCandidates, results.data(), &count);
  std::vector<Algorithm> algorithms;
  if (status != CUBLAS_STATUS_SUCCESS) return algorithms;
  for (int i = 0; i < count; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    algorithms.push_back({result.algo, static_cast<std::int64_t>(result.workspaceSize)});
  }
  return algorithms;
}

// Operands for measuring, freed when the choice is made.
class Trial {
 public:
  Trial(const Device& device, const MatmulShape& shape, const Plan& plan)
      : stream_{.device = &device},
        plan_(plan),
        left_(Buffer::on_device(device, left_elements(shape) * bytes_of(shape.storage))),
        right_(Buffer::on_device(device, right_elements(shape) * bytes_of(shape.storage))),
        bias_(Buffer::on_device(device, shape.columns * bytes_of(shape.storage))),
        output_(Buffer::on_device(device, shape.rows * shape.output_stride * bytes_of(shape.output))),
        scratch_(Buffer::on_device(device, kMaxScratchBytes)),
        digests_(Buffer::on_device(device, 2 * sizeof(std::uint64_t))),
        begin_(device),
        end_(device) {
    fill_random(stream_, shape.storage, left_.data(), left_elements(shape), 1);
    fill_random(stream_, shape.storage, right_.data(), right_elements(shape), 2);
    fill_random(stream_, shape.storage, bias_.data(), shape.columns, 3);
  }

  // Whether it runs; loads its kernel.
  bool runs(const Algorithm& algorithm) {
    return plan_.run(stream_, operands(), algorithm) == CUBLAS_STATUS_SUCCESS;
  }

  // Whether two runs agree.
  bool repeats(const Algorithm& algorithm) {
    auto* digests = reinterpret_cast<std::uint64_t*>(digests_.data());
    for (int run = 0; run < 2; ++run) {
      fill_bytes(stream_, output_.data(), 0, output_.bytes());
      if (plan_.run(stream_, operands(), algorithm) != CUBLAS_STATUS_SUCCESS) return false;
      digest_bytes(stream_, output_.data(), output_.bytes(), digests + run);
    }
    std::uint64_t found[2];
    copy_bytes(stream_, found, digests, sizeof found);
    synchronize(stream_);
    return found[0] == found[1];
  }

  double time_ms(const Algorithm& algorithm) {
    begin_.record(stream_);
    check(plan_.run(stream_, operands(), algorithm), "measuring a product");
    end_.record(stream_);
    end_.synchronize();
    return Event::elapsed_ms(begin_, end_);
  }

 private:
  MatmulOperands operands() const {
    return {.left = left_.data(),
            .right = right_.data(),
            .bias = bias_.data(),
            .output = output_.data(),
            .scratch = scratch_.data()};
  }

  Stream stream_;
  const Plan& plan_;
  Buffer left_, right_, bias_, output_, scratch_, digests_;
  Event begin_, end_;
};

struct Measured {
  Algorithm algorithm;
  double ms;
};

// Every candidate is measured once, the fastest few again; the fastest whose bits repeat is taken.
Algorithm choose(const Device& device, const MatmulShape& shape, const Plan& plan) {
  Trial trial(device, shape, plan);
  std::vector<Measured> candidates;
  double fastest = std::numeric_limits<double>::infinity();
  for (const Algorithm& algorithm : propose(plan)) {
    if (candidates.size() >= kLargeCandidates && fastest >= kLargeMs) break;
    if (trial.runs(algorithm)) candidates.push_back({algorithm, trial.time_ms(algorithm)});
    if (!candidates.empty()) fastest = std::min(fastest, candidates.back().ms);
  }
  const auto sort = [](auto begin, auto end) {
    std::stable_sort(begin, end, [](const Measured& a, const Measured& b) { return a.ms < b.ms; });
  };
  sort(candidates.begin(), candidates.end());
  const auto finalists =
      candidates.begin() + static_cast<std::ptrdiff_t>(std::min(kFinalists, candidates.size()));
  for (int round = 0; round < (fastest < kLargeMs ? kFinalRounds : kLargeRounds); ++round) {
    for (auto one = candidates.begin(); one != finalists; ++one) {
      one->ms = std::min(one->ms, trial.time_ms(one->algorithm));
    }
  }
  sort(candidates.begin(), finalists);
  for (const Measured& one : candidates) {
    if (trial.repeats(one.algorithm)) return one.algorithm;
  }
  throw Error(fmt::format("cuBLASLt offers no algorithm for the product {} that gives the same bits twice",
                          shape.text()));
}

std::string describe(const Algorithm& algorithm) {
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    std::int32_t value = 0;
    std::size_t written = 0;
    cublaslt().algo_get(&algorithm.description, attribute, &value, sizeof value, &written);
    return value;
  };
  return fmt::format("cuBLASLt {}: algorithm {}, tile {}, stages {}, split {}", cublaslt().version(),
                     get(CUBLASLT_ALGO_CONFIG_ID), get(CUBLASLT_ALGO_CONFIG_TILE_ID),
                     get(CUBLASLT_ALGO_CONFIG_STAGES_ID), get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

// The library refuses scratch that does not begin on 256 bytes; an arena's views begin on 64.
void* aligned_scratch(void* scratch) {
  const auto place = reinterpret_cast<std::intptr_t>(scratch);
  return reinterpret_cast<void*>(round_up(std::int64_t{place}, kScratchAlignment));
}

bool on_sixteen_bytes(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

class LibraryMatmul : public CudaMatmul {
 public:
  LibraryMatmul(const Device& device, const MatmulShape& wanted, const std::string& chosen)
      : plan_(device, wanted) {
    shape = wanted;
    const TuningCache cache(device, product_facts(device));
    if (!take(chosen) && !take(cache.find(shape.key()).value_or(""))) {
      algorithm_ = choose(device, shape, plan_);
      cache.keep(shape.key(), choice_text(algorithm_));
    }
    scratch_bytes = kLibraryScratchBytes;
    algorithm = describe(algorithm_);
    choice = choice_text(algorithm_);
  }

  void run(const Stream& stream, const MatmulOperands& operands) const override {
    DRAFTSMITH_CHECK(on_sixteen_bytes(operands.left) && on_sixteen_bytes(operands.right) &&
                         on_sixteen_bytes(operands.output),
                     "the operands of a product begin on 16 bytes");
    MatmulOperands placed = operands;
    placed.scratch = aligned_scratch(operands.scratch);
    const LibraryCall call;
    const cublasStatus_t status = plan_.run(stream, placed, algorithm_);
    if (status != CUBLAS_STATUS_SUCCESS) check(status, ("the product " + shape.text()).c_str());
  }

 private:
  bool take(const std::string& text) {
    const auto read = read_choice(text);
    if (!read || read->scratch_bytes > kMaxScratchBytes || !still_runs(plan_, *read)) return false;
    algorithm_ = *read;
    return true;
  }

  Plan plan_;
  Algorithm algorithm_;
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_library(const Device& device, const MatmulShape& shape,
                                            const std::string& choice) {
  check(cudaSetDevice(device.name.index), "choosing a GPU");
  return std::make_unique<LibraryMatmul>(device, shape, choice);
}

}  // namespace draftsmith::cuda
