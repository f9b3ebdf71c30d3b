#include "kernels/moe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "reference/moe.h"
#include "support/budget.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/kernel_types.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

struct MoeCase {
  std::int64_t rows = 1, experts = 8, chosen = 2;
  std::int64_t depth = 33, width = 21;
  bool normalise = false;

  // Sizes that fill words of 16 bytes keep rows on them.
  std::int64_t gap(std::int64_t elements) const {
    return depth % 8 == 0 && width % 8 == 0 ? 8 * elements : elements;
  }
};

// Routing, one product and the weighted sum, over operands with gaps.
template <typename T>
struct Mixture {
  MoeCase at;
  Guarded<float> logits;
  Guarded<T> input, expert_weights, products, weights, output;
  Guarded<std::int32_t> first, rows, places;

  explicit Mixture(const MoeCase& wanted)
      : at(wanted),
        logits(at.rows, at.experts, 3, 1),
        input(at.rows, at.depth, at.gap(2)),
        expert_weights(at.experts * at.width, at.depth, at.gap(1), at.gap(2)),
        products(at.rows * at.chosen, at.width, at.gap(5), at.gap(1)),
        weights(at.rows, at.chosen, 2),
        output(at.rows, at.width, at.gap(4)),
        first(1, at.experts + 1),
        rows(1, at.rows * at.chosen),
        places(at.rows, at.chosen, 1) {
    logits.fill_normal(1, 2);
    input.fill_normal(2);
    expert_weights.fill_normal(3);
  }

  void route(int threads = 1) {
    run_on<T>(test_device(threads), RouteExperts<T>{.logits = logits.matrix(),
                                                    .normalise = at.normalise,
                                                    .first = first.vector(),
                                                    .rows = rows.vector(),
                                                    .places = places.matrix(),
                                                    .weights = weights.matrix()});
  }
  void multiply(int threads = 1) {
    run_on<T>(test_device(threads), ExpertProducts<T>{.input = input.matrix(),
                                                      .rows = rows.vector(),
                                                      .first = first.vector(),
                                                      .weights = expert_weights.matrix(),
                                                      .output = products.matrix()});
  }
  void combine(int threads = 1) {
    run_on<T>(test_device(threads), CombineExperts<T>{.input = products.matrix(),
                                                      .places = places.matrix(),
                                                      .weights = weights.matrix(),
                                                      .output = output.matrix()});
  }
  void run(int threads = 1) {
    route(threads);
    multiply(threads);
    combine(threads);
  }

  RouteReference expected_route(std::int64_t row) {
    const std::vector<double> all = logits.values();
    const auto begin = all.begin() + row * at.experts;
    return route_reference({begin, begin + at.experts}, static_cast<int>(at.chosen), at.normalise);
  }
  std::int64_t expert_of(std::int32_t place) {
    std::int64_t expert = 0;
    while (first.vector()[expert + 1] <= place) ++expert;
    return expert;
  }
};

// Few places among many experts, and many places an expert; rows that begin on 16 bytes, and others.
const MoeCase kCases[] = {
    {.rows = 1, .experts = 1, .chosen = 1, .depth = 1, .width = 1},
    {.rows = 1, .experts = 8, .chosen = 2},
    {.rows = 37, .experts = 8, .chosen = 3, .depth = 48, .width = 20, .normalise = true},
    {.rows = 19, .experts = 130, .chosen = 8},
    {.rows = 5, .experts = 4, .chosen = 4, .depth = 16, .width = 3, .normalise = true},
    {.rows = 3, .experts = 1024, .chosen = 8, .depth = 8, .width = 8},
    {.rows = 70, .experts = 8, .chosen = 2, .depth = 136, .width = 40},
    {.rows = 90, .experts = 8, .chosen = 3, .depth = 72, .width = 136, .normalise = true},
    {.rows = 301, .experts = 3, .chosen = 2, .depth = 200, .width = 264},
};

template <typename T>
class MoeTest : public testing::Test {};
TYPED_TEST_SUITE(MoeTest, StorageTypes, StorageName);

