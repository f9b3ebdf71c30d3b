// Which operations a pass launches, and when the device was done with each: a table of kernels that launches the
// device's own and, while a Recording lives in the calling thread, notes every launch. The time of a launch is that
// from the end of the one before to its own end, so the times of a pass add up to it, gaps included.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/stream.h"
#include "kernels/kernels.h"

namespace draftsmith::bench {

enum class Kind {
  forward_products,
  input_gradient_products,
  weight_gradient_products,
  head_products,
  attention_forward,
  attention_backward,
  norm_forward,
  norm_backward,
  rope_forward,
  rope_backward,
  swiglu_forward,
  swiglu_backward,
  loss,
  moved_rows,
  zeroed,
  sums,
  update,
  other,
  count
};
const char* name_of(Kind kind);
bool is_product(Kind kind);

// A product as it was launched: prepared and operands live as long as the launcher and the device's memory.
struct LaunchedProduct {
  const PreparedMatmul* prepared = nullptr;
  MatmulOperands operands;
  std::size_t launch = 0;  // its place among all launches
};

struct KindTime {
  std::int64_t launches = 0;
  double ms = 0;
};

// The products of one shape.
struct ProductTime {
  MatmulShape shape;
  std::int64_t launches = 0;
  double ms = 0;
};

// One at a time in a thread.
class Recording {
 public:
  // vocabulary: products with that many columns, or that deep, are the head's. most_launches: room for them is made now.
  Recording(const Stream& stream, std::int64_t vocabulary, std::int64_t most_launches);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Blocks until the device has done all that was noted.
  std::map<Kind, KindTime> times();
  std::vector<ProductTime> product_times();  // one entry a shape, in the order of the first launch
  const std::vector<LaunchedProduct>& products() const { return products_; }

  void note(const Stream& stream, Kind kind);
  void note(const Stream& stream, const PreparedMatmul& prepared, const MatmulOperands& operands);

 private:
  // From the end of the launch before to this one's.
  double ms_of(std::size_t launch) const;
  void mark();

  const Stream stream_;
  const std::int64_t vocabulary_;
  // Ends of launches, the first: the beginning. Events of a GPU, times of a CPU device.
  std::vector<Event> ends_;
  std::vector<double> end_ms_;
  std::vector<Kind> kinds_;
  std::vector<LaunchedProduct> products_;
};

// Of this device; lives as long as the program.
template <typename T>
const Kernels<T>& recorded_kernels(const Device& device);

}  // namespace draftsmith::bench
