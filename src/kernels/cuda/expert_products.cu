// Products of places with the weights of their experts, all experts in one launch. A tile is some places of one
// expert times some columns; its block finds expert and places from `first`, so the grid depends on sizes
// alone. An entry is one chain of sums in order of k whatever the tile, so a row's bits depend on that row:
//   bf16   tensor cores, 16 k at a time, the operands brought by asynchronous copies some steps ahead. Tiles
//          have 16, 64 or 128 places, by how many an expert has on average.
//   float  one chain of fused multiply-adds, speed free. Also bf16 whose rows do not begin on 16 bytes.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/moe.h"

namespace draftsmith::cuda {

namespace {

// How tiles are numbered. An expert has at most as many tiles as its number range, some of them empty:
//   by tile    expert e's tiles begin at number first[e] / tile_rows + e
//   by place   tile p begins at place p, and only every tile_rows-th of an expert's places has one; for few
//              places among many experts
struct TileNumbers {
  std::int64_t tiles;
  bool by_place;
};
TileNumbers number_tiles(std::int64_t places, std::int64_t experts, std::int64_t tile_rows) {
  const std::int64_t tiles = places / tile_rows + experts;
  return places < tiles ? TileNumbers{places, true} : TileNumbers{tiles, false};
}

struct ExpertTile {
  int expert;
  std::int32_t first_place;
  int places;  // 0 or less: an empty tile
};

// By each warp alone. The tile's expert is the last one that begins at its number or before.
template <int tile_rows>
__device__ ExpertTile find_tile(const Vector<const std::int32_t>& first, int number, bool by_place) {
  const int experts = static_cast<int>(first.size) - 1;
  int begun = 0;
#pragma unroll 4
  for (int expert = static_cast<int>(threadIdx.x + threadIdx.y * blockDim.x) % 32; expert < experts;
       expert += 32) {
    const int begins = by_place ? first[expert] : first[expert] / tile_rows + expert;
    begun += begins <= number ? 1 : 0;
  }
  const int expert = __reduce_add_sync(0xffffffffu, begun) - 1;
  const std::int32_t begin = first[expert], end = first[expert + 1];
  if (by_place && (number - begin) % tile_rows != 0) return {expert, number, 0};
  const std::int32_t place = by_place ? number : begin + (number - begin / tile_rows - expert) * tile_rows;
  return {expert, place, min(tile_rows, end - place)};
}

// The input row of a place.
template <typename T>
__device__ const T* input_of(const ExpertProducts<T>& product, std::int32_t place) {
  const std::int64_t row = product.rows.data == nullptr ? place : product.rows[place];
  if (row < 0 || row >= product.input.rows) __trap();  // an index lies inside its table
  return product.input.row(row);
}

constexpr int kDepth = 64;            // k of a step: rows of 128 bytes in shared memory
constexpr int kPieces = kDepth / 8;   // of 16 bytes
constexpr int kRowBytes = kDepth * 2;

// Warps stand in a grid over the tile, each with warp_rows x warp_columns of it.
template <int tile_rows, int tile_columns, int warp_rows, int warp_columns, int stage_count, int block_count>
struct TileShape {
  static constexpr int kRows = tile_rows, kColumns = tile_columns;
  static constexpr int kWarpRows = warp_rows, kWarpColumns = warp_columns;
  static constexpr int kStages = stage_count;  // steps in shared memory
  static constexpr int kBlocks = block_count;  // that a processor holds
  static constexpr int kThreads = tile_rows / warp_rows * (tile_columns / warp_columns) * 32;
  static constexpr int kStageBytes = (tile_rows + tile_columns) * kRowBytes;
  static constexpr int kBytes = kStages * kStageBytes;
};
using SmallTile = TileShape<16, 32, 16, 16, 6, 6>;
using MediumTile = TileShape<64, 128, 32, 64, 3, 3>;
using LargeTile = TileShape<128, 128, 64, 64, 3, 2>;

// 16 bytes of a row lie at piece ^ (row % 8): the 8 rows of an ldmatrix fall into different banks.
__device__ int place_of(int row, int piece) { return row * kRowBytes + ((piece ^ row % 8) << 4); }

template <typename Shape>
struct WarpProduct {
  static constexpr int kRowTiles = Shape::kWarpRows / 16, kColumnTiles = Shape::kWarpColumns / 16;

