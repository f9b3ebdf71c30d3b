// The file of measured choices: read back exactly, never when damaged, shared by processes, and no trouble to
// anyone when it cannot be written.
#include "kernels/tuning_cache.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

const DeviceFacts kFacts = {{"card", "Card 3/X"}, {"driver", "13.0"}};

class TuningCacheTest : public testing::Test {
 protected:
  TuningCache cache_in(const std::filesystem::path& tuning, const DeviceFacts& facts = kFacts) const {
    Device device;
    device.tuning_folder = tuning.string();
    return TuningCache(device, facts);
  }
  TuningCache cache() const { return cache_in(folder_.path() / "new" / "folder"); }

  TemporaryFolder folder_;
};

TEST_F(TuningCacheTest, AChoiceIsReadBackExactlyAndTheFirstCounts) {
  cache().keep("nt 1x2x3", "deadbeef 12");
  cache().keep("nt 1x2x4", "other");
  cache().keep("nt 1x2x3", "measured again");
  EXPECT_EQ(cache().find("nt 1x2x3"), "deadbeef 12");
  EXPECT_EQ(cache().find("nt 1x2x4"), "other");
  EXPECT_EQ(cache().find("nt 1x2"), std::nullopt);
}

TEST_F(TuningCacheTest, AnotherDeviceHasAnotherFile) {
  cache().keep("nt", "chosen");
  for (const DeviceFacts& other :
       {DeviceFacts{{"card", "Card 4"}, {"driver", "13.0"}}, {{"card", "Card 3/X"}, {"driver", "13.1"}}}) {
    EXPECT_EQ(cache_in(folder_.path() / "new" / "folder", other).find("nt"), std::nullopt);
  }
  EXPECT_EQ(cache().file().filename(), "products-Card_3_X-13_0.txt");
}

TEST_F(TuningCacheTest, DamagedLinesArePassedOver) {
  cache().keep("nt", "choice 1");
  std::string line;
  {
    std::ifstream file(cache().file());
    std::getline(file, line);
  }
  const auto found = [&](const std::string& contents) {
    std::ofstream(cache().file(), std::ios::binary) << contents;
    return cache().find("nt");
  };
  EXPECT_EQ(found(line), "choice 1");
  for (std::size_t length = 0; length < line.size(); ++length) {
    EXPECT_EQ(found(line.substr(0, length)), std::nullopt) << length;
  }
  for (std::size_t place = 0; place < line.size(); ++place) {
    std::string changed = line;
    changed[place] = changed[place] == '1' ? '2' : '1';
    EXPECT_EQ(found(changed), std::nullopt) << place;
  }
  EXPECT_EQ(found("nt\tcho" + line + "\n" + line + "\n"), "choice 1");  // a torn line, then a whole one
}

TEST_F(TuningCacheTest, SeveralProcessesAppendWholeLines) {
  constexpr int kProcesses = 4, kChoices = 200;
  const std::string long_choice(300, 'a');
  std::vector<pid_t> processes;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0; i < kChoices; ++i) {
        cache().keep("product " + std::to_string(i), long_choice + std::to_string(process));
      }
      ::_exit(0);
    }
    processes.push_back(child);
  }
  for (const pid_t process : processes) {
    int status = 1;
    ASSERT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  for (int i = 0; i < kChoices; ++i) {
    const auto choice = cache().find("product " + std::to_string(i));
    ASSERT_TRUE(choice) << i;
    EXPECT_EQ(choice->substr(0, long_choice.size()), long_choice);
  }
  std::ifstream file(cache().file());
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_EQ(lines, kProcesses * kChoices);
}

TEST_F(TuningCacheTest, AnUnwritableFolderOrNoneKeepsNothingAndRefusesNothing) {
  std::ofstream(folder_.path() / "file") << "not a folder";
  for (const std::filesystem::path& tuning :
       {folder_.path() / "file" / "below", std::filesystem::path("/proc/no/such"), std::filesystem::path()}) {
    const TuningCache unwritable = cache_in(tuning);
    unwritable.keep("nt", "chosen");
    EXPECT_EQ(unwritable.find("nt"), std::nullopt) << tuning;
  }
}

}  // namespace
}  // namespace draftsmith
