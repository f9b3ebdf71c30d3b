// A whole checkpoint of a tiny drafter, in which the input replaces one file: its first byte says which, the
// rest is the file. Every reader must give values or throw Error.
#include <array>

#include "base/error.h"
#include "data/file.h"
#include "data/snapshot.h"
#include "model/drafter_loader.h"
#include "support/temporary_folder.h"
#include "train/checkpoint.h"
#include "train/choices_file.h"

namespace draftsmith {
namespace {

constexpr std::array kFiles = {"state.json",        "drafter.json", "checksums.json",
                               "state.safetensors", "config.yaml",  "choices.json"};

class Checkpoint {
 public:
  Checkpoint()
      : shape_(load_drafter(DRAFTSMITH_SOURCE_DIR "/tests/golden/spec_tiny/drafter").shape),
        table_(drafter_weight_table(shape_)),
        values_(static_cast<std::size_t>(3 * table_.size)) {
    write_checkpoint(
        path(),
        {.facts = {},
         .config_text = "",
         .choices_text = choices_text({{.facts = {{"device", "CPU"}}, .products = {{"nt", "x"}}}}),
         .drafter = shape_,
         .table = table_,
         .state = state()},
        [] {});
    for (const char* file : kFiles) whole_.push_back(read_text_file(path() / file));
  }

  void replace(std::size_t index, std::string_view contents) const {
    folder_.write(std::filesystem::path("step") / kFiles[index], contents);
  }
  void restore(std::size_t index) const { replace(index, whole_[index]); }

  template <typename Read>
  static void attempt(Read read) {
    try {
      read();
    } catch (const Error&) {
    }
  }

  void read_all() {
    attempt([&] { verify_snapshot(path()); });
    attempt([&] { is_complete_snapshot(path()); });
    attempt([&] { read_checkpoint_facts(path()); });
    attempt([&] { read_checkpoint_config(path()); });
    attempt([&] { read_checkpoint_choices(path()); });
    attempt([&] { drafter_weight_table(read_checkpoint_drafter(path())); });
    attempt([&] { read_checkpoint_state(path(), table_, state()); });
  }

 private:
  std::filesystem::path path() const { return folder_.path() / "step"; }
  TrainedState state() {
    float* const begin = values_.data();
    return {.master = {begin, table_.size},
            .first_moment = {begin + table_.size, table_.size},
            .second_moment = {begin + 2 * table_.size, table_.size}};
  }

  TemporaryFolder folder_;
  DrafterShape shape_;
  WeightTable table_;
  std::vector<float> values_;  // [3 * table_.size]
  std::vector<std::string> whole_;
};

}  // namespace
}  // namespace draftsmith

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static draftsmith::Checkpoint checkpoint;
  if (size == 0) return 0;
  const std::size_t index = data[0] % draftsmith::kFiles.size();
  checkpoint.replace(index, {reinterpret_cast<const char*>(data) + 1, size - 1});
  checkpoint.read_all();
  checkpoint.restore(index);
  return 0;
}
