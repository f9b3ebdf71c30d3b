#include "data/snapshot.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/file.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

void write_snapshot(const std::filesystem::path& path, std::string_view weights) {
  SnapshotWriter writer(path);
  atomic_write_file(writer.file("weights"), weights);
  atomic_write_file(writer.file("state/step.json"), "{}");
  writer.commit();
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(folder))
    names.push_back(item.path().filename().string());
  return names;
}

TEST(Snapshot, AppearsWholeAndVerifies) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "step-10";
  write_snapshot(path, "abc");
  EXPECT_EQ(read_text_file(path / "weights"), "abc");
  EXPECT_EQ(read_text_file(path / "state/step.json"), "{}");
  EXPECT_NO_THROW(verify_snapshot(path));
  EXPECT_TRUE(is_complete_snapshot(path));
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("step-10"));
}

TEST(Snapshot, ListsSizesAndChecksumsByName) {
  const TemporaryFolder folder;
  write_snapshot(folder.path() / "s", "123456789");  // whose CRC-32C is e3069283
  const std::string list = read_text_file(folder.path() / "s/checksums.json");
  EXPECT_THAT(list, testing::HasSubstr("\"crc32c\": " + std::to_string(0xe3069283u)));
  EXPECT_LT(list.find("state/step.json"), list.find("weights"));
  EXPECT_THAT(list, testing::Not(testing::HasSubstr("checksums.json")));
}

TEST(Snapshot, WithoutCommitNothingStays) {
  const TemporaryFolder folder;
  {
    SnapshotWriter writer(folder.path() / "s");
    atomic_write_file(writer.file("weights"), "abc");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Snapshot, ReplacesAnOlderOneOfTheSameName) {
  const TemporaryFolder folder;
  write_snapshot(folder.path() / "s", "old");
  write_snapshot(folder.path() / "s", "newer");
  EXPECT_EQ(read_text_file(folder.path() / "s/weights"), "newer");
  EXPECT_NO_THROW(verify_snapshot(folder.path() / "s"));
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("s"));
}

TEST(Snapshot, VerifyingNamesTheFileAndWhatDiffers) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "s";
  write_snapshot(path, "abc");
  folder.write("s/weights", "abd");
  expect_error([&] { verify_snapshot(path); }, {"s/weights", "expected checksum", "found", "use another"});
  EXPECT_TRUE(is_complete_snapshot(path));
  folder.write("s/weights", "abcd");
  expect_error([&] { verify_snapshot(path); }, {"s/weights", "expected 3 bytes, found 4"});
  EXPECT_FALSE(is_complete_snapshot(path));
  EXPECT_EQ(gap_in_snapshot(path), (path / "weights").string() + ": expected 3 bytes, found 4");
  std::filesystem::remove(path / "weights");
  expect_error([&] { verify_snapshot(path); }, {"s/weights", "expected a file of 3 bytes, found none"});
  EXPECT_FALSE(is_complete_snapshot(path));
}

TEST(Snapshot, AFolderWithoutAListOrWithABrokenOneIsNotComplete) {
  const TemporaryFolder folder;
  expect_error([&] { verify_snapshot(folder.path()); }, {"checksums.json", "no such file"});
  EXPECT_FALSE(is_complete_snapshot(folder.path()));
  folder.write("checksums.json", R"({"files": [{"name": "a", "bytes": -1, "crc32c": 0}]})");
  expect_error([&] { verify_snapshot(folder.path()); }, {"checksums.json", "files.bytes", "found -1"});
  EXPECT_FALSE(is_complete_snapshot(folder.path()));
  folder.write("checksums.json", R"({"files": [{"na)");
  EXPECT_THAT(gap_in_snapshot(folder.path()),
              testing::Optional(testing::EndsWith(
                  "checksums.json: expected the list of a snapshot's files, found 15 bytes that are none")));
}

TEST(Snapshot, NeedsAFolderToStandIn) {
  const TemporaryFolder folder;
  expect_error([&] { SnapshotWriter(folder.path() / "none" / "s"); },
               {"none/s", "cannot create", "No such file or directory"});
}

// A process killed in the middle of a snapshot leaves the last one whole and rubbish that the next start
// finds.
TEST(Snapshot, AKilledWriterLeavesTheLastOneAndRecognisableRubbish) {
  const TemporaryFolder folder;
  write_snapshot(folder.path() / "s", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    SnapshotWriter writer(folder.path() / "s");
    atomic_write_file(writer.file("weights"), "half");
    const AtomicFile file(folder.path() / "metrics");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(names_in(folder.path()).size(), 3u);
  EXPECT_THAT(remove_stale_temporaries(folder.path()),
              testing::ElementsAre(testing::StartsWith(".tmp-metrics-"), testing::StartsWith(".tmp-s-")));
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("s"));
  EXPECT_EQ(read_text_file(folder.path() / "s/weights"), "old");
  EXPECT_NO_THROW(verify_snapshot(folder.path() / "s"));
}

