// The line that keeps a measured choice: read back exactly, and never when damaged.
#include "kernels/cuda/choices.h"

#include <cstring>

#include <gtest/gtest.h>

namespace draftsmith::cuda {
namespace {

const MatmulShape kShape{.form = MatmulForm::nt,
                         .rows = 64,
                         .columns = 128,
                         .depth = 256,
                         .left_stride = 256,
                         .right_stride = 264,
                         .output_stride = 128,
                         .storage = DType::bf16,
                         .output = DType::float32};

ProductChoice some_choice() {
  ProductChoice choice{.scratch_bytes = 1234567};
  for (std::size_t i = 0; i < std::size(choice.algorithm.data); ++i) {
    choice.algorithm.data[i] = 0x0123456789abcdefull * (i + 1);
  }
  return choice;
}

std::string line_of_choice() {
  std::string line = choice_line(kShape, some_choice());
  EXPECT_EQ(line.back(), '\n');
  line.pop_back();
  return line;
}

TEST(ProductChoices, ALineIsReadBackExactly) {
  const auto read = read_choice_line(kShape, line_of_choice());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->scratch_bytes, 1234567);
  const ProductChoice choice = some_choice();
  EXPECT_EQ(0, std::memcmp(&read->algorithm, &choice.algorithm, sizeof choice.algorithm));
}

TEST(ProductChoices, AnotherProductIsNotTaken) {
  MatmulShape other = kShape;
  other.right_stride = 256;
  EXPECT_FALSE(read_choice_line(other, line_of_choice()));
  other = kShape;
  other.accumulate = true;
  EXPECT_FALSE(read_choice_line(other, line_of_choice()));
}

TEST(ProductChoices, DamagedLinesAreNotTaken) {
  const std::string line = line_of_choice();
  for (std::size_t length = 0; length < line.size(); ++length) {
    EXPECT_FALSE(read_choice_line(kShape, line.substr(0, length))) << length;
  }
  for (std::size_t place = 0; place < line.size(); ++place) {
    std::string changed = line;
    changed[place] = changed[place] == '1' ? '2' : '1';
    EXPECT_FALSE(read_choice_line(kShape, changed)) << place;
  }
}

}  // namespace
}  // namespace draftsmith::cuda
