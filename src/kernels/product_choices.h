// What was chosen for the products of a run, so that it can go on with the same bits: for each kind of device
// the facts that choices and their bits depend on, and for each product the algorithm. The texts are a
// backend's own and opaque to everybody else. Owned by the main thread during set-up.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace draftsmith {

// Name and value, as in {"card", "NVIDIA H200"}; equal facts, equal bits.
using DeviceFacts = std::vector<std::pair<std::string, std::string>>;

struct DeviceChoices {
  DeviceFacts facts;
  std::map<std::string, std::string> products;  // MatmulShape::key() -> PreparedMatmul::choice
};

class ProductChoices {
 public:
  // Nothing is chosen yet, and everything may be.
  ProductChoices() = default;
  // Those of an earlier part of the run, and no others. `place` is where they are stored.
  ProductChoices(std::vector<DeviceChoices> stored, std::string place);

  // What is chosen for devices with these facts. Throws Error saying which facts differ when the choices are
  // stored ones and were made for other devices; `device` is named in it.
  DeviceChoices of(const DeviceFacts& facts, const std::string& device) const;
  // Choices that were made beside those that are held: what is held stays.
  void add(const DeviceChoices& made);

  const std::vector<DeviceChoices>& all() const { return all_; }
  // Where they are stored; empty when products are chosen anew.
  const std::string& place() const { return place_; }

 private:
  std::vector<DeviceChoices> all_;
  std::string place_;
};

// How an Error about stored choices ends: what to do about it.
inline constexpr const char* kRetuneAdvice =
    "Resume with what the run had before, or let it go on with new choices by --retune: its bits will then "
    "differ "
    "from those of a run that was not interrupted";

}  // namespace draftsmith