TEST(Snapshot, WhatAnotherIsWritingIsNotAbandoned) {
  const TemporaryFolder folder;
  const SnapshotWriter writer(folder.path() / "s");
  const std::filesystem::path left = folder.write(".tmp-s-1-0/weights", "half");
  remove_abandoned_snapshots(folder.path() / "s");
  EXPECT_TRUE(std::filesystem::exists(writer.folder()));
  EXPECT_FALSE(std::filesystem::exists(left.parent_path()));
}

TEST(Snapshot, RemovingRubbishFromAFolderThatIsNotThereIsAnError) {
  expect_error([] { remove_stale_temporaries("/nonexistent-folder"); },
               {"/nonexistent-folder", "cannot list"});
}

// What others put into a snapshot: a file, one in a folder and a link to nowhere.
void add_strangers(const TemporaryFolder& folder) {
  folder.write("s/notes.txt", "mine");
  folder.write("s/converted/model.gguf", "much work");
  std::filesystem::create_symlink("/nonexistent-file", folder.path() / "s/link");
}

TEST(Snapshot, WhatOthersPutIntoOneStaysWhenItIsReplacedIfAsked) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "s";
  write_snapshot(path, "old");
  add_strangers(folder);
  for (const char* weights : {"newer", "newest"}) {  // what stayed once is still nobody's
    SnapshotWriter writer(path);
    atomic_write_file(writer.file("weights"), weights);
    writer.commit(SnapshotWriter::Strangers::stay);
    EXPECT_EQ(read_text_file(path / "weights"), weights);
    EXPECT_EQ(read_text_file(path / "notes.txt"), "mine");
    EXPECT_EQ(read_text_file(path / "converted/model.gguf"), "much work");
    EXPECT_TRUE(std::filesystem::is_symlink(path / "link"));
    EXPECT_FALSE(std::filesystem::exists(path / "state"));  // its own older files go
    EXPECT_NO_THROW(verify_snapshot(path));
    EXPECT_THAT(strangers_in(path), testing::ElementsAre("converted/model.gguf", "link", "notes.txt"));
    EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("s"));
  }
  write_snapshot(path, "alone");
  EXPECT_THAT(strangers_in(path), testing::IsEmpty());
}

TEST(Snapshot, AFileOfTheSameNameAsANewOneGivesWay) {
  const TemporaryFolder folder;
  folder.write("s/weights", "of a folder without a list");
  folder.write("s/notes.txt", "mine");
  SnapshotWriter writer(folder.path() / "s");
  atomic_write_file(writer.file("weights"), "new");
  writer.commit(SnapshotWriter::Strangers::stay);
  EXPECT_EQ(read_text_file(folder.path() / "s/weights"), "new");
  EXPECT_EQ(read_text_file(folder.path() / "s/notes.txt"), "mine");
}

TEST(Snapshot, RemovingOneLeavesWhatOthersPutIntoIt) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "s";
  constexpr std::string_view kUsual[] = {"weights", "state/step.json", "checksums.json"};
  const auto remove = [&] {
    for (const std::filesystem::path& gone : removed_with_snapshot(path, kUsual))
      std::filesystem::remove_all(gone);
  };
  remove();
  write_snapshot(path, "abc");
  remove();
  EXPECT_FALSE(std::filesystem::exists(path));
  for (const bool listed : {true, false}) {
    write_snapshot(path, "abc");
    add_strangers(folder);
    if (!listed) folder.write("s/checksums.json", "{");
    remove();
    EXPECT_FALSE(std::filesystem::exists(path / "weights"));
    EXPECT_FALSE(std::filesystem::exists(path / "checksums.json"));
    EXPECT_THAT(strangers_in(path), testing::ElementsAre("converted/model.gguf", "link", "notes.txt"));
    std::filesystem::remove_all(path);
  }
}

// What was put there while the new one was written.
TEST(Snapshot, AReplacementThatIsRefusedLeavesAllAsItWas) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "s";
  std::filesystem::create_directory(path);
  SnapshotWriter writer(path);
  atomic_write_file(writer.file("weights"), "new");
  folder.write("s/thesis", "mine");
  const auto refuse = [](const std::filesystem::path& replaced) {
    if (!std::filesystem::is_empty(replaced)) throw Error("it holds something");
  };
  expect_error([&] { writer.commit(SnapshotWriter::Strangers::go, refuse); }, {"it holds something"});
  EXPECT_EQ(read_text_file(path / "thesis"), "mine");
  EXPECT_FALSE(std::filesystem::exists(path / "weights"));
}

TEST(Snapshot, SomeOfItsFilesCanBeVerifiedAlone) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "s";
  write_snapshot(path, "abc");
  folder.write("s/state/step.json", "{ }");
  EXPECT_NO_THROW(verify_snapshot(path, {.only = {"weights"}}));
  expect_error(
      [&] {
        verify_snapshot(path, {.only = {"weights", "state/step.json"}, .advice = "do this"});
      },
      {"step.json: expected 2 bytes, found 3; do this"});
}

}  // namespace
}  // namespace draftsmith
