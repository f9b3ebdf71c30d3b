// The drafter's training step against right answers made by public Python code and the PyTorch reference.
#include <cmath>

#include <gtest/gtest.h>

#include "model/golden_case.h"
#include "model/rounding_kernels.h"

namespace draftsmith {
namespace {

std::vector<std::string> trained_cases() {
  std::vector<std::string> cases;
  for (const auto& path : golden_training_cases(DRAFTSMITH_SOURCE_DIR "/tests/golden")) {
    cases.push_back(path);
  }
  return cases;
}

class GoldenTraining : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTraining, Float32AgreesWithTheReference) {
  const GoldenCase golden = load_golden_case(GetParam());
  const GoldenResult result = run_golden_case<float>(golden);
  const GoldenErrors errors = golden_errors(golden, result);
  EXPECT_LE(errors.loss, 1e-5);
  EXPECT_LE(errors.hidden, 1e-4);
  EXPECT_LE(errors.worst_gradient, 1e-4) << errors.worst_name;
  EXPECT_NEAR(result.accuracy, golden.tensors.at("accuracy")[0], 1e-12)
      << "counts of correct slots are exact";
  if (const auto runs = golden.tensors.find("leading_correct"); runs != golden.tensors.end()) {
    EXPECT_EQ(result.runs, runs->second[0]);
    EXPECT_EQ(result.blocks, runs->second[1]);
  }
}

// All gradients as one vector.
std::vector<double> concatenated(const std::map<std::string, std::vector<double>>& tensors,
                                 const std::string& prefix) {
  std::vector<double> all;
  for (const auto& [name, values] : tensors) {
    const auto found = name.starts_with(prefix) ? name.substr(prefix.size()) : std::string();
    if (!found.empty()) all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// bf16 may err at most twice as far as float32 code whose weights, inputs and stored activations are rounded
// to bf16.
TEST_P(GoldenTraining, Bf16ErrsNoMoreThanTwiceRoundedFloat32) {
  const GoldenCase golden = load_golden_case(GetParam());
  const GoldenResult found = run_golden_case<bf16>(golden);
  const GoldenResult allowed = run_golden_case<float>(golden, rounding_kernels());
  EXPECT_LE(golden_errors(golden, found).hidden, 2 * golden_errors(golden, allowed).hidden);
  const std::vector<double> expected = concatenated(golden.tensors, "grad.");
  EXPECT_LE(relative_error(concatenated(found.gradients, ""), expected),
            2 * relative_error(concatenated(allowed.gradients, ""), expected));
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTraining, testing::ValuesIn(trained_cases()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

// The same for each kind of weight, over its layers and all cases: one norm of 16 entries alone is too small
// a sample of rounding errors for a ratio of two to mean anything.
TEST(GoldenTrainingTensors, Bf16ErrsNoMoreThanTwiceRoundedFloat32InEveryKind) {
  std::map<std::string, double> found_squares, allowed_squares;
  for (const std::string& path : trained_cases()) {
    const GoldenCase golden = load_golden_case(path);
    const GoldenResult found = run_golden_case<bf16>(golden);
    const GoldenResult allowed = run_golden_case<float>(golden, rounding_kernels());
    for (const auto& [name, gradient] : found.gradients) {
      const auto& expected = golden.tensors.at("grad." + name);
      const std::string kind = name.starts_with("layers.") ? name.substr(name.find('.', 7)) : name;
      found_squares[kind] += std::pow(relative_error(gradient, expected), 2);
      allowed_squares[kind] += std::pow(relative_error(allowed.gradients.at(name), expected), 2);
    }
  }
  for (const auto& [kind, squares] : found_squares) {
    EXPECT_LE(std::sqrt(squares), 2 * std::sqrt(allowed_squares.at(kind))) << kind;
  }
}

}  // namespace
}  // namespace draftsmith
