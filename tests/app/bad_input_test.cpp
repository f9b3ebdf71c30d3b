// Bad input as a person meets it: a command, what is wrong, and what the program says. Every case ends with
// exit code 1 and one message that names the place; nothing crashes and nothing that was there is lost.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/commands.h"
#include "app/scene.h"
#include "base/error.h"

namespace draftsmith {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

struct BadInput {
  std::string name;
  std::function<void(const Scene&)> spoil;
  std::vector<std::string> says;
  std::vector<std::string> options = {};  // of train, after run.yaml
};

void PrintTo(const BadInput& input, std::ostream* out) { *out << input.name; }

void nothing(const Scene&) {}

// safetensors with one tensor, named as the target's first.
std::string one_tensor(const std::string& offsets, std::size_t bytes) {
  std::string header = R"({"model.embed_tokens.weight":{"dtype":"BF16","shape":[2,3],"data_offsets":)" +
                       offsets + R"(},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  DRAFTSMITH_CHECK(header.size() < 256, "one byte holds the length");
  return length + header + std::string(bytes, '\0');
}

std::vector<BadInput> weights() {
  const std::string file = "model.safetensors";
  return {
      {"Missing", [=](const Scene& s) { s.remove(file); }, {"target", "model.safetensors"}},
      {"Truncated",
       [=](const Scene& s) { s.write(file, s.read(file).substr(0, 5'000'000)); },
       {"model.safetensors", "the file is cut short or damaged"}},
      {"OfFourBytes", [=](const Scene& s) { s.write(file, "abcd"); }, {"model.safetensors"}},
      {"HeaderLongerThanTheFile",
       [=](const Scene& s) { s.write(file, std::string("\xff\xff\x01\0\0\0\0\0{}", 10)); },
       {"model.safetensors", "131071"}},
      {"Overlapping",
       [=](const Scene& s) { s.write(file, one_tensor("[6,18]", 18)); },
       {"model.safetensors", "model.embed_tokens.weight"}},
      {"Oversized",
       [=](const Scene& s) { s.write(file, s.read(file) + "0123456789"); },
       {"expected 11542528 bytes of data by the header, found 11542538"}},
      {"WrongShape",
       [](const Scene& s) { s.replace_in_header("[4096,256]", "[256,4096]"); },
       {"model.embed_tokens.weight", "[256, 4096]", "[4096, 256]"}},
      {"WrongType",
       [](const Scene& s) { s.replace_in_header(R"("BF16","shape":[4096)", R"("I16","shape":[4096)"); },
       {"model.embed_tokens.weight", "I16"}},
      {"WithoutATensor",
       [](const Scene& s) { s.replace_in_header("model.norm.weight", "model.narm.weight"); },
       {"model.norm.weight", "model.narm.weight"}},
      {"ShardThatNobodyHas",
       [=](const Scene& s) {
         s.remove(file);
         s.write("model.safetensors.index.json",
                 R"({"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}})");
       },
       {"model-00002-of-00002.safetensors"}},
      {"NaN",
       [=](const Scene& s) {
         std::string bytes = s.read(file);
         bytes.replace(bytes.size() - 2, 2, "\xc0\x7f");
         s.write(file, bytes);
       },
       {"nan", "expected finite numbers"}},
  };
}

