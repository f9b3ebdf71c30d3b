// Attention on a GPU for checks and benchmarks that need nothing but a driver: who sees what, operands in
// device memory with guard columns, and one forward and backward call.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "kernels/cuda/attention.h"

namespace draftsmith::test {

inline void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

// Device memory that starts as NaN (every byte 0xff).
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::int64_t size) : size_(size) {
    require(cudaMalloc(&data_, bytes()), "allocating");
    poison();
  }
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  std::size_t bytes() const { return static_cast<std::size_t>(size_) * sizeof(T); }
  void poison() const { require(cudaMemset(data_, 0xff, bytes()), "poisoning"); }
  void upload(const std::vector<T>& values) const {
    require(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "uploading");
  }
  std::vector<T> download() const {
    std::vector<T> values(static_cast<std::size_t>(size_));
    require(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), "downloading");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::int64_t size_ = 0;
};

// Normal numbers from a hash of (seed, index).
__global__ void fill_normal_kernel(bf16* data, std::int64_t size, std::uint32_t seed, float deviation) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= size) return;
  std::uint64_t x = (static_cast<std::uint64_t>(seed) << 40) + static_cast<std::uint64_t>(i);
  const auto mix = [](std::uint64_t z) {
    z = (z + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  };
  x = mix(mix(x));
  const float u = (static_cast<float>(x >> 40) + 0.5f) * 0x1p-24f,
              v = static_cast<float>(x & 0xffffff) * 0x1p-24f;
  data[i] = bf16(deviation * sqrtf(-2 * logf(u)) * cospif(2 * v));
}

// A matrix with `gap` guard columns after each row.
struct DeviceMatrix {
  DeviceArray<bf16> memory;
  std::int64_t rows = 0, columns = 0, stride = 0;

  DeviceMatrix() = default;
  DeviceMatrix(std::int64_t rows, std::int64_t columns, std::int64_t gap)
      : memory(std::max<std::int64_t>(1, rows) * (columns + gap)),
        rows(rows),
        columns(columns),
        stride(columns + gap) {}
  void fill_normal(std::uint32_t seed, float deviation = 1) const {
    fill_normal_kernel<<<static_cast<unsigned>((memory.size() + 255) / 256), 256>>>(
        memory.data(), memory.size(), seed, deviation);
    require(cudaGetLastError(), "filling");
  }
  Matrix<bf16> view() const { return {memory.data(), rows, columns, stride}; }
};

struct AttentionLayout {
  std::string name;
  std::int64_t query_heads, kv_heads, head_dim, block_size;
  bool causal;
  std::vector<std::int64_t> documents;
  std::vector<std::vector<std::int64_t>> anchors;  // < 0: an invalid block; of no use without blocks
  std::int64_t window = 0;                         // 0: none
};

struct Intervals {
  std::vector<std::int32_t> begin, end;
  std::int64_t context_rows = 0;
};

// The intervals of the contract: blocks as in training, or every row of every document up to itself.
inline Intervals intervals_of(const AttentionLayout& layout) {
  Intervals at;
  const auto add = [&](std::int64_t low, std::int64_t high, bool valid) {
    const std::int64_t begin = std::min(std::max<std::int64_t>(0, low), std::max<std::int64_t>(0, high));
    at.begin.push_back(static_cast<std::int32_t>(at.context_rows + begin));
    at.end.push_back(static_cast<std::int32_t>(valid ? at.context_rows + high : -1));
  };
  for (std::size_t document = 0; document < layout.documents.size(); ++document) {
    if (layout.block_size == 0) {
      for (std::int64_t row = 0; row < layout.documents[document]; ++row) {
        add(layout.window > 0 ? row - (layout.window - 1) : 0, row + 1, true);
      }
    } else {
      for (const std::int64_t anchor : layout.anchors[document]) {
        for (std::int64_t offset = 0; offset < layout.block_size; ++offset) {
          add(layout.window > 0 ? anchor + offset - (layout.window - 1) : 0, anchor, anchor >= 0);
        }
      }
    }
    at.context_rows += layout.documents[document];
  }
  return at;
}

// Sorted anchors without repetition, as trainers draw them.
inline std::vector<std::int64_t> random_anchors(std::int64_t sequence, std::int64_t count,
                                                std::uint32_t seed) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(sequence));
  for (std::int64_t i = 0; i < sequence; ++i) all[static_cast<std::size_t>(i)] = i;
  std::mt19937 random(seed);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(static_cast<std::size_t>(count));
  std::sort(all.begin(), all.end());
  return all;
}

// Operands, results, plan and scratch of one layout.
struct AttentionRun {
  AttentionShape shape;
  Intervals at;
  cuda::AttentionPath path;
  DeviceArray<std::int32_t> begin, end;
  DeviceMatrix query, context_key, context_value, block_key, block_value, grad_output;
  DeviceMatrix output, grad_query, grad_context_key, grad_context_value, grad_block_key, grad_block_value;
  DeviceArray<float> log_sum_exp;
  DeviceArray<std::byte> plan_memory, scratch_memory;
  cuda::AttentionPlan plan;
  cuda::AttentionGradientScratch scratch;

