#include "train/slots.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

constexpr SlotShape kShape{.budget = {.context_tokens = 8, .blocks = 2, .block_size = 2},
                           .feature_row_bytes = 16};

TEST(SlotRing, ASlotGoesRoundAndComesBackAsTheNextMicroBatch) {
  SlotRing ring(kShape, 2);
  Slot* const slot = ring.wait(0, SlotState::free);
  ring.advance(0, SlotState::packed);
  EXPECT_EQ(ring.wait(0, SlotState::packed), slot);
  ring.advance(0, SlotState::filled);
  EXPECT_EQ(ring.filled(), 1);
  EXPECT_EQ(ring.wait(0, SlotState::filled), slot);
  ring.advance(0, SlotState::free);
  EXPECT_EQ(ring.wait(2, SlotState::free), slot);
  EXPECT_NE(ring.wait(1, SlotState::free), slot);
}

TEST(SlotRing, TheArraysOfABatchLieSideBySide) {
  SlotRing ring(kShape, 1);
  const Slot& slot = *ring.wait(0, SlotState::free);
  const auto* const first = reinterpret_cast<const std::byte*>(slot.batch.tokens.data);
  const auto* const last = reinterpret_cast<const std::byte*>(slot.batch.loss_offsets.end());
  EXPECT_EQ(first, slot.batch_bytes.begin());
  EXPECT_LE(last, slot.batch_bytes.end());
  EXPECT_LE(slot.batch_bytes.end(), slot.features.begin());
}

// Starts a wait for what does not come, does something else, and expects null.
template <typename Call>
void expect_woken(SlotRing& ring, std::int64_t index, SlotState state, const Call& call) {
  std::thread waiting([&] { EXPECT_EQ(ring.wait(index, state), nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  call();
  waiting.join();
}

TEST(SlotRing, CloseWakesEverybodyForEver) {
  SlotRing ring(kShape, 1);
  expect_woken(ring, 0, SlotState::packed, [&] { ring.close(); });
  EXPECT_EQ(ring.wait(0, SlotState::free), nullptr);
}

TEST(SlotRing, TheEndWakesThoseBeyondItAndLetsTheOthersGoOn) {
  SlotRing ring(kShape, 2);
  expect_woken(ring, 1, SlotState::packed, [&] { ring.end_at(1); });
  EXPECT_NE(ring.wait(0, SlotState::free), nullptr);
  ring.end_at(5);  // does not move back
  EXPECT_EQ(ring.wait(1, SlotState::free), nullptr);
}

}  // namespace
}  // namespace draftsmith