std::vector<BadInput> target_files() {
  return {
      {"UnsupportedModel",
       [](const Scene& s) { s.replace("config.json", R"("qwen3")", R"("gemma2")"); },
       {"config.json", "gemma2", "qwen3"}},
      {"BrokenConfig",
       [](const Scene& s) { s.write("config.json", "{\n\"model_type\": "); },
       {"config.json"}},
      {"NoConfig", [](const Scene& s) { s.remove("config.json"); }, {"config.json"}},
      {"TableSmallerThanTheTokenizer",
       [](const Scene& s) {
         s.replace("config.json", "4096", "4000");
         s.replace("config.json", "\"eos_token_id\": 4094", "\"eos_token_id\": null");
         s.replace("config.json", "\"pad_token_id\": 4092", "\"pad_token_id\": null");
         s.remove("generation_config.json");
       },
       {"data.jsonl:1: token 0 has id 4093", "the target's table has 4000 rows"},
       {"drafter.mask_token_id=3999"}},
      {"BrokenTokenizer",
       [](const Scene& s) { s.write("tokenizer.json", "{\"model\": 3}"); },
       {"tokenizer.json"}},
      {"TokenizerOfAnotherKind",
       [](const Scene& s) { s.replace("tokenizer.json", R"("BPE")", R"("Unigram")"); },
       {"tokenizer.json", "Unigram"}},
      {"NoTemplate",
       [](const Scene& s) { s.write("tokenizer_config.json", R"({"mask_token": "<|MASK|>"})"); },
       {"template"}},
      {"TemplateOfAnotherKind",
       [](const Scene& s) { s.replace("tokenizer_config.json", "<|im_start|>", "<start>"); },
       {"template"}},
      {"MaskOutsideTheTable", nothing, {"5000", "4096 rows"}, {"drafter.mask_token_id=5000"}},
      {"MaskIsPad", nothing, {"4092", "pad token"}, {"drafter.mask_token_id=4092"}},
      {"MaskIsEos", nothing, {"4094", "eos token"}, {"drafter.mask_token_id=4094"}},
      {"MaskIsBos",
       [](const Scene& s) { s.replace("tokenizer_config.json", "{", R"({"bos_token": "<|im_start|>",)"); },
       {"4093", "bos token"},
       {"drafter.mask_token_id=4093"}},
  };
}

std::vector<BadInput> data_lines() {
  const auto line = [](const std::string& name, const std::string& bad, const std::string& says) {
    return BadInput{name, [bad](const Scene& s) { s.line(bad); }, {"data.jsonl:3: ", says}};
  };
  const auto answer = [](const std::string& role, const std::string& content) {
    return R"({"messages": [{"role": ")" + role + R"(", "content": ")" + content + R"("}]})";
  };
  return {
      line("BrokenJson", "{\"messages\": [", "is not JSON at byte 15"),
      line("DeeplyNested", std::string(1 << 20, '['), "is not JSON"),
      line("NoTurns", R"({"messages": []})", "is empty"),
      line("UnknownRole", answer("bot", "x") + "", "no assistant message"),
      line("UnknownRoleBesideAnAnswer",
           R"({"messages": [{"role": "bot", "content": "x"}, {"role": "assistant", "content": "x"}]})",
           "unknown role \"bot\""),
      line("LoneSurrogate", answer("assistant", "\\ud800"), "is not JSON"),
      line("InvalidUtf8", answer("assistant", "\xc3("), "is not JSON"),
      line("OverlongUtf8", answer("assistant", "\xc0\x80"), "is not JSON"),
      line("NoAnswer", answer("user", "x"), "no assistant message"),
      line("MixedKinds", R"({"text": "x"})", "line 1 has \"messages\""),
      line("TwoKindsInOneLine", R"({"text": "x", "input_ids": [1]})", "has both"),
      {"OnlyEmptyAnswers",
       [](const Scene& s) {
         s.data(R"({"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]})");
       },
       {"data.jsonl", "no usable conversation: of 1 read"}},
      {"EmptyFile", [](const Scene& s) { s.data(""); }, {"data.jsonl:1: ", "found an empty file"}},
      {"BlankLines",
       [](const Scene& s) { s.data(" \n\r\n\n"); },
       {"data.jsonl:1: ", "3 lines, all of them blank"}},
      {"TokenOutsideTheTable",
       [](const Scene& s) { s.data(R"({"input_ids": [1, 9000], "loss_mask": [0, 1]})"); },
       {"data.jsonl:1: ", "9000"}},
      {"IsAFolder",
       [](const Scene& s) { fs::create_directory(s.path() / "folder"); },
       {"no file"},
       {"data.train=folder"}},
  };
}

