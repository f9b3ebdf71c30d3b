// Writes down what this process does to the files and folders below one folder: the system's own calls are
// taken over by functions of the same names in this program, so that nothing goes past it. What it wrote down
// says what a disk may have lost at any moment (power_cut/surviving_disk.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace draftsmith {

struct DiskEvent {
  enum class Kind { make_file, make_folder, write, sync, rename, exchange, remove, mark };
  Kind kind;
  std::string path;              // relative to the folder; of a mark its text
  std::string other = {};        // the new name, or what is exchanged with
  std::int64_t offset = 0;       // of a write
  std::vector<char> bytes = {};  // of a write
};

// One at a time. Any thread may change files while it lives; what is named .lock is left out.
class DiskJournal {
 public:
  explicit DiskJournal(const std::filesystem::path& folder);
  ~DiskJournal();
  DiskJournal(const DiskJournal&) = delete;
  DiskJournal& operator=(const DiskJournal&) = delete;

  // A place in the order of events.
  void mark(const std::string& text);
  // When nothing changes any more.
  const std::vector<DiskEvent>& events() const;
};

}  // namespace draftsmith