  int lane, row, column;  // of the warp's part in the tile
  float sums[kRowTiles][2 * kColumnTiles][4] = {};

  // Fragments of 16 k: rows, and columns by sixteen.
  struct Fragments {
    std::uint32_t left[kRowTiles][4], right[kColumnTiles][4];
  };

  __device__ void load(Fragments& to, std::uint32_t stage, int piece) const {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      load_matrices(to.left[i], stage + place_of(row + i * 16 + lane % 16, piece + lane / 16));
    }
    const std::uint32_t right = stage + Shape::kRows * kRowBytes;
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
      load_matrices(to.right[i], right + place_of(column + i * 16 + lane % 8 + lane / 16 * 8,
                                                  piece + lane / 8 % 2));
    }
  }
  __device__ void multiply(const Fragments& by) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
        multiply_add(sums[i][2 * j], by.left[i], by.right[j][0], by.right[j][1]);
        multiply_add(sums[i][2 * j + 1], by.left[i], by.right[j][2], by.right[j][3]);
      }
    }
  }
};

// Brings steps into shared memory: rows of the tile's places, below them rows of its columns' weights, with
// zeros outside.
template <typename Shape>
struct TileLoader {
  const bf16* const* inputs;  // of the tile's places, null behind the last; in shared memory
  const bf16* weights;        // of the tile's first column
  std::int64_t weights_stride, columns, depth;

  __device__ void load(std::uint32_t stage, std::int64_t first_k) const {
    const int piece = static_cast<int>(threadIdx.x) % kPieces;
    const std::int64_t k = first_k + piece * 8;
#pragma unroll
    for (int row = static_cast<int>(threadIdx.x) / kPieces; row < Shape::kRows;
         row += Shape::kThreads / kPieces) {
      const bf16* input = inputs[row];
      const bool inside = input != nullptr && k < depth;
      copy_async(stage + place_of(row, piece), inside ? input + k : weights, inside);
    }
#pragma unroll
    for (int row = static_cast<int>(threadIdx.x) / kPieces; row < Shape::kColumns;
         row += Shape::kThreads / kPieces) {
      const bool inside = row < columns && k < depth;
      copy_async(stage + place_of(Shape::kRows + row, piece),
                 inside ? weights + row * weights_stride + k : weights, inside);
    }
  }
};

// All steps of a tile's depth.
template <typename Shape>
__device__ void multiply_tile(const TileLoader<Shape>& loader, std::uint32_t memory,
                              WarpProduct<Shape>& product) {
  constexpr int kAhead = Shape::kStages - 1;
  const int steps = static_cast<int>((loader.depth + kDepth - 1) / kDepth);
  for (int step = 0; step < kAhead; ++step) {
    if (step < steps) loader.load(memory + step * Shape::kStageBytes, step * kDepth);
    commit_copies();
  }
  for (int step = 0; step < steps; ++step) {
    wait_copies<kAhead - 1>();
    __syncthreads();
    const std::uint32_t stage = memory + step % Shape::kStages * Shape::kStageBytes;
    typename WarpProduct<Shape>::Fragments fragments[2];
    product.load(fragments[0], stage, 0);
    const int ahead = step + kAhead;  // into the stage that all warps have left behind
    if (ahead < steps) loader.load(memory + ahead % Shape::kStages * Shape::kStageBytes, ahead * kDepth);
    commit_copies();
#pragma unroll
    for (int piece = 0; piece < kPieces; piece += 2) {
      if (piece + 2 < kPieces) product.load(fragments[(piece / 2 + 1) % 2], stage, piece + 2);
      product.multiply(fragments[piece / 2 % 2]);
    }
  }
}

