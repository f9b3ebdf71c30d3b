#include "model/target.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/safetensors.h"
#include "support/devices.h"
#include "support/target_bench.h"

namespace draftsmith {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden";

// reference.safetensors of a golden target.
class Reference {
 public:
  explicit Reference(const std::filesystem::path& folder) : file_(folder / "reference.safetensors") {}

  std::vector<std::int64_t> shape(const std::string& name) const { return file_.at(name).shape; }
  std::vector<float> floats(const std::string& name) const { return read<float>(name); }
  // A row of a matrix of token ids.
  std::vector<std::int32_t> ids(const std::string& name, std::int64_t row) const {
    const std::vector<std::int64_t> all = read<std::int64_t>(name);
    const std::int64_t columns = file_.at(name).shape[1];
    return {all.begin() + row * columns, all.begin() + (row + 1) * columns};
  }

 private:
  template <typename E>
  std::vector<E> read(const std::string& name) const {
    std::vector<E> values(static_cast<std::size_t>(file_.at(name).elements()));
    read_as(file_.at(name), std::span<E>(values));
    return values;
  }

  SafetensorsFile file_;
};

// |found - expected| / |expected|, Euclidean, over rows of `found` against row-major `expected`.
template <typename E>
double relative_error(Matrix<E> found, std::span<const float> expected) {
  double error = 0, size = 0;
  for (std::int64_t row = 0; row < found.rows; ++row) {
    for (std::int64_t column = 0; column < found.columns; ++column) {
      const double reference = expected[static_cast<std::size_t>(row * found.columns + column)];
      const double difference = static_cast<float>(found(row, column)) - reference;
      error += difference * difference;
      size += reference * reference;
    }
  }
  return std::sqrt(error / size);
}

template <typename E>
double cosine(Matrix<E> found, std::span<const float> expected) {
  double product = 0, found_size = 0, expected_size = 0;
  for (std::int64_t row = 0; row < found.rows; ++row) {
    for (std::int64_t column = 0; column < found.columns; ++column) {
      const double a = static_cast<float>(found(row, column));
      const double b = expected[static_cast<std::size_t>(row * found.columns + column)];
      product += a * b;
      found_size += a * a;
      expected_size += b * b;
    }
  }
  return product / std::sqrt(found_size * expected_size);
}

// Of the row in the middle, by cosine.
template <typename E>
double median_cosine(Matrix<E> found, std::span<const float> expected) {
  std::vector<double> cosines;
  for (std::int64_t row = 0; row < found.rows; ++row) {
    const auto first = static_cast<std::size_t>(row * found.columns);
    cosines.push_back(
        cosine(found.slice_rows(row, 1), expected.subspan(first, static_cast<std::size_t>(found.columns))));
  }
  std::sort(cosines.begin(), cosines.end());
  return cosines[cosines.size() / 2];
}

template <typename E>
std::vector<E> copy_of(Matrix<E> matrix, std::int64_t first, std::int64_t rows) {
  std::vector<E> values;
  for (std::int64_t row = first; row < first + rows; ++row) {
    values.insert(values.end(), matrix.row(row), matrix.row(row) + matrix.columns);
  }
  return values;
}

template <typename E>
bool same_bits(const std::vector<E>& a, const std::vector<E>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(E)) == 0;
}

std::int32_t argmax(Matrix<float> logits, std::int64_t row) {
  const float* begin = logits.row(row);
  return static_cast<std::int32_t>(std::max_element(begin, begin + logits.columns) - begin);
}

std::vector<std::int64_t> all_taps(const std::filesystem::path& folder) {
  std::vector<std::int64_t> taps(static_cast<std::size_t>(read_target_shape(folder).layers - 1));
  std::iota(taps.begin(), taps.end(), 0);
  return taps;
}

class GoldenTargetTest : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path folder() const { return kGolden / GetParam(); }
  static Device device() { return test::device_options().device; }
  // Both rows of input_ids as documents.
  std::vector<std::vector<std::int32_t>> documents() const {
    const Reference reference(folder());
    return {reference.ids("input_ids", 0), reference.ids("input_ids", 1)};
  }
};

