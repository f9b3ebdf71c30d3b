// A training case of tests/golden: inputs, weights and right answers in float64, and what our code makes of
// them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "model/micro_batch.h"
#include "model/shape.h"
#include "model/weights.h"

namespace draftsmith {

struct GoldenCase {
  std::string name;
  DrafterShape shape;
  LossSettings loss;
  std::int64_t documents = 0, length = 0, blocks_per_document = 0;
  std::map<std::string, std::vector<double>> tensors;  // by their names in the file
};

struct GoldenResult {
  double loss = 0, accuracy = 0;
  double runs = 0, blocks = 0;                  // leading correct slots; blocks with any supervised slot
  std::vector<double> hidden, expected_hidden;  // of supervised slots, in the same order
  std::map<std::string, std::vector<double>> gradients;  // by weight name
};

// The files train_*.safetensors of a folder, sorted.
std::vector<std::filesystem::path> golden_training_cases(const std::filesystem::path& folder);

GoldenCase load_golden_case(const std::filesystem::path& path);

template <typename T>
GoldenResult run_golden_case(const GoldenCase& golden, const Kernels<T>& kernels = cpu_kernels<T>(),
                             const Device& device = {});

// |found - expected| / |expected| in the 2-norm.
double relative_error(const std::vector<double>& found, const std::vector<double>& expected);

struct GoldenErrors {
  double loss = 0, hidden = 0;
  double worst_gradient = 0;
  std::string worst_name;
};
GoldenErrors golden_errors(const GoldenCase& golden, const GoldenResult& result);

}  // namespace draftsmith
