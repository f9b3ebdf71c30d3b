#include "generate/decoder.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/arithmetic.h"
#include "device/stream.h"
#include "generate/decoder_inputs.h"
#include "generate/kv_cache.h"
#include "kernels/tables.h"
#include "tensor/arena.h"
#include "tensor/staged.h"

namespace draftsmith {
namespace {

// Memory of the host that the device copies from and to.
struct HostSide {
  DecoderInputs inputs;
  Vector<std::int32_t> choices;  // [block_size]
  Matrix<float> logits;          // [block_size, vocabulary], empty where the host reads the device's
};

// Everything that lies in the device's arena.
template <typename T>
struct DecoderMemory {
  TargetWeights<T> target;
  Vector<T> drafter;  // flat
  RopeStorage target_rope, drafter_rope;
  KvCache<T> cache;
  TargetScratch<T> scratch;           // of a chunk or a block
  DrafterActivations<T> activations;  // of one block; its context is the cache
  DecoderInputs inputs;
  Matrix<T> features;            // [rows, taps * width]
  Matrix<T> hidden;              // [prefill rows, width]: after the target's final norm
  Matrix<float> logits;          // [block_size, vocabulary]
  Vector<std::int32_t> choices;  // [block_size]
  Vector<std::byte> product_scratch;
};

template <typename T>
class DeviceDecoder final : public Decoder {
 public:
  DeviceDecoder(const Device& device, const DecoderModels& models, const DecoderSettings& settings);

  std::int32_t prefill(std::span<const std::int32_t> prompt) override;
  void draft(std::int32_t last, std::span<std::int32_t> proposals) override;
  void verify(std::span<const std::int32_t> tokens, std::span<std::int32_t> choices) override;
  void commit(std::int64_t rows) override;
  std::int32_t step(std::int32_t token) override;

  std::int64_t length() const override { return memory_.cache.length(); }
  void rewind(std::int64_t length) override { memory_.cache.rewind(length); }
  const DecoderSettings& settings() const override { return settings_; }
  std::int64_t block_size() const override { return drafter_.shape().block_size; }
  Matrix<const float> logits() const override;
  std::int64_t device_bytes() const override { return arena_.bytes(); }

 private:
  // Positions that caches and rope tables have room for: a sequence, its last block, and whole chunks.
  std::int64_t capacity() const { return round_up(settings_.longest + block_size(), settings_.prefill_rows); }
  std::int64_t rows() const { return std::max(settings_.prefill_rows, block_size()); }
  BatchBudget block_budget() const {
    return {
        .context_tokens = 0, .blocks = 1, .block_size = block_size(), .loss_chunk_rows = block_size() - 1};
  }
  DecoderMemory<T> carve(Carver& carver, std::int64_t product_scratch_bytes) const;
  HostSide carve_host(Carver& carver) const;
  void measure();
  void load(const DecoderModels& models);
  void warm_up();
  void write_rows(std::span<const std::int32_t> tokens, std::int64_t rows);
  void send_inputs();
  void receive_choices(std::span<std::int32_t> choices);
  TargetPass<T> pass(std::int64_t rows) const;
  void choose(Matrix<float> logits);
  void launch_head(std::int64_t row);
  void launch_context(std::int64_t rows);
  void launch_prefill();
  void launch_draft();
  void launch_verify();
  void launch_step();

