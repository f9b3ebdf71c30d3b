#include "fabric/cuda/nccl_collective.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/mutex.h"
#include "device/seal.h"
#include "device/stream.h"
#include "fabric/cuda/nccl.h"

namespace draftsmith {
namespace {

using cuda::check_nccl;
using cuda::nccl;

// Blocks of threads that one exchange takes from the work beside it: a seventh of an H200's multiprocessors
// are enough for most of its links. Fixed, because how a range is cut into channels fixes the order of sums.
constexpr int kThreadBlocks = 16;

// One drafter's end. `mutex` is held in every call into NCCL, none of which waits for another rank once
// connect() is over; so cancel() can take it while an exchange hangs on the device.
struct Rank {
  explicit Rank(const Device& on)
      : device(on), stream(device), behind(device), finishes{Finish(device), Finish(device)} {}

  // When the rank's own work asked for the end of what was queued, and when it had ended.
  struct Finish {
    explicit Finish(const Device& on) : asked(on), done(on) {}
    Event asked, done;
    double exposed_s() const { return std::max(0.0, 1e-3 * Event::elapsed_ms(asked, done)); }
  };

  const Device device;
  OwnStream stream;  // the exchange's, beside the rank's own work
  // Used under the mutex.
  Event behind;
  std::array<Finish, 2> finishes;  // the first `unread` of them are not asked about yet
  std::size_t unread = 0;
  ExchangeBuffers buffers;
  Mutex mutex;
  ncclComm_t communicator GUARDED_BY(mutex) = nullptr;

  cudaStream_t native() const { return static_cast<cudaStream_t>(stream.view().native); }
};

class NcclCollective : public Collective {
 public:
  explicit NcclCollective(const std::vector<Device>& devices);
  ~NcclCollective() override;

  void set_buffers(std::int64_t rank, const ExchangeBuffers& buffers) override;
  void connect() override;

  bool reduce_gradient(std::int64_t rank, const ExchangeRange& range, const Stream& stream) override;
  bool reduce_sums(std::int64_t rank, const Stream& stream) override;
  bool gather_weights(std::int64_t rank, const std::vector<ExchangeRange>& parts,
                      const Stream& stream) override;
  bool finish(std::int64_t rank, const Stream& stream) override;
  double take_exposed_s(std::int64_t rank) override;

  void cancel() override;
  bool cancelled() const override { return cancelled_; }
  void check() override;

 private:
  // Runs body(rank) unless cancelled, with the rank's stream behind what is queued on `stream`.
  template <typename Body>
  bool queue(std::int64_t index, const Stream& stream, const Body& body);

