#include "data/checksum.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

// Known answers of RFC 3720, appendix B.4, and the usual check value.
TEST(Checksum, GivesTheKnownAnswers) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
  EXPECT_EQ(crc32c(std::as_bytes(std::span(std::string_view("123456789")))), 0xe3069283u);
}

TEST(Checksum, ContinuesOverPieces) {
  const std::string text = "the checksum of a whole is that of its pieces in order";
  const auto bytes = std::as_bytes(std::span(text));
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut)
    EXPECT_EQ(crc32c(bytes.subspan(cut), crc32c(bytes.first(cut))), crc32c(bytes));
}

}  // namespace
}  // namespace draftsmith
