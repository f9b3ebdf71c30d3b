// Sums over the logical devices of one process, in a fixed order:
//   result = ((rank 0 + rank 1) + rank 2) + …   element by element, the same bits in every rank's buffer
// and so independent of timing. Each rank sums its own shard of the elements, so the work is shared.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/barrier.h"
#include "tensor/tensor.h"

namespace draftsmith {

// What one rank brings to an exchange and finds summed after it. All ranks bring the same sizes.
struct ExchangeBuffers {
  Vector<float> gradient;
  Vector<double> sums;
};

class LocalCollective {
 public:
  explicit LocalCollective(std::int64_t ranks) : buffers_(ranks), barrier_(ranks) {}

  // Before the ranks' threads start.
  void set_buffers(std::int64_t rank, const ExchangeBuffers& buffers) { buffers_[rank] = buffers; }

  // Called by every rank's thread. Blocks until all have come and every buffer holds the sums; takes no heap.
  // False when cancelled: the buffers then hold anything.
  bool all_reduce(std::int64_t rank);

  // Ends every wait, now and later. Any thread.
  void cancel() { barrier_.cancel(); }

 private:
  // Constant after set_buffers().
  std::vector<ExchangeBuffers> buffers_;
  // Shared.
  Barrier barrier_;
};

}  // namespace draftsmith
