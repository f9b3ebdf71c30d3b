// An algorithm of the library as a text: read back exactly, and nothing else is.
#include "kernels/cuda/choices.h"

#include <cstring>

#include <gtest/gtest.h>

namespace draftsmith::cuda {
namespace {

Algorithm some_algorithm() {
  Algorithm algorithm{.scratch_bytes = 1234567};
  for (std::size_t i = 0; i < std::size(algorithm.description.data); ++i) {
    algorithm.description.data[i] = 0x0123456789abcdefull * (i + 1);
  }
  return algorithm;
}

TEST(AlgorithmChoice, ATextIsReadBackExactly) {
  const Algorithm algorithm = some_algorithm();
  const auto read = read_choice(choice_text(algorithm));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->scratch_bytes, 1234567);
  EXPECT_EQ(0, std::memcmp(&read->description, &algorithm.description, sizeof algorithm.description));
}

TEST(AlgorithmChoice, OtherTextsAreNone) {
  const std::string text = choice_text(some_algorithm());
  for (const std::string& other :
       {std::string(), std::string("few rows"), text.substr(1), text.substr(0, text.rfind(' ')),
        text.substr(0, text.rfind(' ') + 1), text + "x", text.substr(0, text.rfind(' ')) + " -1",
        "x" + text.substr(1)}) {
    EXPECT_FALSE(read_choice(other)) << other;
  }
}

}  // namespace
}  // namespace draftsmith::cuda
