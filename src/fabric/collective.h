// What the drafters of a run exchange: the sum of their gradients, range by range as backward completes them,
// and of the step's sums; with a sharded optimizer, the weights that each has updated. One rank a drafter,
// one thread a rank. Every rank makes the same calls in the same order, and finds the same bits; they repeat
// from run to run.
//
// What is asked for is queued and overlaps with the work that follows, until finish(). On GPUs it runs on a stream of
// the rank's own (fabric/cuda/nccl_collective.h); on CPU devices, where launches run at once, finish() does all of it
// (fabric/local_collective.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

namespace draftsmith {

struct ExchangeRange {
  std::int64_t begin = 0, size = 0;
};

// What one rank brings. All ranks bring the same sizes.
struct ExchangeBuffers {
  Vector<float> gradient;     // on the rank's device
  Vector<double> sums;        // likewise
  Vector<std::byte> weights;  // on the rank's device; empty unless they are gathered
};

class Collective {
 public:
  virtual ~Collective() = default;

  // Main thread, before the ranks' threads start: what every rank brings, then connect(), which exchanges
  // once, so that nothing is set up later. It leaves sums of anything in the buffers.
  virtual void set_buffers(std::int64_t rank, const ExchangeBuffers& buffers) = 0;
  virtual void connect() = 0;

  // The rank's thread. Each takes what its device has queued on `stream` before as done; none takes heap, and none but
  // finish() waits for other ranks. False when cancelled.
  // Sums a range of the gradients; every rank finds the sums in its own gradient.
  virtual bool reduce_gradient(std::int64_t rank, const ExchangeRange& range, const Stream& stream) = 0;
  virtual bool reduce_sums(std::int64_t rank, const Stream& stream) = 0;
  // Rank r has written the bytes parts[r] of its weights; every rank finds all of them in its own. `parts` outlives
  // finish().
  virtual bool gather_weights(std::int64_t rank, const std::vector<ExchangeRange>& parts,
                              const Stream& stream) = 0;
  // What is queued on `stream` from now on finds all of the above done. It is sound if cancelled() is still false once
  // the host has waited for the stream.
  virtual bool finish(std::int64_t rank, const Stream& stream) = 0;
  // Seconds that finish() has made the device wait since this was last called, at most two of them; once the host has
  // waited for the stream behind them.
  virtual double take_exposed_s(std::int64_t rank) = 0;

  // Any thread. cancel() ends every wait, now or soon, and later ones; it does not wait itself. Buffers then hold
  // anything.
  virtual void cancel() = 0;
  virtual bool cancelled() const = 0;
  // Main thread, now and then: throws Error when an exchange has failed beside the calls.
  virtual void check() = 0;
};

// devices[r] is rank r's. Throws Error for CPU devices beside GPUs.
void check_exchange(const std::vector<Device>& devices);
// Opens what the exchange needs; throws Error as above, and where GPUs cannot exchange.
std::unique_ptr<Collective> make_collective(const std::vector<Device>& devices);

}  // namespace draftsmith
