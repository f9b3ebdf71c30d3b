// Products of every form, by the GEMM library and by the kernel for few rows.
#include "kernels/matmul.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/heap.h"
#include "kernels/launcher.h"
#include "reference/matmul.h"
#include "support/budget.h"
#include "support/devices.h"
#include "support/expect_error.h"
#include "support/guard.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

struct MatmulCase {
  MatmulForm form;
  std::int64_t rows, columns, depth;
  bool accumulate = false;
  bool bias = false;
};

// Operands with gaps between their rows, on one device.
template <typename T, typename Out>
struct Product {
  MatmulCase at;
  Guarded<T> left, right, bias;
  Guarded<Out> output;
  std::vector<double> before;  // the output's values that are added to

  explicit Product(const MatmulCase& wanted) : at(wanted) {
    const bool left_transposed = at.form == MatmulForm::tn, right_transposed = at.form == MatmulForm::nt;
    left = left_transposed ? Guarded<T>(at.depth, at.rows, 3) : Guarded<T>(at.rows, at.depth, 3);
    right =
        right_transposed ? Guarded<T>(at.columns, at.depth, 5, 1) : Guarded<T>(at.depth, at.columns, 5, 1);
    bias = Guarded<T>(1, at.columns);
    output = Guarded<Out>(at.rows, at.columns, 7, 2);
    left.fill_normal(1);
    right.fill_normal(2);
    bias.fill_normal(3);
    if (at.accumulate) output.fill_normal(4);
    before = output.values();
  }

  Matmul<T, Out> arguments() {
    return {.form = at.form,
            .left = left.matrix(),
            .right = right.matrix(),
            .bias = at.bias ? bias.vector() : Vector<T>{},
            .output = output.matrix(),
            .accumulate = at.accumulate};
  }

  void run(int threads = 1) {
    const Device device = test_device(threads);
    PreparedLaunch<T> launch(device, arguments());
    launch(arguments());
  }

  void expect_formula() {
    MatmulReference expected = matmul_reference<T>(at.form, left.matrix(), right.matrix());
    const std::vector<double> biases = bias.values();
    // A bf16 product may be rounded before anything is added to it.
    const bool rounded_first = (at.accumulate || at.bias) && kDType<Out> == DType::bf16;
    const double rounding = rounded_first ? kUnitRoundoff<bf16> / kUnitRoundoff<float> : 0;
    std::vector<double> errors;
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      errors.push_back(rounding * std::abs(expected.values[i]));
      const double added = (at.bias ? biases[i % static_cast<std::size_t>(at.columns)] : 0.0) +
                           (at.accumulate ? before[i] : 0.0);
      expected.values[i] += added;
      expected.magnitudes[i] += std::abs(added);
    }
    for (std::size_t i = 0; i < errors.size(); ++i) {
      errors[i] += static_cast<double>(at.depth + 2) * expected.magnitudes[i];
    }
    expect_within(output.values(), expected.values, errors, kDType<Out>);
    output.expect_guards_intact();
  }
};

const std::vector<MatmulCase> kCases{
    {MatmulForm::nt, 1, 37, 45},
    {MatmulForm::nt, 5, 64, 96, false, true},
    {MatmulForm::nt, 32, 37, 45, true, true},
    {MatmulForm::nt, 33, 37, 45, false, true},
    {MatmulForm::nt, 70, 128, 96, true, false},
    {MatmulForm::nn, 1, 37, 45},
    {MatmulForm::nn, 70, 37, 96, true, false},
    {MatmulForm::tn, 1, 1, 45},
    {MatmulForm::tn, 37, 70, 96},
    {MatmulForm::tn, 64, 33, 1, true, false},
};

TEST(MatmulTest, EveryFormMatchesTheFormula) {
  for (const MatmulCase& at : kCases) {
    SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(at.form) << " " << at.rows << "x"
                                    << at.columns << "x" << at.depth);
    for (const int threads : {1, 2}) {
      Product<float, float> floats(at);
      floats.run(threads);
      floats.expect_formula();
      Product<bf16, float> widened(at);
      widened.run(threads);
      widened.expect_formula();
      Product<bf16, bf16> stored(at);
      stored.run(threads);
      stored.expect_formula();
    }
  }
}

