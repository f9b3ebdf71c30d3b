#include "data/chat.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "data/tokenizer_config.h"

namespace draftsmith {
namespace {

// What Python's str.isspace() holds true for.
constexpr std::array<std::string_view, 29> kWhiteSpace{
    "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",   "\x1f",   " ",
    "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
    "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

std::string_view trimmed(std::string_view text) {
  const auto starts = [&](std::string_view space) { return text.starts_with(space); };
  const auto ends = [&](std::string_view space) { return text.ends_with(space); };
  for (auto space = std::ranges::find_if(kWhiteSpace, starts); space != kWhiteSpace.end();
       space = std::ranges::find_if(kWhiteSpace, starts))
    text.remove_prefix(space->size());
  for (auto space = std::ranges::find_if(kWhiteSpace, ends); space != kWhiteSpace.end();
       space = std::ranges::find_if(kWhiteSpace, ends))
    text.remove_suffix(space->size());
  return text;
}

}  // namespace

ChatTemplate ChatTemplate::load(const std::filesystem::path& folder) {
  const TokenizerConfig config = read_tokenizer_config(folder);
  if (!config.chat_template) {
    throw Error(fmt::format(
        "{}: has no chat template, neither in chat_template.jinja nor in tokenizer_config.json; {}",
        folder.string(), kSupportedChatTemplates));
  }
  return parse(*config.chat_template, config.chat_template_place);
}

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string& place) {
  return ChatTemplate(recognise_chat_template(source, place));
}

std::string ChatTemplate::header(std::string_view role) const {
  return fmt::format("{}{}{}", kind_.format.start, role, kind_.format.after_role);
}

std::string ChatTemplate::body(std::string_view content) const {
  const std::string_view written = kind_.format.trims_content ? trimmed(content) : content;
  return fmt::format("{}{}", written, kind_.format.end);
}

std::string ChatTemplate::generation_prompt() const {
  std::string prompt = header("assistant");
  if (kind_.thinking_off) prompt += kEmptyThinkBlock;
  return prompt;
}

std::string ChatTemplate::bos_text(const Tokenizer& tokenizer) const {
  if (!kind_.format.begins_with_bos) return {};
  const auto bos = tokenizer.bos_token();
  if (!bos) throw Error("the chat template begins with bos_token, and the files of the tokenizer name none");
  return std::string(tokenizer.bytes_of(*bos));
}

std::vector<ChatTemplate::Segment> ChatTemplate::segments(std::span<const Message> messages,
                                                          const std::string& first) const {
  const std::string after_end(kind_.format.after_end);
  std::vector<Segment> result;
  std::string prompt = first;  // not supervised, not yet cut off as a segment
  if (kind_.default_system && (messages.empty() || messages[0].role != "system")) {
    prompt += header("system") + kind_.before_system + body(*kind_.default_system) + after_end;
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& [role, content] = messages[i];
    if (role != "system" && role != "user" && role != "assistant") {
      throw Error("unknown role \"" + role + "\"; supported are system, user and assistant");
    }
    if (kind_.thinking_off && role == "assistant" &&
        (content.find("<think>") != std::string::npos || content.find("</think>") != std::string::npos)) {
      throw Error(
          "an assistant message holds a think block, and thinking is off; leave it out of the answer");
    }
    if (role == "assistant" && (!kind_.thinking_off || i + 1 == messages.size())) {
      result.push_back({prompt + generation_prompt(), false});
      result.push_back({body(content), true});
      prompt = after_end;
    } else {
      const bool leads = i == 0 && role == "system";
      prompt += header(role) + (leads ? kind_.before_system : "") + body(content) + after_end;
    }
  }
  result.push_back({prompt, false});
  return result;
}

EncodedConversation ChatTemplate::encode_segments(const Tokenizer& tokenizer,
                                                  std::span<const Segment> parts) const {
  const std::string_view after_role = kind_.format.after_role;
  for (const std::string_view marker :
       {kind_.format.start, after_role.substr(0, after_role.find('\n')), kind_.format.end}) {
    if (!marker.empty() && tokenizer.encode(marker).size() != 1) {
      throw Error("the tokenizer has no added token \"" + std::string(marker) +
                  "\", which its chat template needs");
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
  std::vector<Segment> parts = segments(asked, bos_text(tokenizer));
  parts.resize(parts.size() - 2);  // without the answer and what follows it
  return encode_segments(tokenizer, parts).ids;
}

EncodedConversation ChatTemplate::encode(const Tokenizer& tokenizer,
                                         std::span<const Message> messages) const {
  return encode_segments(tokenizer, segments(messages, bos_text(tokenizer)));
}

}  // namespace draftsmith
