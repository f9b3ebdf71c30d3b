#include "bench/step/recorder.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "bench/step/timing.h"
#include "kernels/tables.h"

namespace draftsmith::bench {
namespace {

// A kernel's entry in the table is a plain function, so what it notes into is the thread's.
thread_local Recording* t_recording = nullptr;

constexpr std::array kNames = {"products forward",
                               "products, gradients of inputs",
                               "products, gradients of weights",
                               "products of the head",
                               "attention forward",
                               "attention backward",
                               "norms forward",
                               "norms backward",
                               "head norm and rope forward",
                               "head norm and rope backward",
                               "swiglu forward",
                               "swiglu backward",
                               "loss and its gradient",
                               "rows copied and gathered",
                               "memory zeroed",
                               "sums",
                               "update",
                               "other"};
static_assert(kNames.size() == static_cast<std::size_t>(Kind::count));

template <auto member, Kind kind, typename T, typename Arguments>
void wrap_as(Kernels<T>& table, void (*Kernels<T>::*)(const Stream&, const Arguments&)) {
  if (table.*member == nullptr) return;
  table.*member = [](const Stream& stream, const Arguments& arguments) {
    (kernels_of<T>(*stream.device).*member)(stream, arguments);
    if (t_recording != nullptr) t_recording->note(stream, kind);
  };
}
template <auto member, Kind kind, typename T>
void wrap(Kernels<T>& table) {
  wrap_as<member, kind>(table, member);
}

template <typename T>
Kernels<T> wrapped(const Kernels<T>& plain) {
  using K = Kernels<T>;
  K table = plain;
  table.matmul = [](const Stream& stream, const PreparedMatmul& prepared, const MatmulOperands& operands) {
    kernels_of<T>(*stream.device).matmul(stream, prepared, operands);
    if (t_recording != nullptr) t_recording->note(stream, prepared, operands);
  };
  wrap<&K::copy_rows, Kind::moved_rows>(table);
  wrap<&K::gather_rows, Kind::moved_rows>(table);
  wrap<&K::fill_zero, Kind::zeroed>(table);
  wrap<&K::rmsnorm_forward, Kind::norm_forward>(table);
  wrap<&K::rmsnorm_backward, Kind::norm_backward>(table);
  wrap<&K::head_norm_rope_forward, Kind::rope_forward>(table);
  wrap<&K::head_norm_rope_backward, Kind::rope_backward>(table);
  wrap<&K::swiglu_forward, Kind::swiglu_forward>(table);
  wrap<&K::swiglu_backward, Kind::swiglu_backward>(table);
  wrap<&K::attention_forward, Kind::attention_forward>(table);
  wrap<&K::attention_backward, Kind::attention_backward>(table);
  wrap<&K::cross_entropy_forward, Kind::loss>(table);
  wrap<&K::block_loss, Kind::loss>(table);
  wrap<&K::argmax_rows, Kind::loss>(table);
  wrap<&K::distillation_forward, Kind::loss>(table);
  wrap<&K::cross_entropy_with_gradient, Kind::loss>(table);
  wrap<&K::distillation_backward, Kind::loss>(table);
  wrap<&K::column_sum, Kind::sums>(table);
  wrap<&K::sum_of_squares, Kind::update>(table);
  wrap<&K::prepare_update, Kind::update>(table);
  wrap<&K::adamw_update, Kind::update>(table);
  wrap<&K::add_feature_noise, Kind::other>(table);
  wrap<&K::route_experts, Kind::other>(table);
  wrap<&K::expert_products, Kind::other>(table);
  wrap<&K::combine_experts, Kind::other>(table);
  return table;
}

}  // namespace

const char* name_of(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }

bool is_product(Kind kind) { return kind <= Kind::head_products; }

Recording::Recording(const Stream& stream, std::int64_t vocabulary, std::int64_t most_launches)
    : stream_(stream), vocabulary_(vocabulary) {
  DRAFTSMITH_CHECK(t_recording == nullptr, "a thread records once at a time");
  const bool gpu = stream.device->name.kind == DeviceKind::cuda;
  for (std::int64_t i = 0; gpu && i <= most_launches; ++i) ends_.emplace_back(*stream.device);
  end_ms_.reserve(most_launches + 1);
  kinds_.reserve(most_launches);
  products_.reserve(most_launches);
  t_recording = this;
  synchronize(stream_);
  mark();
}

Recording::~Recording() { t_recording = nullptr; }

void Recording::note(const Stream& stream, Kind kind) {
  DRAFTSMITH_CHECK(kinds_.size() < kinds_.capacity(), "a recording has room for every launch");
  DRAFTSMITH_CHECK(stream.native == stream_.native, "what is recorded is launched on one stream");
  kinds_.push_back(kind);
  mark();
}

// The end of the newest launch.
void Recording::mark() {
  if (ends_.empty()) return end_ms_.push_back(now_ms(*stream_.device));
  ends_[kinds_.size()].record(stream_);
}

double Recording::ms_of(std::size_t launch) const {
  if (ends_.empty()) return end_ms_[launch + 1] - end_ms_[launch];
  return Event::elapsed_ms(ends_[launch], ends_[launch + 1]);
}

void Recording::note(const Stream& stream, const PreparedMatmul& prepared, const MatmulOperands& operands) {
  const MatmulShape& shape = prepared.shape;
  products_.push_back({.prepared = &prepared, .operands = operands, .launch = kinds_.size()});
  constexpr Kind kByForm[] = {Kind::forward_products, Kind::input_gradient_products,
                              Kind::weight_gradient_products};
  const bool head = shape.columns == vocabulary_ || shape.depth == vocabulary_;
  note(stream, head ? Kind::head_products : kByForm[static_cast<int>(shape.form)]);
}

std::map<Kind, KindTime> Recording::times() {
  synchronize(stream_);
  std::map<Kind, KindTime> times;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    KindTime& time = times[kinds_[i]];
    time.launches += 1;
    time.ms += ms_of(i);
  }
  return times;
}

std::vector<ProductTime> Recording::product_times() {
  synchronize(stream_);
  std::vector<ProductTime> times;
  for (const LaunchedProduct& product : products_) {
    const MatmulShape& shape = product.prepared->shape;
    auto found = std::find_if(times.begin(), times.end(),
                              [&](const ProductTime& time) { return time.shape == shape; });
    if (found == times.end()) found = times.insert(times.end(), {.shape = shape});
    found->launches += 1;
    found->ms += ms_of(product.launch);
  }
  return times;
}

template <typename T>
const Kernels<T>& recorded_kernels(const Device& device) {
  if (device.name.kind == DeviceKind::cuda) {
    static const Kernels<T> kCuda = wrapped(kernels_of<T>(device));
    return kCuda;
  }
  static const Kernels<T> kCpu = wrapped(kernels_of<T>(device));
  return kCpu;
}
template const Kernels<float>& recorded_kernels(const Device&);
template const Kernels<bf16>& recorded_kernels(const Device&);

}  // namespace draftsmith::bench
