// What a Hugging Face folder says about its tokenizer beside tokenizer.json: the roles of special tokens and
// the chat template. tokenizer_config.json wins over special_tokens_map.json; chat_template.jinja wins over a
// template in tokenizer_config.json. All three files may be absent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace draftsmith {

struct TokenizerConfig {
  std::optional<std::string> mask_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;
  std::optional<std::string> bos_token;
  std::optional<std::string> chat_template;
  std::string chat_template_place;  // the file that the template stands in, for messages
};

// Throws Error naming file and key: broken JSON, a token that is neither a text, {"content": text} nor null,
// or a list of templates without one named "default".
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace draftsmith
