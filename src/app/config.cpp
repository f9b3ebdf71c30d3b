#include "app/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/null.h>
#include <yaml-cpp/yaml.h>

#include "app/config_check.h"
#include "app/options.h"
#include "base/error.h"
#include "data/file.h"

namespace draftsmith {
namespace {

struct Problem {
  std::string place;  // "run.yaml:3:5" or "train.steps=0"
  std::string message;
};

std::string joined(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
}

bool is_section(std::string_view name) {
  return std::any_of(all_options().begin(), all_options().end(), [&](const Option& option) {
    return option.name.size() > name.size() && option.name.starts_with(name) &&
           option.name[name.size()] == '.';
  });
}

std::string keys_of(std::string_view section) {
  std::string text;
  std::string last;
  for (const Option& option : all_options()) {
    std::string_view rest = option.name;
    if (!section.empty()) {
      if (!rest.starts_with(std::string(section) + ".")) continue;
      rest.remove_prefix(section.size() + 1);
    }
    const std::string key(rest.substr(0, rest.find('.')));
    if (key != last) text += (text.empty() ? "" : ", ") + key;
    last = key;
  }
  return text;
}

std::string unknown_key_text(const std::string& name) {
  const std::string nearest = nearest_known_key(name);
  if (nearest.empty()) {
    std::string section = name;
    do {
      const std::size_t dot = section.rfind('.');
      section.erase(dot == std::string::npos ? 0 : dot);
    } while (!section.empty() && !is_section(section));
    return fmt::format("unknown key '{}'; known {} are {}", name,
                       section.empty() ? "keys" : fmt::format("in '{}'", section), keys_of(section));
  }
  const Option* const known = find_option(nearest);
  return fmt::format("unknown key '{}'; the nearest known key is '{}' ({})", name, nearest,
                     known ? allowed_text(*known) : "a mapping with the keys " + keys_of(nearest));
}

template <typename T>
std::optional<T> number_from(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A scalar in quotes or tagged as text is text; a plain one is what it looks like.
OptionScalar scalar_from(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str") return text;
  if (text == "true" || text == "false") return text == "true";
  if (const auto integer = number_from<std::int64_t>(text)) return *integer;
  if (const auto real = number_from<double>(text); real && std::isfinite(*real)) return *real;
  return text;
}

std::string found_text(const YAML::Node& node) {
  if (node.IsNull()) return "nothing";
  if (node.IsSequence()) return node.size() == 0 ? "an empty list" : fmt::format("a list of {}", node.size());
  if (node.IsMap()) return "a mapping";
  if (node.Scalar().empty()) return "an empty text";
  const OptionScalar scalar = scalar_from(node);
  if (std::holds_alternative<std::string>(scalar)) return fmt::format("the text '{}'", node.Scalar());
  return node.Scalar();
}

// Reads one document after the other into the same RunConfig.
class Reader {
 public:
  // Names a node of the document that is being read: by position in a file, as typed on a command line.
  using PlaceOf = std::function<std::string(const YAML::Node&)>;

  struct Entry {
    std::string name;
    YAML::Node key;
    YAML::Node value;

    // The mark of a value that is not there is that of whatever follows.
    const YAML::Node& marked() const { return value.IsNull() ? key : value; }
  };

  // The section "" is the whole document.
  void read_section(const Entry& section, const PlaceOf& place_of) {
    const YAML::Node& node = section.value;
    if (!node.IsMap()) {
      const std::string what = section.name.empty() ? "the configuration" : fmt::format("'{}'", section.name);
      problems_.push_back(
          {place_of(section.marked()), fmt::format("{} must be a mapping with the keys {}; found {}", what,
                                                   keys_of(section.name), found_text(node))});
      return;
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        problems_.push_back(
            {place_of(entry.first), fmt::format("a key is a word; found {}", found_text(entry.first))});
        continue;
      }
      const std::string& key = entry.first.Scalar();
      if (key.find('.') != std::string::npos) {
        problems_.push_back(
            {place_of(entry.first),
             fmt::format("the key '{}' has a dot: in YAML, sections are nested mappings", key)});
        continue;
      }
      const std::string name = joined(section.name, key);
      if (!seen.insert(name).second) {
        add_duplicate(place_of(entry.first), name);
        continue;
      }
      read_entry({.name = name, .key = entry.first, .value = entry.second}, place_of);
    }
  }

  void read_entry(const Entry& entry, const PlaceOf& place_of) {
    const Option* option = find_option(entry.name);
    if (option) {
      read_option(*option, entry.value, place_of(entry.marked()));
    } else if (is_section(entry.name)) {
      read_section(entry, place_of);
    } else {
      problems_.push_back({place_of(entry.key), unknown_key_text(entry.name)});
    }
  }

  // An option may be set once by the file, and once more by the command line.
  void begin_overrides() { given_.clear(); }

  void add_problem(Problem problem) { problems_.push_back(std::move(problem)); }

  // Adds what is wrong between options, each at the place that set the option, else at `file`.
  void add_findings(const std::vector<ConfigFinding>& findings, const std::string& file) {
    for (const ConfigFinding& finding : findings) {
      const auto place = places_.find(finding.option);
      problems_.push_back({place == places_.end() ? file : place->second, finding.message});
    }
  }

  bool has_problems() const { return !problems_.empty(); }

  [[noreturn]] void fail() const {
    if (problems_.size() == 1) throw Error(fmt::format("{}: {}", problems_[0].place, problems_[0].message));
    std::string text = fmt::format("the configuration has {} problems", problems_.size());
    for (const Problem& problem : problems_)
      text += fmt::format("\n  {}: {}", problem.place, problem.message);
    throw Error(text);
  }

  RunConfig config;

 private:
  void add_duplicate(const std::string& place, std::string_view name) {
    problems_.push_back({place, fmt::format("'{}' is given twice: keep one", name)});
  }

  void read_option(const Option& option, const YAML::Node& node, const std::string& place) {
    if (!given_.insert(option.name).second) return add_duplicate(place, option.name);
    const auto refuse = [&](const std::string& found) {
      problems_.push_back(
          {place, fmt::format("'{}' must be {}; found {}", option.name, allowed_text(option), found)});
    };
    OptionValue value;
    const bool is_auto = node.IsNull() || (node.IsScalar() && node.Scalar() == "auto");
    if ((option.may_be_auto && is_auto) || (option.may_be_null && node.IsNull())) {
      option.set(config, value);
      places_[std::string(option.name)] = place;
      return;
    }
    if (option.is_list != node.IsSequence() || (!option.is_list && !node.IsScalar())) {
      return refuse(found_text(node));
    }
    if (!option.is_list) value.push_back(scalar_from(node));
    for (const YAML::Node& entry : node) {
      if (!entry.IsScalar()) return refuse("an entry that is " + found_text(entry));
      value.push_back(scalar_from(entry));
    }
    const auto count = static_cast<std::int64_t>(value.size());
    if (option.is_list && (count < option.entries.least || count > option.entries.most)) {
      return refuse(found_text(node));
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (is_allowed(option, value[i])) continue;
      const std::string found = option.is_list ? "the entry " + found_text(node[i]) : found_text(node);
      return refuse(found + refusal_hint(option, value[i], (option.is_list ? node[i] : node).Scalar()));
    }
    option.set(config, value);
    places_[std::string(option.name)] = place;
  }

  std::vector<Problem> problems_;
  std::set<std::string_view> given_;
  std::map<std::string, std::string> places_;  // by option, of what set it last
};

// Stops at a second document. YAML::LoadAll() would count them, but finds documents without end at a stray
// comma.
class OneDocument : public YAML::EventHandler {
 public:
  explicit OneDocument(const std::string& name) : name_(name) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(started_, true)) {
      throw Error(fmt::format("{}:{}:{}: expected one YAML document, found another one here", name_,
                              mark.line + 1, mark.column + 1));
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}

