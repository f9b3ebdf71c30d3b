#include "kernels/block_rows.h"

#include <cstring>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/operations.h"

namespace draftsmith::cpu {

template <typename T>
void spread_block_rows(const Stream& stream, const SpreadBlockRows<T>& arguments) {
  const auto& [distinct, block_size, output] = arguments;
  const std::int64_t blocks = blocks_of(output, distinct, block_size);
  const auto bytes = static_cast<std::size_t>(output.columns) * sizeof(T);
  parallel_ranges(stream, blocks, output.rows * output.columns / 8,
                  [&, size = block_size, rows = distinct, to = output](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin * size; row < end * size; ++row) {
                      const std::int64_t from = row % size == 0 ? row / size : blocks;
                      std::memcpy(to.row(row), rows.row(from), bytes);
                    }
                  });
}

template <typename T>
std::int64_t fold_block_rows_scratch(const Device&, const FoldBlockRows<T>& arguments) {
  return arguments.input.columns * static_cast<std::int64_t>(sizeof(float));
}

template <typename T>
void fold_block_rows(const Stream& stream, const FoldBlockRows<T>& arguments) {
  const Matrix<const T> input = arguments.input;
  const Matrix<T> distinct = arguments.distinct;
  const std::int64_t block_size = arguments.block_size, width = input.columns;
  const std::int64_t blocks = blocks_of(input, distinct, block_size);
  DRAFTSMITH_CHECK(stream.scratch_bytes >= width * static_cast<std::int64_t>(sizeof(float)),
                   "a launch is lent the scratch that it asks for");
  auto* const sums = reinterpret_cast<float*>(stream.scratch);
  std::memset(sums, 0, static_cast<std::size_t>(width) * sizeof(float));
  const std::int64_t shared = block_size - 1;  // rows of a block
  add_column_sums(stream, blocks * shared, width, sums, [&](std::int64_t row, auto place) {
    return place.load(input.row(row / shared * block_size + 1 + row % shared));
  });
  for (std::int64_t block = 0; block < blocks; ++block) {
    std::memcpy(distinct.row(block), input.row(block * block_size),
                static_cast<std::size_t>(width) * sizeof(T));
  }
  for (std::int64_t column = 0; column < width; ++column) {
    const T rounded(sums[column]);
    distinct(blocks, column) = rounded;
    distinct(blocks + 1, column) = T(sums[column] - static_cast<float>(rounded));
  }
}

template void spread_block_rows(const Stream&, const SpreadBlockRows<float>&);
template void spread_block_rows(const Stream&, const SpreadBlockRows<bf16>&);
template std::int64_t fold_block_rows_scratch(const Device&, const FoldBlockRows<float>&);
template std::int64_t fold_block_rows_scratch(const Device&, const FoldBlockRows<bf16>&);
template void fold_block_rows(const Stream&, const FoldBlockRows<float>&);
template void fold_block_rows(const Stream&, const FoldBlockRows<bf16>&);

}  // namespace draftsmith::cpu
