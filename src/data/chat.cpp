#include "data/chat.h"

#include "base/error.h"
#include "data/tokenizer_config.h"

namespace draftsmith {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";
constexpr std::string_view kEmptyThinkBlock = "<think>\n\n</think>\n\n";
constexpr const char* kSupported =
    "supported are ChatML templates: <|im_start|>role, newline, content, <|im_end|>, newline for every "
    "message, optionally with a default system message (Qwen2, Qwen2.5) or an empty think block (Qwen3)";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Stands for either kind of quote, so that an apostrophe inside a literal is not taken for its end.
constexpr char kQuote = '\x01';

std::string literal(std::string_view text) {
  std::string quoted{kQuote};
  quoted.append(text);
  quoted.push_back(kQuote);
  return quoted;
}

char unescaped(char escape) {
  if (escape == 'n') return '\n';
  if (escape == 't') return '\t';
  return escape;
}

// A template's expressions in one spelling, so that equal ones compare equal: no white space outside quotes,
// one kind of quote, escapes resolved, message['role'] as message.role, and literals that are added joined.
std::string canonical(std::string_view source) {
  std::string result;
  char quote = 0;
  bool in_expression = false;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const char character = source[i];
    const std::string_view two = source.substr(i, 2);
    if (quote != 0 && character == '\\' && two.size() == 2) {
      result += unescaped(source[++i]);
    } else if (quote != 0) {
      result += character == quote ? kQuote : character;
      if (character == quote) quote = 0;
    } else if (in_expression && (character == '\'' || character == '"')) {
      quote = character;
      result += kQuote;
    } else {
      if (two == "{{" || two == "{%") in_expression = true;
      if (two == "}}" || two == "%}") in_expression = false;
      if (std::string_view(" \t\r\n").find(character) == std::string_view::npos) result += character;
    }
  }
  replace_all(result, "[" + literal("role") + "]", ".role");
  replace_all(result, "[" + literal("content") + "]", ".content");
  replace_all(result, std::string{kQuote, '+', kQuote}, "");
  return result;
}

// The first <|name|> that is not one of ChatML's.
std::optional<std::string> foreign_marker(std::string_view source) {
  for (std::size_t at = source.find("<|"); at != std::string_view::npos; at = source.find("<|", at + 2)) {
    const std::size_t end = source.find("|>", at);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view marker = source.substr(at, end + 2 - at);
    if (marker != kStart && marker != kEnd) return std::string(marker);
  }
  return std::nullopt;
}

struct SystemMessages {
  std::optional<std::string> otherwise;  // what a literal spells out in full, for conversations without one
  bool all_known = true;
};

// Every place that writes a system message must be one of three: the conversation's own first message, a
// literal that is the whole message, or the list of tools, which these conversations do not have.
SystemMessages system_messages_of(std::string_view text) {
  const std::string whole = literal("<|im_start|>system\n");
  const std::string own = whole + "+messages[0].content+" + literal("<|im_end|>\n");
  const std::string begin = whole.substr(0, whole.size() - 1);
  const std::string finish = "<|im_end|>\n";
  SystemMessages result;
  for (std::size_t at = text.find(begin); at != std::string_view::npos; at = text.find(begin, at + 1)) {
    const std::string_view before = text.substr(0, at);
    std::string_view rest = text.substr(at);
    if (rest.starts_with(own) || before.ends_with("iftools%}{{-") || before.ends_with("iftools%}{{"))
      continue;
    rest.remove_prefix(begin.size());
    const std::string_view body = rest.substr(0, rest.find(kQuote));
    if (!body.ends_with(finish) || result.otherwise) {
      result.all_known = false;
    } else {
      result.otherwise = std::string(body.substr(0, body.size() - finish.size()));
    }
  }
  return result;
}

}  // namespace