  // Constant after construction.
  const Device device_;
  const DecoderSettings settings_;
  const Target<T> target_;
  const Drafter<T> drafter_;
  const WeightTable table_;
  Launcher<T> launch_;
  Arena arena_;
  Buffer host_memory_;
  DecoderMemory<T> memory_;
  HostSide host_;
  DrafterWeights<const T> drafter_weights_;
  // Of the last call.
  Matrix<const float> logits_;
};

template <typename T>
DeviceDecoder<T>::DeviceDecoder(const Device& device, const DecoderModels& models,
                                const DecoderSettings& settings)
    : device_(device),
      settings_(settings),
      target_(models.target, models.drafter.taps),
      drafter_(models.drafter),
      table_(drafter_weight_table(models.drafter)),
      launch_(device_, kernels_of<T>(device_)) {
  measure();
  load(models);
  warm_up();
}

template <typename T>
DecoderMemory<T> DeviceDecoder<T>::carve(Carver& carver, std::int64_t product_scratch_bytes) const {
  const TargetShape& target = target_.shape();
  const DrafterShape& drafter = drafter_.shape();
  DecoderMemory<T> memory;
  carver.purpose("weights");
  memory.target = carve_target_weights<T>(carver, target, target.layers);
  memory.drafter = carver.vector<T>(table_.size);
  carver.purpose("rope tables");
  memory.target_rope = carve_rope(carver, capacity(), target.head_dim);
  memory.drafter_rope = carve_rope(carver, capacity(), drafter.head_dim);
  carver.purpose("caches");
  memory.cache = KvCache<T>(carver, target, drafter, {.capacity = capacity(), .most_added = rows()});
  carver.purpose("activations");
  memory.scratch = carve_target_scratch<T>(carver, target, rows());
  memory.activations = carve_drafter_activations<T>(carver, drafter, block_budget(), Recompute::layer);
  memory.activations.context = memory.cache.context();
  memory.inputs = carve_inputs(carver, block_budget(), rows());
  memory.features = carver.matrix<T>(rows(), drafter.feature_width());
  memory.hidden = carver.matrix<T>(settings_.prefill_rows, target.width);
  memory.logits = carver.matrix<float>(block_size(), target.vocabulary);
  memory.choices = carver.vector<std::int32_t>(block_size());
  carver.purpose("product scratch");
  memory.product_scratch = carver.vector<std::byte>(product_scratch_bytes);
  return memory;
}

template <typename T>
HostSide DeviceDecoder<T>::carve_host(Carver& carver) const {
  return {.inputs = carve_inputs(carver, block_budget(), rows()),
          .choices = carver.vector<std::int32_t>(block_size()),
          .logits =
              carver.matrix<float>(host_addressable(device_) ? 0 : block_size(), target_.shape().vocabulary)};
}

// Runs every pass over views without memory: this prepares the products, which say how much scratch they
// need; then everything is cut from one allocation.
template <typename T>
void DeviceDecoder<T>::measure() {
  launch_.set_mode(LaunchMode::measure);
  Carver counting;
  memory_ = carve(counting, 0);
  drafter_weights_ = view_weights(drafter_.shape(), table_, Vector<const T>(memory_.drafter));
  warm_up();
  launch_.set_mode(LaunchMode::run);
  const std::int64_t scratch_bytes = launch_.library().scratch_bytes();
  Carver sized;
  carve(sized, scratch_bytes);
  arena_ = Arena(device_, sized.peak());
  Carver carver = arena_.carver();
  memory_ = carve(carver, scratch_bytes);
  Carver host_sized;
  carve_host(host_sized);
  host_memory_ = Buffer::pinned(host_sized.peak());
  Carver host_carver(host_memory_.data(), host_memory_.bytes());
  host_ = carve_host(host_carver);
  launch_.library().set_scratch(memory_.product_scratch);
  drafter_weights_ = view_weights(drafter_.shape(), table_, Vector<const T>(memory_.drafter));
}

template <typename T>
void DeviceDecoder<T>::load(const DecoderModels& models) {
  const Stream& stream = launch_.stream();
  load_target_weights(stream, models.target_folder, models.target, memory_.target);
  const Staged<T> drafter(stream, memory_.drafter);
  for (std::int64_t i = 0; i < table_.size; ++i) drafter.host()[i] = T(models.drafter_weights[i]);
  drafter.upload();
  fill_rope(stream, models.target.rope, models.target.head_dim, memory_.target_rope);
  fill_rope(stream, models.drafter.rope, models.drafter.head_dim, memory_.drafter_rope);
  write_block(host_.inputs.block, models.drafter, 0, 0);
  send_inputs();
}

template <typename T>
void DeviceDecoder<T>::warm_up() {
  launch_prefill();
  launch_head(0);
  launch_draft();
  launch_verify();
  launch_step();
}

// Tokens at the positions behind the valid ones, each seeing all before it; the rest of `rows` is padding.
template <typename T>
void DeviceDecoder<T>::write_rows(std::span<const std::int32_t> tokens, std::int64_t rows) {
  const std::int64_t first = length();
  for (std::int64_t i = 0; i < rows; ++i) {
    host_.inputs.tokens[i] = i < static_cast<std::int64_t>(tokens.size()) ? tokens[i] : 0;
    host_.inputs.positions[i] = narrow<std::int32_t>(first + i);
    host_.inputs.begin[i] = 0;
    host_.inputs.end[i] = narrow<std::int32_t>(first + i + 1);
  }
  send_inputs();
}

template <typename T>
Matrix<const float> DeviceDecoder<T>::logits() const {
  if (host_addressable(device_)) return logits_;
  const Matrix<float> copy = host_.logits.slice_rows(0, logits_.rows);
  copy_bytes(launch_.stream(), copy.data, logits_.data, bytes_of(copy).size);
  synchronize(launch_.stream());
  return copy;
}

// Waits, so that the host may write the next call's inputs.
template <typename T>
void DeviceDecoder<T>::send_inputs() {
  copy_bytes(launch_.stream(), memory_.inputs.bytes.data, host_.inputs.bytes.data, host_.inputs.bytes.size);
  synchronize(launch_.stream());
}

template <typename T>
void DeviceDecoder<T>::receive_choices(std::span<std::int32_t> choices) {
  copy_bytes(launch_.stream(), host_.choices.data, memory_.choices.data, bytes_of(host_.choices).size);
  synchronize(launch_.stream());
  std::copy_n(host_.choices.begin(), choices.size(), choices.begin());
}

template <typename T>
TargetPass<T> DeviceDecoder<T>::pass(std::int64_t rows) const {
  const DecoderInputs& inputs = memory_.inputs;
  return {.tokens = inputs.tokens.slice(0, rows),
          .positions = inputs.positions.slice(0, rows),
          .intervals = {.begin = inputs.begin.slice(0, rows), .end = inputs.end.slice(0, rows)},
          .first_row = length(),
          .store = &memory_.cache.target()};
}

template <typename T>
void DeviceDecoder<T>::choose(Matrix<float> logits) {
  logits_ = logits;
  launch_(ArgmaxRows<T>{.logits = logits, .predictions = memory_.choices.slice(0, logits.rows)});
}

// The target's choice after one row of the last chunk.
template <typename T>
void DeviceDecoder<T>::launch_head(std::int64_t row) {
  const Matrix<float> logits = memory_.logits.slice_rows(0, 1);
  launch_(Matmul<T, float>{
      .left = memory_.hidden.slice_rows(row, 1), .right = memory_.target.tables.head, .output = logits});
  choose(logits);
}

// The drafter's keys and values of the rows whose features the target has just written.
template <typename T>
void DeviceDecoder<T>::launch_context(std::int64_t rows) {
  drafter_.context_forward(launch_, drafter_weights_, memory_.drafter_rope.table(),
                           memory_.features.slice_rows(0, rows), memory_.inputs.positions.slice(0, rows),
                           memory_.cache.context_rows(length(), rows));
}

template <typename T>
void DeviceDecoder<T>::launch_prefill() {
  const std::int64_t rows = settings_.prefill_rows;
  TargetPass<T> chunk = pass(rows);
  chunk.features = memory_.features.slice_rows(0, rows);
  chunk.final_hidden = memory_.hidden;
  target_.forward(launch_, memory_.target, memory_.target_rope.table(), memory_.scratch, chunk);
  launch_context(rows);
}

template <typename T>
void DeviceDecoder<T>::launch_draft() {
  drafter_.blocks_forward(launch_, drafter_weights_, memory_.drafter_rope.table(),
                          memory_.target.tables.embedding, memory_.inputs.block, memory_.activations);
  const Matrix<float> logits = memory_.logits.slice_rows(0, block_size() - 1);
  launch_(Matmul<T, float>{
      .left = memory_.activations.last.output, .right = memory_.target.tables.head, .output = logits});
  choose(logits);
}

template <typename T>
void DeviceDecoder<T>::launch_verify() {
  TargetPass<T> block = pass(block_size());
  block.features = memory_.features.slice_rows(0, block_size());
  block.logits = memory_.logits;
  target_.forward(launch_, memory_.target, memory_.target_rope.table(), memory_.scratch, block);
  launch_context(block_size());
  choose(memory_.logits);
}

template <typename T>
void DeviceDecoder<T>::launch_step() {
  TargetPass<T> token = pass(1);
  token.logits = memory_.logits.slice_rows(0, 1);
  target_.forward(launch_, memory_.target, memory_.target_rope.table(), memory_.scratch, token);
  choose(token.logits);
}

template <typename T>
std::int32_t DeviceDecoder<T>::prefill(std::span<const std::int32_t> prompt) {
  const auto size = static_cast<std::int64_t>(prompt.size());
  DRAFTSMITH_CHECK(size > 0 && size <= settings_.longest, "a prompt has tokens, and room");
  rewind(0);
  std::int64_t last_row = 0;
  while (length() < size) {
    const std::int64_t rows = std::min(settings_.prefill_rows, size - length());
    write_rows(prompt.subspan(length(), rows), settings_.prefill_rows);
    launch_prefill();
    memory_.cache.extend_both(rows);
    last_row = rows - 1;
  }
  launch_head(last_row);
  std::int32_t choice = 0;
  receive_choices({&choice, 1});
  return choice;
}

template <typename T>
void DeviceDecoder<T>::draft(std::int32_t last, std::span<std::int32_t> proposals) {
  DRAFTSMITH_CHECK(memory_.cache.context_length() == length(), "the drafter has seen the whole sequence");
  DRAFTSMITH_CHECK(static_cast<std::int64_t>(proposals.size()) == block_size() - 1, "a proposal a slot");
  write_block(host_.inputs.block, drafter_.shape(), last, length());
  send_inputs();
  launch_draft();
  receive_choices(proposals);
}

template <typename T>
void DeviceDecoder<T>::verify(std::span<const std::int32_t> tokens, std::span<std::int32_t> choices) {
  DRAFTSMITH_CHECK(
      static_cast<std::int64_t>(tokens.size()) == block_size() && choices.size() == tokens.size(),
      "a block of tokens, and a choice for each");
  write_rows(tokens, block_size());
  launch_verify();
  receive_choices(choices);
}

template <typename T>
void DeviceDecoder<T>::commit(std::int64_t rows) {
  DRAFTSMITH_CHECK(rows >= 1 && rows <= block_size(), "a verified block has that many rows");
  memory_.cache.extend_both(rows);
}

template <typename T>
std::int32_t DeviceDecoder<T>::step(std::int32_t token) {
  write_rows({&token, 1}, 1);
  launch_step();
  memory_.cache.extend_target(1);
  std::int32_t choice = 0;
  receive_choices({&choice, 1});
  return choice;
}

}  // namespace

void check_drafter_fits(const DrafterShape& drafter, const TargetShape& target) {
  const auto require_equal = [](const char* what, std::int64_t drafter_value, std::int64_t target_value) {
    if (drafter_value == target_value) return;
    throw Error(
        fmt::format("the drafter was made for another target: its {} is {}, the target's is {}. Give "
                    "the target that it was trained with",
                    what, drafter_value, target_value));
  };
  require_equal("hidden_size", drafter.width, target.width);
  require_equal("vocab_size", drafter.vocabulary, target.vocabulary);
  require_equal("num_target_layers", drafter.target_layers, target.layers);
  check_drafter_shape(drafter);
}

std::unique_ptr<Decoder> make_decoder(const Device& device, DType compute, const DecoderModels& models,
                                      const DecoderSettings& settings) {
  check_drafter_fits(models.drafter, models.target);
  const std::int64_t positions = std::min(models.target.max_positions, models.drafter.max_positions);
  if (settings.longest > positions) {
    throw Error(
        fmt::format("prompt and output may take {} tokens, but the models have {} positions "
                    "(max_position_embeddings); lower --max-new-tokens or shorten the prompt",
                    settings.longest, positions));
  }
  if (compute == DType::bf16) return std::make_unique<DeviceDecoder<bf16>>(device, models, settings);
  return std::make_unique<DeviceDecoder<float>>(device, models, settings);
}

}  // namespace draftsmith
