// The tokenizer and the chat template of a GGUF file, as the files of a Hugging Face folder. Byte-level BPE
// ("gpt2") of the kinds smollm, gpt-2, llama-bpe and qwen2 is written; what each kind cuts text into words
// with is known by its name alone, so other names are Errors. Tokens by their type: normal ones are of the
// vocabulary, control and unknown ones added and special, user-defined ones added, unused ones (padding rows
// of the embedding table) left out.
#pragma once

#include <cstdint>
#include <string>

#include "data/gguf_metadata.h"

namespace draftsmith {

struct GgufTokenizerFiles {
  std::string tokenizer;         // tokenizer.json
  std::string tokenizer_config;  // tokenizer_config.json: token roles and the chat template, if there is one
  bool has_chat_template = false;
  std::int64_t tokens = 0;
};

// Throws Error naming file and key: another tokenizer model or kind, tokens that are more than
// `vocabulary_rows` or stand twice, types and merges that do not fit the tokens.
GgufTokenizerFiles read_gguf_tokenizer(const GgufMetadata& metadata, std::int64_t vocabulary_rows);

}  // namespace draftsmith