  // Constant after set_buffers(), but for what a rank's mutex guards.
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::thread aborting_;  // by whoever cancels first
  // Shared.
  std::atomic<bool> cancelled_{false};
};

void all_reduce_gradient(Rank& rank, const ExchangeRange& range) REQUIRES(rank.mutex) {
  float* const data = rank.buffers.gradient.slice(range.begin, range.size).data;
  check_nccl(nccl().all_reduce(data, data, static_cast<std::size_t>(range.size), ncclFloat, ncclSum,
                               rank.communicator, rank.native()),
             "summing gradients");
}

void all_reduce_sums(Rank& rank) REQUIRES(rank.mutex) {
  const Vector<double>& sums = rank.buffers.sums;
  check_nccl(nccl().all_reduce(sums.data, sums.data, static_cast<std::size_t>(sums.size), ncclDouble, ncclSum,
                               rank.communicator, rank.native()),
             "adding up a step's sums");
}

void broadcast_weights(Rank& rank, const ExchangeRange& part, int root) REQUIRES(rank.mutex) {
  std::byte* const data = rank.buffers.weights.slice(part.begin, part.size).data;
  check_nccl(nccl().broadcast(data, data, static_cast<std::size_t>(part.size), ncclInt8, root,
                              rank.communicator, rank.native()),
             "gathering weights");
}

NcclCollective::NcclCollective(const std::vector<Device>& devices) {
  ncclUniqueId id;
  check_nccl(nccl().unique_id(&id), "starting an exchange between GPUs");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.minCTAs = kThreadBlocks;
  config.maxCTAs = kThreadBlocks;
  for (const Device& device : devices) ranks_.push_back(std::make_unique<Rank>(device));
  check_nccl(nccl().group_start(), "starting an exchange between GPUs");
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    count_set_up(SetUp::handle);
    Rank& own = *ranks_[rank];
    const Lock lock(own.mutex);
    attach_thread(own.device);
    check_nccl(nccl().init_rank(&own.communicator, static_cast<int>(ranks_.size()), id,
                                static_cast<int>(rank), &config),
               "starting an exchange between GPUs");
  }
  check_nccl(nccl().group_end(), "connecting the GPUs for an exchange");
}

NcclCollective::~NcclCollective() {
  if (aborting_.joinable()) aborting_.join();
  for (const auto& rank : ranks_) {
    const Lock lock(rank->mutex);
    if (rank->communicator != nullptr) static_cast<void>(nccl().destroy(rank->communicator));
  }
}

void NcclCollective::set_buffers(std::int64_t rank, const ExchangeBuffers& buffers) {
  ranks_[rank]->buffers = buffers;
}

// By one thread for all ranks: this is where NCCL loads its kernels. Weights are the same everywhere as yet,
// so handing on a few of rank 0's changes none.
void NcclCollective::connect() {
  const auto each_rank = [&](const auto& body) {
    check_nccl(nccl().group_start(), "exchanging for the first time");
    for (const auto& rank : ranks_) {
      const Lock lock(rank->mutex);
      attach_thread(rank->device);
      body(*rank);
    }
    check_nccl(nccl().group_end(), "exchanging for the first time");
  };
  each_rank([](Rank& rank) { all_reduce_gradient(rank, {.begin = 0, .size = rank.buffers.gradient.size}); });
  each_rank([](Rank& rank) { all_reduce_sums(rank); });
  if (ranks_.front()->buffers.weights.size > 0) {
    each_rank([](Rank& rank) {
      broadcast_weights(rank, {.begin = 0, .size = std::min<std::int64_t>(64, rank.buffers.weights.size)}, 0);
    });
  }
  for (const auto& rank : ranks_) synchronize(rank->stream.view());
}

template <typename Body>
bool NcclCollective::queue(std::int64_t index, const Stream& stream, const Body& body) {
  Rank& rank = *ranks_[index];
  const Lock lock(rank.mutex);
  if (cancelled_) return false;
  const LibraryCall call;
  rank.behind.record(stream);
  rank.behind.wait(rank.stream.view());
  body(rank);
  return true;
}

bool NcclCollective::reduce_gradient(std::int64_t rank, const ExchangeRange& range, const Stream& stream) {
  return queue(rank, stream, [&](Rank& own) { all_reduce_gradient(own, range); });
}

bool NcclCollective::reduce_sums(std::int64_t rank, const Stream& stream) {
  return queue(rank, stream, [](Rank& own) { all_reduce_sums(own); });
}

bool NcclCollective::gather_weights(std::int64_t rank, const std::vector<ExchangeRange>& parts,
                                    const Stream& stream) {
  return queue(rank, stream, [&](Rank& own) {
    check_nccl(nccl().group_start(), "gathering weights");
    for (std::size_t root = 0; root < parts.size(); ++root) {
      if (parts[root].size > 0) broadcast_weights(own, parts[root], static_cast<int>(root));
    }
    check_nccl(nccl().group_end(), "gathering weights");
  });
}

bool NcclCollective::finish(std::int64_t rank, const Stream& stream) {
  Rank& own = *ranks_[rank];
  const Lock lock(own.mutex);
  if (cancelled_) return false;
  DRAFTSMITH_CHECK(own.unread < own.finishes.size(), "two ends of an exchange between questions after them");
  Rank::Finish& finish = own.finishes[own.unread++];
  finish.asked.record(stream);
  finish.done.record(own.stream.view());
  finish.done.wait(stream);
  return true;
}

double NcclCollective::take_exposed_s(std::int64_t rank) {
  Rank& own = *ranks_[rank];
  const Lock lock(own.mutex);
  double sum_s = 0;
  for (; own.unread > 0; --own.unread) sum_s += own.finishes[own.unread - 1].exposed_s();
  return sum_s;
}

// Kernels that wait for a rank that never comes end, and with them what is queued behind them. Aborting waits for what
// the device is at, for ever where that hangs: a thread of its own does it, so that whoever cancels goes on to end the
// run.
void NcclCollective::cancel() {
  if (cancelled_.exchange(true)) return;
  aborting_ = std::thread([this] {
    for (const auto& rank : ranks_) {
      const Lock lock(rank->mutex);
      static_cast<void>(nccl().abort(rank->communicator));
      rank->communicator = nullptr;
    }
  });
}

void NcclCollective::check() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (cancelled_) return;  // then an abort may hold the mutex
    Rank& own = *ranks_[rank];
    const Lock lock(own.mutex);
    if (cancelled_) return;
    ncclResult_t failure = ncclSuccess;
    check_nccl(nccl().async_error(own.communicator, &failure), "asking after the exchange");
    if (failure == ncclSuccess || failure == ncclInProgress) continue;
    throw Error(
        fmt::format("the exchange of {} with the other drafters failed in NCCL: {}. NCCL_DEBUG=INFO "
                    "makes it say more",
                    own.device.name.text(), nccl().error_string(failure)));
  }
}

}  // namespace

std::unique_ptr<Collective> make_nccl_collective(const std::vector<Device>& devices) {
  return std::make_unique<NcclCollective>(devices);
}

}  // namespace draftsmith