// Blocks are counted by tile and then by columns.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    expert_tile_kernel(ExpertProducts<bf16> arguments, int column_tiles, bool by_place) {
  extern __shared__ __align__(128) unsigned char stages[];
  __shared__ const bf16* inputs[Shape::kRows];
  const ExpertTile tile = find_tile<Shape::kRows>(
      arguments.first, static_cast<int>(blockIdx.x) / column_tiles, by_place);
  if (tile.places <= 0) return;
  const int first_column = static_cast<int>(blockIdx.x) % column_tiles * Shape::kColumns;
  for (int row = static_cast<int>(threadIdx.x); row < Shape::kRows; row += Shape::kThreads) {
    inputs[row] = row < tile.places ? input_of(arguments, tile.first_place + row) : nullptr;
  }
  __syncthreads();
  const std::int64_t width = arguments.output.columns;
  const TileLoader<Shape> loader{
      .inputs = inputs,
      .weights = arguments.weights.row(tile.expert * width + first_column),
      .weights_stride = arguments.weights.stride,
      .columns = width - first_column,
      .depth = arguments.input.columns};
  constexpr int kWarpsAcross = Shape::kColumns / Shape::kWarpColumns;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  WarpProduct<Shape> product{.lane = lane,
                             .row = warp / kWarpsAcross * Shape::kWarpRows,
                             .column = warp % kWarpsAcross * Shape::kWarpColumns};
  multiply_tile(loader, shared_address(stages), product);
#pragma unroll
  for (int i = 0; i < 2 * WarpProduct<Shape>::kRowTiles; ++i) {
    const int row = product.row + i * 8 + lane / 4, half = i % 2;
    if (row >= tile.places) continue;
    bf16* output = arguments.output.row(tile.first_place + row);
#pragma unroll
    for (int j = 0; j < 2 * WarpProduct<Shape>::kColumnTiles; ++j) {
      const int column = first_column + product.column + j * 8 + lane % 4 * 2;
      if (column >= width) continue;
      const float(&sums)[4] = product.sums[i / 2][j];
      *reinterpret_cast<std::uint32_t*>(output + column) = round_pair(sums[2 * half], sums[2 * half + 1]);
    }
  }
}

constexpr int kPlainTile = 32;  // places, columns and depth of a tile
constexpr int kPlainThreadRows = 8;

