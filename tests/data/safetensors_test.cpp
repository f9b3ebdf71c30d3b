#include "data/safetensors.h"

#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "data/tensor_store.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden";

// A file's bytes from the text of its header and the size of its data.
std::string file_bytes(std::string header, std::size_t data_bytes) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  bytes += header;
  for (std::size_t i = 0; i < data_bytes; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

SafetensorsFile parse(const std::string& bytes) {
  return SafetensorsFile(std::as_bytes(std::span(bytes)), "case.safetensors");
}

void expect_refused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  expect_error([&] { parse(bytes); }, parts);
}

std::string entry(std::string_view name, std::string_view type, std::string_view shape,
                  std::string_view offsets) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(type) +
         "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":" + std::string(offsets) + "}";
}

TEST(Safetensors, ReadsShapesTypesBytesAndMetadata) {
  const std::string bytes = file_bytes(
      "{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "U8", "[3]", "[8,11]") + "," +
          entry("a", "F32", "[2,1]", "[0,8]") + "," + entry("none", "F32", "[0,7]", "[8,8]") + "}   ",
      11);
  const SafetensorsFile file = parse(bytes);
  EXPECT_THAT(file.names(), testing::ElementsAre("a", "b", "none"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.at("a").type, FileType::f32);
  EXPECT_THAT(file.at("a").shape, testing::ElementsAre(2, 1));
  EXPECT_EQ(file.at("b").bytes[2], std::byte{10});
  EXPECT_EQ(file.at("none").elements(), 0);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Safetensors, AMissingTensorNamesTheNearest) {
  const std::string bytes = file_bytes(
      "{" + entry("layers.0.q_norm", "U8", "[1]", "[0,1]") + "," + entry("zebra", "U8", "[1]", "[1,2]") + "}",
      2);
  expect_error([&] { parse(bytes).at("layers.0.k_norm"); },
               {"case.safetensors", "layers.0.k_norm", "the nearest of 2 names: layers.0.q_norm"});
}

TEST(Safetensors, RefusesAFileThatIsCutShort) {
  expect_refused("", {"case.safetensors", "at least 8 bytes, found 0"});
  expect_refused("1234567", {"at least 8 bytes, found 7"});
  const std::string whole = file_bytes("{" + entry("a", "F32", "[2]", "[0,8]") + "}", 8);
  expect_refused(whole.substr(0, whole.size() - 1), {"tensor 'a'", "within the 7 bytes", "[0, 8]"});
  expect_refused(whole.substr(0, 20), {"cut short", "but only 12 follow"});
  expect_refused(whole + "x", {"expected 8 bytes of data by the header, found 9"});
}

TEST(Safetensors, RefusesAHeaderThatIsTooLongOrNoJson) {
  expect_refused(std::string(8, '\xff') + "{}", {"at most 100000000 bytes", "18446744073709551615"});
  expect_refused(file_bytes("[]", 0), {"start with '{'"});
  expect_refused(file_bytes("", 0), {"start with '{'", "found nothing"});
  expect_refused(file_bytes(" {}", 0), {"start with '{'"});
  expect_refused(file_bytes("{\"a\":", 0), {"expected JSON"});
  expect_refused(file_bytes("{} {}", 0), {"expected JSON"});
  expect_refused(file_bytes("{\"\xff\":1}", 0), {"expected JSON"});
  expect_refused(file_bytes("{\"a\":" + std::string(100000, '[') + "}", 0), {"nested deeper than 64"});
}

TEST(Safetensors, TextInPlaceOfAFileIsToldApart) {
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
                 {"found a Git LFS pointer", "git lfs pull"});
  expect_refused("<!DOCTYPE html>\n<html>", {"found text that begins with \"<!DOCTYPE html>\\n<html>\""});
  expect_refused(std::string(8, '\xff') + "tensors", {"found a length of 18446744073709551615"});
}

TEST(Safetensors, RefusesAKeyThatStandsTwice) {
  expect_refused(
      file_bytes("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]") + "}", 2),
      {"\"a\" stands twice"});
  expect_refused(file_bytes(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
                 {"\"dtype\" stands twice"});
}

TEST(Safetensors, RefusesWrongMembersByTensorAndKey) {
  expect_refused(file_bytes("{" + entry("a", "F31", "[1]", "[0,4]") + "}", 4),
                 {"tensor 'a'", "dtype among BOOL, U8", "found \"F31\""});
  expect_refused(file_bytes(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), {"tensor 'a'", "\"dtype\""});
  expect_refused(file_bytes(R"({"a":[]})", 0), {"tensor 'a'", "expected an object"});
  expect_refused(file_bytes("{" + entry("a", "F32", "[-1]", "[0,4]") + "}", 4),
                 {"tensor 'a'", "shape", "[-1]"});
  expect_refused(file_bytes("{" + entry("a", "F32", "[1.0]", "[0,4]") + "}", 4), {"tensor 'a'", "shape"});
  expect_refused(file_bytes("{" + entry("a", "F32", "[1]", "[0]") + "}", 4), {"data_offsets of two numbers"});
  expect_refused(file_bytes("{" + entry("a", "F32", "[1]", "[0,18446744073709551615]") + "}", 4),
                 {"tensor 'a'", "data_offsets"});
  expect_refused(file_bytes(R"({"__metadata__":{"format":1}})", 0),
                 {"__metadata__", "\"format\"", "found 1"});
  expect_refused(file_bytes(R"({"__metadata__":"pt"})", 0), {"__metadata__", "object of texts"});
}

