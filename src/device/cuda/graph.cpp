// Graphs by capturing a stream. The mode is thread-local: other threads may go on with calls that a capture of theirs
// would forbid.
#include <memory>
#include <type_traits>

#include "device/cuda/driver.h"
#include "device/cuda/handle.h"

namespace draftsmith::cuda {

namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
};
using OwnedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

OwnedGraph record(cudaStream_t stream, const std::function<void()>& body) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning to capture a graph");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) OwnedGraph{graph};
    static_cast<void>(cudaGetLastError());  // the body's own failure is the one to tell
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "capturing a graph");
  return OwnedGraph(graph);
}

}  // namespace

void* capture(const Stream& stream, const std::function<void()>& body) {
  DRAFTSMITH_CHECK(stream.native != nullptr, "a graph is captured on a stream of its own");
  const cudaStream_t on = native(stream);
  const OwnedGraph graph = record(on, body);
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, graph.get(), 0), "making a graph");
  const cudaError_t uploaded = cudaGraphUpload(ready, on);
  if (uploaded != cudaSuccess) destroy_graph(ready);
  check(uploaded, "sending a graph to a GPU");
  return ready;
}

void launch_graph(void* graph, const Stream& stream) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), native(stream)), "launching a graph");
}

void destroy_graph(void* graph) {
  static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

}  // namespace draftsmith::cuda
