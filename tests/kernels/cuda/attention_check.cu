// Proves the CUDA attention against its formula, on a machine that needs nothing but a driver:
//   attention_check [quick | run]
// quick leaves out the larger layouts and the repetitions; run computes the small layouts and compares nothing,
// for compute-sanitizer. Exit code 1 when a check fails.
#include "tests/kernels/cuda/attention_invariants.cuh"
#include "tests/kernels/cuda/attention_reference.cuh"

namespace draftsmith::test {
namespace {

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
      {"invalid beside valid", 2, 2, 128, 8, false, {300}, {{50, -1, 100, -1, 200, 290, -1, -1}}},
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

const AttentionLayout& named(const std::vector<AttentionLayout>& all, const char* name) {
  return *std::find_if(all.begin(), all.end(),
                       [&](const AttentionLayout& layout) { return layout.name == name; });
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
    check_leaks(named(all, "anchors at edges"), path, 128);
    check_leaks(named(all, "anchors at edges"), path, 127);
    check_leaks(named(all, "two documents"), path, 40);
    check_leaks(named(all, "window 64"), path, 200);
    check_leaks(named(all, "invalid beside valid"), path, 60);
    check_bits(named(all, "two documents"), path, quick ? 2 : 10);
    check_extremes(named(all, "two documents"), path);
    check_forward_only(named(all, "two documents"), path);
    const AttentionLayout other{"", 8,     2,         128,
                                16, false, {70, 333}, {random_anchors(60, 21, 4), random_anchors(300, 8, 5)}};
    check_graph(named(all, "two documents"), other, path);
    if (!quick) check_bits(large_layout(), path, 20);
  }
  if (capability == 90) {
    check_grids(named(all, "two documents"));
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
