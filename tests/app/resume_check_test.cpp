#include "app/resume_check.h"

#include <gtest/gtest.h>

#include "app/config.h"
#include "support/expect_error.h"

namespace draftsmith {
namespace {

// What may change between a run and its resumption: only what changes no bit.
class ResumedConfig : public testing::Test {
 protected:
  static std::string text(const std::string& drafters) {
    return "target: t\ndata: {train: d.jsonl}\noutput: o\ndevices: {drafters: [" + drafters + "]}\n";
  }
  static void check(const std::string& now, const std::string& before) {
    check_resumed_config(parse_config({.name = "now", .text = text(now)}), text(before), "run/config.yaml");
  }
};

TEST_F(ResumedConfig, ThreeGpusAddUpInAnOrderOfTheirOwn) {
  check("cuda:0, cuda:1, cuda:2", "cuda:0, cuda:1, cuda:2");
  expect_error([] { check("cuda:0, cuda:2, cuda:1", "cuda:0, cuda:1, cuda:2"); },
               {"run/config.yaml", "were cuda:0, cuda:1, cuda:2 and are cuda:0, cuda:2, cuda:1"});
}

TEST_F(ResumedConfig, TwoGpusAndCpuDevicesMayChangePlaces) {
  check("cuda:1, cuda:0", "cuda:0, cuda:1");
  check("cuda:4, cuda:5", "cuda:0, cuda:1");
  check("cpu:3, cpu:2, cpu:1", "cpu:1, cpu:2, cpu:3");
}

TEST_F(ResumedConfig, TheNumberOfDraftersStays) {
  expect_error([] { check("cpu:1", "cpu:1, cpu:2"); }, {"devices.drafters were 2 and are 1"});
}

TEST_F(ResumedConfig, ALongerRunIsAdvisedToBeginFromTheExport) {
  const std::string start = "target: t\ndata: {train: d.jsonl}\noutput: runs/a\ntrain: {steps: ";
  const RunConfig now = parse_config({.name = "now", .text = start + "200}\n"});
  expect_error([&] { check_resumed_config(now, start + "100}\n", "run/config.yaml"); },
               {"train.steps was 100 and is 200", "drafter.init=runs/a/export and another output"});
}

}  // namespace
}  // namespace draftsmith