std::vector<BadInput> options() {
  const auto option = [](const std::string& name, std::vector<std::string> options,
                         std::vector<std::string> says) {
    return BadInput{name, nothing, std::move(says), std::move(options)};
  };
  return {
      option("TapBeyondTheTarget", {"drafter.taps=[1, 9]"}, {"taps", "9"}),
      option("TapOfTheLastLayer", {"drafter.taps=[1, 5]"}, {"taps", "5"}),
      option("NegativeTap", {"drafter.taps=[-1]"}, {"drafter.taps"}),
      option("TapsThatDescend", {"drafter.taps=[3, 1]"}, {"must ascend", "1 follows 3"}),
      option("TapsThatRepeat", {"drafter.taps=[2, 2]"}, {"must ascend", "2 follows 2"}),
      option("BlockOfOne", {"drafter.block_size=1"}, {"drafter.block_size", "from 2"}),
      option("WindowSmallerThanTheBlock",
             {"drafter.layer_types=[sliding_attention]", "drafter.sliding_window=3"},
             {"'drafter.sliding_window' is 3", "'drafter.block_size', 4"}),
      option("ContextSmallerThanADocument", {"train.context_tokens=63"}, {"'train.context_tokens' is 63"}),
      option("BlocksSmallerThanADocument", {"train.blocks=3"}, {"'train.anchors_per_document' is 4"}),
      option("DocumentsBeyondTheTargetsPositions", {"data.max_length=4096", "train.context_tokens=4096"},
             {"2048"}),
      option("NothingLeftAfterTheCut", {"data.max_length=6"}, {"data.jsonl", "2 were truncated"}),
      option("UnknownDevice", {"devices.targets=[tpu:0]"}, {"devices.targets", "tpu:0"}),
      option("DeviceWithoutANumber", {"devices.drafters=[cpu]"}, {"devices.drafters", "cpu"}),
      option("DeviceOfAHugeNumber", {"devices.drafters=[\"cpu:99999999999999999999\"]"},
             {"devices.drafters"}),
      option("OutputBelowAFile", {"output=data.jsonl/run"}, {"data.jsonl"}),
      option("OutputIsAFile", {"output=data.jsonl"}, {"data.jsonl", "found a file"}),
      option("NothingToResume", {"--resume"}, {"there is no run to resume"}),
      option("OverwriteOfWhatIsNoRun", {"--overwrite", "output=target"}, {"does not remove"}),
  };
}

// What plan says too, without reading the values.
std::vector<BadInput> headers() {
  std::vector<BadInput> all = weights();
  std::erase_if(all, [](const BadInput& input) { return input.name == "NaN"; });
  return all;
}

class Bad : public testing::TestWithParam<BadInput> {
 protected:
  Bad() : before_(fs::current_path()) { fs::current_path(scene_.path()); }
  ~Bad() override { fs::current_path(before_); }

  const fs::path before_;
  const Scene scene_;
};

TEST_P(Bad, IsRefusedWithAMessage) {
  GetParam().spoil(scene_);
  std::vector<std::string> arguments = {"train", "run.yaml"};
  arguments.insert(arguments.end(), GetParam().options.begin(), GetParam().options.end());
  const Outcome outcome = type(arguments);
  EXPECT_EQ(outcome.code, kExitError) << outcome.err;
  for (const std::string& part : GetParam().says) EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_THAT(outcome.err, HasSubstr("draftsmith: "));
  EXPECT_LT(outcome.err.size(), 2000u);
  EXPECT_FALSE(fs::exists(scene_.path() / "run/export"));
}

class BadPlan : public Bad {};

TEST_P(BadPlan, IsRefusedAsTrainingWould) {
  GetParam().spoil(scene_);
  const Outcome outcome = type({"plan", "run.yaml"});
  EXPECT_EQ(outcome.code, kExitError) << outcome.err;
  for (const std::string& part : GetParam().says) EXPECT_THAT(outcome.err, HasSubstr(part));
}

std::string case_name(const testing::TestParamInfo<BadInput>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Weights, Bad, testing::ValuesIn(weights()), case_name);
INSTANTIATE_TEST_SUITE_P(Headers, BadPlan, testing::ValuesIn(headers()), case_name);
INSTANTIATE_TEST_SUITE_P(Target, Bad, testing::ValuesIn(target_files()), case_name);
INSTANTIATE_TEST_SUITE_P(Data, Bad, testing::ValuesIn(data_lines()), case_name);
INSTANTIATE_TEST_SUITE_P(Options, Bad, testing::ValuesIn(options()), case_name);

}  // namespace
}  // namespace draftsmith
