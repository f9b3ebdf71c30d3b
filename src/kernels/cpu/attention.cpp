// Work is split over draft blocks (or runs of rows) and kv heads; see attention_tiles.h for groups and
// chunks. Forward: the own block first, so that from then on a block's maxima are finite, then context tiles
// in order. Backward: one pass over rows makes grad_query and the block's gradients; a second pass over tiles
// of context rows makes theirs, adding chunk by chunk in row order. Both recompute the probabilities from
// log_sum_exp, so no sum crosses threads. A row that sees nothing has output 0, log_sum_exp -inf and zero
// gradients. Keys that a row does not see are multiplied by 0 when they share a tile with keys that it sees:
// every row of the context up to the last that is seen must be finite.
#include "kernels/attention.h"

#include <cmath>

#include "device/cpu/parallel.h"
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/operations.h"

namespace draftsmith::cpu {

namespace {

struct ForwardTiles {
  alignas(64) float query[kTileRows * kMaxHeadDim];  // times scale
  alignas(64) float output[kTileRows * kMaxHeadDim];
  alignas(64) float key[kMaxHeadDim * kTileKeys];  // transposed
  alignas(64) float value[kTileKeys * kMaxHeadDim];
  alignas(64) float scores[kTileRows * kTileKeys];  // then probabilities
  float maximum[kTileRows], sum[kTileRows];
};

// One head's rows among those of the tiles.
struct ForwardRows {
  Chunk chunk;
  float *query, *output;  // [count, padded head_dim]
  float *maximum, *sum;   // [count]
};

ForwardRows rows_of(ForwardTiles& tiles, const Chunk& first, std::int64_t head, std::int64_t stride) {
  const std::int64_t row = head * first.count;
  Chunk chunk = first;
  chunk.kv_head += head;
  return {.chunk = chunk,
          .query = tiles.query + row * stride,
          .output = tiles.output + row * stride,
          .maximum = tiles.maximum + row,
          .sum = tiles.sum + row};
}

// Scores become exponentials below the new maximum; what was summed before is scaled down to it.
void soften_row(const ForwardRows& rows, const Visibility& seen, std::int64_t i, std::int64_t stride,
                float* scores) {
  const std::int64_t first = seen.first_vector() * kLanes, last = first + seen.vectors() * kLanes;
  Lanes most = broadcast(-kInfinity);
  for (std::int64_t column = first; column < last; column += kLanes) {
    most = max(most, visible(seen, i, column) ? load(scores + column) : broadcast(-kInfinity));
  }
  const float maximum = std::max(rows.maximum[i], max_of(most));
  const float offset = maximum == -kInfinity ? 0.0f : maximum;
  Lanes sum{};
  for (std::int64_t column = first; column < last; column += kLanes) {
    const Lanes p = visible(seen, i, column) ? exp(load(scores + column) - offset) : Lanes{};
    store(scores + column, p);
    sum += p;
  }
  if (maximum != rows.maximum[i]) {
    const float factor = exp(broadcast(rows.maximum[i] - offset))[0];
    rows.sum[i] *= factor;
    float* output = rows.output + i * stride;
    for (std::int64_t column = 0; column < stride; column += kLanes) {
      store(output + column, load(output + column) * factor);
    }
  }
  rows.maximum[i] = maximum;
  rows.sum[i] += sum_of(sum);
}

// Few rows (decoding) take values where they are stored; more rows read a tile often enough to widen it once. An
// entry is the same chain of multiply-adds either way.
template <typename T>
void attend(ForwardTiles& tiles, const ForwardRows& rows, const Visibility& seen, const KeyRows<T>& keys,
            const KeyRows<T>& values) {
  constexpr std::int64_t kMostRowsUnwidened = 8;
  const std::int64_t head_dim = keys.head_dim, stride = round_up(head_dim, kLanes);
  load_transposed(keys, tiles.key);
  multiply_scores({rows.query, tiles.key, tiles.scores}, seen, head_dim);
  for (std::int64_t i = seen.first_row; i < seen.last_row; ++i) {
    soften_row(rows, seen, i, stride, tiles.scores + i * kTileKeys);
  }
  if (seen.rows() <= kMostRowsUnwidened && head_dim == stride) {
    return add_keys<T>(tiles.scores, {values.row(0), values.rows.stride}, seen, head_dim, rows.output);
  }
  load_rows(values, tiles.value);
  add_keys<float>(tiles.scores, {tiles.value, stride}, seen, head_dim, rows.output);
}

// Tile by tile, and in each the heads in turn: their columns lie side by side, so a page of keys is visited once.
template <typename T>
void attend_context(const AttentionForward<T>& arguments, const Group& group, const Chunk& first_head,
                    std::int64_t heads, ForwardTiles& tiles) {
  const std::int64_t head_dim = arguments.shape.head_dim, stride = round_up(head_dim, kLanes);
  const std::int64_t column = first_head.kv_head * head_dim;
  const auto ask_for_rows = [&](std::int64_t first, std::int64_t count) __attribute__((always_inline)) {
    ask_for(KeyRows<T>{arguments.context_key, first, count, column, heads * head_dim});
    ask_for(KeyRows<T>{arguments.context_value, first, count, column, heads * head_dim});
  };
  ask_for_rows(group.origin, std::min(kTileKeys, group.limit - group.origin));
  for (std::int64_t first = group.origin; first < group.limit; first += kTileKeys) {
    const std::int64_t count = std::min(kTileKeys, group.limit - first), next = first + count;
    const std::int64_t next_count = std::min(kTileKeys, group.limit - next);
    const Visibility seen = context_visibility(arguments.intervals, first_head, first, count);
    if (seen.empty()) continue;
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t ahead = next_count * head / heads, ahead_end = next_count * (head + 1) / heads;
      ask_for_rows(next + ahead, ahead_end - ahead);
      attend<T>(tiles, rows_of(tiles, first_head, head, stride), seen,
                {arguments.context_key, first, count, column + head * head_dim, head_dim},
                {arguments.context_value, first, count, column + head * head_dim, head_dim});
    }
  }
}

// The rows of a chunk and of the same chunk of the heads after it: together at most kTileRows.
template <typename T>
void forward_chunk(const AttentionForward<T>& arguments, const Group& group, const Chunk& first_head,
                   std::int64_t heads, ForwardTiles& tiles) {
  const AttentionShape& shape = arguments.shape;
  const std::int64_t head_dim = shape.head_dim, stride = round_up(head_dim, kLanes);
  std::fill_n(tiles.output, heads * first_head.count * stride, 0.0f);
  std::fill_n(tiles.maximum, heads * first_head.count, -kInfinity);
  std::fill_n(tiles.sum, heads * first_head.count, 0.0f);
  for (std::int64_t head = 0; head < heads; ++head) {
    const ForwardRows rows = rows_of(tiles, first_head, head, stride);
    load_packed(arguments.query, rows.chunk, head_dim, shape.scale, rows.query);
    if (shape.block_size == 0) continue;
    const Visibility seen = block_visibility(shape, arguments.intervals, rows.chunk);
    if (seen.empty()) continue;
    const std::int64_t column = rows.chunk.kv_head * head_dim;
    attend<T>(tiles, rows, seen, {arguments.block_key, group.first_row, shape.block_size, column, head_dim},
              {arguments.block_value, group.first_row, shape.block_size, column, head_dim});
  }
  attend_context(arguments, group, first_head, heads, tiles);
  for (std::int64_t head = 0; head < heads; ++head) {
    const ForwardRows rows = rows_of(tiles, first_head, head, stride);
    store_packed(rows.output, rows.chunk, head_dim, arguments.output,
                 [&](std::int64_t i) { return rows.sum[i] > 0 ? 1.0f / rows.sum[i] : 0.0f; });
    if (!arguments.log_sum_exp) continue;
    for (std::int64_t i = 0; i < rows.chunk.count; ++i) {
      arguments.log_sum_exp(rows.chunk.row(i), rows.chunk.head(i)) = rows.maximum[i] + std::log(rows.sum[i]);
    }
  }
}

struct BackwardTiles {
  alignas(64) float query[kTileRows * kMaxHeadDim];  // times scale
  alignas(64) float grad_output[kTileRows * kMaxHeadDim];
  alignas(64) float key[kMaxHeadDim * kTileKeys];    // transposed
  alignas(64) float value[kMaxHeadDim * kTileKeys];  // transposed
  alignas(64) float probabilities[kTileRows * kTileKeys];
  alignas(64) float grad_scores[kTileRows * kTileKeys];
  float log_sum_exp[kTileRows], delta[kTileRows];
};

struct QueryGradientTiles {
  alignas(64) float key[kTileKeys * kMaxHeadDim];
  alignas(64) float grad_query[kTileRows * kMaxHeadDim];
};

struct KeyGradientTiles {
  alignas(64) float grad_key[kTileKeys * kMaxHeadDim];
  alignas(64) float grad_value[kTileKeys * kMaxHeadDim];

