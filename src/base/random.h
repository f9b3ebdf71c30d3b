// Counter-based random numbers: bits are a pure function of (seed, stream, index), so that no thread, device
// count or order of work changes them. Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace draftsmith {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// What a stream of numbers is for. Each purpose has numbers of its own, whatever the others draw.
enum class RandomStream : std::uint32_t {
  initial_weights = 1,
  epoch_order = 2,
  anchors = 3,
  sampling = 4,
  noise = 5
};

// A stateless generator: value i of the sequence named by (seed, stream, a, b) costs the same whichever came
// before.
class Random {
 public:
  constexpr Random(std::uint64_t seed, RandomStream stream, std::uint32_t a = 0, std::uint32_t b = 0)
      : key_{static_cast<std::uint32_t>(seed) ^ (static_cast<std::uint32_t>(stream) * 0x9E3779B9u),
             static_cast<std::uint32_t>(seed >> 32)},
        a_(a),
        b_(b) {}

  constexpr std::uint64_t bits(std::uint64_t index) const {
    const PhiloxBlock block =
        philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), a_, b_}, key_);
    return (static_cast<std::uint64_t>(block[1]) << 32) | block[0];
  }

  // In [0, 1), a multiple of 2^-53.
  constexpr double uniform(std::uint64_t index) const {
    return static_cast<double>(bits(index) >> 11) * 0x1p-53;
  }

  // Standard normal by Box and Muller; one of the pair is used.
  double normal(std::uint64_t index) const {
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform(2 * index)));
    return radius * std::cos(2.0 * std::numbers::pi * uniform(2 * index + 1));
  }

  // In [0, count) with a bias below count / 2^64.
  constexpr std::uint64_t below(std::uint64_t index, std::uint64_t count) const {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits(index)) * count) >> 64);
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t a_, b_;
};

}  // namespace draftsmith
