// What holds for the CUDA attention bit by bit: who depends on what, repetitions, rounds, grids, captured graphs.
#pragma once

#include <cmath>
#include <cstdio>

#include "tests/kernels/cuda/attention_case.cuh"

namespace draftsmith::test {

inline int failures = 0;
inline void expect(bool holds, const std::string& name, const char* what) {
  if (holds) return;
  ++failures;
  std::printf("FAILED %s: %s\n", name.c_str(), what);
}

inline const char* text(cuda::AttentionPath path) {
  return path == cuda::AttentionPath::hopper ? "hopper" : "portable";
}

inline std::vector<std::uint16_t> bits(const DeviceMatrix& matrix) {
  const std::vector<bf16> values = matrix.memory.download();
  std::vector<std::uint16_t> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i].bits;
  return out;
}

// Everything that a forward and backward call wrote.
inline std::vector<std::vector<std::uint16_t>> result_bits(const AttentionRun& run) {
  std::vector<std::vector<std::uint16_t>> all;
  for (const DeviceMatrix* matrix : run.results()) all.push_back(bits(*matrix));
  return all;
}

inline void compute(const AttentionRun& run) {
  run.poison();
  run.fill_plan();
  run.forward();
  run.backward();
  require(cudaDeviceSynchronize(), "attention");
}

template <typename T>
std::vector<T> downloaded(const Vector<T>& view, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  require(cudaMemcpy(values.data(), view.data, static_cast<std::size_t>(count) * sizeof(T),
                     cudaMemcpyDeviceToHost),
          "downloading the plan");
  return values;
}

// Another value of one context row changes exactly what the rows that see it receive.
inline void check_leaks(const AttentionLayout& layout, cuda::AttentionPath path, std::int64_t changed) {
  const std::string name = layout.name + " " + text(path);
  const AttentionRun run(layout, path, 8, std::int64_t{1} << 40);
  compute(run);
  const auto before = result_bits(run);
  for (const DeviceMatrix* matrix : {&run.context_key, &run.context_value}) {
    fill_normal_kernel<<<1, 256>>>(matrix->view().row(changed), std::min<std::int64_t>(256, matrix->columns),
                                   99, 1);
  }
  compute(run);
  const auto after = result_bits(run);
  std::int64_t seen = 0, leaked = 0, unmoved = 0;
  for (std::int64_t row = 0; row < run.rows(); ++row) {
    const auto index = static_cast<std::size_t>(row);
    const bool sees = run.at.begin[index] <= changed && changed < run.at.end[index];
    bool same = true;
    for (const std::size_t result : {0, 1}) {
      const std::int64_t stride = run.results()[result]->stride;
      same = same &&
             std::equal(before[result].begin() + row * stride, before[result].begin() + (row + 1) * stride,
                        after[result].begin() + row * stride);
    }
    seen += sees;
    leaked += !sees && !same;
    unmoved += sees && same;
  }
  expect(seen > 0 && seen < run.rows(), name, "the changed row is seen by some");
  expect(leaked == 0, name, "rows that do not see a key do not depend on it");
  expect(unmoved == 0, name, "rows that see a key depend on it");
  const std::int32_t last = *std::max_element(run.at.end.begin(), run.at.end.end());
  for (const std::size_t result : {2, 3}) {
    const DeviceMatrix& matrix = *run.results()[result];
    bool zero = true;
    for (std::int64_t row = last; row < matrix.rows; ++row) {
      for (std::int64_t column = 0; column < matrix.columns; ++column) {
        zero = zero && after[result][static_cast<std::size_t>(row * matrix.stride + column)] % 0x8000 == 0;
      }
    }
    expect(zero, name, "gradients of keys that nobody sees are 0");
  }
}

