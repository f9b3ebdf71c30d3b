#include "base/queue.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(Queue, KeepsTheOrderAndTheBound) {
  Queue<int> queue(3);
  std::thread producer([&] {
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(queue.push(i));
    queue.close();
  });
  int expected = 0;
  while (const auto value = queue.pop()) {
    EXPECT_EQ(*value, expected++);
    EXPECT_LE(queue.size(), 3u);
  }
  EXPECT_EQ(expected, 1000);
  producer.join();
}

TEST(Queue, WhatWasPushedBeforeTheEndIsStillPopped) {
  Queue<int> queue(2);
  queue.push(7);
  queue.close();
  EXPECT_FALSE(queue.push(8));
  EXPECT_EQ(queue.pop(), 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_EQ(queue.pop(), std::nullopt) << "the end is sticky";
  EXPECT_TRUE(queue.ended());
}

TEST(Queue, ClosingWakesAProducerThatWaitsForRoom) {
  Queue<int> queue(1);
  queue.push(1);
  std::thread producer([&] { EXPECT_FALSE(queue.push(2)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  queue.close();
  producer.join();
}

TEST(Queue, ClosingWakesAConsumerThatWaitsForWork) {
  Queue<int> queue(1);
  std::thread consumer([&] { EXPECT_EQ(queue.pop(), std::nullopt); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  queue.close();
  consumer.join();
}

TEST(Queue, APatientPopGivesUp) {
  Queue<int> queue(1);
  EXPECT_EQ(queue.pop_for(std::chrono::milliseconds(1)), std::nullopt);
  EXPECT_FALSE(queue.ended());
}

}  // namespace
}  // namespace draftsmith
