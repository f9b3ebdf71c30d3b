#include "kernels/adamw.h"

#include <gtest/gtest.h>

#include "reference/adamw.h"
#include "support/budget.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/kernel_types.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

template <typename T>
class AdamWTest : public testing::Test {};
TYPED_TEST_SUITE(AdamWTest, StorageTypes, StorageName);

template <typename T>
struct Operands {
  std::int64_t size, decayed;
  AdamWSettings settings{.weight_decay = 0.1f};
  VisibleVector<UpdateState> state{{.scale = 0.25f, .applied = 1, .updates = 1}};
  Guarded<float> gradient, master, first_moment, second_moment;
  Guarded<T> weights;

  Operands(std::int64_t size, std::int64_t decayed)
      : size(size),
        decayed(decayed),
        gradient(1, size),
        master(1, size),
        first_moment(1, size),
        second_moment(1, size),
        weights(1, size) {
    gradient.fill_normal(1);
    master.fill_normal(2);
    std::fill_n(first_moment.vector().data, size, 0.0f);
    std::fill_n(second_moment.vector().data, size, 0.0f);
  }

  void update(float learning_rate, int threads = 1) {
    const Device device = test_device(threads);
    state[0].learning_rate = learning_rate;
    run_on<T>(device, AdamWUpdate<T>{.settings = settings,
                                     .decayed = decayed,
                                     .state = Vector<const UpdateState>{state.data(), 1},
                                     .gradient = gradient.vector(),
                                     .master = master.vector(),
                                     .first_moment = first_moment.vector(),
                                     .second_moment = second_moment.vector(),
                                     .weights = weights.vector()});
  }
};

TYPED_TEST(AdamWTest, FiveUpdatesMatchTheFormula) {
  Operands<TypeParam> run(77, 37);
  const std::vector<double> start = run.master.values();
  std::vector<AdamWEntry> entries;
  for (const double master : start) entries.push_back({master, 0, 0});
  const double learning_rate = 0.0625;
  for (int step = 1; step <= 5; ++step) {
    run.gradient.fill_normal(static_cast<std::uint32_t>(10 + step));
    run.state[0].updates = step;
    run.update(static_cast<float>(learning_rate));
    const std::vector<double> gradient = run.gradient.values();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i] = adamw_reference(run.settings, entries[i], gradient[i] * 0.25, learning_rate,
                                   static_cast<std::int64_t>(i) < run.decayed, step);
    }
  }
  std::vector<double> masters;
  for (const AdamWEntry& entry : entries) masters.push_back(entry.master);
  // Each step rounds the master, the moments and about ten operations between them; a moment near 0 comes
  // from a gradient's size, so the quotient's error is that of the largest quotient, about 1/sqrt(1-beta2) at
  // most.
  expect_close(run.master.values(), masters,
               {.terms = 5 * 16, .scale = largest_magnitude(start) + 5 * learning_rate});
  for (std::int64_t i = 0; i < run.size; ++i) {
    EXPECT_EQ(run.weights.vector()[i], static_cast<TypeParam>(run.master.vector()[i]));
  }
  run.master.expect_guards_intact();
  run.first_moment.expect_guards_intact();
  run.second_moment.expect_guards_intact();
  run.weights.expect_guards_intact();
}

TYPED_TEST(AdamWTest, NothingChangesWhenTheUpdateIsNotApplied) {
  Operands<TypeParam> run(40, 0);
  run.state[0].applied = 0;
  const auto before = run.master.bits();
  run.update(1);
  EXPECT_TRUE(before == run.master.bits());
  for (const double moment : run.first_moment.values()) EXPECT_EQ(moment, 0.0);
}

TYPED_TEST(AdamWTest, ThreadsChangeNoBit) {
  Operands<TypeParam> one(100'003, 50'001);
  one.update(0.01f, 1);
  for (const int threads : {2, 3}) {
    Operands<TypeParam> many(100'003, 50'001);
    many.update(0.01f, threads);
    EXPECT_TRUE(one.master.bits() == many.master.bits());
    EXPECT_TRUE(one.second_moment.bits() == many.second_moment.bits());
    EXPECT_TRUE(one.weights.bits() == many.weights.bits());
  }
}

UpdateState prepare(double sum_of_squares, double loss, double denominator, float clip,
                    UpdateState state = {}) {
  const VisibleVector<double> sums{sum_of_squares, loss, denominator};
  const VisibleVector<float> learning_rate{0.5f};
  VisibleVector<UpdateState> states{state};
  const Device device = test_device();
  run_on<float>(device, PrepareUpdate<float>{.sum_of_squares = Vector<const double>{&sums[0], 1},
                                             .loss_numerator = Vector<const double>{&sums[1], 1},
                                             .denominator = Vector<const double>{&sums[2], 1},
                                             .learning_rate = Vector<const float>{&learning_rate[0], 1},
                                             .clip = clip,
                                             .state = {states.data(), 1}});
  return states[0];
}

TEST(PrepareUpdateTest, ScalesByTheDenominatorAndClips) {
  const UpdateState small = prepare(64, 12, 16, 1, {.updates = 3});
  EXPECT_EQ(small.gradient_norm, 0.5);
  EXPECT_EQ(small.loss, 0.75);
  EXPECT_EQ(small.scale, 1.0f / 16);
  EXPECT_EQ(small.learning_rate, 0.5f);
  EXPECT_EQ(small.applied, 1);
  EXPECT_EQ(small.updates, 4);
  const UpdateState large = prepare(4096, 12, 16, 1);
  EXPECT_EQ(large.gradient_norm, 4.0);
  EXPECT_EQ(large.scale, 0.25f / 16);
  EXPECT_EQ(prepare(4096, 12, 16, 0).scale, 1.0f / 16);
  EXPECT_EQ(prepare(0, 12, 16, 1).scale, 1.0f / 16);
}

TEST(PrepareUpdateTest, WhatIsNotFiniteOrNotSupervisedIsNotApplied) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const UpdateState& state :
       {prepare(nan, 1, 1, 1, {.updates = 2}), prepare(infinity, 1, 1, 1, {.updates = 2}),
        prepare(1, nan, 1, 1, {.updates = 2}), prepare(0, 0, 0, 1, {.updates = 2})}) {
    EXPECT_EQ(state.applied, 0);
    EXPECT_EQ(state.updates, 2);
  }
}

}  // namespace
}  // namespace draftsmith::test
