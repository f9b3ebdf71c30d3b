// Times the CUDA attention alone at the DFlash mask (32 / 8 heads, head_dim 128, blocks of 16), as the
// `attention` verb of bench/reference/dflash_torch.py does:
//   attention_bench [--portable] SEQUENCE ANCHORS [DOCUMENTS] [HEAD_DIM]
// or, with 0 anchors, a causal prefill of documents of SEQUENCE tokens.
// Useful operations count visible pairs only: 4 head_dim a pair and head forward, 10 backward. Medians of
// events; operands are larger than the L2 cache.
#include <cstdio>
#include <functional>

#include "kernels/cuda/attention_tile.cuh"
#include "tests/kernels/cuda/attention_case.cuh"

namespace draftsmith::test {
namespace {

double median_ms(const std::function<void()>& work) {
  constexpr int kWarmUp = 3, kRepetitions = 15;
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin), "an event");
  require(cudaEventCreate(&end), "an event");
  for (int i = 0; i < kWarmUp; ++i) work();
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) {
    require(cudaEventRecord(begin, nullptr), "recording");
    work();
    require(cudaEventRecord(end, nullptr), "recording");
    require(cudaEventSynchronize(end), "the work");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin, end), "timing");
    times.push_back(static_cast<double>(ms));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void bench(std::int64_t sequence, std::int64_t count, std::int64_t documents, std::int64_t head_dim,
           cuda::AttentionPath path) {
  AttentionLayout layout{"", 32, 8, head_dim, count > 0 ? 16 : 0, false, {}, {}};
  double pairs = 0;
  for (std::int64_t document = 0; document < documents; ++document) {
    layout.documents.push_back(sequence);
    if (count == 0) {
      pairs += 0.5 * static_cast<double>(sequence) * static_cast<double>(sequence + 1);
      continue;
    }
    layout.anchors.push_back(random_anchors(sequence - 16, count, static_cast<std::uint32_t>(7 + document)));
    for (const std::int64_t anchor : layout.anchors.back()) pairs += 16.0 * static_cast<double>(anchor + 16);
  }
  const AttentionRun run(layout, path, 0, std::int64_t{5} << 30);
  run.poison();
  const double plan_ms = median_ms([&] { run.fill_plan(); });
  const double forward_ms = median_ms([&] { run.forward(); });
  const double backward_ms = median_ms([&] { run.backward(); });
  const double statistics_ms = median_ms(
      [&] { cuda::launch_attention_statistics(run.backward_arguments(), run.plan, run.scratch, nullptr); });
  const double work = pairs * 4 * 32 * static_cast<double>(head_dim) / 1e9;
  std::printf(
      "{\"impl\": \"draftsmith-%s\", \"seq\": %d, \"anchors\": %d, \"documents\": %d, \"head_dim\": %d, "
      "\"plan_ms\": %.4f, \"statistics_ms\": %.4f, \"forward_ms\": %.4f, \"backward_ms\": %.4f, "
      "\"forward_tflops\": %.1f, \"backward_tflops\": %.1f}\n",
      path == cuda::AttentionPath::hopper ? "hopper" : "portable", static_cast<int>(sequence),
      static_cast<int>(count), static_cast<int>(documents), static_cast<int>(head_dim), plan_ms,
      statistics_ms, forward_ms, backward_ms, work / forward_ms, 2.5 * work / backward_ms);
}

}  // namespace
}  // namespace draftsmith::test

int main(int count, char** arguments) {
  using namespace draftsmith;
  auto path = cuda::AttentionPath::hopper;
  std::vector<std::int64_t> sizes;
  for (int i = 1; i < count; ++i) {
    if (std::string(arguments[i]) == "--portable") {
      path = cuda::AttentionPath::portable;
    } else {
      sizes.push_back(std::atoll(arguments[i]));
    }
  }
  if (sizes.size() < 2) {
    std::fprintf(stderr, "attention_bench [--portable] SEQUENCE ANCHORS [DOCUMENTS] [HEAD_DIM]\n");
    return 2;
  }
  cuda::prepare_attention(path);
  test::bench(sizes[0], sizes[1], sizes.size() > 2 ? sizes[2] : 1, sizes.size() > 3 ? sizes[3] : 128, path);
  return 0;
}
