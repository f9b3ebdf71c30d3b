#include "kernels/moe.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "device/cpu/parallel.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

namespace {

// Chooses the experts of one row, ascending, and weighs them.
template <typename T>
void route_row(const RouteExperts<T>& arguments, std::int64_t row) {
  const std::int64_t experts = arguments.logits.columns, chosen = arguments.weights.columns;
  const float* logits = arguments.logits.row(row);
  std::int32_t* selected = arguments.places.row(row);  // experts until they are given places
  for (std::int64_t i = 0; i < chosen; ++i) {
    std::int64_t best = -1;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      if (std::find(selected, selected + i, expert) != selected + i) continue;
      if (best < 0 || logits[expert] > logits[best]) best = expert;
    }
    selected[i] = static_cast<std::int32_t>(best);
  }
  const float largest = logits[selected[0]];
  std::sort(selected, selected + chosen);

  float exponentials[kMostExperts];
  Lanes sums{};
  for_lanes(0, experts, [&](auto place) {
    const Lanes value = exp(place.load(logits, -kInfinity) - largest);
    place.store(exponentials, value);
    sums += value;
  });
  float total = sum_of(sums);
  if (arguments.normalise) {
    total = 0;
    for (std::int64_t i = 0; i < chosen; ++i) total += exponentials[selected[i]];
  }
  for (std::int64_t i = 0; i < chosen; ++i) {
    arguments.weights(row, i) = static_cast<T>(exponentials[selected[i]] / total);
  }
}

// From the experts of each row to places: counted, then dealt out row by row. `first` is the next free place
// of each expert meanwhile, and so ends one expert further along.
template <typename T>
void deal_places(const RouteExperts<T>& arguments) {
  const auto& [logits, normalise, first, rows, places, weights] = arguments;
  const std::int64_t experts = logits.columns;
  std::fill(first.begin(), first.end(), 0);
  for (std::int64_t row = 0; row < places.rows; ++row) {
    for (std::int64_t i = 0; i < places.columns; ++i) ++first[places(row, i) + 1];
  }
  for (std::int64_t expert = 0; expert < experts; ++expert) first[expert + 1] += first[expert];
  for (std::int64_t row = 0; row < places.rows; ++row) {
    for (std::int64_t i = 0; i < places.columns; ++i) {
      const std::int32_t place = first[places(row, i)]++;
      places(row, i) = place;
      rows[place] = static_cast<std::int32_t>(row);
    }
  }
  std::copy_backward(first.begin(), first.end() - 1, first.end());
  first[0] = 0;
}

constexpr std::int64_t kColumnsAtOnce = 4;  // with four rows: sixteen accumulators of the 32 registers
constexpr std::int64_t kRowsAtOnce = 4;

// Up to four rows, wherever they lie, times up to four rows of an expert's weights.
template <typename T>
struct ExpertTile {
  const T* input[kRowsAtOnce];
  T* output[kRowsAtOnce];
  const T* weights;
  std::int64_t weights_stride, depth;
};

template <int rows, int columns, typename T>
void multiply(const ExpertTile<T>& tile) {
  Lanes sums[rows][columns] = {};
  for_lanes(0, tile.depth, [&](auto place) {
    Lanes weights[columns];
    for (int c = 0; c < columns; ++c) weights[c] = place.load(tile.weights + c * tile.weights_stride);
    for (int r = 0; r < rows; ++r) {
      const Lanes x = place.load(tile.input[r]);
      for (int c = 0; c < columns; ++c) sums[r][c] += x * weights[c];
    }
  });
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) tile.output[r][c] = static_cast<T>(sum_of(sums[r][c]));
  }
}

template <int columns, typename T>
void multiply_rows(const ExpertTile<T>& tile, std::int64_t rows) {
  switch (rows) {
    case 1:
      return multiply<1, columns>(tile);
    case 2:
      return multiply<2, columns>(tile);
    case 3:
      return multiply<3, columns>(tile);
    default:
      return multiply<4, columns>(tile);
  }
}

