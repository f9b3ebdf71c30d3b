// What a GGUF file of the "llama" architecture says of its model, as a Hugging Face configuration and the
// tensors that go with it. Features that LlamaForCausalLM has not, or that targets here are not computed
// with, are Errors that name the key: experts, sliding windows, biases, partial rotation, rope scaling other
// than linear and that of Llama 3.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/gguf.h"
#include "data/hf_config.h"

namespace draftsmith {

// decoder.dtype is left empty: it is the writer's choice.
TargetConfigFile read_gguf_llama(const GgufFile& file);

// The config.json of a dense Llama.
std::string write_llama_config(const TargetConfigFile& config);

// A tensor under both of its names. The query and key rows of a GGUF file stand in another order: within each
// head, row 2 i + s of the file is row s * head_dim / 2 + i of the Hugging Face tensor (s is 0 or 1), so that
// the two rows that rotate against each other are neighbours.
struct LlamaTensor {
  std::string gguf_name;
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t rotated_head_dim = 0;  // of query and key rows; else 0: rows stand in their order

  // The file's row that is row `row` of the Hugging Face tensor.
  std::int64_t gguf_row(std::int64_t row) const;
};

std::vector<LlamaTensor> llama_tensors(const TargetConfigFile& config);

// An Error that names the tensors which the file lacks or has too many, or the first of another shape.
void check_llama_tensors(const GgufFile& file, const std::vector<LlamaTensor>& tensors);

}  // namespace draftsmith
