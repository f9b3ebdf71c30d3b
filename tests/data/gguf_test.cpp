#include "data/gguf.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/gguf_builder.h"

namespace draftsmith {
namespace {

using testing::ElementsAre;

GgufFile parse(const std::string& bytes) { return {std::as_bytes(std::span(bytes)), "case.gguf"}; }

void expect_refused(const GgufBuilder& builder, std::initializer_list<std::string_view> parts) {
  const std::string bytes = builder.build();
  expect_error([&] { parse(bytes); }, parts);
}

// Two tensors and a pair of every kind.
GgufBuilder good() {
  GgufBuilder builder;
  builder.text("name", "tiny");
  builder.u32("count", 7);
  builder.f32("epsilon", 1e-5f);
  builder.boolean("flag", true);
  builder.pair("wide", GgufTag::u64, little_endian(std::numeric_limits<std::uint64_t>::max()));
  builder.pair("negative", GgufTag::i8, little_endian<std::int8_t>(-3));
  builder.pair("double", GgufTag::f64, little_endian(0.1));
  builder.texts("words", {"a", "", "bc"});
  builder.i32s("numbers", {1, -2, 3});
  builder.list("nested", GgufTag::list, 1,
               little_endian(GgufTag::u8) + little_endian<std::uint64_t>(2) + std::string("xy"));
  builder.tensors = {{"matrix", {2, 3}, 0, std::string(24, 'm')},
                     {"blocks", {1, 32}, 8, std::string(34, 'b')}};
  return builder;
}

TEST(Gguf, ReadsPairsOfEveryType) {
  const std::string bytes = good().build();
  const GgufFile file = parse(bytes);
  const GgufMetadata& metadata = file.metadata();
  EXPECT_EQ(metadata.text("name"), "tiny");
  EXPECT_EQ(metadata.integer("count", {}), 7);
  EXPECT_EQ(metadata.number("count", {}), 7);
  EXPECT_EQ(metadata.number("epsilon", {}), 1e-5);  // the shortest decimal, not the float's own value
  EXPECT_EQ(metadata.number("double", {}), 0.1);
  EXPECT_EQ(metadata.find_boolean("flag"), true);
  EXPECT_EQ(metadata.integer("negative", {.least = -5}), -3);
  EXPECT_THAT(metadata.texts("words"), ElementsAre("a", "", "bc"));
  EXPECT_THAT(*metadata.find_integers("numbers", {.least = -2}), ElementsAre(1, -2, 3));
  EXPECT_TRUE(metadata.has("nested"));
  EXPECT_FALSE(metadata.find_text("absent"));
}

TEST(Gguf, ReadsTensorsWithTheInnermostSizeLast) {
  for (const std::uint32_t version : {2, 3}) {
    GgufBuilder builder = good();
    builder.version = version;
    const std::string bytes = builder.build();
    const GgufFile file = parse(bytes);
    EXPECT_THAT(file.names(), ElementsAre("blocks", "matrix"));
    const GgufTensor& matrix = *file.find("matrix");
    EXPECT_THAT(matrix.shape, ElementsAre(2, 3));
    EXPECT_EQ(matrix.type, GgufType::f32);
    EXPECT_EQ(matrix.bytes.size(), 24u);
    EXPECT_EQ(matrix.rows(), 2);
    EXPECT_EQ(file.find("blocks")->bytes[0], std::byte{'b'});
    EXPECT_EQ(file.find("absent"), nullptr);
  }
}

TEST(Gguf, AlignsTheDataAsTheFileSays) {
  GgufBuilder builder = good();
  builder.alignment = 256;
  builder.u32("general.alignment", 256);
  const std::string bytes = builder.build();
  EXPECT_EQ(parse(bytes).find("blocks")->bytes[33], std::byte{'b'});
  builder.u32("general.alignment", 8);
  expect_refused(builder, {"case.gguf", "\"general.alignment\"", "stands twice"});
  builder.remove("general.alignment");
  builder.u32("general.alignment", 12);
  expect_refused(builder, {"a multiple of 8", "found 12"});
  builder.remove("general.alignment");
  builder.u32("general.alignment", 0);
  expect_refused(builder, {"\"general.alignment\", found 0"});
}

TEST(Gguf, RefusesWhatIsNoGgufFileOfAKnownVersion) {
  GgufBuilder builder = good();
  builder.magic = "GGML";
  expect_refused(builder, {"case.gguf", "starts with \"GGUF\""});
  builder = good();
  builder.version = 1;
  expect_refused(builder, {"version 2 or 3", "found 1"});
  builder.version = 0x03000000;
  expect_refused(builder, {"big-endian"});
}

TEST(Gguf, RefusesEveryCutOfAFile) {
  const std::string whole = good().build();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::string cut = whole.substr(0, bytes);
    expect_error([&] { parse(cut); }, {"case.gguf", "fetch it again"});
  }
}

TEST(Gguf, RefusesCountsThatTheFileCannotHold) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  GgufBuilder builder = good();
  builder.tensor_count = kMost;
  expect_refused(builder, {"the number of tensors is 18446744073709551615", "cannot hold so many"});
  builder = good();
  builder.pair_count = kMost / 13;
  expect_refused(builder, {"the number of key-value pairs"});
  builder = good();
  builder.list("list", GgufTag::u64, kMost / 8 + 2, "");
  expect_refused(builder, {"the number of elements of \"list\""});
  builder = good();
  builder.pair("text", GgufTag::text, little_endian(kMost));
  expect_refused(builder, {"\"text\" of 18446744073709551615 bytes", "only"});
}

