#include "device/control_group.h"

#include <fstream>

#include <gtest/gtest.h>

#include "device/memory.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

class ControlGroup : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<std::int64_t> left() const {
    return control_group_bytes_left({.membership = folder_.path() / "cgroup", .root = folder_.path() / "fs"});
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ControlGroup, WithoutALimitLeavesEverything) {
  EXPECT_EQ(left(), std::nullopt) << "no files at all";
  write("cgroup", "0::/user/me\n");
  write("fs/user/me/memory.max", "max\n");
  write("fs/user/me/memory.current", "5000\n");
  EXPECT_EQ(left(), std::nullopt);
}

TEST_F(ControlGroup, OfAContainerLeavesItsLimitLessWhatIsUsedAndCannotBeGivenBack) {
  write("cgroup", "0::/\n");
  write("fs/memory.max", "10000\n");
  write("fs/memory.current", "7000\n");
  write("fs/memory.stat", "anon 4000\nfile 3000\ninactive_file 2500\nactive_file 500\n");
  EXPECT_EQ(left(), 10000 - 7000 + 2500 + 500);
}

TEST_F(ControlGroup, AboveMayBeNarrower) {
  write("cgroup", "0::/machine/job\n");
  write("fs/machine/memory.max", "8000\n");
  write("fs/machine/memory.current", "7900\n");
  write("fs/machine/job/memory.max", "6000\n");
  write("fs/machine/job/memory.current", "1000\n");
  EXPECT_EQ(left(), 100);
}

TEST_F(ControlGroup, BeyondItsLimitLeavesNothing) {
  write("cgroup", "0::/\n");
  write("fs/memory.max", "1000\n");
  write("fs/memory.current", "1200\n");
  EXPECT_EQ(left(), 0);
}

TEST_F(ControlGroup, OfVersionOneIsThatOfTheMemoryController) {
  write("cgroup", "5:cpu:/a\n7:memory:/docker/outside\n0::/a\n");
  write("fs/memory/memory.limit_in_bytes", "9000\n");
  write("fs/memory/memory.usage_in_bytes", "4000\n");
  write("fs/memory/memory.stat", "inactive_file 10\ntotal_inactive_file 1000\n");
  EXPECT_EQ(left(), 6000);
  write("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(left(), std::nullopt) << "its way to write that there is no limit";
}

TEST_F(ControlGroup, LimitsWhatARunMayTakeOfTheHost) {
  if (!control_group_bytes_left()) GTEST_SKIP() << "no group limits this process";
  const auto holds = [] {
    const auto own = control_group_bytes_left();
    return own && available_host_bytes() <= *own;
  };
  bool held = false;
  for (int tries = 0; tries < 100 && !held; ++tries)
    held = holds();  // other processes move it between the two
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace draftsmith
