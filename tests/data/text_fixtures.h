// Small tokenizer folders for the tests of the text side of the data floor.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/byte_level.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {

inline const std::filesystem::path kSourceFolder = DRAFTSMITH_SOURCE_DIR;
inline const std::filesystem::path kDemoTarget = kSourceFolder / "examples/demo/target";
inline const std::filesystem::path kQwen2Kind = kSourceFolder / "tests/golden/tokenizer/qwen2";

inline nlohmann::json read_json(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream);
}

// One token a byte (id = byte), "<|end|>" = 256, no merges, no normalizer.
inline nlohmann::json bytes_only_tokenizer() {
  nlohmann::json vocabulary = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[byte_level_character(static_cast<std::uint8_t>(byte))] = byte;
  return {{"added_tokens", {{{"id", 256}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
}

}  // namespace draftsmith
