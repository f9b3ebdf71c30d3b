// Rows are moved as words: 16 bytes where every row begins on 16 bytes, single elements otherwise.
#include "kernels/copy.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

namespace draftsmith::cuda {

namespace {

template <typename Word>
struct WordRows {
  const Word* from;
  Word* to;
  std::int64_t words;  // of a row
  std::int64_t from_stride, to_stride;
  const std::int32_t* index;  // null: rows keep their places
  std::int64_t entries;       // rows of what the index points into
};

enum class Move { keep, gather };

template <typename Word, Move move>
__global__ void move_rows_kernel(WordRows<Word> rows) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t place = move == Move::keep ? row : rows.index[row];
  if (move == Move::gather && place >= rows.entries) __trap();  // an index lies inside its table
  const Word* from = rows.from + place * rows.from_stride;
  Word* to = rows.to + row * rows.to_stride;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  for (std::int64_t word = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
       word < rows.words; word += step) {
    to[word] = move == Move::gather && place < 0 ? Word{} : from[word];
  }
}

template <Move move, typename Word>
void launch_words(const Stream& stream, std::int64_t count, const WordRows<Word>& rows) {
  if (count == 0 || rows.words == 0) return;
  constexpr std::int64_t kMaxThreads = 256, kMaxColumnBlocks = 64;
  const auto threads = static_cast<unsigned>(std::min(kMaxThreads, round_up(rows.words, kWarp)));
  // Long rows are shared by several blocks; four words a thread keep enough loads in flight.
  const std::int64_t column_blocks = std::min(kMaxColumnBlocks, div_ceil(rows.words, 4 * threads));
  const dim3 grid(grid_of(count), static_cast<unsigned>(column_blocks));
  move_rows_kernel<Word, move><<<grid, threads, 0, native(stream)>>>(rows);
  check_launch("moving rows");
}

template <Move move, typename T>
void launch_rows(const Stream& stream, std::int64_t count, const Matrix<const T>& from, const Matrix<T>& to,
                 const Vector<const std::int32_t>& index, std::int64_t entries) {
  constexpr std::int64_t kElements = 16 / sizeof(T);
  const auto on_words = [](const T* data, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % kElements == 0;
  };
  if (on_words(from.data, from.stride) && on_words(to.data, to.stride) && to.columns % kElements == 0) {
    launch_words<move>(stream, count,
                       WordRows<uint4>{.from = reinterpret_cast<const uint4*>(from.data),
                                       .to = reinterpret_cast<uint4*>(to.data),
                                       .words = to.columns / kElements,
                                       .from_stride = from.stride / kElements,
                                       .to_stride = to.stride / kElements,
                                       .index = index.data,
                                       .entries = entries});
    return;
  }
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  launch_words<move>(stream, count,
                     WordRows<Bits>{.from = reinterpret_cast<const Bits*>(from.data),
                                    .to = reinterpret_cast<Bits*>(to.data),
                                    .words = to.columns,
                                    .from_stride = from.stride,
                                    .to_stride = to.stride,
                                    .index = index.data,
                                    .entries = entries});
}

}  // namespace

void fill_zero(const Stream& stream, const FillZero& arguments) {
  if (arguments.output.size == 0) return;
  check(cudaMemsetAsync(arguments.output.data, 0, static_cast<std::size_t>(arguments.output.size),
                        native(stream)),
        "filling with 0");
}

template <typename T>
void copy_rows(const Stream& stream, const CopyRows<T>& arguments) {
  const auto& [input, output] = arguments;
  DRAFTSMITH_CHECK(input.rows == output.rows && input.columns == output.columns, "a copy keeps the shape");
  launch_rows<Move::keep>(stream, output.rows, input, output, {}, 0);
}

template <typename T>
void gather_rows(const Stream& stream, const GatherRows<T>& arguments) {
  const auto& [table, index, output] = arguments;
  DRAFTSMITH_CHECK(index.size == output.rows && table.columns == output.columns,
                   "an index for each row, as wide as the table");
  launch_rows<Move::gather>(stream, output.rows, table, output, index, table.rows);
}

template void copy_rows(const Stream&, const CopyRows<float>&);
template void copy_rows(const Stream&, const CopyRows<bf16>&);
template void gather_rows(const Stream&, const GatherRows<float>&);
template void gather_rows(const Stream&, const GatherRows<bf16>&);

}  // namespace draftsmith::cuda