TEST(Gguf, RefusesPairsThatItDoesNotKnow) {
  GgufBuilder builder = good();
  builder.pair("odd", static_cast<GgufTag>(13), "");
  expect_refused(builder, {"a type from 0 to 12 for \"odd\"", "found 13"});
  builder = good();
  builder.list("odd", static_cast<GgufTag>(99), 0, "");
  expect_refused(builder, {"a type from 0 to 12 for the elements of \"odd\"", "found 99"});
  builder = good();
  builder.pair("half", GgufTag::boolean, std::string(1, '\2'));
  expect_refused(builder, {"0 or 1 for the boolean \"half\"", "found 2"});
  builder = good();
  builder.u32("name", 1);
  expect_refused(builder, {"the key \"name\" stands twice"});
  builder = good();
  builder.u32("", 1);
  expect_refused(builder, {"UTF-8 text for key 10", "none"});
  builder = good();
  builder.u32("\xff", 1);
  expect_refused(builder, {"UTF-8 text for key 10"});
}

TEST(Gguf, RefusesDeepNesting) {
  std::string value;
  for (int depth = 0; depth < 100000; ++depth)
    value += little_endian(GgufTag::list) + little_endian<std::uint64_t>(1);
  GgufBuilder builder = good();
  builder.pair("deep", GgufTag::list, value + std::string(16, '\0'));
  expect_refused(builder, {"\"deep\" is nested deeper than 8 levels"});
}

TEST(Gguf, SaysWhichValueCannotBeUsed) {
  const std::string bytes = good().build();
  const GgufFile file = parse(bytes);
  const GgufMetadata& metadata = file.metadata();
  expect_error([&] { metadata.integer("count", {.least = 8, .most = 9}); },
               {"case.gguf", "from 8 to 9 for \"count\"", "found 7"});
  expect_error([&] { metadata.integer("wide", {}); }, {"\"wide\"", "found a value of type u64"});
  expect_error([&] { metadata.integer("name", {}); }, {"\"name\", found \"tiny\""});
  expect_error([&] { metadata.integer("absent", {}); }, {"\"absent\", found no such key"});
  expect_error([&] { metadata.number("epsilon", {.least = 1, .most = 2}); },
               {"from 1 to 2", "found 1e-05 of type f32"});
  expect_error([&] { metadata.number("flag", {}); }, {"\"flag\", found true"});
  expect_error([&] { metadata.find_boolean("count"); }, {"true or false for \"count\""});
  expect_error([&] { metadata.text("words"); }, {"a text", "found a list of 3 of type text"});
  expect_error([&] { metadata.texts("numbers"); }, {"a list of texts", "a list of 3 of type i32"});
  expect_error([&] { metadata.find_integers("words", {}); }, {"a list of whole numbers"});
  expect_error([&] { metadata.find_integers("numbers", {}); }, {"\"numbers\""});
  expect_error([&] { metadata.find_integers("nested", {}); }, {"\"nested\", found a list of 1 of type list"});
}

