// A folder with all that training takes, for tests that spoil a part of it; and commands typed in this process.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "app/command_line.h"
#include "base/error.h"
#include "data/file.h"
#include "support/temporary_folder.h"

namespace draftsmith {

inline constexpr const char* kConversation =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Good day to you."}]})";

// A folder with the demo's target, two conversations and a configuration that trains one step. Files of the
// target are links until a case spoils them.
class Scene {
 public:
  Scene() {
    std::filesystem::create_directory(target());
    for (const auto& item : std::filesystem::directory_iterator(std::filesystem::path(DRAFTSMITH_SOURCE_DIR) /
                                                                "examples/demo/target")) {
      std::filesystem::create_symlink(item.path(), target() / item.path().filename());
    }
    data(std::string(kConversation) + "\n" + kConversation + "\n");
    folder_.write(
        "run.yaml",
        fmt::format("target: {}\n"
                    "drafter: {{layers: 1, block_size: 4, taps: [1], intermediate: 64}}\n"
                    "data: {{train: {}, max_length: 64}}\n"
                    "train: {{steps: 1, context_tokens: 64, blocks: 8, anchors_per_document: 4, "
                    "compute: float32}}\n"
                    "devices: {{targets: [\"cpu:0\"], drafters: [\"cpu:1\"], threads: 1}}\n"
                    "output: {}\n",
                    target().string(), (path() / "data.jsonl").string(), (path() / "run").string()));
  }

  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path target() const { return path() / "target"; }
  void data(const std::string& lines) const { folder_.write("data.jsonl", lines); }
  // The third line of the data, after two good ones.
  void line(const std::string& bad) const {
    data(std::string(kConversation) + "\n" + kConversation + "\n" + bad + "\n");
  }
  // Never through a link into the demo.
  void write(const std::string& file, const std::string& contents) const {
    std::filesystem::remove(target() / file);
    folder_.write("target/" + file, contents);
  }
  void remove(const std::string& file) const { std::filesystem::remove(target() / file); }
  std::string read(const std::string& file) const { return read_text_file(target() / file); }
  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = read(file);
    const std::size_t at = text.find(from);
    DRAFTSMITH_CHECK(at != std::string::npos, "a case replaces what is there");
    write(file, text.replace(at, from.size(), to));
  }
  // Keeps the length of a safetensors header.
  void replace_in_header(const std::string& from, std::string to) const {
    DRAFTSMITH_CHECK(to.size() <= from.size(), "a header is padded, never grown");
    to.append(from.size() - to.size(), ' ');
    replace("model.safetensors", from, to);
  }

 private:
  TemporaryFolder folder_;
};

struct Outcome {
  int code;
  std::string out, err;
};

inline Outcome type(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_command_line(arguments);
  std::fflush(stdout);
  const std::string out = testing::internal::GetCapturedStdout();
  return {code, out, testing::internal::GetCapturedStderr()};
}

}  // namespace draftsmith
