#include "kernels/reduce.h"

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/operations.h"

namespace draftsmith::cpu {

namespace {

typedef float EightFloats __attribute__((vector_size(32)));
typedef double EightDoubles __attribute__((vector_size(64)));

double sum_of_squares_of(const float* values, std::int64_t count) {
  EightDoubles even{}, odd{};
  const auto square = [](const float* from) {
    EightFloats floats;
    std::memcpy(&floats, from, sizeof floats);
    const EightDoubles doubles = __builtin_convertvector(floats, EightDoubles);
    return doubles * doubles;
  };
  std::int64_t index = 0;
  for (; index + 16 <= count; index += 16) {
    even += square(values + index);
    odd += square(values + index + 8);
  }
  even += odd;
  double sum = 0;
  for (int lane = 0; lane < 8; ++lane) sum += even[lane];
  for (; index < count; ++index) sum += static_cast<double>(values[index]) * values[index];
  return sum;
}

}  // namespace

template <typename T>
void column_sum(const Stream& stream, const ColumnSum<T>& arguments) {
  const auto& input = arguments.input;
  const auto& output = arguments.output;
  DRAFTSMITH_CHECK(input.columns == output.size, "one sum for each column");
  add_column_sums(stream, input.rows, input.columns, output.data,
                  [&](std::int64_t row, auto place) { return place.load(input.row(row)); });
}

template <typename T>
void sum_of_squares(const Stream& stream, const SumOfSquares<T>& arguments) {
  // A fixed number of parts, whatever the number of threads, added in order.
  constexpr std::int64_t kParts = 64;
  double parts[kParts] = {};
  const std::int64_t size = arguments.input.size;
  parallel_ranges(stream, kParts, size / 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t first = size * part / kParts;
      parts[part] = sum_of_squares_of(arguments.input.data + first, size * (part + 1) / kParts - first);
    }
  });
  double sum = 0;
  for (const double part : parts) sum += part;
  arguments.output[0] = sum;
}

template void column_sum(const Stream&, const ColumnSum<float>&);
template void column_sum(const Stream&, const ColumnSum<bf16>&);
template void sum_of_squares(const Stream&, const SumOfSquares<float>&);
template void sum_of_squares(const Stream&, const SumOfSquares<bf16>&);

}  // namespace draftsmith::cpu
