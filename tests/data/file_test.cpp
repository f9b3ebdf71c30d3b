#include "data/file.h"

#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

TEST(File, IsReplacedInOneStep) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "a.txt";
  atomic_write_file(path, "one");
  atomic_write_file(path, "");
  EXPECT_EQ(read_text_file(path), "");
  atomic_write_file(path, std::string("t\0o", 3));
  EXPECT_EQ(read_text_file(path), std::string("t\0o", 3));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(ResultFile, ReplacesTheFileBehindALinkAndKeepsTheLink) {
  const TemporaryFolder folder;
  const std::filesystem::path link = folder.path() / "link", file = folder.path() / "file";
  std::filesystem::create_symlink("file", link);
  for (const char* text : {"made", "replaced"}) {  // the file is not there at first
    check_writable(link);
    write_result_file(link, text);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(read_text_file(file), text);
  }
}

TEST(ResultFile, GoesIntoAPipeOrDeviceThatStaysOne) {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  check_writable(pipe);
  std::string read;
  std::thread reader([&] { std::ifstream(pipe) >> read; });
  write_result_file(pipe, "text");
  reader.join();
  EXPECT_EQ(read, "text");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  write_result_file("/dev/null", "text");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(File, AnErrorOfTheSystemSaysWhatToDo) {
  const TemporaryFolder folder;
  expect_error([&] { read_text_file(folder.path() / "none"); }, {"none: cannot open: No such file"});
  expect_error([&] { read_text_file(folder.path() / std::string(300, 'a')); },
               {"cannot open: File name too long; choose a shorter path"});
  expect_error([&] { throw_file_error("run/.lock", "open", EACCES); },
               {"run/.lock: cannot open: Permission denied; give this user the right to it"});
  expect_error([&] { throw_file_error("a", "write", ENOSPC); },
               {"a: cannot write: No space left on device; make room there"});
}

TEST(File, HasTheUsualPermissions) {
  const TemporaryFolder folder;
  const mode_t mask = ::umask(022);
  atomic_write_file(folder.path() / "a", "x");
  ::umask(mask);
  struct stat status = {};
  ASSERT_EQ(::stat((folder.path() / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
}

TEST(File, AnAtomicFileThatIsNotCommittedIsRemoved) {
  const TemporaryFolder folder;
  {
    AtomicFile first(folder.path() / "a"), second(folder.path() / "a");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(File, FailuresNameThePathAndTheReason) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "a");
  expect_error([&] { atomic_write_file(folder.path() / "a", "x"); }, {"/a: cannot rename", "Is a directory"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  expect_error([&] { read_text_file(folder.path() / "b"); }, {"/b: cannot open", "No such file"});
  expect_error([&] { sync_folder(folder.path() / "b"); }, {"/b: cannot open"});
}

TEST(File, AStreamThatCannotBeOpenedSaysWhy) {
  const TemporaryFolder folder;
  const auto loop = folder.path() / "loop";
  std::filesystem::create_symlink(loop, loop);
  expect_error([&] { open_stream(loop, "this list"); },
               {loop.string() + ": cannot open this list: Too many levels of symbolic links"});
  expect_error([&] { open_stream(folder.path(), "this list"); }, {"cannot open this list: Is a directory"});
  expect_error([&] { open_stream("no/list", "this list"); },
               {"no/list: cannot open this list: No such file or directory; relative paths start in " +
                std::filesystem::current_path().string()});
}

TEST(File, AMappingMovesWithItsObject) {
  const TemporaryFolder folder;
  MappedFile first(folder.write("a", "abc"));
  const std::byte* address = first.bytes().data();
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().data(), address);
  first = MappedFile(folder.write("b", "bcde"));
  std::swap(first, second);
  EXPECT_EQ(first.bytes().size(), 3u);
  EXPECT_EQ(second.bytes().size(), 4u);
}

}  // namespace
}  // namespace draftsmith