 private:
  const std::string& name_;
  bool started_ = false;
};

// A null node is an empty text.
YAML::Node parse_yaml(const std::string& text, const std::string& name) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    OneDocument document(name);
    while (parser.HandleNextDocument(document)) {
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw Error(fmt::format("{}:{}:{}: this is not YAML: {}", name, error.mark.line + 1,
                            error.mark.column + 1, error.msg));
  }
}

void read_override(const std::string& text, Reader& reader) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (equals == std::string::npos || name.empty()) {
    return reader.add_problem({text, "an override is name=value, as in train.steps=800"});
  }
  std::string typed = text.substr(equals + 1);
  typed.erase(0, typed.find_first_not_of(' '));
  typed.erase(typed.find_last_not_of(' ') + 1);
  const Option* const option = find_option(name);
  const std::string unset = option && (option->may_be_auto || option->may_be_null)
                                ? fmt::format("; {}=null leaves it out", name)
                                : "";
  // What a shell makes of a variable that is not set must not unset an option.
  if (typed.empty()) {
    return reader.add_problem(
        {text, "nothing follows the =; an override is name=value, as in train.steps=800" + unset});
  }
  YAML::Node value;
  try {
    value = YAML::Load(typed);
  } catch (const YAML::Exception& error) {
    return reader.add_problem({text, fmt::format("the value is not YAML: {}", error.msg)});
  }
  // Nor may what YAML takes for a comment or a mark of its own.
  if (value.IsNull() && !YAML::IsNullString(typed)) {
    return reader.add_problem(
        {text, fmt::format("YAML finds no value here; as text it stands in quotes, {}='\"{}\"'{}", name,
                           typed, unset)});
  }
  const auto place_of = [&](const YAML::Node&) { return text; };
  reader.read_entry({.name = name, .key = YAML::Node(name), .value = value}, place_of);
}

