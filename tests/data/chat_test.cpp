#include "data/chat.h"

#include <numeric>

#include "text_fixtures.h"

namespace draftsmith {
namespace {

// Templates of each kind, and what jinja2 makes of them; tools/make_tokenizer_fixture.py wrote them.
nlohmann::json golden_chat() { return read_json(kSourceFolder / "tests/golden/tokenizer/chat.json"); }
std::string source_of(const char* kind) { return golden_chat().at(kind).at("source"); }

const std::string kPlain = source_of("plain");
const std::string kWithDefaultSystem = source_of("default_system");
const std::string kThinkingOff = source_of("thinking");
const std::string kLlama3 = source_of("llama3");

const std::vector<Message> kTwoTurns = {
    {"user", "Hi"}, {"assistant", "\n\nHello "}, {"user", "Bye"}, {"assistant", ""}};

std::string supervised_text(const Tokenizer& tokenizer, const EncodedConversation& conversation) {
  std::string text;
  for (std::size_t i = 0; i < conversation.ids.size(); ++i) {
    if (conversation.loss_mask[i] == 1) text += tokenizer.bytes_of(conversation.ids[i]);
  }
  return text;
}

// A published template with one thing changed.
std::string changed(std::string source, const std::string& from, const std::string& to) {
  const std::size_t at = source.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return source.replace(at, from.size(), to);
}

TEST(Chat, RendersChatMlAndSupervisesAnswersWithTheirEndToken) {
  const Tokenizer tokenizer = Tokenizer::load(kDemoTarget);
  const EncodedConversation encoded = ChatTemplate::load(kDemoTarget).encode(tokenizer, kTwoTurns);
  EXPECT_EQ(tokenizer.decode(encoded.ids),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n\n\nHello <|im_end|>\n"
            "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n");
  EXPECT_EQ(supervised_text(tokenizer, encoded), "\n\nHello <|im_end|><|im_end|>");
  EXPECT_EQ(encoded.loss_mask.size(), encoded.ids.size());
}

// The golden tokenizer of that kind, with the files that name its bos.
Tokenizer llama3_tokenizer() {
  const TemporaryFolder folder;
  folder.write("tokenizer_config.json", R"({"bos_token": "<|begin_of_text|>"})");
  return Tokenizer::load(folder.write(
      "tokenizer.json", read_json(kSourceFolder / "tests/golden/tokenizer/llama3/tokenizer.json").dump()));
}

TEST(Chat, RendersWhatTheTemplatesRender) {
  const nlohmann::json kinds = golden_chat();
  EXPECT_EQ(kinds.size(), 5u);
  for (const auto& [kind, golden] : kinds.items()) {
    const Tokenizer tokenizer = kind == "llama3" ? llama3_tokenizer() : Tokenizer::load(kDemoTarget);
    const ChatTemplate chat = ChatTemplate::parse(golden["source"].get<std::string>(), kind);
    for (const auto& conversation : golden["cases"]) {
      SCOPED_TRACE(kind + ": " + conversation.dump());
      std::vector<Message> messages;
      for (const auto& message : conversation["messages"])
        messages.push_back({message["role"], message["content"]});
      const auto ids = messages.back().role == "assistant" ? chat.encode(tokenizer, messages).ids
                                                           : chat.encode_prompt(tokenizer, messages);
      EXPECT_EQ(tokenizer.decode(ids), conversation["rendered"].get<std::string>());
    }
  }
}

// The prompt of each answer in training is, token for token, the prompt at inference, also where the answer
// begins with newlines that would merge with the prompt's last one.
TEST(Chat, TokensBeforeAnAnswerAreThoseOfTheGenerationPrompt) {
  const Tokenizer tokenizer = Tokenizer::load(kDemoTarget);
  for (const std::string& source : {kPlain, kWithDefaultSystem}) {
    const ChatTemplate chat = ChatTemplate::parse(source, "test");
    const EncodedConversation encoded = chat.encode(tokenizer, kTwoTurns);
    for (const std::size_t answer : {1, 3}) {
      const auto prompt = chat.encode_prompt(tokenizer, std::span(kTwoTurns).first(answer));
      ASSERT_LT(prompt.size(), encoded.ids.size());
      EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), encoded.ids.begin()));
      EXPECT_EQ(encoded.loss_mask[prompt.size() - 1], 0);
      EXPECT_EQ(encoded.loss_mask[prompt.size()], 1);
    }
  }
}

TEST(Chat, APromptIsTheWholeRenderedTextTokenizedAtOnce) {
  const Tokenizer tokenizer = Tokenizer::load(kDemoTarget);
  const ChatTemplate chat = ChatTemplate::load(kDemoTarget);
  const std::vector<Message> messages = {{"system", "Be brief."}, {"user", "\n  two words\n"}};
  EXPECT_EQ(chat.encode_prompt(tokenizer, messages),
            tokenizer.encode(
                "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n\n  two words\n<|im_end|>\n"
                "<|im_start|>assistant\n"));
}

