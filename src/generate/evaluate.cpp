#include "generate/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <fmt/format.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "base/printable.h"
#include "data/file.h"
#include "data/json.h"

namespace draftsmith {
namespace {

// Conversations without a domain are "other"; one that has this name, or that of the sum, is quoted.
std::string domain_label(std::string_view domain) {
  if (domain.empty()) return "other";
  const bool quoted = domain == "other" || domain == "all" || domain.front() == '"';
  return quoted ? fmt::format("\"{}\"", domain) : std::string(domain);
}

AcceptanceSums& sums_of(EvaluationReport& report, std::string_view domain) {
  const std::string name = domain_label(domain);
  for (DomainAcceptance& known : report.domains) {
    if (known.name == name) return known.sums;
  }
  return report.domains.emplace_back(DomainAcceptance{.name = name}).sums;
}

void add_cycles(AcceptanceSums& sums, const GenerationResult& result) {
  ++sums.conversations;
  sums.cycles += static_cast<std::int64_t>(result.cycles.size());
  for (const DraftCycle& cycle : result.cycles) sums.committed += cycle.committed;
}

void add_rate(DecodingRate& rate, const GenerationResult& result) {
  rate.tokens += result.decoded();
  rate.seconds += result.seconds;
}

void add_conversation(EvaluationReport& report, Decoder& decoder, const DocumentView& document,
                      const GenerationSettings& settings) {
  const PromptState prompt = run_prompt(decoder, document.prompt(), settings.sampling);
  const GenerationResult speculative = decode_speculatively(decoder, prompt, settings);
  const GenerationResult plain = decode_plainly(decoder, prompt, settings);
  add_cycles(report.pooled, speculative);
  add_cycles(sums_of(report, document.domain), speculative);
  for (const DraftCycle& cycle : speculative.cycles) {
    for (std::int64_t i = 0; i < cycle.accepted; ++i) ++report.accepted[i];
  }
  add_rate(report.speculative, speculative);
  add_rate(report.plain, plain);
  if (report.greedy_equal && speculative.tokens == plain.tokens) ++*report.greedy_equal;
}

std::optional<double> share(std::int64_t count, std::int64_t of) {
  if (of == 0) return std::nullopt;
  return static_cast<double>(count) / static_cast<double>(of);
}

JsonValue json_of(const std::optional<double>& measured) {
  return measured ? JsonValue{*measured} : JsonValue{JsonNull{}};
}

std::string describe_offsets(const EvaluationReport& report) {
  std::string text = "\naccepted by offset\n";
  for (std::size_t i = 0; i < report.accepted.size(); ++i) {
    text += fmt::format("{:>5}  {:>5.1f} %\n", i + 1, 100 * *share(report.accepted[i], report.pooled.cycles));
  }
  return text;
}

std::string describe_speed(const EvaluationReport& report) {
  const auto speed_up = report.speed_up();
  if (!speed_up)
    return "no speed was measured: every output ended with its first token, the prompt's own choice\n";
  return fmt::format("tokens per second: {:.0f} speculative, {:.0f} plain; speed-up {:.2f}\n",
                     *report.speculative.tokens_per_second(), *report.plain.tokens_per_second(), *speed_up);
}

std::string describe_equality(const EvaluationReport& report) {
  if (report.greedy_equal) {
    return fmt::format("output equal to plain greedy decoding: {} of {}\n", *report.greedy_equal,
                       report.pooled.conversations);
  }
  return fmt::format(
      "sampled at temperature {}, top-p {}, {} drafts: speculative and plain outputs are different draws of "
      "one distribution, so they are not compared\n",
      report.sampling.temperature, report.sampling.top_p, report.sampling.greedy_drafts ? "greedy" : "drawn");
}

// By what every result has held; a file beyond any result's size is not read.
bool is_evaluation(const std::filesystem::path& path) {
  constexpr std::uintmax_t kMostBytes = 16 << 20;
  if (std::filesystem::file_size(path) > kMostBytes) return false;
  try {
    const JsonValue json = parse_json(read_text_file(path), path.string());
    const auto* const members = json.get<JsonObject>();
    if (members == nullptr) return false;
    for (const char* key : {"pooled", "domains", "by_offset", "conversations", "seconds"}) {
      if (find_member(*members, key) == nullptr) return false;
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<double> AcceptanceSums::tokens_per_cycle() const { return share(committed, cycles); }

std::optional<double> DecodingRate::tokens_per_second() const {
  if (tokens == 0) return std::nullopt;
  return static_cast<double>(tokens) / seconds;
}

std::optional<double> EvaluationReport::speed_up() const {
  const auto now = speculative.tokens_per_second(), before = plain.tokens_per_second();
  if (!now || !before) return std::nullopt;
  return *now / *before;
}

std::int64_t longest_sequence(const EvaluationRun& run) {
  std::int64_t prompt = 0;
  for (std::int64_t i = 0; i < run.conversations; ++i) {
    prompt = std::max(prompt, static_cast<std::int64_t>(run.corpus[i].prompt().size()));
  }
  return prompt + run.generation.max_new_tokens;
}

EvaluationReport evaluate_drafter(Decoder& decoder, const EvaluationRun& run) {
  DRAFTSMITH_CHECK(run.conversations <= run.corpus.size(), "the corpus has the conversations");
  const auto start = std::chrono::steady_clock::now();
  EvaluationReport report;
  report.accepted.resize(static_cast<std::size_t>(decoder.block_size()) - 1);
  report.sampling = run.generation.sampling;
  if (report.sampling.is_greedy()) report.greedy_equal = 0;
  GenerationSettings settings = run.generation;
  for (std::int64_t i = 0; i < run.conversations; ++i) {
    settings.sampling.sequence = narrow<std::uint32_t>(i);
    add_conversation(report, decoder, run.corpus[i], settings);
    if (run.progress) run.progress(i + 1);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

void write_evaluation(const std::filesystem::path& path, const EvaluationReport& report) {
  JsonObject domains;
  for (const DomainAcceptance& domain : report.domains) {
    domains.push_back({domain.name, json_of(domain.sums.tokens_per_cycle())});
  }
  JsonArray by_offset;
  for (const std::int64_t count : report.accepted)
    by_offset.push_back(json_of(share(count, report.pooled.cycles)));
  const JsonValue greedy_equal =
      report.greedy_equal ? JsonValue{*report.greedy_equal} : JsonValue{JsonNull{}};
  const JsonObject members{{"pooled", json_of(report.pooled.tokens_per_cycle())},
                           {"domains", {std::move(domains)}},
                           {"by_offset", {std::move(by_offset)}},
                           {"greedy_equal", greedy_equal},
                           {"temperature", {report.sampling.temperature}},
                           {"top_p", {report.sampling.top_p}},
                           {"greedy_drafts", {report.sampling.is_greedy() || report.sampling.greedy_drafts}},
                           {"conversations", {report.pooled.conversations}},
                           {"seconds", {report.seconds}},
                           {"cycles", {report.pooled.cycles}},
                           {"committed_tokens", {report.pooled.committed}},
                           {"plain_tokens_per_second", json_of(report.plain.tokens_per_second())},
                           {"speculative_tokens_per_second", json_of(report.speculative.tokens_per_second())},
                           {"speed_up", json_of(report.speed_up())}};
  write_result_file(path, write_json({members}, JsonLayout::indented));
}

void check_evaluation_path(const std::filesystem::path& path) {
  check_writable(path);
  if (!std::filesystem::is_regular_file(path) || std::filesystem::is_empty(path) || is_evaluation(path))
    return;
  throw Error(fmt::format(
      "{}: expected a new file, or the result of an earlier eval, found something else, which is not "
      "replaced; name another path with --output, or move it elsewhere",
      path.string()));
}

void print_evaluation(std::ostream& out, const EvaluationReport& report) {
  std::size_t width = 6;
  for (const DomainAcceptance& domain : report.domains)
    width = std::max(width, printable_line(domain.name).size());
  const auto line = [&](const std::string& name, const AcceptanceSums& sums) {
    const auto acceptance = sums.tokens_per_cycle();
    out << fmt::format("{:<{}}  {:>13}  {:>7}  {:>12}\n", name, width, sums.conversations, sums.cycles,
                       acceptance ? fmt::format("{:.2f}", *acceptance) : "-");
  };
  out << fmt::format("{:<{}}  {:>13}  {:>7}  {:>12}\n", "domain", width, "conversations", "cycles",
                     "tokens/cycle");
  for (const DomainAcceptance& domain : report.domains) line(printable_line(domain.name), domain.sums);
  line("all", report.pooled);
  if (report.pooled.cycles > 0) out << describe_offsets(report);
  out << '\n' << describe_equality(report) << describe_speed(report);
}

}  // namespace draftsmith
