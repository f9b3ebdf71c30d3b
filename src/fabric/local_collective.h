// The exchange over the logical devices of one process, in a fixed order:
//   result = ((rank 0 + rank 1) + rank 2) + …   element by element, the same bits in every rank's buffer
// and so independent of timing and of how the gradient is cut into ranges. Each rank sums its own part of the
// elements, so the work is shared. One rank alone exchanges nothing, on any device.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "fabric/barrier.h"
#include "fabric/collective.h"

namespace draftsmith {

class LocalCollective : public Collective {
 public:
  explicit LocalCollective(std::int64_t ranks) : buffers_(ranks), barrier_(ranks) {}

  void set_buffers(std::int64_t rank, const ExchangeBuffers& buffers) override { buffers_[rank] = buffers; }
  void connect() override {}

  // Block until all ranks have come, and take no heap.
  bool reduce_gradient(std::int64_t rank, const ExchangeRange& range, const Stream& stream) override;
  bool reduce_sums(std::int64_t rank, const Stream& stream) override;
  bool gather_weights(std::int64_t rank, const std::vector<ExchangeRange>& parts,
                      const Stream& stream) override;
  bool finish(std::int64_t rank, const Stream& stream) override;
  // The whole gradient and the sums, from beginning to end.
  bool all_reduce(std::int64_t rank);

  void cancel() override;
  bool cancelled() const override { return cancelled_; }
  void check() override {}

 private:
  bool alone() const { return buffers_.size() == 1; }

  // Constant after set_buffers().
  std::vector<ExchangeBuffers> buffers_;
  // Shared.
  Barrier barrier_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace draftsmith