// The exponential is within 2 ulp after a subtraction that may be off by half an ulp of the logits' spread;
// then a sum over the experts and a division.
TYPED_TEST(MoeTest, ChoosesAndWeighsAsTheFormulaDoes) {
  for (const MoeCase& at : kCases) {
    Mixture<TypeParam> mixture(at);
    mixture.route();
    for (std::int64_t row = 0; row < at.rows; ++row) {
      const RouteReference expected = mixture.expected_route(row);
      std::vector<double> weights;
      for (std::int64_t i = 0; i < at.chosen; ++i) {
        EXPECT_EQ(mixture.expert_of(mixture.places.matrix()(row, i)), expected.experts[i]);
        weights.push_back(static_cast<double>(mixture.weights.matrix()(row, i)));
      }
      expect_close(weights, expected.weights,
                   {.stored_as = kDType<TypeParam>, .terms = at.experts + 24, .scale = 1});
    }
    mixture.weights.expect_guards_intact();
    mixture.places.expect_guards_intact();
  }
}

// Places are dealt to experts in order, and within an expert to rows in order: each once.
TYPED_TEST(MoeTest, PlacesAreSortedByExpertAndThenByRow) {
  for (const MoeCase& at : kCases) {
    Mixture<TypeParam> mixture(at);
    mixture.route();
    std::vector<std::pair<std::int64_t, std::int32_t>> order;
    for (std::int32_t place = 0; place < at.rows * at.chosen; ++place)
      order.push_back({mixture.expert_of(place), mixture.rows.vector()[place]});
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_TRUE(std::adjacent_find(order.begin(), order.end()) == order.end());
    EXPECT_EQ(mixture.first.vector()[0], 0);
    EXPECT_EQ(mixture.first.vector()[at.experts], at.rows * at.chosen);
    for (std::int64_t row = 0; row < at.rows; ++row) {
      for (std::int64_t i = 0; i < at.chosen; ++i)
        EXPECT_EQ(mixture.rows.vector()[mixture.places.matrix()(row, i)], row);
    }
    mixture.first.expect_guards_intact();
    mixture.rows.expect_guards_intact();
  }
}

TYPED_TEST(MoeTest, AmongEqualsTheLowestExpertIsChosen) {
  Mixture<TypeParam> mixture({.rows = 1, .experts = 6, .chosen = 3});
  const float logits[] = {1, 2, 1, 2, 1, 0};
  std::copy_n(logits, 6, mixture.logits.matrix().data);
  mixture.route();
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < 3; ++i) chosen.push_back(mixture.expert_of(mixture.places.matrix()(0, i)));
  EXPECT_EQ(chosen, (std::vector<std::int64_t>{0, 1, 3}));
}

TYPED_TEST(MoeTest, LogitsFarApartGiveTheLimits) {
  Mixture<TypeParam> mixture({.rows = 1, .experts = 3, .chosen = 2, .normalise = true});
  const float logits[] = {-1e30f, 1e30f, -std::numeric_limits<float>::infinity()};
  std::copy_n(logits, 3, mixture.logits.matrix().data);
  mixture.route();
  EXPECT_EQ(static_cast<float>(mixture.weights.matrix()(0, 0)), 0.0f);
  EXPECT_EQ(static_cast<float>(mixture.weights.matrix()(0, 1)), 1.0f);
}

template <typename T>
void expect_products(Mixture<T>& mixture) {
  const MoeCase& at = mixture.at;
  const Matrix<T> input = mixture.input.matrix(), weights = mixture.expert_weights.matrix();
  std::vector<double> products, magnitudes;
  for (std::int32_t place = 0; place < at.rows * at.chosen; ++place) {
    const std::int64_t row = mixture.rows.vector()[place], expert = mixture.expert_of(place);
    for (std::int64_t column = 0; column < at.width; ++column) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < at.depth; ++k) {
        const double term =
            static_cast<double>(input(row, k)) * static_cast<double>(weights(expert * at.width + column, k));
        sum += term;
        magnitude += std::abs(term);
      }
      products.push_back(sum);
      magnitudes.push_back(magnitude);
    }
  }
  expect_close(mixture.products.values(), products,
               {.stored_as = kDType<T>, .terms = at.depth, .scale = largest_magnitude(magnitudes)});
  mixture.products.expect_guards_intact();
}

