#include "device/graph.h"

#include "base/error.h"
#include "device/cuda/driver.h"
#include "device/seal.h"

namespace draftsmith {

Graph Graph::capture(const Stream& stream, std::function<void()> body) {
  count_set_up(SetUp::kernel);
  Graph graph;
  if (stream.device->name.kind == DeviceKind::cuda) {
    graph.native_.reset(cuda::capture(stream, body));
  } else {
    graph.body_ = std::move(body);
  }
  return graph;
}

void Graph::replay(const Stream& stream) const {
  DRAFTSMITH_CHECK(native_ || body_, "a graph is captured before it is replayed");
  if (native_) return cuda::launch_graph(native_.get(), stream);
  body_();
}

void Graph::Destroy::operator()(void* native) const { cuda::destroy_graph(native); }

}  // namespace draftsmith