template <typename T>
void expect_rerun_equal(int threads) {
  const MatmulCase at{MatmulForm::tn, 96, 200, 333};
  Product<T, float> first(at), second(at);
  first.run(threads);
  second.run(threads);
  EXPECT_TRUE(first.output.bits() == second.output.bits());
}

TEST(MatmulTest, TheSameThreadCountGivesTheSameBits) {
  for (const int threads : {1, 2, 3}) {
    expect_rerun_equal<float>(threads);
    expect_rerun_equal<bf16>(threads);
  }
}

// Every row of a few-rows product has the bits that it has alone.
template <typename T, typename Out>
void expect_rows_alone(std::int64_t columns, std::int64_t depth) {
  const MatmulCase all{MatmulForm::nt, kFewRows, columns, depth, true, true};
  Product<T, Out> together(all);
  together.run(2);
  for (const std::int64_t rows : {1, 2, 7, 8}) {
    for (std::int64_t first = 0; first + rows <= kFewRows; first += rows) {
      Product<T, Out> some(all);
      const Matrix<T> left = some.left.matrix();
      const Matrix<Out> output = some.output.matrix();
      Product<T, Out> few({MatmulForm::nt, rows, columns, depth, true, true});
      for (std::int64_t row = 0; row < rows; ++row) {
        std::copy_n(left.row(first + row), depth, few.left.matrix().row(row));
        std::copy_n(output.row(first + row), columns, few.output.matrix().row(row));
      }
      few.run(1);
      for (std::int64_t row = 0; row < rows; ++row) {
        ASSERT_EQ(0, std::memcmp(few.output.matrix().row(row), together.output.matrix().row(first + row),
                                 static_cast<std::size_t>(columns) * sizeof(Out)))
            << "row " << first + row << " among " << rows;
      }
    }
  }
}

TEST(MatmulTest, FewRowsHaveTheBitsThatTheyHaveAlone) {
  expect_rows_alone<float, float>(203, 203);
  expect_rows_alone<bf16, float>(130, 77);
  expect_rows_alone<bf16, bf16>(64, 256);
}

TEST(MatmulTest, RunningTakesNoHeapOfOurs) {
  const std::int64_t before = heap_counts().ours;
  for (const MatmulCase& at : kCases) {
    Product<float, float>(at).run(2);
    Product<bf16, bf16>(at).run(2);
  }
  EXPECT_EQ(heap_counts().ours, before);
}

// In a process of its own, whose GEMM library is told that the CPU has no AVX-512.
void prepare_without_avx512() {
  setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
  const Device device = cpu_device();
  expect_error(
      [&] {
        cpu_kernels<bf16>().prepare_matmul(device,
                                           {.form = MatmulForm::nt,
                                            .rows = 64,
                                            .columns = 32,
                                            .depth = 32,
                                            .left_stride = 32,
                                            .right_stride = 32,
                                            .output_stride = 32,
                                            .storage = DType::bf16,
                                            .output = DType::bf16},
                                           "");
      },
      {"nt 64x32x32 bf16", "train.compute: float32"});
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(MatmulDeathTest, Bf16WithoutAvx512IsRefusedNotSlow) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(prepare_without_avx512(), testing::ExitedWithCode(0), "");
}

TEST(MatmulTest, ThePlanNamesShapeAndAlgorithm) {
  const Device device = test_device();
  const auto prepared = kernels_of<float>(device).prepare_matmul(device,
                                                                 {.form = MatmulForm::nt,
                                                                  .rows = 40,
                                                                  .columns = 8,
                                                                  .depth = 8,
                                                                  .left_stride = 8,
                                                                  .right_stride = 8,
                                                                  .output_stride = 8},
                                                                 "");
  EXPECT_EQ(prepared->shape.rows, 40);
  EXPECT_FALSE(prepared->algorithm.empty());
  EXPECT_FALSE(prepared->algorithm.starts_with("ref"));
}

}  // namespace
}  // namespace draftsmith::test
