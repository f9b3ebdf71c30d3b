#include "kernels/copy.h"

#include <cstring>

#include "device/cpu/parallel.h"
#include "kernels/cpu/operations.h"

namespace draftsmith::cpu {

namespace {

template <typename T>
std::size_t row_bytes(const Matrix<T>& matrix) {
  return static_cast<std::size_t>(matrix.columns) * sizeof(T);
}

}  // namespace

void fill_zero(const Stream& stream, const FillZero& arguments) {
  const Vector<std::byte> output = arguments.output;
  parallel_ranges(stream, output.size, output.size / 16, [&](std::int64_t begin, std::int64_t end) {
    std::memset(output.data + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

template <typename T>
void copy_rows(const Stream& stream, const CopyRows<T>& arguments) {
  const auto& input = arguments.input;
  const auto& output = arguments.output;
  DRAFTSMITH_CHECK(input.rows == output.rows && input.columns == output.columns, "a copy keeps the shape");
  parallel_ranges(stream, input.rows, input.rows * input.columns / 8,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) {
                      std::memcpy(output.row(row), input.row(row), row_bytes(input));
                    }
                  });
}

template <typename T>
void gather_rows(const Stream& stream, const GatherRows<T>& arguments) {
  const auto& table = arguments.table;
  const auto& index = arguments.index;
  const auto& output = arguments.output;
  DRAFTSMITH_CHECK(index.size == output.rows && table.columns == output.columns,
                   "an index for each row, as wide as the table");
  parallel_ranges(stream, output.rows, output.rows * output.columns / 8,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) {
                      DRAFTSMITH_CHECK(index[row] < table.rows, "an index lies inside its table");
                      if (index[row] < 0) {
                        std::memset(output.row(row), 0, row_bytes(output));
                      } else {
                        std::memcpy(output.row(row), table.row(index[row]), row_bytes(output));
                      }
                    }
                  });
}

template void copy_rows(const Stream&, const CopyRows<float>&);
template void copy_rows(const Stream&, const CopyRows<bf16>&);
template void gather_rows(const Stream&, const GatherRows<float>&);
template void gather_rows(const Stream&, const GatherRows<bf16>&);

}  // namespace draftsmith::cpu
