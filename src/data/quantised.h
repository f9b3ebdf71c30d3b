// Recognises models whose weights are quantised, which are not supported: FP8, AWQ, GPTQ and the like. Each
// is refused by its name, from what config.json says or, where it says nothing, from the tensors themselves.
#pragma once

#include "data/json_fields.h"
#include "data/tensor_store.h"

namespace draftsmith {

// `fields` is the whole configuration; an Error when it has a quantization_config.
void refuse_quantised_config(const JsonFields& fields);

// An Error naming the first tensor that holds quantised weights: float8 values, or the packed integers of
// AWQ, GPTQ and compressed-tensors.
void refuse_quantised_tensors(const TensorStore& store);

}  // namespace draftsmith