  void clear(std::int64_t count, std::int64_t head_dim) {
    std::fill_n(grad_key, count * round_up(head_dim, kLanes), 0.0f);
    std::fill_n(grad_value, count * round_up(head_dim, kLanes), 0.0f);
  }
};

template <typename T>
void load_chunk(const AttentionBackward<T>& arguments, const Chunk& chunk, BackwardTiles& tiles) {
  load_packed(arguments.query, chunk, arguments.shape.head_dim, arguments.shape.scale, tiles.query);
  load_packed(arguments.grad_output, chunk, arguments.shape.head_dim, 1.0f, tiles.grad_output);
  for (std::int64_t i = 0; i < chunk.count; ++i) {
    tiles.log_sum_exp[i] = arguments.log_sum_exp(chunk.row(i), chunk.head(i));
    tiles.delta[i] = arguments.delta(chunk.row(i), chunk.head(i));
  }
}

// p = exp(s - log_sum_exp) and ds = p * (grad_o v^T - delta) for the loaded chunk and tile.
void differentiate_scores(BackwardTiles& tiles, const Visibility& seen, std::int64_t head_dim) {
  multiply_scores({tiles.query, tiles.key, tiles.probabilities}, seen, head_dim);
  multiply_scores({tiles.grad_output, tiles.value, tiles.grad_scores}, seen, head_dim);
  const std::int64_t first = seen.first_vector() * kLanes, last = first + seen.vectors() * kLanes;
  for (std::int64_t i = seen.first_row; i < seen.last_row; ++i) {
    for (std::int64_t column = i * kTileKeys + first; column < i * kTileKeys + last; column += kLanes) {
      const IntLanes mask = visible(seen, i, column - i * kTileKeys);
      const Lanes p = exp(load(tiles.probabilities + column) - tiles.log_sum_exp[i]);
      const Lanes grad_p = load(tiles.grad_scores + column) - tiles.delta[i];
      store(tiles.probabilities + column, mask ? p : Lanes{});
      store(tiles.grad_scores + column, mask ? p * grad_p : Lanes{});
    }
  }
}

template <typename T>
void differentiate_query(BackwardTiles& tiles, QueryGradientTiles& query, const Visibility& seen,
                         const KeyRows<T>& keys, const KeyRows<T>& values) {
  load_transposed(keys, tiles.key);
  load_transposed(values, tiles.value);
  load_rows(keys, query.key);
  differentiate_scores(tiles, seen, keys.head_dim);
  add_keys<float>(tiles.grad_scores, {query.key, round_up(keys.head_dim, kLanes)}, seen, keys.head_dim,
                  query.grad_query);
}

void differentiate_keys(const BackwardTiles& tiles, const Visibility& seen, std::int64_t head_dim,
                        KeyGradientTiles& keys) {
  add_rows(tiles.probabilities, tiles.grad_output, seen, head_dim, keys.grad_value);
  add_rows(tiles.grad_scores, tiles.query, seen, head_dim, keys.grad_key);
}

template <typename T>
void store_rows(const float* tile, std::int64_t first, std::int64_t count, std::int64_t column,
                std::int64_t head_dim, const Matrix<T>& to) {
  const std::int64_t stride = round_up(head_dim, kLanes);
  for (std::int64_t i = 0; i < count; ++i) {
    T* row = to.row(first + i) + column;
    for_lanes(0, head_dim, [&](auto place) { place.store(row, load(tile + i * stride + place.column)); });
  }
}

// grad_query of a group's rows, and the gradients of its own block.
template <typename T>
void backward_group(const AttentionBackward<T>& arguments, const Cut& cut, const Group& group,
                    std::int64_t kv_head) {
  const AttentionShape& shape = arguments.shape;
  const std::int64_t head_dim = shape.head_dim, column = kv_head * head_dim, block_size = shape.block_size;
  BackwardTiles tiles;
  QueryGradientTiles query;
  KeyGradientTiles own;
  own.clear(block_size, head_dim);
  cut.for_chunks(group, kv_head, [&](const Chunk& chunk) {
    load_chunk(arguments, chunk, tiles);
    std::fill_n(query.grad_query, chunk.count * round_up(head_dim, kLanes), 0.0f);
    if (block_size > 0) {
      const Visibility seen = block_visibility(shape, arguments.intervals, chunk);
      if (!seen.empty()) {
        differentiate_query<T>(tiles, query, seen,
                               {arguments.block_key, group.first_row, block_size, column, head_dim},
                               {arguments.block_value, group.first_row, block_size, column, head_dim});
        differentiate_keys(tiles, seen, head_dim, own);
      }
    }
    for (std::int64_t first = group.origin; first < group.limit; first += kTileKeys) {
      const std::int64_t count = std::min(kTileKeys, group.limit - first);
      const Visibility seen = context_visibility(arguments.intervals, chunk, first, count);
      if (seen.empty()) continue;
      differentiate_query<T>(tiles, query, seen, {arguments.context_key, first, count, column, head_dim},
                             {arguments.context_value, first, count, column, head_dim});
    }
    store_packed(query.grad_query, chunk, head_dim, arguments.grad_query,
                 [&](std::int64_t) { return shape.scale; });
  });
  if (block_size == 0) return;
  store_rows(own.grad_key, group.first_row, block_size, column, head_dim, arguments.grad_block_key);
  store_rows(own.grad_value, group.first_row, block_size, column, head_dim, arguments.grad_block_value);
}

// The gradients of up to kTileKeys context rows from `first` on, from every row that sees them.
template <typename T>
void backward_context_tile(const AttentionBackward<T>& arguments, const Cut& cut, std::int64_t first,
                           std::int64_t kv_head) {
  const std::int64_t head_dim = arguments.shape.head_dim, column = kv_head * head_dim;
  const std::int64_t count = std::min(kTileKeys, arguments.context_key.rows - first);
  BackwardTiles tiles;
  KeyGradientTiles gradients;
  gradients.clear(count, head_dim);
  load_transposed(KeyRows<T>{arguments.context_key, first, count, column, head_dim}, tiles.key);
  load_transposed(KeyRows<T>{arguments.context_value, first, count, column, head_dim}, tiles.value);
  for (std::int64_t item = 0; item < cut.items(); ++item) {
    cut.for_groups(item, [&](const Group& group) {
      if (group.origin >= first + count || group.limit <= first) return;
      cut.for_chunks(group, kv_head, [&](const Chunk& chunk) {
        const Visibility seen = context_visibility(arguments.intervals, chunk, first, count);
        if (seen.empty()) return;
        load_chunk(arguments, chunk, tiles);
        differentiate_scores(tiles, seen, head_dim);
        differentiate_keys(tiles, seen, head_dim, gradients);
      });
    });
  }
  store_rows(gradients.grad_key, first, count, column, head_dim, arguments.grad_context_key);
  store_rows(gradients.grad_value, first, count, column, head_dim, arguments.grad_context_value);
}

// delta = sum(grad_output * output), by row and head.
template <typename T>
void make_delta(const Stream& stream, const AttentionBackward<T>& arguments) {
  const std::int64_t rows = arguments.query.rows, head_dim = arguments.shape.head_dim;
  parallel_ranges(
      stream, rows, rows * arguments.query.columns / 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::int64_t head = 0; head < arguments.shape.query_heads; ++head) {
            const T* output = arguments.output.row(row) + head * head_dim;
            const T* grad_output = arguments.grad_output.row(row) + head * head_dim;
            Lanes sum{};
            for_lanes(0, head_dim, [&](auto place) { sum += place.load(output) * place.load(grad_output); });
            arguments.delta(row, head) = sum_of(sum);
          }
        }
      });
}