ChatTemplate ChatTemplate::load(const std::filesystem::path& folder) {
  const TokenizerConfig config = read_tokenizer_config(folder);
  if (!config.chat_template) {
    throw Error(folder.string() +
                ": has no chat template, neither in chat_template.jinja nor in tokenizer_config.json; " +
                kSupported);
  }
  return parse(*config.chat_template, config.chat_template_place);
}

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string& place) {
  const auto refuse = [&](const std::string& found) {
    throw Error(place + ": the chat template " + found + "; " + kSupported);
  };
  const std::string text = canonical(source);
  const auto holds = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  if (const auto marker = foreign_marker(source)) refuse("uses " + *marker);
  for (const char* variable : {"bos_token", "eos_token"}) {
    if (holds(variable)) refuse(std::string("uses ") + variable);
  }
  const std::string head = literal(kStart) + "+message.role+" + literal("\n") + "+";
  const std::string tail = "+" + literal("<|im_end|>\n");
  if (!holds(head + "message.content" + tail) && !holds(head + "content" + tail)) {
    refuse("does not write messages as '<|im_start|>' + role + '\\n' + content + '<|im_end|>' + '\\n'");
  }
  if (!holds("add_generation_prompt") || !holds(literal("<|im_start|>assistant\n"))) {
    refuse("has no generation prompt '<|im_start|>assistant\\n' under add_generation_prompt");
  }
  const SystemMessages system = system_messages_of(text);
  if (!system.all_known) refuse("writes a system message in a way that is not known");
  ChatTemplate result;
  result.default_system_ = system.otherwise;
  if (holds("<think>") || holds("enable_thinking")) {
    if (!holds("enable_thinking") || !holds(literal(kEmptyThinkBlock))) {
      refuse("thinks without a way to switch it off (enable_thinking with an empty think block)");
    }
    result.thinking_off_ = true;
  }
  return result;
}

std::string ChatTemplate::generation_prompt() const {
  std::string prompt = std::string(kStart) + "assistant\n";
  if (thinking_off_) prompt += kEmptyThinkBlock;
  return prompt;
}

std::vector<ChatTemplate::Segment> ChatTemplate::segments(std::span<const Message> messages) const {
  std::vector<Segment> result;
  std::string prompt;  // not supervised, not yet cut off as a segment
  if (default_system_ && (messages.empty() || messages[0].role != "system")) {
    prompt += std::string(kStart) + "system\n" + *default_system_ + std::string(kEnd) + "\n";
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& [role, content] = messages[i];
    if (role != "system" && role != "user" && role != "assistant") {
      throw Error("unknown role \"" + role + "\"; supported are system, user and assistant");
    }
    if (thinking_off_ && role == "assistant" &&
        (content.find("<think>") != std::string::npos || content.find("</think>") != std::string::npos)) {
      throw Error(
          "an assistant message holds a think block, and thinking is off; leave it out of the answer");
    }
    if (role == "assistant" && (!thinking_off_ || i + 1 == messages.size())) {
      result.push_back({prompt + generation_prompt(), false});
      result.push_back({content + std::string(kEnd), true});
      prompt = "\n";
    } else {
      prompt += std::string(kStart) + role + "\n" + content + std::string(kEnd) + "\n";
    }
  }
  result.push_back({prompt, false});
  return result;
}

EncodedConversation ChatTemplate::encode_segments(const Tokenizer& tokenizer,
                                                  std::span<const Segment> parts) const {
  for (const std::string_view marker : {kStart, kEnd}) {
    if (tokenizer.encode(marker).size() != 1) {
      throw Error("the tokenizer has no added token \"" + std::string(marker) +
                  "\", which its ChatML template needs");
    }
  }
  EncodedConversation result;
  for (const Segment& part : parts) {
    const auto encoded = tokenizer.encode(part.text);
    result.ids.insert(result.ids.end(), encoded.begin(), encoded.end());
    result.loss_mask.resize(result.ids.size(), part.supervised ? 1 : 0);
  }
  return result;
}

std::vector<std::int32_t> ChatTemplate::encode_prompt(const Tokenizer& tokenizer,
                                                      std::span<const Message> messages) const {
  std::vector<Message> asked(messages.begin(), messages.end());
  asked.push_back({"assistant", ""});
  std::vector<Segment> parts = segments(asked);
  parts.resize(parts.size() - 2);  // without the answer and what follows it
  return encode_segments(tokenizer, parts).ids;
}

EncodedConversation ChatTemplate::encode(const Tokenizer& tokenizer,
                                         std::span<const Message> messages) const {
  return encode_segments(tokenizer, segments(messages));
}

}  // namespace draftsmith