TEST_P(GoldenTargetTest, EveryHiddenStateAndTheLogitsAgreeInFloat32) {
  const Reference reference(folder());
  TargetBench<float> bench(folder(), {.taps = all_taps(folder()), .rows = 128, .device = device()});
  const std::vector<TargetRow> rows = packed_rows(documents());
  bench.run(rows, 0, TargetOutputs::both);

  const std::vector<float> embedded = reference.floats("hidden.0");
  const std::vector<float> embedding = bench.on_host(bench.weights.tables.embedding);
  const std::int64_t width = bench.shape().width, count = static_cast<std::int64_t>(rows.size());
  for (std::int64_t row = 0; row < count; ++row) {
    EXPECT_EQ(std::memcmp(&embedding[rows[row].token * width], &embedded[row * width], width * sizeof(float)),
              0);
  }
  for (std::int64_t tap = 0; tap + 1 < bench.shape().layers; ++tap) {
    const Matrix<float> found = bench.features.slice_rows(0, count).slice_columns(tap * width, width);
    EXPECT_LT(relative_error(found, reference.floats("hidden." + std::to_string(tap + 1))), 1e-4) << tap;
  }
  const std::string last = "hidden." + std::to_string(bench.shape().layers);
  EXPECT_LT(relative_error(bench.hidden.slice_rows(0, count), reference.floats(last)), 1e-4);
  EXPECT_LT(relative_error(bench.logits.slice_rows(0, count), reference.floats("logits")), 1e-4);
}

// The logits are taken after the final norm: their argmax is the target's own.
TEST_P(GoldenTargetTest, TheArgmaxOfTheLogitsIsTheTargets) {
  const std::vector<float> expected = Reference(folder()).floats("logits");
  TargetBench<float> bench(folder(), {.rows = 128, .device = device()});
  const std::vector<TargetRow> rows = packed_rows(documents());
  bench.run(rows, 0, TargetOutputs::logits);
  const std::int64_t vocabulary = bench.shape().vocabulary;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto begin = expected.begin() + static_cast<std::int64_t>(row) * vocabulary;
    EXPECT_EQ(argmax(bench.logits, static_cast<std::int64_t>(row)),
              std::max_element(begin, begin + vocabulary) - begin);
  }
}

TEST_P(GoldenTargetTest, CachedDecodingContinuesGreedilyAsTheReferenceDoes) {
  constexpr std::int64_t kPrompt = 9;
  const std::vector<std::int32_t> expected = Reference(folder()).ids("greedy", 0);
  std::vector<std::int32_t> found(expected.begin(), expected.begin() + kPrompt);
  TargetBench<float> bench(folder(), {.rows = 64, .device = device()});
  bench.run(packed_rows({found}), 0, TargetOutputs::logits);
  found.push_back(argmax(bench.logits, kPrompt - 1));
  while (found.size() < expected.size()) {
    const auto place = static_cast<std::int32_t>(found.size()) - 1;
    const TargetRow row{.token = found.back(), .position = place, .begin = 0, .end = place + 1};
    bench.run({&row, 1}, place, TargetOutputs::logits);
    found.push_back(argmax(bench.logits, 0));
  }
  EXPECT_EQ(found, expected);
}

// Verifying a block and plain decoding must choose from the same numbers.
TEST_P(GoldenTargetTest, RowsDecodedOneByOneHaveTheBitsOfRowsDecodedTogether) {
  std::vector<std::int32_t> document = documents()[0];
  document.resize(kFewRows - 3);
  const auto count = static_cast<std::int64_t>(document.size());
  const std::vector<TargetRow> rows = packed_rows({document});
  TargetBench<float> together(folder(), {.rows = 64, .device = device()}),
      alone(folder(), {.rows = 64, .device = device()});
  together.run(rows, 0, TargetOutputs::logits);
  for (std::int64_t row = 0; row < count; ++row) {
    alone.run({&rows[row], 1}, row, TargetOutputs::logits);
    EXPECT_TRUE(same_bits(copy_of(alone.logits, 0, 1), copy_of(together.logits, row, 1))) << row;
  }
}

