// Proves the CUDA attention against its formula, on a machine that needs nothing but a driver:
//   attention_check [quick | run]
// quick leaves out the larger layouts and the repetitions; run computes the small layouts and compares nothing,
// for compute-sanitizer. Exit code 1 when a check fails.
#include <cmath>
#include <cstdio>

#include "kernels/attention_plan.h"
#include "tests/kernels/cuda/attention_reference.cuh"

namespace draftsmith::test {
namespace {

int failures = 0;
void expect(bool holds, const std::string& name, const char* what) {
  if (holds) return;
  ++failures;
  std::printf("FAILED %s: %s\n", name.c_str(), what);
}

const char* text(cuda::AttentionPath path) {
  return path == cuda::AttentionPath::hopper ? "hopper" : "portable";
}

std::vector<std::uint16_t> bits(const DeviceMatrix& matrix) {
  const std::vector<bf16> values = matrix.memory.download();
  std::vector<std::uint16_t> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i].bits;
  return out;
}

// Everything that a forward and backward call wrote.
std::vector<std::vector<std::uint16_t>> result_bits(const AttentionRun& run) {
  std::vector<std::vector<std::uint16_t>> all;
  for (const DeviceMatrix* matrix : run.results()) all.push_back(bits(*matrix));
  return all;
}

void compute(const AttentionRun& run) {
  run.poison();
  run.fill_plan();
  run.forward();
  run.backward();
  require(cudaDeviceSynchronize(), "attention");
}

// |found - expected| / |expected| over a matrix whose dense form starts at `expected`; NaN is infinite.
double relative_error(const DeviceMatrix& found, const double* expected) {
  const std::vector<bf16> values = found.memory.download();
  double error = 0, size = 0;
  for (std::int64_t row = 0; row < found.rows; ++row) {
    for (std::int64_t column = 0; column < found.columns; ++column) {
      const double value = static_cast<float>(values[static_cast<std::size_t>(row * found.stride + column)]);
      const double wanted = expected[row * found.columns + column];
      if (!std::isfinite(value)) return INFINITY;
      error += (value - wanted) * (value - wanted);
      size += wanted * wanted;
    }
  }
  return size > 0 ? std::sqrt(error / size) : std::sqrt(error);
}
double rounded_error(const std::vector<double>& rounded, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double stored = static_cast<float>(bf16(static_cast<float>(rounded[i])));
    error += (stored - expected[i]) * (stored - expected[i]);
    size += expected[i] * expected[i];
  }
  return size > 0 ? std::sqrt(error / size) : std::sqrt(error);
}

void expect_guards(const AttentionRun& run, const std::string& name) {
  for (const DeviceMatrix* matrix : run.results()) {
    const std::vector<std::uint16_t> all = bits(*matrix);
    bool intact = true;
    for (std::int64_t row = 0; row < matrix->rows; ++row) {
      for (std::int64_t column = matrix->columns; column < matrix->stride; ++column) {
        intact = intact && all[static_cast<std::size_t>(row * matrix->stride + column)] == 0xffff;
      }
    }
    expect(intact, name, "guard columns are intact");
  }
}

template <typename T>
std::vector<T> downloaded(const Vector<T>& view, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  require(cudaMemcpy(values.data(), view.data, static_cast<std::size_t>(count) * sizeof(T),
                     cudaMemcpyDeviceToHost),
          "downloading the plan");
  return values;
}

void expect_plan(const AttentionRun& run, const std::string& name) {
  const AttentionPlanArrays expected = build_attention_plan(
      run.plan.budget, {{run.at.begin.data(), run.rows()}, {run.at.end.data(), run.rows()}},
      run.plan.forward_tile_rows);
  const cuda::AttentionPlan& plan = run.plan;
  const PlanCounts counts = downloaded(plan.counts, 1)[0];
  expect(counts == expected.counts, name, "the device's plan has the host's counts");
  expect(downloaded(plan.tiles, plan.capacity.query_tiles) == expected.tiles, name, "tiles of the plan");
  expect(downloaded(plan.forward_order, plan.capacity.forward_tiles) == expected.forward_order, name,
         "forward order");
  expect(downloaded(plan.groups, plan.capacity.groups) == expected.groups, name, "groups of the plan");
  expect(downloaded(plan.group_order, plan.capacity.groups) == expected.group_order, name,
         "order of the groups");
  expect(downloaded(plan.items, counts.key_items) == expected.items, name, "key items of the plan");
  expect(downloaded(plan.splits, counts.splits) == expected.splits, name, "split tiles of the plan");
}