TEST(Gguf, RefusesTextsThatAreNotUtf8) {
  GgufBuilder builder;
  builder.text("text", "a\xff");
  builder.texts("texts", {"a", "\xc0"});
  const std::string bytes = builder.build();
  const GgufFile file = parse(bytes);
  expect_error([&] { file.metadata().text("text"); }, {"a text in UTF-8 for \"text\"", "\"a\uFFFD\""});
  expect_error([&] { file.metadata().texts("texts"); }, {"UTF-8", "\"texts\""});
}

TEST(Gguf, NamesTheTypeOfATensorThatItDoesNotRead) {
  GgufBuilder builder = good();
  builder.tensors[0].type = 14;
  expect_refused(builder, {"case.gguf: tensor 'matrix'", "of type Q6_K", "F32, F16, Q4_0", "BF16"});
  builder.tensors[0].type = 1000;
  expect_refused(builder, {"of type number 1000"});
}

TEST(Gguf, RefusesTensorsWhoseNumbersDoNotFit) {
  const auto expect = [](auto change, std::initializer_list<std::string_view> parts) {
    GgufBuilder builder = good();
    change(builder.tensors);
    expect_refused(builder, parts);
  };
  using Tensors = std::vector<GgufBuilder::Tensor>;
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;
  expect([](Tensors& tensors) { tensors[0].shape = {1, 1, 1, 2, 3}; }, {"'matrix'", "at most 4 dimensions"});
  expect([](Tensors& tensors) { tensors[0].shape = {2, 0}; }, {"'matrix'", "at least 1", "found 0"});
  expect([](Tensors& tensors) { tensors[0].shape = {1, std::uint64_t{1} << 63}; }, {"'matrix'", "63 bits"});
  expect([](Tensors& tensors) { tensors[0].shape = {kHuge, kHuge}; }, {"'matrix'", "do not fit 63 bits"});
  expect(
      [](Tensors& tensors) {
        tensors[0].shape = {std::uint64_t{1} << 31, std::uint64_t{1} << 31};
      },
      {"'matrix'", "do not fit 63 bits"});
  expect([](Tensors& tensors) { tensors[0].shape = {200, 3}; }, {"'matrix'", "2400 bytes of F32 [200, 3]"});
  expect([](Tensors& tensors) { tensors[1].shape = {2, 16}; }, {"'blocks'", "whole blocks of 32 for Q8_0"});
  expect([](Tensors& tensors) { tensors[1].offset = 8; }, {"'blocks'", "a multiple of 32", "found 8"});
  expect([](Tensors& tensors) { tensors[1].offset = 0; }, {"overlaps that of"});
  expect([](Tensors& tensors) { tensors[1].offset = std::uint64_t{0} - 32; },
         {"'blocks'", "at offset 184467"});
  expect([](Tensors& tensors) { tensors[1].name = "matrix"; }, {"'matrix'", "stands twice"});
  expect([](Tensors& tensors) { tensors[1].name = ""; }, {"the name of tensor 1"});
  expect([](Tensors& tensors) { tensors[1].name = "\xfe"; }, {"UTF-8 text for the name of tensor 1"});
}

}  // namespace
}  // namespace draftsmith
