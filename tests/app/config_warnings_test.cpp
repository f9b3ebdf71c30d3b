#include "app/config_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/commands.h"
#include "app/machine.h"
#include "app/scene.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ConfigWarnings, NothingIsSaidOfWhatIsUsual) {
  RunConfig config;
  EXPECT_THAT(config_warnings(config, 1), IsEmpty());
  config.devices.threads = 8;
  EXPECT_THAT(config_warnings(config, 8), IsEmpty());
}

TEST(ConfigWarnings, AShardedOptimizerTakesTwoDrafters) {
  RunConfig config;
  config.train.optimizer.shard = true;
  EXPECT_THAT(config_warnings(config, 8), ElementsAre(AllOf(HasSubstr("train.optimizer.shard has no effect"),
                                                            HasSubstr("cpu:1 is the only drafter"))));
  config.devices.drafters.push_back("cpu:2");
  EXPECT_THAT(config_warnings(config, 8), IsEmpty());
}

TEST(ConfigWarnings, SamplingTakesATemperature) {
  EXPECT_THAT(sampling_warning({}), IsEmpty());
  EXPECT_THAT(
      sampling_warning({.top_p = 0.5, .greedy_drafts = true, .seed = 1}),
      HasSubstr(
          "without effect at temperature 0, where nothing is drawn: --top-p, --seed, --greedy-drafts;"));
  EXPECT_THAT(sampling_warning({.temperature = 1, .top_p = 0.5, .greedy_drafts = true, .seed = 1}),
              IsEmpty());
}

TEST(ConfigWarnings, MoreThreadsThanCoresAreForNoCpuDevice) {
  RunConfig config;
  config.devices.threads = 9;
  EXPECT_THAT(config_warnings(config, 8),
              ElementsAre(HasSubstr("devices.threads is 9, but this machine has 8 cores")));
  config.devices.targets = config.devices.drafters = {"cuda:0"};
  EXPECT_THAT(config_warnings(config, 8), IsEmpty());
}

TEST(ConfigWarnings, EveryCommandThatStartsDevicesSaysThem) {
  const Scene scene;
  const std::string run = scene.path() / "run.yaml", threads = std::to_string(this_machine().cores + 1);
  for (const char* command : {"plan", "train"}) {
    const Outcome outcome = type({command, run, "train.optimizer.shard=true", "devices.threads=" + threads});
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("warning: train.optimizer.shard has no effect"),
                      HasSubstr("warning: devices.threads is " + threads + ", but this machine has")));
  }
  const Outcome outcome =
      type({"generate", scene.path() / "run", "--threads", threads, "--raw", "a", "--max-new-tokens", "1"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("warning: --threads is " + threads + ", but this machine has"));
}

}  // namespace
}  // namespace draftsmith