  AttentionRun(const AttentionLayout& layout, cuda::AttentionPath path, std::int64_t gap,
               std::int64_t score_bytes)
      : shape{.query_heads = layout.query_heads,
              .kv_heads = layout.kv_heads,
              .head_dim = layout.head_dim,
              .block_size = layout.block_size,
              .causal_in_block = layout.causal,
              .scale = 1 / std::sqrt(static_cast<float>(layout.head_dim))},
        at(intervals_of(layout)),
        path(path),
        begin(rows()),
        end(rows()) {
    begin.upload(at.begin);
    end.upload(at.end);
    const std::int64_t width = shape.query_heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
    const std::int64_t block_rows = shape.block_size > 0 ? rows() : 0;
    query = DeviceMatrix(rows(), width, gap);
    grad_output = DeviceMatrix(rows(), width, 2 * gap);
    context_key = DeviceMatrix(at.context_rows, kv_width, 3 * gap);
    context_value = DeviceMatrix(at.context_rows, kv_width, gap);
    block_key = DeviceMatrix(block_rows, kv_width, gap);
    block_value = DeviceMatrix(block_rows, kv_width, 2 * gap);
    std::uint32_t seed = 1;
    for (const DeviceMatrix* matrix :
         {&query, &grad_output, &context_key, &context_value, &block_key, &block_value}) {
      matrix->fill_normal(seed++);
    }
    output = DeviceMatrix(rows(), width, gap);
    grad_query = DeviceMatrix(rows(), width, gap);
    grad_context_key = DeviceMatrix(at.context_rows, kv_width, gap);
    grad_context_value = DeviceMatrix(at.context_rows, kv_width, 2 * gap);
    grad_block_key = DeviceMatrix(block_rows, kv_width, gap);
    grad_block_value = DeviceMatrix(block_rows, kv_width, gap);
    log_sum_exp = DeviceArray<float>(rows() * shape.query_heads);
    const AttentionBudget budget{shape, rows(), at.context_rows};
    Carver measure;
    carve_attention_plan(measure, budget, path);
    plan_memory = DeviceArray<std::byte>(measure.peak());
    Carver carver(plan_memory.data(), measure.peak());
    plan = carve_attention_plan(carver, budget, path);
    Carver measure_scratch;
    carve_attention_gradient_scratch(measure_scratch, plan, score_bytes);
    scratch_memory = DeviceArray<std::byte>(measure_scratch.peak());
    Carver scratch_carver(scratch_memory.data(), measure_scratch.peak());
    scratch = carve_attention_gradient_scratch(scratch_carver, plan, score_bytes);
  }

  std::int64_t rows() const { return static_cast<std::int64_t>(at.begin.size()); }
  ContextIntervals intervals() const { return {{begin.data(), rows()}, {end.data(), rows()}}; }
  Matrix<float> sums() const { return {log_sum_exp.data(), rows(), shape.query_heads, shape.query_heads}; }
  std::vector<const DeviceMatrix*> results() const {
    return {&output, &grad_query, &grad_context_key, &grad_context_value, &grad_block_key, &grad_block_value};
  }

  void poison() const {
    for (const DeviceMatrix* matrix : results()) matrix->memory.poison();
    log_sum_exp.poison();
    plan_memory.poison();
    scratch_memory.poison();
  }
  void fill_plan() const { cuda::fill_attention_plan(plan, intervals(), nullptr); }
  AttentionForward<bf16> forward_arguments() const {
    return {.shape = shape,
            .intervals = intervals(),
            .query = query.view(),
            .context_key = context_key.view(),
            .context_value = context_value.view(),
            .block_key = block_key.view(),
            .block_value = block_value.view(),
            .output = output.view(),
            .log_sum_exp = sums()};
  }
  AttentionBackward<bf16> backward_arguments() const {
    return {.shape = shape,
            .intervals = intervals(),
            .query = query.view(),
            .context_key = context_key.view(),
            .context_value = context_value.view(),
            .block_key = block_key.view(),
            .block_value = block_value.view(),
            .output = output.view(),
            .log_sum_exp = sums(),
            .grad_output = grad_output.view(),
            .grad_query = grad_query.view(),
            .grad_context_key = grad_context_key.view(),
            .grad_context_value = grad_context_value.view(),
            .grad_block_key = grad_block_key.view(),
            .grad_block_value = grad_block_value.view()};
  }
  void forward() const { cuda::launch_attention_forward(forward_arguments(), plan, nullptr); }
  void backward() const { cuda::launch_attention_backward(backward_arguments(), plan, scratch, nullptr); }
};

}  // namespace draftsmith::test
