#include "bench/step/packed_products.h"

#include <algorithm>
#include <unordered_map>

#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "bench/step/timing.h"

namespace draftsmith::bench {
namespace {

using Description = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

dnnl::memory::data_type data_type(DType type) {
  return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// An operand in the layout that the product wants, filled by reordering a plain one.
dnnl::memory reordered(const dnnl::engine& engine, dnnl::stream& stream, const Description& wanted,
                       const dnnl::memory::dims& sizes) {
  dnnl::memory plain(Description(sizes, dnnl::memory::data_type::f32, Tag::ab), engine);
  auto* values = static_cast<float*>(plain.get_data_handle());
  for (std::int64_t i = 0; i < sizes[0] * sizes[1]; ++i) {
    values[i] = static_cast<float>((i * 2654435761) % 1021) / 1021.0f - 0.5f;
  }
  dnnl::memory memory(wanted, engine);
  dnnl::reorder(plain, memory).execute(stream, plain, memory);
  stream.wait();
  return memory;
}

}  // namespace

struct PackedProducts::Packed {
  Packed(const dnnl::engine& engine, const MatmulShape& wanted, Tag left_tag)
      : shape(wanted), stream(engine) {
    const auto storage = data_type(shape.storage);
    const dnnl::memory::dims left_sizes = {shape.rows, shape.depth},
                             right_sizes = {shape.depth, shape.columns};
    dnnl::primitive_attr attributes;
    if (shape.accumulate) {
      dnnl::post_ops added;
      added.append_sum();
      attributes.set_post_ops(added);
    }
    const dnnl::matmul::primitive_desc plan(
        dnnl::matmul::desc(Description(left_sizes, storage, left_tag),
                           Description(right_sizes, storage, Tag::any),
                           Description({shape.rows, shape.columns}, data_type(shape.output), Tag::ab)),
        attributes, engine);
    const dnnl::memory output(plan.dst_desc(), engine);
    auto* bytes = static_cast<char*>(output.get_data_handle());
    std::fill_n(bytes, plan.dst_desc().get_size(), 0);
    primitive = dnnl::matmul(plan);
    arguments = {{DNNL_ARG_SRC, reordered(engine, stream, plan.src_desc(), left_sizes)},
                 {DNNL_ARG_WEIGHTS, reordered(engine, stream, plan.weights_desc(), right_sizes)},
                 {DNNL_ARG_DST, output}};
  }

  void run() {
    primitive.execute(stream, arguments);
    stream.wait();
  }

  // The best of a few, in ms.
  double time(const Device& device) {
    double best = 1e30;
    for (int i = 0; i < 3; ++i) {
      const Stopwatch watch(device);
      run();
      best = std::min(best, watch.ms());
    }
    return best;
  }

  MatmulShape shape;
  dnnl::stream stream;
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;
};

PackedProducts::PackedProducts(const Device& device, const std::vector<LaunchedProduct>& products)
    : threads_(device.threads) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  omp_set_num_threads(threads_);
  for (const LaunchedProduct& product : products) {
    const MatmulShape& shape = product.prepared->shape;
    const auto same = [&](const auto& packed) { return packed->shape == shape; };
    auto found = std::find_if(shapes_.begin(), shapes_.end(), same);
    if (found == shapes_.end()) {
      // Rows of the left operand as they lie, or in a layout of the library's own: whichever is faster.
      auto plain = std::make_unique<Packed>(engine, shape, Tag::ab);
      auto blocked = std::make_unique<Packed>(engine, shape, Tag::any);
      shapes_.push_back(plain->time(device) <= blocked->time(device) ? std::move(plain) : std::move(blocked));
      found = shapes_.end() - 1;
    }
    order_.push_back(static_cast<std::size_t>(found - shapes_.begin()));
  }
}

PackedProducts::~PackedProducts() = default;

void PackedProducts::run() {
  omp_set_num_threads(threads_);
  for (const std::size_t place : order_) shapes_[place]->run();
}

}  // namespace draftsmith::bench