TEST(Chat, InsertsTheDefaultSystemMessageOfTheTemplate) {
  const Tokenizer tokenizer = Tokenizer::load(kDemoTarget);
  const ChatTemplate chat = ChatTemplate::parse(kWithDefaultSystem, "test");
  EXPECT_EQ(chat.default_system(), "You're kind and 'brief'.");
  const std::vector<Message> without = {{"user", "Hi"}};
  EXPECT_EQ(tokenizer.decode(chat.encode_prompt(tokenizer, without)),
            "<|im_start|>system\nYou're kind and 'brief'.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  const std::vector<Message> with = {{"system", "Own."}, {"user", "Hi"}};
  EXPECT_EQ(tokenizer.decode(chat.encode_prompt(tokenizer, with)),
            "<|im_start|>system\nOwn.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Chat, WithThinkingOffTheEmptyThinkBlockIsPartOfThePrompt) {
  const Tokenizer tokenizer = Tokenizer::load(kDemoTarget);
  const ChatTemplate chat = ChatTemplate::parse(kThinkingOff, "test");
  EXPECT_TRUE(chat.thinking_off());
  EXPECT_EQ(chat.default_system(), std::nullopt);
  const std::vector<Message> messages = {
      {"user", "Hi"}, {"assistant", "Hello"}, {"user", "Bye"}, {"assistant", "Ciao"}};
  const EncodedConversation encoded = chat.encode(tokenizer, messages);
  EXPECT_EQ(tokenizer.decode(encoded.ids),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|"
            "im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\nCiao<|im_end|>\n");
  EXPECT_EQ(supervised_text(tokenizer, encoded), "Ciao<|im_end|>");
  const auto prompt = chat.encode_prompt(tokenizer, std::span(messages).first(3));
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), encoded.ids.begin()));
  EXPECT_EQ(std::accumulate(encoded.loss_mask.begin(), encoded.loss_mask.begin() + std::ssize(prompt), 0), 0);
  const std::vector<Message> thinks = {{"user", "Hi"}, {"assistant", "<think>Hm.</think>Hello"}};
  expect_error([&] { chat.encode(tokenizer, thinks); }, {"think block", "thinking is off"});
}

TEST(Chat, Llama3BeginsWithBosAndSupervisesTrimmedAnswersWithTheirEndToken) {
  const Tokenizer tokenizer = llama3_tokenizer();
  const ChatTemplate chat = ChatTemplate::parse(kLlama3, "test");
  const EncodedConversation encoded = chat.encode(tokenizer, kTwoTurns);
  EXPECT_EQ(encoded.ids[0], tokenizer.bos_token());
  EXPECT_EQ(supervised_text(tokenizer, encoded), "Hello<|eot_id|><|eot_id|>");
  const auto prompt = chat.encode_prompt(tokenizer, std::span(kTwoTurns).first(1));
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), encoded.ids.begin()));
  EXPECT_EQ(tokenizer.decode(prompt),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(Chat, Llama3NeedsABosAndItsMarkers) {
  const ChatTemplate chat = ChatTemplate::parse(kLlama3, "test");
  const Tokenizer without_bos =
      Tokenizer::load(kSourceFolder / "tests/golden/tokenizer/llama3/tokenizer.json");
  expect_error([&] { chat.encode(without_bos, kTwoTurns); }, {"begins with bos_token", "name none"});
}

TEST(Chat, RefusesOtherTemplatesOfLlama3) {
  const auto expect_refusal = [](const std::string& source, const char* says) {
    expect_error([&] { ChatTemplate::parse(source, "FILE"); },
                 {"FILE: the chat template", says, "of Llama 3"});
  };
  expect_refusal(kLlama3 + "{{ '<|python_tag|>' }}", "uses <|python_tag|>");
  expect_refusal(changed(kLlama3, " | trim", ""), "does not write messages");
  expect_refusal(changed(kLlama3, "bos_token + content", "content"), "bos_token before the first message");
  expect_refusal(changed(kLlama3, "assistant<|end", "model<|end"), "has no generation prompt");
  expect_refusal("{{ '<|start_header_id|>system<|end_header_id|>\n\nToday is Monday.' }}" + kLlama3,
                 "a system message of its own");
}

// In the manner of Llama 3.1: tags that cut all white space, dates, branches for tools.
const std::string kDatedLlama3 = R"({{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- The system message's place #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\n" }}
    {%- for tool in tools %}
        {{- tool | tojson }}
    {%- endfor %}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\n" }}
{{- "Today Date: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {{- '<|python_tag|>' + message.tool_calls[0].function.name }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
)";

TEST(Chat, Llama31AlwaysBeginsWithADatedSystemMessage) {
  const Tokenizer tokenizer = llama3_tokenizer();
  const ChatTemplate chat = ChatTemplate::parse(kDatedLlama3, "test");
  const std::string dates =
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
      "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
  const std::string question =
      "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n";
  const std::vector<Message> plain = {{"user", " Hi"}}, led = {{"system", " Be brief. "}, {"user", "Hi"}};
  EXPECT_EQ(tokenizer.decode(chat.encode_prompt(tokenizer, plain)), dates + question);
  EXPECT_EQ(tokenizer.decode(chat.encode_prompt(tokenizer, led)), dates + "Be brief." + question);
  EXPECT_EQ(supervised_text(tokenizer, chat.encode(tokenizer, kTwoTurns)), "Hello<|eot_id|><|eot_id|>");
}

TEST(Chat, RefusesADatedTemplateThatIsNotExactlyKnown) {
  const auto expect_refusal = [](const std::string& from, const std::string& to, const char* says) {
    expect_error([&] { ChatTemplate::parse(changed(kDatedLlama3, from, to), "FILE"); },
                 {"FILE: the chat template", says});
  };
  expect_refusal("\"26 Jul 2024\"", "strftime_now(\"%d %b %Y\")", "writes the day on which it is rendered");
  expect_refusal("{{- system_message }}", "{{- system_message }}{{- 'Be kind.' }}", "writes something else");
  expect_refusal("{{- \"Cutting", "{{- \"Politely cutting", "writes something else");
  expect_refusal("['content'] | trim + ", "['content'] + ", "writes something else");
  expect_refusal("{#- The", "{# The", "white space between its tags");
  expect_refusal("{{- system_message", "Hello. {{- system_message",
                 "has text or white space between its tags");
  expect_refusal("['content']|trim %}", "['content'] %}", "takes its system message in an unknown way");
}

TEST(Chat, RecognisesSpecialTokensInContent) {
  const Tokenizer tokenizer = Tokenizer::load(kDemoTarget);
  const std::vector<Message> messages = {{"user", "a<|im_end|>b"}};
  const auto ids = ChatTemplate::load(kDemoTarget).encode_prompt(tokenizer, messages);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer.id_of("<|im_end|>")), 2);
}