// The same bits from every repetition, and from every size of the ds buffer that holds at least a head.
inline void check_bits(const AttentionLayout& layout, cuda::AttentionPath path, int repetitions) {
  const std::string name = layout.name + " " + text(path);
  const AttentionRun run(layout, path, 0, std::int64_t{1} << 40);
  compute(run);
  const auto first = result_bits(run);
  for (int i = 1; i < repetitions; ++i) {
    compute(run);
    expect(result_bits(run) == first, name, "repetitions give the same bits");
  }
  if (path != cuda::AttentionPath::hopper) return;
  const PlanCounts counts = downloaded(run.plan.counts, 1)[0];
  const std::int64_t head_bytes = std::int64_t{counts.stored_slices} * kKeySliceRows * kGroupRows * 2;
  for (const std::int64_t bytes : {head_bytes, 3 * head_bytes}) {
    const AttentionRun capped(layout, path, 0, bytes);
    compute(capped);
    expect(result_bits(capped) == first, name, "rounds of kv heads give the same bits");
  }
  const AttentionRun recomputed(layout, path, 0, head_bytes / 2);
  compute(recomputed);
  auto bits = result_bits(recomputed);
  const std::vector<bf16> exact = run.grad_query.memory.download(),
                          other = recomputed.grad_query.memory.download();
  double error = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double x = static_cast<float>(exact[i]), y = static_cast<float>(other[i]);
    error += (x - y) * (x - y);
    size += x * x;
  }
  expect(std::sqrt(error) <= 0x1p-6 * std::sqrt(size), name, "recomputed query gradients agree");
  bits[1] = first[1];
  expect(bits == first, name, "key gradients do not depend on how query gradients are made");
}

// Any number of blocks of threads gives the same bits.
inline void check_grids(const AttentionLayout& layout) {
  AttentionRun run(layout, cuda::AttentionPath::hopper, 0, std::int64_t{1} << 40);
  compute(run);
  const auto first = result_bits(run);
  for (const int blocks : {1, 7, 131}) {
    run.plan.forward_blocks = blocks;
    compute(run);
    expect(result_bits(run) == first, layout.name, "the number of blocks of threads changes no bit");
  }
}

// A captured step replayed with other intervals equals a step launched with them.
inline void check_graph(const AttentionLayout& captured, const AttentionLayout& replayed,
                        cuda::AttentionPath path) {
  const AttentionRun wanted(replayed, path, 8, std::int64_t{1} << 40);
  compute(wanted);
  const AttentionRun run(captured, path, 8, std::int64_t{1} << 40);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t step;
  require(cudaStreamCreate(&stream), "a stream");
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
  cuda::fill_attention_plan(run.plan, run.intervals(), stream);
  cuda::launch_attention_forward(run.forward_arguments(), run.plan, stream);
  cuda::launch_attention_backward(run.backward_arguments(), run.plan, run.scratch, stream);
  require(cudaStreamEndCapture(stream, &graph), "capturing");
  require(cudaGraphInstantiate(&step, graph, 0), "a graph");
  run.begin.upload(wanted.at.begin);
  run.end.upload(wanted.at.end);
  for (int i = 0; i < 3; ++i) {
    run.poison();
    require(cudaGraphLaunch(step, stream), "replaying");
    require(cudaStreamSynchronize(stream), "replaying");
    expect(result_bits(run) == result_bits(wanted), captured.name, "a replayed graph serves other intervals");
  }
}

// A plan without gradients serves the same forward pass.
inline void check_forward_only(const AttentionLayout& layout, cuda::AttentionPath path) {
  AttentionRun run(layout, path, 8, std::int64_t{1} << 40);
  compute(run);
  const auto expected = bits(run.output);
  const AttentionBudget budget{run.shape, run.rows(), run.at.context_rows, false};
  Carver measure;
  cuda::carve_attention_plan(measure, budget, path);
  const DeviceArray<std::byte> memory(measure.peak());
  Carver carver(memory.data(), measure.peak());
  run.plan = cuda::carve_attention_plan(carver, budget, path);
  run.poison();
  run.fill_plan();
  run.forward();
  require(cudaDeviceSynchronize(), "attention");
  expect(bits(run.output) == expected, layout.name, "a plan without gradients serves the same forward pass");
}

// Scores far beyond what exponentials hold.
inline void check_extremes(const AttentionLayout& layout, cuda::AttentionPath path) {
  const AttentionRun run(layout, path, 8, std::int64_t{1} << 40);
  run.query.fill_normal(1, 80);
  compute(run);
  for (const DeviceMatrix* matrix : run.results()) {
    const std::vector<bf16> values = matrix->memory.download();
    bool finite = true;
    for (std::int64_t row = 0; row < matrix->rows; ++row) {
      for (std::int64_t column = 0; column < matrix->columns; ++column) {
        finite = finite && std::isfinite(static_cast<float>(
                               values[static_cast<std::size_t>(row * matrix->stride + column)]));
      }
    }
    expect(finite, layout.name, "large scores overflow nothing");
  }
}

}  // namespace draftsmith::test
