#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/commands.h"
#include "app/scene.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string run_yaml(const Scene& scene) { return (scene.path() / "run.yaml").string(); }

TEST(PlanCommand, CountsUnlessItIsToMeasureAndSaysSo) {
  const Scene scene;
  const Outcome outcome = type({"plan", run_yaml(scene)});
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("speed is not measured (--measure does)"), HasSubstr("it fits")));
}

TEST(PlanCommand, MeasuresOnTheDevicesAndWritesNothing) {
  const Scene scene;
  const Outcome outcome = type({"plan", run_yaml(scene), "--measure"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("measured on a micro-batch"), HasSubstr("ms as a target, copies to slots"),
                    HasSubstr("ms as a drafter, copies from slots"), HasSubstr("would wait"),
                    HasSubstr("tokens/s"), HasSubstr("it fits"), Not(HasSubstr("not measured"))));
  EXPECT_FALSE(std::filesystem::exists(scene.path() / "run"));
  EXPECT_THAT(type({"plan", "--help"}).out, AllOf(HasSubstr("--measure"), HasSubstr("nothing is written")));
}

}  // namespace
}  // namespace draftsmith