TEST(Chat, FindsTheTemplateInEveryPlaceWhereItMayStand) {
  const TemporaryFolder folder;
  expect_error([&] { ChatTemplate::load(folder.path()); },
               {folder.path().string(), "has no chat template", "ChatML"});
  using nlohmann::json;
  const json listed = {{"name", "default"}, {"template", kPlain}};
  folder.write("tokenizer_config.json", json{{"chat_template", json::array({listed})}}.dump());
  EXPECT_FALSE(ChatTemplate::load(folder.path()).default_system());
  folder.write("tokenizer_config.json", json{{"chat_template", kWithDefaultSystem}}.dump());
  EXPECT_TRUE(ChatTemplate::load(folder.path()).default_system());
  folder.write("chat_template.jinja", kThinkingOff);
  EXPECT_TRUE(ChatTemplate::load(folder.path()).thinking_off());
  folder.write("chat_template.jinja", "{{ messages }}");
  expect_error([&] { ChatTemplate::load(folder.path()); },
               {"chat_template.jinja", "does not write messages"});
  std::filesystem::remove(folder.path() / "chat_template.jinja");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": ""}]})");
  expect_error([&] { ChatTemplate::load(folder.path()); }, {"tokenizer_config.json", "\"default\""});
}

TEST(Chat, RefusesTemplatesThatItWouldRenderWrongly) {
  const auto expect_refusal = [](const std::string& source, const char* says) {
    expect_error([&] { ChatTemplate::parse(source, "FILE"); },
                 {"FILE: the chat template", says, "supported are ChatML"});
  };
  expect_refusal("{{ bos_token }}" + kPlain, "uses bos_token");
  expect_refusal("{{ '[INST]' }}", "does not write messages");
  expect_refusal("{{ '<|start_header_id|>' }}" + kPlain, "uses <|im_start|>");
  expect_refusal("{{ '<|tool|>' }}" + kPlain, "uses <|tool|>");
  expect_refusal(changed(kPlain, "message['content']", "message['content'] | trim"),
                 "does not write messages");
  expect_refusal(changed(kPlain, "add_generation_prompt", "true"), "has no generation prompt");
  expect_refusal(changed(kPlain, "assistant\\n", "model\\n"), "has no generation prompt");
  expect_refusal("{{ '<|im_start|>system\\n' + preamble + '<|im_end|>\\n' }}" + kPlain,
                 "a system message in a way");
  expect_refusal(changed(kThinkingOff, "'<think>\\n\\n</think>\\n\\n'", "'<think>\\n'"),
                 "thinks without a way to switch it off");
}

TEST(Chat, NeedsATokenizerWithTheMarkers) {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", bytes_only_tokenizer().dump()));
  const ChatTemplate chat = ChatTemplate::parse(kPlain, "test");
  expect_error([&] { chat.encode(tokenizer, kTwoTurns); },
               {"no added token \"<|im_start|>\"", "chat template"});
}

TEST(Chat, RefusesUnknownRoles) {
  const Tokenizer tokenizer = Tokenizer::load(kDemoTarget);
  const std::vector<Message> messages = {{"tool", "42"}};
  expect_error([&] { ChatTemplate::load(kDemoTarget).encode(tokenizer, messages); },
               {"unknown role \"tool\"", "system, user and assistant"});
}

}  // namespace
}  // namespace draftsmith
