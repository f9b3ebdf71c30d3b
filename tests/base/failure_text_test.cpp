#include "base/failure_text.h"

#include <filesystem>
#include <new>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace draftsmith {
namespace {

using testing::HasSubstr;

TEST(FailureText, AnErrorKeepsItsWords) { EXPECT_EQ(failure_text(Error("as it is")), "as it is"); }

TEST(FailureText, MemoryThatRanOutNamesTheLimitsAndWhatToLower) {
  const std::string text = failure_text(std::bad_alloc());
  EXPECT_THAT(text, HasSubstr("ulimit -v, a control group"));
  EXPECT_THAT(text, HasSubstr("a lower train.context_tokens"));
}

TEST(FailureText, AFileSystemSaysPathReasonAndWhatHelps) {
  const std::string name(300, 'x');
  try {
    static_cast<void>(std::filesystem::exists(name));
    FAIL() << "accepted";
  } catch (const std::exception& failure) {
    EXPECT_EQ(failure_text(failure), name + ": File name too long; choose a shorter path");
  }
}

TEST(FailureText, AWorkingFolderThatIsGoneSaysToGoToAnother) {
  const std::filesystem::filesystem_error failure("cannot get current path",
                                                  std::make_error_code(std::errc::no_such_file_or_directory));
  EXPECT_EQ(failure_text(failure),
            "the working folder cannot be found: No such file or directory; go to one that is there (cd)");
}

}  // namespace
}  // namespace draftsmith
