// A run of 6 steps of which 3 are made, and what its checkpoint says of products.
#pragma once

#include <filesystem>
#include <vector>

#include "data/file.h"
#include "data/snapshot.h"
#include "train/choices_file.h"
#include "train/tiny_run.h"

namespace draftsmith {

class HalfRun : public TinyRun {
 public:
  void train_half() {
    hooks.at = [this](PipelinePoint point, std::int64_t index, Slot*) {
      if (point == PipelinePoint::exchange && index == 3) stop_signal = 15;
    };
    train();
    hooks = {};
    stop_signal = 0;
  }

  std::filesystem::path file() const { return folder().checkpoint(3) / "choices.json"; }
  std::vector<DeviceChoices> stored() const { return parse_choices(read_text_file(file()), file().string()); }
  // Makes the checkpoint one that was written with these.
  void store(const std::vector<DeviceChoices>& choices) const {
    const std::filesystem::path checkpoint = folder().checkpoint(3), whole = checkpoint.string() + "-whole";
    std::filesystem::rename(checkpoint, whole);
    SnapshotWriter writer(checkpoint);
    for (const auto& item : std::filesystem::directory_iterator(whole)) {
      if (item.path().filename() == kChecksumFile) continue;
      std::filesystem::copy(item.path(), writer.file(item.path().filename().string()));
    }
    atomic_write_file(writer.file("choices.json"), choices_text(choices));
    writer.commit();
    std::filesystem::remove_all(whole);
  }
};

}  // namespace draftsmith
