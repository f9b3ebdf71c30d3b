// The exchange over the logical devices of one process, in a fixed order:
//   result = ((rank 0 + rank 1) + rank 2) + …   element by element, the same bits in every rank's buffer
// and so independent of timing and of how the gradient is cut into ranges. Each rank sums its own part of the
// elements, so the work is shared. All of it happens in finish(), where the ranks meet: a thread that is a target
// beside a drafter goes on making features for the others until then. One rank alone exchanges nothing, on any device.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "fabric/barrier.h"
#include "fabric/collective.h"

namespace draftsmith {

class LocalCollective : public Collective {
 public:
  explicit LocalCollective(std::int64_t ranks);

  void set_buffers(std::int64_t rank, const ExchangeBuffers& buffers) override { buffers_[rank] = buffers; }
  void connect() override {}

  bool reduce_gradient(std::int64_t rank, const ExchangeRange& range, const Stream& stream) override;
  bool reduce_sums(std::int64_t rank, const Stream& stream) override;
  bool gather_weights(std::int64_t rank, const std::vector<ExchangeRange>& parts,
                      const Stream& stream) override;
  // Blocks until all ranks have come.
  bool finish(std::int64_t rank, const Stream& stream) override;
  double take_exposed_s(std::int64_t rank) override { return std::exchange(queued_[rank].exposed_s, 0.0); }

  void cancel() override;
  bool cancelled() const override { return cancelled_; }
  void check() override {}

 private:
  // What a rank has asked for since its last finish().
  struct Queued {
    std::vector<ExchangeRange> gradient;  // of fixed capacity
    bool sums = false;
    const std::vector<ExchangeRange>* weights = nullptr;
    double exposed_s = 0;  // how long finish() took, since it was asked
  };

  void exchange(std::int64_t rank);

  // Constant after set_buffers().
  std::vector<ExchangeBuffers> buffers_;
  // Each its rank's thread's.
  std::vector<Queued> queued_;
  // Shared.
  Barrier barrier_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace draftsmith
