// Conversations as ChatML, token for token what a chat engine sends to the target, and the mask that says
// which tokens a drafter learns:
//
//   <|im_start|>role\ncontent<|im_end|>\n   for every message
//   <|im_start|>assistant\n                 the generation prompt, where an answer is asked for
//
// Supervised are the tokens of an assistant message and its <|im_end|>, from the first token after the
// generation prompt; the newline that follows is not. Prompt and answer are tokenized apart, so that the
// tokens before an answer are exactly those of encode_prompt(), whatever the answer begins with.
//
// What a template adds by itself is kept, and only these are known:
//   - a system message when the first message is not one (Qwen2, Qwen2.5);
//   - thinking switched off (Qwen3): the generation prompt ends with an empty think block. The template drops
//     that block from earlier turns, where a trained prompt would differ from a served one; so only a
//     conversation's last message is supervised, and earlier answers are context. Answers that hold <think>
//     or </think> are refused.
// A template that is not recognisably one of these is an Error: nothing is guessed.
//
// Special tokens are recognised inside message content too, as apply_chat_template does.
// Constant after loading: const members may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace draftsmith {

struct Message {
  std::string role;  // system, user or assistant
  std::string content;
};

struct EncodedConversation {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> loss_mask;  // [ids]: 1 where the token is supervised
};

class ChatTemplate {
 public:
  // Finds the template of a Hugging Face folder. Throws Error when there is none or it is not ChatML.
  static ChatTemplate load(const std::filesystem::path& folder);
  // `place` names the template in messages.
  static ChatTemplate parse(std::string_view source, const std::string& place);

  // Up to and including the generation prompt. Both throw Error for a role that is not known, and for a
  // tokenizer in which <|im_start|> or <|im_end|> is not one token.
  std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer,
                                          std::span<const Message> messages) const;

  EncodedConversation encode(const Tokenizer& tokenizer, std::span<const Message> messages) const;

  const std::optional<std::string>& default_system() const { return default_system_; }
  bool thinking_off() const { return thinking_off_; }

 private:
  // Text that is tokenized by itself, all of it supervised or none.
  struct Segment {
    std::string text;
    bool supervised;
  };

  std::vector<Segment> segments(std::span<const Message> messages) const;
  std::string generation_prompt() const;
  EncodedConversation encode_segments(const Tokenizer& tokenizer, std::span<const Segment> parts) const;

  std::optional<std::string> default_system_;
  bool thinking_off_ = false;
};

}  // namespace draftsmith
