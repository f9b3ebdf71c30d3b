#include "data/folder_lock.h"

#include <chrono>
#include <future>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

TEST(FolderLock, ASecondHolderIsToldTheFirst) {
  const TemporaryFolder folder;
  std::optional<FolderLock> first(std::in_place, folder.path());
  const std::string holder = "held by process " + std::to_string(::getpid()) + ";";
  expect_error([&] { FolderLock second(folder.path()); }, {folder.path().string(), holder, "another output"});
  first.reset();
  EXPECT_NO_THROW(FolderLock again(folder.path()));
}

TEST(FolderLock, IsTakenIfFreeAndElseNot) {
  const TemporaryFolder folder;
  const auto first = FolderLock::if_free(folder.path());
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(FolderLock::if_free(folder.path()), nullptr);
}

TEST(FolderLock, IsWaitedForAndSaysForWhom) {
  const TemporaryFolder folder;
  auto first = FolderLock::if_free(folder.path());
  testing::internal::CaptureStderr();
  auto second = std::async(std::launch::async, [&] { return FolderLock::wait(folder.path()); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  first.reset();
  EXPECT_NE(second.get(), nullptr);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("waiting for process " + std::to_string(::getpid())),
            std::string::npos);
}

TEST(FolderLock, EndsWithTheProcessThatHadIt) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder.path());
    ::_exit(0);  // without the destructor
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(std::filesystem::exists(folder.path() / ".lock"));
  EXPECT_NO_THROW(FolderLock lock(folder.path()));
}

TEST(FolderLock, NeedsTheFolder) {
  expect_error([] { FolderLock lock("/nonexistent-folder"); }, {"/nonexistent-folder/.lock", "No such file"});
}

}  // namespace
}  // namespace draftsmith