// Columns `begin` to `end` (at most four) of every place of one expert.
template <typename T>
void multiply_columns(const ExpertProducts<T>& arguments, std::int64_t expert, std::int64_t begin,
                      std::int64_t end) {
  const std::int64_t width = arguments.output.columns;
  const std::int64_t last = arguments.first[expert + 1];
  for (std::int64_t place = arguments.first[expert]; place < last; place += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, last - place);
    ExpertTile<T> tile{.weights_stride = arguments.weights.stride, .depth = arguments.input.columns};
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t input_row = arguments.rows ? arguments.rows[place + r] : place + r;
      tile.input[r] = arguments.input.row(input_row);
      tile.output[r] = arguments.output.row(place + r) + begin;
    }
    tile.weights = arguments.weights.row(expert * width + begin);
    if (end - begin == kColumnsAtOnce) {
      multiply_rows<kColumnsAtOnce>(tile, rows);
      continue;
    }
    for (std::int64_t column = begin; column < end; ++column) {
      multiply_rows<1>(tile, rows);
      tile.weights += tile.weights_stride;
      for (std::int64_t r = 0; r < rows; ++r) ++tile.output[r];
    }
  }
}

}  // namespace

template <typename T>
void route_experts(const Stream& stream, const RouteExperts<T>& arguments) {
  const std::int64_t rows = arguments.logits.rows, experts = arguments.logits.columns;
  const std::int64_t chosen = arguments.weights.columns;
  DRAFTSMITH_CHECK(experts <= kMostExperts && chosen >= 1 && chosen <= experts,
                   "one to all of the experts are chosen");
  DRAFTSMITH_CHECK(arguments.places.rows == rows && arguments.places.columns == chosen &&
                       arguments.weights.rows == rows && arguments.rows.size == rows * chosen &&
                       arguments.first.size == experts + 1,
                   "a place for every row and choice");
  parallel_ranges(stream, rows, rows * experts * chosen, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) route_row(arguments, row);
  });
  deal_places(arguments);
}

// Every worker takes some columns of all experts, so that popular experts are shared out too.
template <typename T>
void expert_products(const Stream& stream, const ExpertProducts<T>& arguments) {
  const std::int64_t experts = arguments.first.size - 1, width = arguments.output.columns;
  const std::int64_t places = arguments.output.rows;
  DRAFTSMITH_CHECK(
      arguments.weights.rows == experts * width && arguments.weights.columns == arguments.input.columns &&
          arguments.rows.size == (arguments.rows ? places : 0) && arguments.first[experts] == places,
      "every expert has its weights, every place its input");
  const std::int64_t groups = div_ceil(width, kColumnsAtOnce);
  const std::int64_t work = places * width * arguments.input.columns / 8;
  parallel_ranges(stream, groups, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      if (arguments.first[expert] == arguments.first[expert + 1]) continue;
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t column = group * kColumnsAtOnce;
        multiply_columns(arguments, expert, column, std::min(column + kColumnsAtOnce, width));
      }
    }
  });
}

template <typename T>
void combine_experts(const Stream& stream, const CombineExperts<T>& arguments) {
  const auto& [input, places, weights, output] = arguments;
  const std::int64_t rows = output.rows, width = output.columns, chosen = places.columns;
  DRAFTSMITH_CHECK(places.rows == rows && weights.rows == rows && weights.columns == chosen &&
                       input.rows == rows * chosen && input.columns == width,
                   "a weight for every place of every row");
  parallel_ranges(stream, rows, rows * chosen * width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for_lanes(0, width, [&](auto place) {
        Lanes sum{};
        for (std::int64_t i = 0; i < chosen; ++i) {
          sum += static_cast<float>(weights(row, i)) * place.load(input.row(places(row, i)));
        }
        place.store(output.row(row), sum);
      });
    }
  });
}

template void route_experts(const Stream&, const RouteExperts<float>&);
template void route_experts(const Stream&, const RouteExperts<bf16>&);
template void expert_products(const Stream&, const ExpertProducts<float>&);
template void expert_products(const Stream&, const ExpertProducts<bf16>&);
template void combine_experts(const Stream&, const CombineExperts<float>&);
template void combine_experts(const Stream&, const CombineExperts<bf16>&);

}  // namespace draftsmith::cpu