template <typename T>
void expect_sums(Mixture<T>& mixture) {
  const MoeCase& at = mixture.at;
  const std::vector<double> found = mixture.products.values();
  std::vector<double> sums, magnitudes;
  for (std::int64_t row = 0; row < at.rows; ++row) {
    for (std::int64_t column = 0; column < at.width; ++column) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < at.chosen; ++i) {
        const double term = static_cast<double>(mixture.weights.matrix()(row, i)) *
                            found[mixture.places.matrix()(row, i) * at.width + column];
        sum += term;
        magnitude += std::abs(term);
      }
      sums.push_back(sum);
      magnitudes.push_back(magnitude);
    }
  }
  expect_close(mixture.output.values(), sums,
               {.stored_as = kDType<T>, .terms = at.chosen + 1, .scale = largest_magnitude(magnitudes)});
  mixture.output.expect_guards_intact();
}

TYPED_TEST(MoeTest, ProductsAndSumsMatchTheFormula) {
  for (const MoeCase& at : kCases) {
    SCOPED_TRACE(testing::Message() << at.rows << " rows, " << at.experts << " experts");
    Mixture<TypeParam> mixture(at);
    mixture.run();
    expect_products(mixture);
    expect_sums(mixture);
  }
}

// Without an index, place p reads row p.
TYPED_TEST(MoeTest, ProductsReadPlacesInOrderWhereNoRowsAreGiven) {
  const MoeCase at{.rows = 9, .experts = 4, .chosen = 1, .depth = 16, .width = 8};
  Mixture<TypeParam> mixture(at);
  mixture.route();
  for (std::int32_t place = 0; place < at.rows; ++place) mixture.rows.vector()[place] = place;
  mixture.multiply();
  Guarded<TypeParam> output(at.rows, at.width);
  run_on<TypeParam>(test_device(), ExpertProducts<TypeParam>{.input = mixture.input.matrix(),
                                                             .rows = {},
                                                             .first = mixture.first.vector(),
                                                             .weights = mixture.expert_weights.matrix(),
                                                             .output = output.matrix()});
  EXPECT_TRUE(output.bits() == mixture.products.bits());
}

// Whoever shares the call or an expert, and however many threads. On a GPU one row and many go through tiles of
// different sizes.
TYPED_TEST(MoeTest, ARowHasTheBitsThatItHasAlone) {
  const MoeCase cases[] = {
      {.rows = 41, .experts = 8, .chosen = 3, .depth = 100, .width = 70, .normalise = true},
      {.rows = 64, .experts = 5, .chosen = 3, .depth = 104, .width = 72},
      {.rows = 301, .experts = 4, .chosen = 2, .depth = 200, .width = 136, .normalise = true},
  };
  for (const MoeCase& at : cases) {
    Mixture<TypeParam> together(at);
    together.run(3);
    MoeCase one = at;
    one.rows = 1;
    Mixture<TypeParam> alone(one);
    for (std::int64_t row = 0; row < at.rows; row += 1 + at.rows / 40) {
      std::copy_n(together.logits.matrix().row(row), at.experts, alone.logits.matrix().row(0));
      std::copy_n(together.input.matrix().row(row), at.depth, alone.input.matrix().row(0));
      alone.output.poison();
      alone.run(1);
      ASSERT_EQ(0, std::memcmp(alone.output.matrix().row(0), together.output.matrix().row(row),
                               static_cast<std::size_t>(at.width) * sizeof(TypeParam)))
          << row << " of " << at.rows;
    }
  }
}

// Shapes are fixed and what is chosen is data: some experts may have every row, others none.
TYPED_TEST(MoeTest, PopularExpertsAndThoseThatNobodyChoseMatchTheFormula) {
  const MoeCase at{.rows = 150, .experts = 9, .chosen = 2, .depth = 72, .width = 48};
  Mixture<TypeParam> mixture(at);
  for (std::int64_t row = 0; row < at.rows; ++row) {
    mixture.logits.matrix()(row, 3) = 50;
    mixture.logits.matrix()(row, row < 149 ? 7 : 8) = 40;
  }
  mixture.run();
  const std::int32_t first[] = {0, 0, 0, 0, 150, 150, 150, 150, 299, 300};
  EXPECT_TRUE(std::equal(std::begin(first), std::end(first), mixture.first.vector().begin()));
  expect_products(mixture);
  expect_sums(mixture);
}

}  // namespace
}  // namespace draftsmith::test