template <typename Arguments>
void check_operands(const Arguments& arguments) {
  const AttentionShape& shape = arguments.shape;
  const ContextIntervals& intervals = arguments.intervals;
  const std::int64_t rows = intervals.begin.size, kv_width = shape.kv_heads * shape.head_dim;
  DRAFTSMITH_CHECK(
      arguments.query.rows == rows && arguments.query.columns == shape.query_heads * shape.head_dim,
      "an interval for each query row, all its heads side by side");
  DRAFTSMITH_CHECK(
      shape.block_size == 0 || (arguments.block_key.rows == rows && arguments.block_value.rows == rows),
      "a block key and value for each query row");
  DRAFTSMITH_CHECK(arguments.context_key.columns == kv_width && arguments.context_value.columns == kv_width,
                   "all kv heads side by side");
  for (std::int64_t row = 0; row < rows; ++row) {
    const bool sees_context = intervals.end[row] > intervals.begin[row];
    DRAFTSMITH_CHECK(
        !sees_context || (intervals.begin[row] >= 0 && intervals.end[row] <= arguments.context_key.rows),
        "an interval lies inside the context");
  }
}

// The number of multiply-adds, for deciding whether threads are worth waking.
std::int64_t work_of(const AttentionShape& shape, const ContextIntervals& intervals) {
  std::int64_t pairs = 0;
  for (std::int64_t row = 0; row < intervals.begin.size; ++row) {
    pairs += std::max<std::int64_t>(0, intervals.end[row] - intervals.begin[row]) + shape.block_size;
  }
  return 2 * pairs * shape.query_heads * shape.head_dim;
}

}  // namespace

