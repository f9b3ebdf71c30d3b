#include "power_cut/surviving_disk.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/random.h"

namespace draftsmith {

// Decides for one folder or file after the other.
class SurvivingDisk::Chance {
 public:
  Chance(Survival survival, std::uint64_t seed)
      : survival_(survival), random_(seed, RandomStream::noise, 0) {}

  const Names& names(const Node& folder) {
    if (survival_ == Survival::synced) return folder.names.front();
    if (survival_ != Survival::by_chance) return folder.names.back();
    return folder.names[below(folder.names.size())];
  }

  std::vector<char> bytes(const Node& file) {
    switch (survival_) {
      case Survival::synced:
      case Survival::names:
        return file.synced_bytes;
      case Survival::torn:
        return torn(file, file.bytes.size());
      case Survival::everything:
        return file.bytes;
      case Survival::by_chance:
        break;
    }
    const std::size_t part = below(4);
    if (part == 0) return file.synced_bytes;
    if (part == 1) return file.bytes;
    const std::size_t known = kept(file);
    return torn(file, part == 2 ? file.bytes.size() : known);
  }

 private:
  std::size_t below(std::size_t count) { return random_.below(draws_++, static_cast<std::uint32_t>(count)); }

  static std::size_t kept(const Node& file) {
    const std::size_t old = std::min(file.synced_bytes.size(), file.bytes.size());
    return old + (file.bytes.size() - old) / 2;
  }
  static std::vector<char> torn(const Node& file, std::size_t size) {
    std::vector<char> bytes(file.bytes.begin(), file.bytes.begin() + static_cast<std::ptrdiff_t>(kept(file)));
    bytes.resize(size);
    return bytes;
  }

  const Survival survival_;
  const Random random_;
  std::uint32_t draws_ = 0;
};

SurvivingDisk::SurvivingDisk() { nodes_.push_back({.is_folder = true, .names = {Names{}}}); }

std::size_t SurvivingDisk::node_at(const std::string& path) const {
  std::size_t node = 0;
  for (const auto& part : std::filesystem::path(path)) {
    const auto found = nodes_[node].names.back().find(part.string());
    DRAFTSMITH_CHECK(found != nodes_[node].names.back().end(), "the journal saw this made");
    node = found->second;
  }
  return node;
}

SurvivingDisk::Place SurvivingDisk::place_of(const std::string& path) const {
  const std::filesystem::path whole(path);
  return {.folder = node_at(whole.parent_path().string()), .name = whole.filename().string()};
}

// The folder's names as they become now.
SurvivingDisk::Names& SurvivingDisk::change(std::size_t folder) {
  std::vector<Names>& history = nodes_[folder].names;
  history.push_back(history.back());
  return history.back();
}

void SurvivingDisk::make(const std::string& path, bool is_folder) {
  const Place place = place_of(path);
  nodes_.push_back({.is_folder = is_folder, .names = {Names{}}});
  change(place.folder)[place.name] = nodes_.size() - 1;
}

// One change of one folder: a journal never has half of it.
void SurvivingDisk::move(const DiskEvent& event) {
  const Place from = place_of(event.path), to = place_of(event.other);
  DRAFTSMITH_CHECK(from.folder == to.folder, "what is written aside lies beside its place");
  Names& names = change(from.folder);
  if (event.kind == DiskEvent::Kind::exchange) {
    std::swap(names.at(from.name), names.at(to.name));
  } else {
    names[to.name] = names.at(from.name);
    names.erase(from.name);
  }
}

void SurvivingDisk::follow(const DiskEvent& event) {
  switch (event.kind) {
    case DiskEvent::Kind::make_file:
    case DiskEvent::Kind::make_folder:
      return make(event.path, event.kind == DiskEvent::Kind::make_folder);
    case DiskEvent::Kind::write: {
      std::vector<char>& bytes = nodes_[node_at(event.path)].bytes;
      const auto begin = static_cast<std::size_t>(event.offset);
      bytes.resize(std::max(bytes.size(), begin + event.bytes.size()));
      std::copy(event.bytes.begin(), event.bytes.end(), bytes.begin() + event.offset);
      return;
    }
    case DiskEvent::Kind::sync: {
      Node& node = nodes_[node_at(event.path)];
      node.synced_bytes = node.bytes;
      node.names.erase(node.names.begin(), node.names.end() - 1);
      return;
    }
    case DiskEvent::Kind::rename:
    case DiskEvent::Kind::exchange:
      return move(event);
    case DiskEvent::Kind::remove: {
      const Place place = place_of(event.path);
      change(place.folder).erase(place.name);
      return;
    }
    case DiskEvent::Kind::mark:
      return;
  }
}

void SurvivingDisk::collect(std::size_t node, const std::string& path, Chance& chance,
                            DiskContents& contents) const {
  if (!nodes_[node].is_folder) {
    contents[path] = chance.bytes(nodes_[node]);
    return;
  }
  if (!path.empty()) contents[path + "/"] = {};
  for (const auto& [name, child] : chance.names(nodes_[node])) {
    collect(child, path.empty() ? name : path + "/" + name, chance, contents);
  }
}

DiskContents SurvivingDisk::contents(Survival survival, std::uint64_t seed) const {
  DiskContents contents;
  Chance chance(survival, seed);
  collect(0, "", chance, contents);
  return contents;
}

DiskContents read_disk(const std::filesystem::path& folder) {
  DiskContents contents;
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = item.path().lexically_relative(folder).string();
    if (item.is_directory()) {
      contents[path + "/"] = {};
    } else if (item.path().filename() != ".lock") {
      std::ifstream file(item.path(), std::ios::binary);
      contents[path].assign(std::istreambuf_iterator<char>(file), {});
    }
  }
  return contents;
}

void write_disk(const std::filesystem::path& folder, const DiskContents& contents) {
  for (const auto& [path, bytes] : contents) {
    if (path.ends_with('/')) {
      std::filesystem::create_directories(folder / path);
    } else {
      std::ofstream(folder / path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
    }
  }
}

}  // namespace draftsmith
