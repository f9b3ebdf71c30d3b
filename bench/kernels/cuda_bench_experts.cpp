// The operations of mixtures of experts, at the shapes of Qwen3-30B-A3B.
#include "kernels/cuda_bench.h"

namespace draftsmith {

// By operations where there are many places an expert; else by the bytes of the chosen experts' weights.
void Bench::expert_products(const char* what, const ExpertProducts<bf16>& arguments) {
  const double ms = median_ms(arguments);
  const std::int64_t places = arguments.output.rows, experts = arguments.first.size - 1;
  const std::int64_t width = arguments.output.columns, depth = arguments.input.columns;
  std::vector<std::int32_t> first(static_cast<std::size_t>(experts + 1));
  copy_bytes(launch_.stream(), first.data(), arguments.first.data, (experts + 1) * 4);
  synchronize(launch_.stream());
  std::int64_t chosen = 0;
  for (std::size_t e = 0; e + 1 < first.size(); ++e) chosen += first[e] < first[e + 1] ? 1 : 0;
  const double bytes = 2 * static_cast<double>(chosen * width * depth) / ms * 1e3;
  const double rate = 2 * static_cast<double>(places * width * depth) / ms * 1e3;
  std::printf(
      "%-8s %5lld places of %3lld experts, %lld from %lld %*s %8.3f ms %5.0f GB/s %3.0f %% %5.0f "
      "TFLOP/s %3.0f %%\n",
      what, static_cast<long long>(places), static_cast<long long>(chosen), static_cast<long long>(width),
      static_cast<long long>(depth), 6, "", ms, bytes * 1e-9, bytes / kCopyRate * 100, rate * 1e-12,
      rate / kProductRate * 100);
}

void Bench::expert_layer(std::int64_t rows) {
  constexpr std::int64_t kExpertWidth = 2048, kExperts = 128, kChosen = 8, kExpertIntermediate = 768;
  const std::int64_t mark = carver_.mark(), places = rows * kChosen;
  const RouteExperts<bf16> route{.logits = carver_.matrix<float>(rows, kExperts),
                                 .normalise = true,
                                 .first = carver_.vector<std::int32_t>(kExperts + 1),
                                 .rows = carver_.vector<std::int32_t>(places),
                                 .places = carver_.matrix<std::int32_t>(rows, kChosen),
                                 .weights = matrix(rows, kChosen)};
  const Matrix<bf16> input = matrix(rows, kExpertWidth), output = matrix(rows, kExpertWidth);
  const Matrix<bf16> gate_up = matrix(places, 2 * kExpertIntermediate);
  const Matrix<bf16> activated = matrix(places, kExpertIntermediate), outputs = matrix(places, kExpertWidth);
  const Matrix<bf16> gate_up_weights = matrix(kExperts * gate_up.columns, kExpertWidth);
  const Matrix<bf16> down_weights = matrix(kExperts * kExpertWidth, kExpertIntermediate);
  const std::string name = std::to_string(rows) + " rows";
  moves(("route to 8 of 128 experts, " + name).c_str(), 4 * rows * kExperts, route);
  expert_products("gate, up", {.input = input,
                               .rows = route.rows,
                               .first = route.first,
                               .weights = gate_up_weights,
                               .output = gate_up});
  expert_products("down",
                  {.input = activated, .first = route.first, .weights = down_weights, .output = outputs});
  moves(("add up 8 experts of width 2048, " + name).c_str(), 2 * (places + rows) * kExpertWidth,
        CombineExperts<bf16>{
            .input = outputs, .places = route.places, .weights = route.weights, .output = output});
  carver_.give_back(mark);
  fill();
}

// Few rows, few places an expert, many; then the dense products of as many places as the last.
void Bench::experts() {
  for (const std::int64_t rows : {1, 16, 256, 1024, 4096, 8192}) expert_layer(rows);
  for (const std::int64_t places : {8 * 4096, 8 * 8192}) {
    const std::int64_t mark = carver_.mark();
    product(Matmul<bf16, bf16>{
        .left = matrix(places, 2048), .right = matrix(1536, 2048), .output = matrix(places, 1536)});
    product(Matmul<bf16, bf16>{
        .left = matrix(places, 768), .right = matrix(2048, 768), .output = matrix(places, 2048)});
    carver_.give_back(mark);
  }
}

}  // namespace draftsmith
