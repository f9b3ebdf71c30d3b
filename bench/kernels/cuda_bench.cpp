// Times every CUDA kernel but attention at the shapes of Qwen3-8B's drafter: 8192 draft rows, 12,288 context
// rows, width 4096, intermediate 12,288, vocabulary 151,936, heads 32/8 x 128; mixtures of experts at those of
// Qwen3-30B-A3B: width 2048, 8 of 128 experts of intermediate 768. Prints the median of ten in
// milliseconds, GB/s or TFLOP/s, and the share of what one H200 was measured to do: 4240 GB/s for copies,
// 791 TFLOP/s for bf16 products. The bytes are the least that the operation must move.
//   cuda_bench [--device cuda:0] [--tuning-folder DIR] [--only copies|norms|ropes|activations|losses|optimizer|
//              products|experts]
#include "kernels/cuda_bench.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace draftsmith {
namespace {

constexpr std::int64_t kRows = 8192, kContext = 12288, kWidth = 4096, kIntermediate = 12288;
constexpr std::int64_t kVocabulary = 151936, kHeadDim = 128, kHeads = 32, kKvHeads = 8;
constexpr std::int64_t kChunk = 2048, kParameters = std::int64_t{1} << 28;

}  // namespace

void Bench::copies() {
  const std::int64_t mark = carver_.mark();
  const Matrix<bf16> table = matrix(kVocabulary, kWidth), rows = matrix(kRows, kWidth);
  const Matrix<bf16> large = matrix(65536, kWidth), other = matrix(65536, kWidth);
  moves("copy 65536x4096", 4 * 65536 * kWidth, CopyRows<bf16>{.input = large, .output = other});
  moves("gather 8192 rows of the embedding", 4 * kRows * kWidth,
        GatherRows<bf16>{.table = table, .index = indices(kRows, kVocabulary), .output = rows});
  const Matrix<bf16> distinct = matrix(distinct_block_rows(512), kWidth);
  moves("spread 514 rows over 8192", 2 * (kRows + 514) * kWidth,
        SpreadBlockRows<bf16>{.distinct = distinct, .block_size = 16, .output = rows});
  moves("fold 8192 rows to 514", 2 * (kRows + 514) * kWidth,
        FoldBlockRows<bf16>{.input = rows, .block_size = 16, .distinct = distinct});
  moves("fill 65536x4096 with 0", 2 * 65536 * kWidth, FillZero{bytes_of(other)});
  carver_.give_back(mark);
  fill();
}

void Bench::norms() {
  const std::int64_t mark = carver_.mark(), size = kRows * kWidth;
  const Matrix<bf16> input = matrix(kRows, kWidth), addend = matrix(kRows, kWidth),
                     sum = matrix(kRows, kWidth);
  const Matrix<bf16> output = matrix(kRows, kWidth), residual = matrix(kRows, kWidth);
  const Vector<bf16> weight = carver_.vector<bf16>(kWidth);
  const Vector<float> scale = carver_.vector<float>(kRows), grad_weight = carver_.vector<float>(kWidth);
  moves("RMSNorm 8192x4096", 4 * size,
        RmsNormForward<bf16>{.input = input, .weight = weight, .output = output, .inverse_rms = scale});
  moves("residual + RMSNorm 8192x4096", 8 * size,
        RmsNormForward<bf16>{.input = input,
                             .addend = addend,
                             .sum = sum,
                             .weight = weight,
                             .output = output,
                             .inverse_rms = scale});
  moves("gradient of residual + RMSNorm 8192x4096", 8 * size,
        RmsNormBackward<bf16>{.sum = sum,
                              .weight = weight,
                              .inverse_rms = scale,
                              .grad_output = output,
                              .grad_residual = residual,
                              .grad_sum = residual,
                              .grad_weight = grad_weight});
  carver_.give_back(mark);
}

