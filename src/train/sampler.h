// The order in which documents are trained on: a permutation of all of them per epoch, a pure function of
// (seed, epoch). Where a run is in its data is two integers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace draftsmith {

struct DataPosition {
  std::int64_t epoch = 0;  // from 0
  std::int64_t place = 0;  // in the epoch's order, of the next document; below the count of documents

  bool operator==(const DataPosition&) const = default;
};

struct SamplerSettings {
  std::uint64_t seed = 0;
  std::int64_t documents = 0;
  std::optional<std::int64_t> epochs;  // nothing: for ever
};

class Sampler {
 public:
  Sampler(const SamplerSettings& settings, const DataPosition& start);

  struct Draw {
    std::int64_t epoch = 0;
    std::int64_t document = 0;
  };
  // The next document; nothing after the last epoch.
  std::optional<Draw> peek() const;
  void advance();
  const DataPosition& position() const { return position_; }

 private:
  void order_epoch();

  const SamplerSettings settings_;
  DataPosition position_;
  std::vector<std::int32_t> order_;  // [documents], of the position's epoch
};

}  // namespace draftsmith