TEST(Safetensors, RefusesSizesThatDoNotFit) {
  expect_refused(file_bytes("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4),
                 {"tensor 'a'", "the bytes of F32 [2]", "[0, 4] of 4 bytes"});
  expect_refused(file_bytes("{" + entry("a", "F32", "[1]", "[0,6]") + "}", 6), {"tensor 'a'", "of 6 bytes"});
  // Products that wrap around to the right number of elements.
  expect_refused(file_bytes("{" + entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0),
                 {"tensor 'a'"});
  expect_refused(file_bytes("{" + entry("a", "F32", "[4611686018427387905]", "[0,4]") + "}", 4),
                 {"tensor 'a'"});
  expect_refused(file_bytes("{" + entry("a", "U8", "[1]", "[1,0]") + "}", 1), {"tensor 'a'", "in order"});
}

TEST(Safetensors, RefusesHolesAndOverlaps) {
  const std::string a = "{" + entry("a", "U8", "[2]", "[0,2]") + ",";
  expect_refused(file_bytes(a + entry("b", "U8", "[2]", "[1,3]") + "}", 3), {"tensor 'b'", "overlap"});
  expect_refused(file_bytes(a + entry("b", "U8", "[2]", "[0,2]") + "}", 2), {"tensor 'b'", "overlap"});
  expect_refused(file_bytes(a + entry("b", "U8", "[2]", "[3,5]") + "}", 5),
                 {"tensor 'b'", "start at byte 2", "found 3", "hole"});
  expect_refused(file_bytes("{" + entry("a", "U8", "[2]", "[1,3]") + "}", 3), {"tensor 'a'", "hole"});
  expect_refused(file_bytes(a + entry("b", "U8", "[0]", "[1,1]") + "}", 2), {"tensor 'b'", "overlap"});
}

TEST(Safetensors, AMissingFileAndAFolderAreErrorsWithTheReason) {
  const TemporaryFolder folder;
  expect_error([&] { SafetensorsFile(folder.path() / "none.safetensors"); },
               {"none.safetensors", "No such file or directory"});
  expect_error([&] { SafetensorsFile file(folder.path()); }, {"expected a file, found a folder"});
}

TEST(Safetensors, ReadsEveryGoldenFile) {
  std::size_t files = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(kGolden)) {
    if (item.path().extension() != ".safetensors") continue;
    const SafetensorsFile file(item.path());
    for (const std::string& name : file.names()) EXPECT_GE(file.at(name).elements(), 0) << name;
    EXPECT_FALSE(file.names().empty()) << item.path();
    ++files;
  }
  EXPECT_GE(files, 30u);
}

// Whatever bytes change, reading either gives views inside the file or throws Error; nothing else.
TEST(Safetensors, SurvivesRandomDamage) {
  const std::string whole =
      file_bytes("{\"__metadata__\":{\"format\":\"pt\"}," + entry("w", "F32", "[2,3]", "[0,24]") + "," +
                     entry("b", "BF16", "[4]", "[24,32]") + "}",
                 32);
  const std::string_view alphabet = "0123456789[]{}\":,-.eE \\u\xff";
  int read = 0, refused = 0;
  for (std::uint32_t round = 0; round < 6000; ++round) {
    const Random random(11, RandomStream::noise, round);
    std::string bytes = whole;
    const std::uint64_t changes = 1 + random.below(0, 3);
    for (std::uint64_t change = 0; change < changes; ++change) {
      const std::size_t at = random.below(4 * change + 1, bytes.size());
      const char letter = alphabet[random.below(4 * change + 2, alphabet.size())];
      switch (random.below(4 * change + 3, 4)) {
        case 0:
          bytes[at] = letter;
          break;
        case 1:
          bytes[at] = static_cast<char>(random.bits(4 * change + 4));
          break;
        case 2:
          bytes.insert(at, 1, letter);
          break;
        default:
          bytes.erase(at, 1);
      }
    }
    try {
      const SafetensorsFile file = parse(bytes);
      ++read;
      for (const std::string& name : file.names()) {
        const std::span<const std::byte> view = file.at(name).bytes;
        const std::span<const std::byte> all = std::as_bytes(std::span(bytes));
        ASSERT_TRUE(view.empty() ||
                    (view.data() >= all.data() && view.data() + view.size() <= all.data() + all.size()));
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 100);  // damage to the data alone is not seen
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace draftsmith