void Bench::ropes() {
  const std::int64_t mark = carver_.mark();
  const RopeTable rope{carver_.matrix<float>(4096, kHeadDim / 2), carver_.matrix<float>(4096, kHeadDim / 2)};
  const Vector<bf16> weight = carver_.vector<bf16>(kHeadDim);
  const Vector<float> grad_weight = carver_.vector<float>(kHeadDim);
  const auto run = [&](std::int64_t rows, std::int64_t heads, const char* forward, const char* backward) {
    const Matrix<bf16> input = matrix(rows, heads * kHeadDim), output = matrix(rows, heads * kHeadDim);
    const Matrix<float> scale = carver_.matrix<float>(rows, heads);
    const Vector<std::int32_t> positions = indices(rows, 4096);
    moves(forward, 4 * rows * heads * kHeadDim,
          HeadNormRopeForward<bf16>{.input = input,
                                    .weight = weight,
                                    .positions = positions,
                                    .rope = rope,
                                    .output = output,
                                    .inverse_rms = scale,
                                    .head_dim = kHeadDim});
    moves(backward, 6 * rows * heads * kHeadDim,
          HeadNormRopeBackward<bf16>{.input = input,
                                     .weight = weight,
                                     .inverse_rms = scale,
                                     .positions = positions,
                                     .rope = rope,
                                     .grad_output = output,
                                     .grad_input = output,
                                     .grad_weight = grad_weight,
                                     .head_dim = kHeadDim});
  };
  run(kRows, kHeads, "q norm + rope 8192x32x128", "gradient of q norm + rope 8192x32x128");
  run(kContext, kKvHeads, "k norm + rope 12288x8x128", "gradient of k norm + rope 12288x8x128");
  carver_.give_back(mark);
}

void Bench::activations() {
  const std::int64_t mark = carver_.mark(), size = kRows * kIntermediate;
  const Matrix<bf16> gate_up = matrix(kRows, 2 * kIntermediate), output = matrix(kRows, kIntermediate);
  moves("SwiGLU 8192x12288", 6 * size, SwigluForward<bf16>{.gate_up = gate_up, .output = output});
  moves("gradient of SwiGLU 8192x12288, in place", 10 * size,
        SwigluBackward<bf16>{.gate_up = gate_up, .grad_output = output, .grad_gate_up = gate_up});
  carver_.give_back(mark);
  fill();
}

void Bench::losses() {
  const std::int64_t mark = carver_.mark(), size = kChunk * kVocabulary;
  const Matrix<bf16> logits = matrix(kChunk, kVocabulary);
  const Matrix<float> decoded = carver_.matrix<float>(16, kVocabulary);
  const Vector<std::int32_t> labels = indices(kChunk, kVocabulary);
  const Vector<std::int32_t> predictions = carver_.vector<std::int32_t>(kChunk);
  const Vector<float> nll = carver_.vector<float>(kChunk), normalizers = carver_.vector<float>(kChunk);
  const Vector<float> weights = carver_.vector<float>(kChunk);
  const Vector<double> sums = carver_.vector<double>(LossSums::size(16));
  std::vector<std::int32_t> blocks, offsets;
  for (std::int64_t row = 0; row < kChunk; ++row) {
    blocks.push_back(static_cast<std::int32_t>(row / 15));
    offsets.push_back(static_cast<std::int32_t>(row % 15 + 1));
  }
  moves("cross entropy 2048x151936", 2 * size,
        CrossEntropyForward<bf16>{.logits = logits,
                                  .labels = labels,
                                  .nll = nll,
                                  .log_sum_exp = normalizers,
                                  .predictions = predictions});
  moves("block loss 2048 rows", 20 * kChunk,
        BlockLoss<bf16>{.settings = {.gamma = 4},
                        .block_size = 16,
                        .labels = labels,
                        .blocks = uploaded(blocks),
                        .offsets = uploaded(offsets),
                        .nll = nll,
                        .predictions = predictions,
                        .weights = weights,
                        .sums = sums});
  moves("cross entropy with its gradient 2048x151936, in place", 4 * size,
        CrossEntropyWithGradient<bf16>{
            .logits = logits, .labels = labels, .nll = nll, .predictions = predictions});
  moves("argmax 16x151936", 4 * 16 * kVocabulary,
        ArgmaxRows<bf16>{.logits = decoded, .predictions = predictions.slice(0, 16)});
  moves("column sums 8192x4096", 2 * kRows * kWidth,
        ColumnSum<bf16>{.input = matrix(kRows, kWidth), .output = carver_.vector<float>(kWidth)});
  carver_.give_back(mark);
  fill();
}