template <typename T>
void attention_forward(const Stream& stream, const AttentionForward<T>& arguments) {
  const AttentionShape& shape = arguments.shape;
  const Cut cut(shape, arguments.intervals);
  check_operands(arguments);
  const std::int64_t items = cut.items();
  // Heads outermost: rows of a causal prefill grow longer, heads do not. A single item's heads go together.
  parallel_ranges(stream, items * shape.kv_heads, work_of(shape, arguments.intervals),
                  [&](std::int64_t begin, std::int64_t end) {
                    ForwardTiles tiles;
                    for (std::int64_t index = begin, heads = 1; index < end; index += heads) {
                      if (items == 1) heads = std::min(cut.heads_together(), end - index);
                      cut.for_groups(index % items, [&](const Group& group) {
                        cut.for_chunks(group, index / items, [&](const Chunk& chunk) {
                          forward_chunk(arguments, group, chunk, heads, tiles);
                        });
                      });
                    }
                  });
}

template <typename T>
void attention_backward(const Stream& stream, const AttentionBackward<T>& arguments) {
  const AttentionShape& shape = arguments.shape;
  const Cut cut(shape, arguments.intervals);
  check_operands(arguments);
  const std::int64_t work = 3 * work_of(shape, arguments.intervals);
  make_delta(stream, arguments);
  const std::int64_t items = cut.items();
  parallel_ranges(stream, items * shape.kv_heads, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      cut.for_groups(index % items,
                     [&](const Group& group) { backward_group(arguments, cut, group, index / items); });
    }
  });
  const std::int64_t context_tiles = div_ceil(arguments.context_key.rows, kTileKeys);
  parallel_ranges(stream, context_tiles * shape.kv_heads, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      backward_context_tile(arguments, cut, index % context_tiles * kTileKeys, index / context_tiles);
    }
  });
}

template void attention_forward(const Stream&, const AttentionForward<float>&);
template void attention_forward(const Stream&, const AttentionForward<bf16>&);
template void attention_backward(const Stream&, const AttentionBackward<float>&);
template void attention_backward(const Stream&, const AttentionBackward<bf16>&);

}  // namespace draftsmith::cpu