// A result may be as far from the formula as twice the rounding of p, ds and the result itself.
void check_formula(const AttentionLayout& layout, cuda::AttentionPath path) {
  const std::string name = layout.name + " " + text(path);
  const AttentionRun run(layout, path, 8, std::int64_t{1} << 40);
  compute(run);
  expect_plan(run, name);
  expect_guards(run, name);
  const ReferenceResult exact = attention_reference(run, false), rounded = attention_reference(run, true);
  const std::size_t own =
      static_cast<std::size_t>(run.at.context_rows * run.shape.kv_heads * run.shape.head_dim);
  const auto part = [&](const std::vector<double>& all, bool of_block) {
    return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(of_block ? own : 0),
                               of_block ? all.end() : all.begin() + static_cast<std::ptrdiff_t>(own));
  };
  std::printf("%-28s", name.c_str());
  const auto compare = [&](const char* what, const DeviceMatrix& found, const std::vector<double>& expected,
                           const std::vector<double>& tolerated) {
    if (found.rows == 0) return;
    const double error = relative_error(found, expected.data()), unit = rounded_error(tolerated, expected);
    std::printf(" %s %.1e/%.1e", what, error, unit);
    expect(error <= 2 * unit, name, what);
  };
  compare("o", run.output, exact.output, rounded.output);
  compare("dq", run.grad_query, exact.grad_query, rounded.grad_query);
  compare("dk", run.grad_context_key, part(exact.grad_key, false), part(rounded.grad_key, false));
  compare("dv", run.grad_context_value, part(exact.grad_value, false), part(rounded.grad_value, false));
  compare("own dk", run.grad_block_key, part(exact.grad_key, true), part(rounded.grad_key, true));
  compare("own dv", run.grad_block_value, part(exact.grad_value, true), part(rounded.grad_value, true));
  std::printf("\n");
}