void Bench::optimizer() {
  const std::int64_t mark = carver_.mark();
  const Vector<float> gradient = carver_.vector<float>(kParameters),
                      master = carver_.vector<float>(kParameters);
  const Vector<float> first = carver_.vector<float>(kParameters), second = carver_.vector<float>(kParameters);
  const Vector<bf16> weights = carver_.vector<bf16>(kParameters);
  launch_(FillZero{bytes_of(second)});
  const Vector<UpdateState> state =
      uploaded(std::vector<UpdateState>{{.scale = 1, .learning_rate = 1e-4f, .applied = 1, .updates = 1}});
  const Vector<double> square = carver_.vector<double>(1);
  moves("sum of squares of 268 M", 4 * kParameters, SumOfSquares<bf16>{.input = gradient, .output = square});
  moves("AdamW of 268 M parameters", 30 * kParameters,
        AdamWUpdate<bf16>{.decayed = kParameters - 4096,
                          .state = state,
                          .gradient = gradient,
                          .master = master,
                          .first_moment = first,
                          .second_moment = second,
                          .weights = weights});
  carver_.give_back(mark);
  fill();
}

void Bench::products() {
  const auto run = [&]<typename Out>(MatmulForm form, std::int64_t rows, std::int64_t columns,
                                     std::int64_t depth, Out, bool accumulate = false) {
    const std::int64_t mark = carver_.mark();
    const bool left_transposed = form == MatmulForm::tn, right_transposed = form == MatmulForm::nt;
    product(Matmul<bf16, Out>{.form = form,
                              .left = left_transposed ? matrix(depth, rows) : matrix(rows, depth),
                              .right = right_transposed ? matrix(columns, depth) : matrix(depth, columns),
                              .output = carver_.matrix<Out>(rows, columns),
                              .accumulate = accumulate});
    carver_.give_back(mark);
  };
  run(MatmulForm::nt, 8192, 8192, 8192, bf16{});
  run(MatmulForm::nt, kRows, kWidth, kWidth, bf16{});
  run(MatmulForm::nt, kRows, 2 * kIntermediate, kWidth, bf16{});
  run(MatmulForm::nt, kRows, kWidth, kIntermediate, bf16{});
  run(MatmulForm::nt, kContext, 10 * 1024, kWidth, bf16{});
  run(MatmulForm::nt, kContext, kWidth, 5 * kWidth, bf16{});
  run(MatmulForm::nt, kChunk, kVocabulary, kWidth, 0.0f);
  run(MatmulForm::nn, kChunk, kWidth, kVocabulary, bf16{});
  run(MatmulForm::nn, kRows, kWidth, 2 * kIntermediate, bf16{});
  run(MatmulForm::nn, kRows, kIntermediate, kWidth, bf16{});
  run(MatmulForm::tn, 2 * kIntermediate, kWidth, kRows, 0.0f, true);
  run(MatmulForm::tn, kWidth, kIntermediate, kRows, 0.0f, true);
  run(MatmulForm::tn, kWidth, kWidth, kRows, 0.0f, true);
  run(MatmulForm::nt, 1, kWidth, kWidth, bf16{});
  run(MatmulForm::nt, 16, 2 * kIntermediate, kWidth, bf16{});
  run(MatmulForm::nt, 16, kVocabulary, kWidth, 0.0f);
}

namespace {

int run(int argc, char** argv) {
  DeviceName name{DeviceKind::cuda, 0};
  std::string tuning_folder, only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--device") == 0) name = DeviceName::parse(argv[i + 1]);
    if (std::strcmp(argv[i], "--tuning-folder") == 0) tuning_folder = argv[i + 1];
    if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
  }
  Device device = open_device(name, 1, 1);
  device.tuning_folder = tuning_folder;
  attach_thread(device);
  std::printf("%s, %d multiprocessors\n", device.traits.card.c_str(), device.traits.multiprocessors);
  Bench bench(device);
  const std::pair<const char*, void (Bench::*)()> parts[] = {
      {"copies", &Bench::copies},           {"norms", &Bench::norms},    {"ropes", &Bench::ropes},
      {"activations", &Bench::activations}, {"losses", &Bench::losses},  {"optimizer", &Bench::optimizer},
      {"products", &Bench::products},       {"experts", &Bench::experts}};
  for (const auto& [name, part] : parts) {
    if (only.empty() || only == name) (bench.*part)();
  }
  return 0;
}

}  // namespace
}  // namespace draftsmith

int main(int argc, char** argv) {
  try {
    return draftsmith::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_bench: %s\n", error.what());
    return 1;
  }
}
