// Recording and replaying launches on the device under test.
#include "device/graph.h"

#include <cstring>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "device/memory.h"
#include "device/seal.h"
#include "device/stream.h"
#include "support/devices.h"

namespace draftsmith::test {
namespace {

constexpr std::int64_t kBytes = 4096;

// Copies `input` to `output` by way of the device, and fills the tail of `output` with 7.
struct Fixture {
  const Device device = test_device();
  const OwnStream own{device};
  const Stream stream = own.view();
  const Buffer input = Buffer::pinned(kBytes), output = Buffer::pinned(kBytes);
  const Buffer there = Buffer::on_device(device, kBytes);

  void body() const {
    copy_bytes(stream, there.data(), input.data(), kBytes);
    fill_bytes(stream, there.data() + kBytes - 16, 7, 16);
    copy_bytes(stream, output.data(), there.data(), kBytes);
  }
  Graph capture() const {
    return Graph::capture(stream, [this] { body(); });
  }
  void set_input(int value) const { std::memset(input.data(), value, kBytes); }
  void expect_output(int head, int tail) const {
    synchronize(stream);
    EXPECT_EQ(static_cast<int>(output.data()[0]), head);
    EXPECT_EQ(static_cast<int>(output.data()[kBytes - 17]), head);
    EXPECT_EQ(static_cast<int>(output.data()[kBytes - 16]), tail);
    EXPECT_EQ(static_cast<int>(output.data()[kBytes - 1]), tail);
  }
};

TEST(Graph, RunsNothingWhenItIsCaptured) {
  const Fixture at;
  at.set_input(3);
  const Graph graph = at.capture();
  at.expect_output(0, 0);
}

TEST(Graph, ReadsAtEveryReplayWhatTheMemoryHoldsThen) {
  const Fixture at;
  const Graph graph = at.capture();
  for (const int value : {3, 9, 100}) {
    at.set_input(value);
    graph.replay(at.stream);
    at.expect_output(value, 7);
  }
}

TEST(Graph, ReplaysInOrderWithWhatElseIsOnTheStream) {
  const Fixture at;
  const Graph graph = at.capture();
  at.set_input(5);
  graph.replay(at.stream);
  fill_bytes(at.stream, at.there.data(), 11, kBytes);
  copy_bytes(at.stream, at.output.data(), at.there.data(), kBytes);
  at.expect_output(11, 11);
  graph.replay(at.stream);
  at.expect_output(5, 7);
}

TEST(Graph, IsCapturedByOneThreadAndReplayedByAnotherOnAnotherStream) {
  const Fixture at;
  const Graph graph = at.capture();
  at.set_input(21);
  std::thread([&] {
    const OwnStream other(at.device);
    graph.replay(other.view());
    synchronize(other.view());
  }).join();
  at.expect_output(21, 7);
}

TEST(Graph, CaptureIsCountedAsSetUp) {
  const Fixture at;
  const auto kernels = static_cast<std::size_t>(SetUp::kernel);
  const std::int64_t before = seal_report().before[kernels];
  const Graph graph = at.capture();
  EXPECT_EQ(seal_report().before[kernels], before + 1);
}

// A CPU device runs the body at the replay, so that is where it throws.
TEST(Graph, ABodyThatThrowsIsHeardAndTheStreamGoesOn) {
  const Fixture at;
  const auto replay = [&] {
    Graph::capture(at.stream, [&] {
      at.body();
      throw std::runtime_error("the body");
    }).replay(at.stream);
  };
  EXPECT_THROW(replay(), std::runtime_error);
  at.set_input(8);
  at.capture().replay(at.stream);
  at.expect_output(8, 7);
}

}  // namespace
}  // namespace draftsmith::test