TEST_P(GoldenTargetTest, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  std::vector<std::vector<std::int32_t>> parts = documents();
  parts[0].resize(13);
  parts[1].resize(kFewRows - 13);
  const std::vector<std::int64_t> taps = all_taps(folder());
  TargetBench<float> packed(folder(), {.taps = taps, .device = device()}),
      separate(folder(), {.taps = taps, .device = device()});
  packed.run(packed_rows(parts), 0, TargetOutputs::both);
  std::int64_t first = 0;
  for (const auto& part : parts) {
    const auto count = static_cast<std::int64_t>(part.size());
    separate.run(packed_rows({part}), 0, TargetOutputs::both);
    EXPECT_TRUE(same_bits(copy_of(packed.features, first, count), copy_of(separate.features, 0, count)));
    EXPECT_TRUE(same_bits(copy_of(packed.logits, first, count), copy_of(separate.logits, 0, count)));
    first += count;
  }
}

TEST_P(GoldenTargetTest, NoRowSeesALaterOne) {
  constexpr std::int64_t kUnchanged = 20;
  std::vector<std::int32_t> document = documents()[0];
  const std::vector<std::int64_t> taps = all_taps(folder());
  TargetBench<float> bench(folder(), {.taps = taps, .device = device()});
  bench.run(packed_rows({document}), 0, TargetOutputs::both);
  const auto features = copy_of(bench.features, 0, kUnchanged);
  const auto logits = copy_of(bench.logits, 0, kUnchanged);
  const auto later = copy_of(bench.logits, kUnchanged, 1);
  for (std::size_t i = kUnchanged; i < document.size(); ++i) document[i] = (document[i] + 1) % 100;
  bench.run(packed_rows({document}), 0, TargetOutputs::both);
  EXPECT_TRUE(same_bits(features, copy_of(bench.features, 0, kUnchanged)));
  EXPECT_TRUE(same_bits(logits, copy_of(bench.logits, 0, kUnchanged)));
  EXPECT_FALSE(same_bits(later, copy_of(bench.logits, kUnchanged, 1)));
}

// Features need no weights above the last tap, and have the same bits as in a pass to the logits.
TEST_P(GoldenTargetTest, FeaturesAloneStopAtTheLastTap) {
  const std::vector<TargetRow> rows = packed_rows({documents()[0]});
  const auto count = static_cast<std::int64_t>(rows.size());
  TargetBench<float> whole(folder(), {.taps = {0, 1}, .device = device()}),
      low(folder(), {.taps = {0, 1}, .layers = 2, .device = device()});
  whole.run(rows, 0, TargetOutputs::both);
  low.run(rows, 0, TargetOutputs::features);
  EXPECT_TRUE(same_bits(copy_of(whole.features, 0, count), copy_of(low.features, 0, count)));
}

// bf16 storage keeps 8 bits; hidden states point where those of float32 point. Where two experts of a row are
// nearly tied, rounding may choose the other one, and that row points elsewhere: of a mixture of experts the
// row in the middle is looked at.
TEST_P(GoldenTargetTest, HiddenStatesInBf16PointTheSameWay) {
  const Reference reference(folder());
  TargetBench<bf16> bench(folder(), {.taps = all_taps(folder()), .rows = 128, .device = device()});
  const std::vector<TargetRow> rows = packed_rows(documents());
  bench.run(rows, 0, TargetOutputs::both);
  const std::int64_t width = bench.shape().width, count = static_cast<std::int64_t>(rows.size());
  const auto agreement = [&](auto found, const std::vector<float>& expected) {
    return bench.shape().experts.count > 0 ? median_cosine(found, expected) : cosine(found, expected);
  };
  for (std::int64_t tap = 0; tap + 1 < bench.shape().layers; ++tap) {
    const Matrix<bf16> found = bench.features.slice_rows(0, count).slice_columns(tap * width, width);
    EXPECT_GT(agreement(found, reference.floats("hidden." + std::to_string(tap + 1))), 0.999) << tap;
  }
  EXPECT_GT(agreement(bench.logits.slice_rows(0, count), reference.floats("logits")), 0.999);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTargetTest,
                         testing::Values("target_qwen3", "target_qwen2_tied", "target_llama",
                                         "target_llama3_rope", "target_llama_linear_rope",
                                         "target_qwen3_yarn", "target_qwen3_moe",
                                         "target_qwen3_wide_head_sharded"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace draftsmith