void emit(YAML::Emitter& out, const Option& option, const OptionValue& value) {
  if (option.is_list) out << YAML::Flow << YAML::BeginSeq;
  for (const OptionScalar& scalar : value) {
    if (option.type == ValueType::text) out << YAML::DoubleQuoted;
    out << scalar_text(scalar);
  }
  if (option.is_list) out << YAML::EndSeq;
}

}  // namespace

RunConfig parse_config(const ConfigText& source) {
  Reader reader;
  const YAML::Node document = parse_yaml(source.text, source.name);
  const auto place_of = [&](const YAML::Node& node) {
    const YAML::Mark mark = node.Mark();
    return fmt::format("{}:{}:{}", source.name, mark.line + 1, mark.column + 1);
  };
  if (!document.IsNull()) reader.read_section({.name = "", .key = document, .value = document}, place_of);
  reader.begin_overrides();
  for (const std::string& text : source.overrides) read_override(text, reader);
  // A value that was refused would be reported again as what its default does to the others.
  if (!reader.has_problems()) reader.add_findings(check_config(reader.config), source.name);
  if (!reader.has_problems() && source.existence == Existence::checked) {
    reader.add_findings(check_existence(reader.config), source.name);
  }
  if (reader.has_problems()) reader.fail();
  fill_derived_defaults(reader.config);
  return reader.config;
}

RunConfig load_config(const ConfigFile& file) {
  if (std::filesystem::is_directory(file.path)) {
    const std::filesystem::path inside = file.path / "config.yaml";
    throw Error(
        fmt::format("{}: expected a configuration's file, found a folder{}", file.path.string(),
                    std::filesystem::exists(inside) ? "; did you mean " + inside.string() + "?" : ""));
  }
  std::ifstream stream = open_stream(file.path, "this configuration");
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  return parse_config({file.path.string(), std::move(text), file.overrides, file.existence});
}

std::string save_resolved(const RunConfig& config) {
  YAML::Emitter out;
  std::vector<std::string> open;  // sections
  out << YAML::BeginMap;
  for (const Option& option : all_options()) {
    const OptionValue value = option.get(config);
    if (value.empty()) continue;
    std::vector<std::string> path;
    for (std::string_view rest = option.name;;) {
      const std::size_t dot = rest.find('.');
      path.emplace_back(rest.substr(0, dot));
      if (dot == std::string_view::npos) break;
      rest.remove_prefix(dot + 1);
    }
    const std::size_t sections = path.size() - 1;
    std::size_t shared = 0;
    while (shared < std::min(open.size(), sections) && open[shared] == path[shared]) ++shared;
    for (; open.size() > shared; open.pop_back()) out << YAML::EndMap;
    for (; open.size() < sections; open.push_back(path[open.size()])) {
      out << YAML::Key << path[open.size()] << YAML::Value << YAML::BeginMap;
    }
    out << YAML::Key << path.back() << YAML::Value;
    emit(out, option, value);
  }
  for (; !open.empty(); open.pop_back()) out << YAML::EndMap;
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace draftsmith
