// Times every CPU kernel at the demo's shapes and at a width of 1024: milliseconds, then GFLOP/s or GB/s.
//   cpu_bench [threads]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/launcher.h"

namespace draftsmith {
namespace {

// Owns what views point to, for as long as the program runs.
template <typename T>
struct Store {
  std::vector<std::vector<T>> memory;

  Matrix<T> matrix(std::int64_t rows, std::int64_t columns, float scale = 1) {
    const Random random(1, RandomStream::noise, static_cast<std::uint32_t>(memory.size()));
    memory.emplace_back(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < memory.back().size(); ++i) {
      memory.back()[i] = static_cast<T>(static_cast<float>(random.uniform(i) - 0.5) * scale);
    }
    return {memory.back().data(), rows, columns, columns};
  }
  Vector<T> vector(std::int64_t size, float scale = 1) { return {matrix(1, size, scale).data, size}; }
};

// The best of several runs, in seconds.
template <typename Body>
double time_of(const Body& body) {
  double best = 1e9;
  for (int run = 0; run < 7; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void report(const std::string& what, double seconds, double amount, const char* unit) {
  std::printf("  %-34s %9.3f ms %9.1f %s\n", what.c_str(), seconds * 1e3, amount / seconds * 1e-9, unit);
}

template <typename T>
class Bench {
 public:
  explicit Bench(const Device& device) : stream_{&device}, device_(device) {}

  void matmul(MatmulForm form, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    const bool left_transposed = form == MatmulForm::tn, right_transposed = form == MatmulForm::nt;
    Store<T> store;
    Store<float> floats;
    const Matrix<T> left = left_transposed ? store.matrix(depth, rows) : store.matrix(rows, depth);
    const Matrix<T> right = right_transposed ? store.matrix(columns, depth) : store.matrix(depth, columns);
    Launcher<T> launch(device_, kernels_);
    const Matmul<T, float> product{
        .form = form, .left = left, .right = right, .output = floats.matrix(rows, columns)};
    launch.set_mode(LaunchMode::measure);
    launch(product);
    launch.set_mode(LaunchMode::run);
    launch.library().set_scratch(bytes_of(floats.vector(launch.library().scratch_bytes() / 4 + 16)));
    const double seconds = time_of([&] { launch(product); });
    report(launch.library().describe()[0], seconds, 2.0 * static_cast<double>(rows * columns * depth),
           "GFLOP/s");
    if (rows <= kFewRows) {
      report("  its weights", seconds, static_cast<double>(columns * depth) * sizeof(T), "GB/s");
    }
  }

  void rmsnorm(std::int64_t rows, std::int64_t width) {
    Store<T> store;
    Store<float> floats;
    const Matrix<T> input = store.matrix(rows, width), addend = store.matrix(rows, width);
    const Matrix<T> sum = store.matrix(rows, width), output = store.matrix(rows, width);
    const Vector<T> weight = store.vector(width);
    const Vector<float> scales = floats.vector(rows);
    const double bytes = static_cast<double>(rows * width) * sizeof(T);
    report("rmsnorm forward", time_of([&] {
             kernels_.rmsnorm_forward(stream_, {.input = input,
                                                .addend = addend,
                                                .sum = sum,
                                                .weight = weight,
                                                .output = output,
                                                .inverse_rms = scales});
           }),
           4 * bytes, "GB/s");
    report("rmsnorm backward", time_of([&] {
             kernels_.rmsnorm_backward(stream_, {.sum = sum,
                                                 .weight = weight,
                                                 .inverse_rms = scales,
                                                 .grad_output = output,
                                                 .grad_residual = addend,
                                                 .grad_sum = input,
                                                 .grad_weight = floats.vector(width)});
           }),
           4 * bytes, "GB/s");
  }

  void head_norm_rope(std::int64_t rows, std::int64_t heads, std::int64_t head_dim) {
    Store<T> store;
    Store<float> floats;
    const Matrix<T> input = store.matrix(rows, heads * head_dim),
                    output = store.matrix(rows, heads * head_dim);
    const Vector<T> weight = store.vector(head_dim);
    const Matrix<float> scales = floats.matrix(rows, heads);
    const RopeTable rope{floats.matrix(512, head_dim / 2), floats.matrix(512, head_dim / 2)};
    std::vector<std::int32_t> positions;
    for (std::int64_t row = 0; row < rows; ++row) positions.push_back(static_cast<std::int32_t>(row % 512));
    const Vector<const std::int32_t> where{positions.data(), rows};
    const double bytes = static_cast<double>(rows * heads * head_dim) * sizeof(T);
    report("head norm and rope forward", time_of([&] {
             kernels_.head_norm_rope_forward(stream_, {.input = input,
                                                       .weight = weight,
                                                       .positions = where,
                                                       .rope = rope,
                                                       .output = output,
                                                       .inverse_rms = scales,
                                                       .head_dim = head_dim});
           }),
           2 * bytes, "GB/s");
    report("head norm and rope backward", time_of([&] {
             kernels_.head_norm_rope_backward(stream_, {.input = input,
                                                        .weight = weight,
                                                        .inverse_rms = scales,
                                                        .positions = where,
                                                        .rope = rope,
                                                        .grad_output = output,
                                                        .grad_input = output,
                                                        .grad_weight = floats.vector(head_dim),
                                                        .head_dim = head_dim});
           }),
           3 * bytes, "GB/s");
  }

  void swiglu(std::int64_t rows, std::int64_t width) {
    Store<T> store;
    const Matrix<T> gate_up = store.matrix(rows, 2 * width), gradient = store.matrix(rows, 2 * width);
    const Matrix<T> output = store.matrix(rows, width);
    const double bytes = static_cast<double>(rows * width) * sizeof(T);
    report("swiglu forward",
           time_of([&] { kernels_.swiglu_forward(stream_, {.gate_up = gate_up, .output = output}); }),
           3 * bytes, "GB/s");
    report("swiglu backward", time_of([&] {
             kernels_.swiglu_backward(stream_,
                                      {.gate_up = gate_up, .grad_output = output, .grad_gate_up = gradient});
           }),
           5 * bytes, "GB/s");
  }

  // Draft blocks spread evenly over documents of equal length.
  void attention(const std::string& name, const AttentionShape& shape, std::int64_t documents,
                 std::int64_t length, std::int64_t blocks) {
    std::vector<std::int32_t> begin, end;
    double pairs = 0;
    for (std::int64_t document = 0; document < documents; ++document) {
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t anchor = block * length / blocks;
        for (std::int64_t offset = 0; offset < shape.block_size; ++offset) {
          begin.push_back(static_cast<std::int32_t>(document * length));
          end.push_back(static_cast<std::int32_t>(document * length + anchor));
          pairs += static_cast<double>(anchor + shape.block_size);
        }
      }
    }
    attend(name, shape, begin, end, documents * length, pairs, true);
  }

  void prefill(const std::string& name, AttentionShape shape, std::int64_t first, std::int64_t last) {
    shape.block_size = 0;
    std::vector<std::int32_t> begin, end;
    double pairs = 0;
    for (std::int64_t row = first; row < last; ++row) {
      begin.push_back(0);
      end.push_back(static_cast<std::int32_t>(row + 1));
      pairs += static_cast<double>(row + 1);
    }
    attend(name, shape, begin, end, last, pairs, false);
  }

  void cross_entropy(std::int64_t rows, std::int64_t vocabulary) {
    Store<T> store;
    Store<float> floats;
    const Matrix<T> logits = store.matrix(rows, vocabulary, 8);
    const Vector<float> nll = floats.vector(rows), sums = floats.vector(rows);
    std::vector<std::int32_t> labels(static_cast<std::size_t>(rows), 1), predictions = labels;
    const Vector<const std::int32_t> wanted{labels.data(), rows};
    const double entries = static_cast<double>(rows * vocabulary);
    report("cross entropy forward", time_of([&] {
             kernels_.cross_entropy_forward(stream_, {.logits = logits,
                                                      .labels = wanted,
                                                      .nll = nll,
                                                      .log_sum_exp = sums,
                                                      .predictions = {predictions.data(), rows}});
           }),
           sizeof(T) * entries, "GB/s");
    report("cross entropy with its gradient, in place", time_of([&] {
             kernels_.cross_entropy_with_gradient(
                 stream_,
                 {.logits = logits, .labels = wanted, .nll = nll, .predictions = {predictions.data(), rows}});
           }),
           2 * sizeof(T) * entries, "GB/s");
  }

  void adamw(std::int64_t size) {
    Store<T> store;
    Store<float> floats;
    const Vector<float> gradient = floats.vector(size), master = floats.vector(size);
    const Vector<float> first = floats.vector(size), second = floats.vector(size);
    std::fill_n(second.data, size, 1e-4f);
    const Vector<T> weights = store.vector(size);
    UpdateState state{.scale = 1, .learning_rate = 1e-3f, .applied = 1, .updates = 3};
    double sum = 0;
    const double count = static_cast<double>(size);
    report("sum of squares", time_of([&] {
             kernels_.sum_of_squares(stream_, {.input = gradient, .output = {&sum, 1}});
           }),
           4 * count, "GB/s");
    report("adamw", time_of([&] {
             kernels_.adamw_update(stream_, {.decayed = size / 2,
                                             .state = Vector<const UpdateState>{&state, 1},
                                             .gradient = gradient,
                                             .master = master,
                                             .first_moment = first,
                                             .second_moment = second,
                                             .weights = weights});
           }),
           (28 + sizeof(T)) * count, "GB/s");
  }

 private:
  void attend(const std::string& name, const AttentionShape& shape, const std::vector<std::int32_t>& begin,
              const std::vector<std::int32_t>& end, std::int64_t context, double pairs, bool with_backward) {
    const auto rows = static_cast<std::int64_t>(begin.size());
    const std::int64_t width = shape.query_heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
    Store<T> store;
    Store<float> floats;
    AttentionForward<T> forward{.shape = shape,
                                .intervals = {{begin.data(), rows}, {end.data(), rows}},
                                .query = store.matrix(rows, width, 4),
                                .context_key = store.matrix(context, kv_width),
                                .context_value = store.matrix(context, kv_width),
                                .block_key = store.matrix(rows, kv_width),
                                .block_value = store.matrix(rows, kv_width),
                                .output = store.matrix(rows, width),
                                .log_sum_exp = floats.matrix(rows, shape.query_heads)};
    const double flop = pairs * static_cast<double>(shape.query_heads * shape.head_dim);
    report(name + " forward", time_of([&] { kernels_.attention_forward(stream_, forward); }), 4 * flop,
           "GFLOP/s");
    if (!with_backward) return;
    const AttentionBackward<T> backward{.shape = shape,
                                        .intervals = forward.intervals,
                                        .query = forward.query,
                                        .context_key = forward.context_key,
                                        .context_value = forward.context_value,
                                        .block_key = forward.block_key,
                                        .block_value = forward.block_value,
                                        .output = forward.output,
                                        .log_sum_exp = forward.log_sum_exp,
                                        .grad_output = store.matrix(rows, width),
                                        .delta = floats.matrix(rows, shape.query_heads),
                                        .grad_query = store.matrix(rows, width),
                                        .grad_context_key = store.matrix(context, kv_width),
                                        .grad_context_value = store.matrix(context, kv_width),
                                        .grad_block_key = store.matrix(rows, kv_width),
                                        .grad_block_value = store.matrix(rows, kv_width)};
    report(name + " backward", time_of([&] { kernels_.attention_backward(stream_, backward); }), 10 * flop,
           "GFLOP/s");
  }

  Stream stream_;
  const Device& device_;
  const Kernels<T>& kernels_ = cpu_kernels<T>();
};

template <typename T>
void run(const char* type, const Device& device) {
  Bench<T> bench(device);
  std::printf("%s, %d thread(s)\n demo: 2048 rows, width 256\n", type, device.threads);
  bench.matmul(MatmulForm::nt, 2048, 1536, 256);
  bench.matmul(MatmulForm::nn, 2048, 256, 1536);
  bench.matmul(MatmulForm::tn, 1536, 256, 2048);
  bench.rmsnorm(2048, 256);
  bench.head_norm_rope(2048, 4, 64);
  bench.swiglu(2048, 768);
  const AttentionShape demo{
      .query_heads = 4, .kv_heads = 2, .head_dim = 64, .block_size = 8, .scale = 0.125f};
  bench.attention("attention, documents of 72", demo, 16, 72, 16);
  bench.prefill("prefill of 512", demo, 0, 512);
  bench.prefill("one row, 512 keys", demo, 511, 512);
  bench.cross_entropy(1792, 4096);
  bench.adamw(2'600'000);
  std::printf(" width 1024\n");
  for (const std::int64_t rows : {1, 8, 32}) bench.matmul(MatmulForm::nt, rows, 4096, 1024);
  bench.rmsnorm(2048, 1024);
  bench.swiglu(2048, 3072);
  const AttentionShape large{
      .query_heads = 16, .kv_heads = 8, .head_dim = 128, .block_size = 16, .scale = 0.0884f};
  bench.attention("attention, one document of 3072", large, 1, 3072, 32);
  bench.prefill("prefill of 1024", large, 0, 1024);
  bench.prefill("8 rows, 3072 keys", large, 3064, 3072);
}

}  // namespace
}  // namespace draftsmith

int main(int count, char** arguments) {
  const draftsmith::Device device{.name = {}, .threads = count > 1 ? std::atoi(arguments[1]) : 1};
  draftsmith::attach_thread(device);
  draftsmith::run<draftsmith::bf16>("bf16", device);
  draftsmith::run<float>("float32", device);
}