// Another value of one context row changes exactly what the rows that see it receive.
void check_leaks(const AttentionLayout& layout, cuda::AttentionPath path, std::int64_t changed) {
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
void check_bits(const AttentionLayout& layout, cuda::AttentionPath path, int repetitions) {
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
void check_grids(const AttentionLayout& layout) {
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
void check_graph(const AttentionLayout& captured, const AttentionLayout& replayed, cuda::AttentionPath path) {
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
void check_forward_only(const AttentionLayout& layout, cuda::AttentionPath path) {
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
void check_extremes(const AttentionLayout& layout, cuda::AttentionPath path) {
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

std::vector<AttentionLayout> layouts() {
  return {
      {"one-token documents",
       4,
       1,
       128,
       16,
       false,
       {1, 5, 130, 1},
       {{0}, {0, 4, -1}, {1, 127, 128, 129}, {}}},
      {"anchors at edges",
       8,
       2,
       128,
       16,
       false,
       {500},
       {{0, 1, 127, 128, 129, 255, 256, 257, 383, 498, -1, -1}}},
      {"equal neighbours", 4, 1, 64, 8, true, {300}, {{100, 100, 100, 100, 101, 101, 128, 128, 299}}},
      {"two documents",
       8,
       2,
       128,
       16,
       false,
       {333, 70},
       {random_anchors(317, 20, 1), random_anchors(60, 9, 2)}},
      {"block 2", 4, 1, 128, 2, false, {200}, {random_anchors(199, 50, 3)}},
      {"block 7", 8, 1, 128, 7, false, {257}, {random_anchors(250, 31, 4)}},
      {"block 10", 4, 2, 64, 10, true, {140, 200}, {random_anchors(130, 13, 5), random_anchors(190, 17, 6)}},
      {"block 17", 4, 4, 128, 17, false, {400}, {random_anchors(380, 23, 7)}},
      {"block 31", 2, 1, 128, 31, true, {400}, {random_anchors(380, 11, 8)}},
      {"block 32", 16, 2, 64, 32, false, {300}, {random_anchors(290, 9, 9)}},
      {"5 heads a kv head", 5, 1, 128, 16, false, {300}, {random_anchors(290, 9, 10)}},
      {"7 heads, dim 96", 7, 1, 96, 11, true, {300}, {random_anchors(290, 9, 11)}},
      {"dim 256", 4, 2, 256, 16, false, {300}, {random_anchors(290, 12, 12)}},
      {"window 1", 4, 1, 128, 8, true, {200}, {random_anchors(190, 20, 13)}, 1},
      {"window 64",
       4,
       1,
       128,
       16,
       true,
       {400, 90},
       {random_anchors(380, 20, 14), random_anchors(80, 5, 15)},
       64},
      {"window 100", 8, 2, 64, 16, false, {700}, {random_anchors(680, 30, 16)}, 100},
      {"window 4096", 4, 1, 128, 16, true, {400}, {random_anchors(380, 20, 17)}, 4096},
      {"all invalid", 4, 1, 128, 4, false, {200}, {{-1, -1, -1}}},
      {"prefill", 8, 2, 128, 0, false, {1, 75, 2, 300, 130}, {}},
      {"prefill, window", 4, 1, 64, 0, false, {300}, {}, 90},
      {"prefill, dim 256", 2, 1, 256, 0, false, {150}, {}},
  };
}

// Long enough that items are split and that every ring wraps.
AttentionLayout large_layout() {
  return {"S 1500 N 130", 8, 2, 128, 16, false, {1500}, {random_anchors(1484, 130, 18)}};
}

// Loads the kernels; the card's compute capability.
int prepare() {
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, 0), "finding a GPU");
  cuda::prepare_attention(cuda::AttentionPath::portable);
  const int capability = properties.major * 10 + properties.minor;
  if (capability == 90) cuda::prepare_attention(cuda::AttentionPath::hopper);
  return capability;
}

bool runs_on_hopper(const AttentionLayout& layout, int capability) {
  const AttentionShape shape{.query_heads = layout.query_heads,
                             .kv_heads = layout.kv_heads,
                             .head_dim = layout.head_dim,
                             .block_size = layout.block_size};
  return cuda::choose_attention_path(shape, capability) == cuda::AttentionPath::hopper;
}

int run_only() {
  const int capability = prepare();
  for (const AttentionLayout& layout : layouts()) {
    compute(AttentionRun(layout, cuda::AttentionPath::portable, 8, std::int64_t{1} << 40));
    if (runs_on_hopper(layout, capability)) {
      compute(AttentionRun(layout, cuda::AttentionPath::hopper, 8, std::int64_t{1} << 40));
    }
  }
  return 0;
}

int run_checks(bool quick) {
  const int capability = prepare();
  std::vector<AttentionLayout> all = layouts();
  if (!quick) all.push_back(large_layout());
  for (const AttentionLayout& layout : all) {
    check_formula(layout, cuda::AttentionPath::portable);
    if (runs_on_hopper(layout, capability)) {
      check_formula(layout, cuda::AttentionPath::hopper);
    }
  }
  for (const cuda::AttentionPath path : {cuda::AttentionPath::portable, cuda::AttentionPath::hopper}) {
    if (path == cuda::AttentionPath::hopper && capability != 90) continue;
    check_leaks(all[1], path, 128);
    check_leaks(all[1], path, 127);
    check_leaks(all[3], path, 40);
    check_leaks(all[14], path, 200);
    check_bits(all[3], path, quick ? 2 : 10);
    check_extremes(all[3], path);
    check_forward_only(all[3], path);
    const AttentionLayout other{"", 8,     2,         128,
                                16, false, {70, 333}, {random_anchors(60, 21, 4), random_anchors(300, 8, 5)}};
    check_graph(all[3], other, path);
    if (!quick) check_bits(large_layout(), path, 20);
  }
  if (capability == 90) {
    check_grids(all[3]);
    if (!quick) check_grids(large_layout());
  }
  std::printf(failures == 0 ? "all checks hold\n" : "%d checks failed\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace draftsmith::test

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  return mode == "run" ? draftsmith::test::run_only() : draftsmith::test::run_checks(mode == "quick");
}