template <typename T>
__global__ void __launch_bounds__(kPlainTile* kPlainThreadRows)
    plain_expert_kernel(ExpertProducts<T> arguments, int column_tiles, bool by_place) {
  constexpr int kRowsAThread = kPlainTile / kPlainThreadRows;
  __shared__ float left[kPlainTile][kPlainTile + 1], right[kPlainTile][kPlainTile + 1];
  const ExpertTile tile =
      find_tile<kPlainTile>(arguments.first, static_cast<int>(blockIdx.x) / column_tiles, by_place);
  if (tile.places <= 0) return;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int first_column = static_cast<int>(blockIdx.x) % column_tiles * kPlainTile;
  const std::int64_t width = arguments.output.columns, depth = arguments.input.columns;
  float sums[kRowsAThread] = {};
  for (std::int64_t first_k = 0; first_k < depth; first_k += kPlainTile) {
    const std::int64_t k = first_k + x;
    for (int i = y; i < kPlainTile; i += kPlainThreadRows) {
      const std::int64_t column = first_column + i;
      left[i][x] =
          k < depth && i < tile.places ? to_float(input_of(arguments, tile.first_place + i)[k]) : 0.0f;
      right[i][x] =
          k < depth && column < width ? to_float(arguments.weights(tile.expert * width + column, k)) : 0.0f;
    }
    __syncthreads();
    for (int i = 0; i < kPlainTile; ++i) {
#pragma unroll
      for (int r = 0; r < kRowsAThread; ++r) {
        sums[r] = fmaf(left[y + r * kPlainThreadRows][i], right[x][i], sums[r]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kRowsAThread; ++r) {
    const int row = y + r * kPlainThreadRows, column = first_column + x;
    if (row < tile.places && column < width) {
      arguments.output(tile.first_place + row, column) = to_stored<T>(sums[r]);
    }
  }
}

template <typename Shape>
void allow_shared_memory() {
  check(cudaFuncSetAttribute(expert_tile_kernel<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             Shape::kBytes),
        "raising the shared-memory limit of the products of experts");
}

template <typename Shape>
void launch_tiles(const Stream& stream, const ExpertProducts<bf16>& arguments) {
  const std::int64_t columns = div_ceil(arguments.output.columns, Shape::kColumns);
  const auto [tiles, by_place] =
      number_tiles(arguments.output.rows, arguments.first.size - 1, Shape::kRows);
  expert_tile_kernel<Shape><<<grid_of(tiles * columns), Shape::kThreads, Shape::kBytes, native(stream)>>>(
      arguments, static_cast<int>(columns), by_place);
  check_launch("products of experts");
}

// Whether tensor cores did it.
bool launch_fast(const Stream& stream, const ExpertProducts<bf16>& arguments) {
  if (!is_wide(arguments.input) || !is_wide(arguments.weights) || !is_wide(arguments.output)) return false;
  const std::int64_t places_an_expert = arguments.output.rows / (arguments.first.size - 1);
  if (places_an_expert <= 16) {
    launch_tiles<SmallTile>(stream, arguments);
  } else if (places_an_expert <= 96) {
    launch_tiles<MediumTile>(stream, arguments);
  } else {
    launch_tiles<LargeTile>(stream, arguments);
  }
  return true;
}
bool launch_fast(const Stream&, const ExpertProducts<float>&) { return false; }

template <typename T>
void launch_plain(const Stream& stream, const ExpertProducts<T>& arguments) {
  const std::int64_t columns = div_ceil(arguments.output.columns, kPlainTile);
  const auto [tiles, by_place] = number_tiles(arguments.output.rows, arguments.first.size - 1, kPlainTile);
  plain_expert_kernel<T>
      <<<grid_of(tiles * columns), dim3(kPlainTile, kPlainThreadRows), 0, native(stream)>>>(
          arguments, static_cast<int>(columns), by_place);
  check_launch("plain products of experts");
}

}  // namespace

template <typename T>
std::int64_t expert_products_scratch(const Device& device, const ExpertProducts<T>&) {
  check(cudaSetDevice(device.name.index), "choosing a GPU");
  allow_shared_memory<SmallTile>();
  allow_shared_memory<MediumTile>();
  allow_shared_memory<LargeTile>();
  return 0;
}

template <typename T>
void expert_products(const Stream& stream, const ExpertProducts<T>& arguments) {
  const std::int64_t experts = arguments.first.size - 1, width = arguments.output.columns;
  const std::int64_t places = arguments.output.rows;
  DRAFTSMITH_CHECK(arguments.weights.rows == experts * width &&
                       arguments.weights.columns == arguments.input.columns &&
                       arguments.rows.size == (arguments.rows ? places : 0),
                   "every expert has its weights, every place its input");
  DRAFTSMITH_CHECK(places > 0 && places <= 0x7fffffff, "places are counted in 32 bits");
  if (!launch_fast(stream, arguments)) launch_plain(stream, arguments);
}

template std::int64_t expert_products_scratch(const Device&, const ExpertProducts<float>&);
template std::int64_t expert_products_scratch(const Device&, const ExpertProducts<bf16>&);
template void expert_products(const Stream&, const ExpertProducts<float>&);
template void expert_products(const Stream&, const ExpertProducts<bf16>&);

}  // namespace draftsmith::cuda
