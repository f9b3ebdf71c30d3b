#include "data/safetensors_writer.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "data/safetensors.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

std::size_t count_files(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(SafetensorsWriter, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "a.safetensors";
  const std::vector<float> values{1, -2.5f, 3.00390625f, 1e-40f};
  const std::vector<std::int64_t> integers{-1, 1ll << 40};
  SafetensorsWriter writer(path,
                           {{"z", FileType::f32, {2, 2}},
                            {"empty", FileType::f32, {0}},
                            {"rounded", FileType::bf16, {4}},
                            {"i", FileType::i64, {2}},
                            {"scalar", FileType::u8, {}}},
                           {{"case", "{\"a\": \"b\"}"}});
  writer.write("z", std::span(values).first(3));
  writer.write("z", std::span(values).last(1));
  writer.write("rounded", std::span<const float>(values));
  writer.write("i", std::span<const std::int64_t>(integers));
  writer.write_bytes("scalar", std::vector<std::byte>{std::byte{7}});
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();

  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(),
            (std::map<std::string, std::string>{{"format", "pt"}, {"case", "{\"a\": \"b\"}"}}));
  std::vector<float> read(4);
  read_as(file.at("z"), std::span(read));
  EXPECT_EQ(read, values);
  EXPECT_THAT(file.at("z").shape, testing::ElementsAre(2, 2));
  read_as(file.at("rounded"), std::span(read));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(read[i], static_cast<float>(bf16(values[i])));
  std::vector<std::int64_t> read_integers(2);
  read_as(file.at("i"), std::span(read_integers));
  EXPECT_EQ(read_integers, integers);
  EXPECT_TRUE(file.at("scalar").shape.empty());
  EXPECT_EQ(count_files(folder.path()), 1u);
}

TEST(SafetensorsWriter, PadsTheHeaderWithSpacesAndKeepsTheDeclaredOrder) {
  const TemporaryFolder folder;
  for (int length = 1; length <= 9; ++length) {
    const std::filesystem::path path = folder.path() / "a.safetensors";
    SafetensorsWriter writer(path, {{std::string(static_cast<std::size_t>(length), 'b'), FileType::u8, {1}},
                                    {"a", FileType::u8, {1}}});
    writer.write_bytes(std::string(static_cast<std::size_t>(length), 'b'), std::vector<std::byte>(1));
    writer.write_bytes("a", std::vector<std::byte>(1));
    writer.finish();
    const std::string bytes = read_text_file(path);
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), 8);
    EXPECT_EQ(header_bytes % 8, 0u);
    EXPECT_EQ(bytes.size(), 8 + header_bytes + 2);
    const std::string header = bytes.substr(8, header_bytes);
    EXPECT_TRUE(header.starts_with("{\"__metadata__\":{\"format\":\"pt\"},\"b"));
    EXPECT_EQ(header.find_last_not_of(' '), header.rfind('}'));
    EXPECT_LT(header.find("\"b"), header.find("\"a\":{"));
  }
}

TEST(SafetensorsWriter, ConvertsMoreValuesThanOnePiece) {
  const TemporaryFolder folder;
  std::vector<float> values(40001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.37f * static_cast<float>(i);
  SafetensorsWriter writer(folder.path() / "a", {{"x", FileType::bf16, {40001}}});
  writer.write("x", std::span<const float>(values));
  writer.finish();
  const SafetensorsFile file(folder.path() / "a");
  std::vector<bf16> read(values.size());
  read_as(file.at("x"), std::span(read));
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(read[i].bits, bf16(values[i]).bits) << i;
}

TEST(SafetensorsWriter, AnUnfinishedFileLeavesNothingAndTheOldFileStays) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("a.safetensors", "old");
  {
    SafetensorsWriter writer(path, {{"x", FileType::f32, {2}}});
    writer.write("x", std::vector<float>{1});
  }
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(count_files(folder.path()), 1u);
}

TEST(SafetensorsWriter, FailuresToWriteNameThePathAndTheReason) {
  const TemporaryFolder folder;
  expect_error([&] { SafetensorsWriter(folder.path() / "none" / "a", {}); },
               {"none/a", "cannot create", "No such file or directory"});
  // A limit on the size of files stands in for a full disk.
  rlimit old = {};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4096, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  expect_error(
      [&] {
        SafetensorsWriter writer(folder.path() / "big", {{"x", FileType::f32, {10000}}});
        writer.write("x", std::vector<float>(10000));
        writer.finish();
      },
      {"/big", "cannot write", "File too large"});
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(count_files(folder.path()), 0u);
}

TEST(SafetensorsWriterDeathTest, TensorsComeInDeclaredOrderAndWhole) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.path() / "a", {{"x", FileType::f32, {2}}, {"y", FileType::f32, {1}}});
  EXPECT_DEATH(writer.write("y", std::vector<float>{1}), "order of their declaration");
  EXPECT_DEATH(writer.write("x", std::vector<float>{1, 2, 3}), "as many bytes as declared");
  EXPECT_DEATH(writer.finish(), "all declared tensors are written");
}

}  // namespace
}  // namespace draftsmith
