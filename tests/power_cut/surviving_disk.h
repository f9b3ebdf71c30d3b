// What a disk holds after the power was cut: everything that was synced, and of the rest what chance will have.
// A file's bytes are safe when the file was synced after them; a name, made, moved or removed, when the folder it
// stands in was. Between two syncs of a folder its names survive up to some point of their history, each folder's
// up to another one; of a file's new bytes survive all, none, a part, or their count without their values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "power_cut/disk_journal.h"

namespace draftsmith {

enum class Survival {
  synced,      // only what must survive
  names,       // all names, no bytes that were not synced
  torn,        // all names, half of the new bytes, the other half zero
  everything,  // as after the kill of a process
  by_chance,   // each folder and file on its own
};

// Relative path to the file's bytes; folders are keys that end in '/'.
using DiskContents = std::map<std::string, std::vector<char>>;

// Follows a journal that began with an empty folder.
class SurvivingDisk {
 public:
  SurvivingDisk();

  void follow(const DiskEvent& event);
  // `seed` counts for by_chance.
  DiskContents contents(Survival survival, std::uint64_t seed) const;

 private:
  using Names = std::map<std::string, std::size_t>;  // to nodes
  struct Node {
    bool is_folder = false;
    std::vector<char> bytes, synced_bytes;
    std::vector<Names> names;  // since the last sync, the newest last; never empty
  };
  struct Place {
    std::size_t folder;
    std::string name;
  };
  class Chance;

  Place place_of(const std::string& path) const;
  std::size_t node_at(const std::string& path) const;
  Names& change(std::size_t folder);
  void make(const std::string& path, bool is_folder);
  void move(const DiskEvent& event);
  void collect(std::size_t node, const std::string& path, Chance& chance, DiskContents& contents) const;

  std::vector<Node> nodes_;  // 0 is the root
};

DiskContents read_disk(const std::filesystem::path& folder);
// Into an empty folder.
void write_disk(const std::filesystem::path& folder, const DiskContents& contents);

}  // namespace draftsmith
