// import as a person runs it.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/command_line.h"
#include "app/commands.h"
#include "data/hf_config.h"
#include "support/temporary_folder.h"
#include "support/tiny_gguf.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Outcome {
  int code;
  std::string out, err;
};

Outcome type(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_command_line(arguments);
  std::fflush(stdout);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

class ImportCommand : public testing::Test {
 protected:
  std::string source(const std::string& chat_template) const {
    TinyGguf tiny("smollm", "smollm");
    if (!chat_template.empty()) tiny.builder.text("tokenizer.chat_template", chat_template);
    return folder_.write("tiny.gguf", tiny.builder.build());
  }
  std::string target() const { return folder_.path() / "target"; }

  const TemporaryFolder folder_;
};

TEST_F(ImportCommand, SaysWhatItMadeAndWhetherConversationsWork) {
  Outcome outcome = type({"import", source(""), target()});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(target()), HasSubstr("LlamaForCausalLM, 2 layers of width 32"),
                                 HasSubstr("21 tensors in float32"), HasSubstr("chat template: none")));
  outcome = type({"import", source("{{ messages }}"), target(), "--overwrite", "--dtype", "bf16"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("in bfloat16"), HasSubstr("conversations cannot be made with it")));
  EXPECT_EQ(read_target_config(target()).decoder.dtype, "bfloat16");
}

TEST_F(ImportCommand, MistakesAreErrorsOrWrongUsage) {
  const std::string good = source("");
  EXPECT_EQ(type({"import", good}).code, kExitUsage);
  EXPECT_EQ(type({"import", good, target(), "--dtype", "f16"}).code, kExitUsage);
  const Outcome missing = type({"import", folder_.path() / "no.gguf", target()});
  EXPECT_EQ(missing.code, kExitError);
  EXPECT_THAT(missing.err, HasSubstr("no.gguf"));
  EXPECT_EQ(type({"import", good, target()}).code, kExitDone);
  const Outcome again = type({"import", good, target()});
  EXPECT_EQ(again.code, kExitError);
  EXPECT_THAT(again.err, HasSubstr("--overwrite"));
}

}  // namespace
}  // namespace draftsmith
