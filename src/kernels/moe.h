// A mixture of experts: every row goes through the few experts that its router chooses. With logits from the
// router and E experts,
//   p = softmax(logits) in float over all E; chosen: those of the largest logits, the lowest index among
//   equals; weight_e = p_e, or with `normalise` p_e divided by the sum over the chosen ones; rounded to T
//   output = sum over the chosen e, ascending, of weight_e * down_e (silu(gate_e x) * up_e x)
// in four launches: RouteExperts; ExpertProducts by gate over up; SwigluForward; ExpertProducts by down;
// CombineExperts. Between them lie rows * chosen places, sorted by expert and within an expert by row. Shapes
// are fixed: every row has a place for each choice, so no expert overflows and nothing is dropped; how many
// places an expert has is data.
// A row's bits depend on that row alone, whatever rows share the call and whoever shares its experts, so that
// verifying a block and plain decoding agree exactly. Each entry of a product is one chain of multiply-adds in
// order of depth, as in products of few rows. Only the weights of chosen experts are read: on the CPU once for
// all places of an expert, on GPUs once for every tile of places. On long prefills that is slower than the
// library's products, and needs neither a shape a plan nor padded experts. Launches depend on the sizes alone,
// never on what was chosen.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith {

inline constexpr std::int64_t kMostExperts = 1024;

template <typename T>
struct RouteExperts {
  Matrix<const float> logits;  // [rows, experts]
  bool normalise = false;
  Vector<std::int32_t> first;   // [experts + 1]: expert e has the places first[e] .. first[e + 1] - 1
  Vector<std::int32_t> rows;    // [rows * chosen]: the row at each place
  Matrix<std::int32_t> places;  // [rows, chosen]: each row's places, ascending: by ascending expert
  Matrix<T> weights;            // [rows, chosen]: of the expert at places[row, i]
};

// output[p] = weights_e input[row of p] for each place p of each expert e.
template <typename T>
struct ExpertProducts {
  Matrix<const T> input;             // [rows, depth]
  Vector<const std::int32_t> rows;   // [places]: input row of each place; empty: row p for place p
  Vector<const std::int32_t> first;  // [experts + 1], from RouteExperts
  Matrix<const T> weights;           // [experts * width, depth]: one expert's below another's
  Matrix<T> output;                  // [places, width]
};

// output[row] = sum over i of weights[row, i] * input[places[row, i]], in float, in order of i.
template <typename T>
struct CombineExperts {
  Matrix<const T> input;              // [places, width]
  Matrix<const std::int32_t> places;  // [rows, chosen]
  Matrix<const T> weights;            // [rows, chosen]
  Matrix<T> output;                   // [rows, width]
};

}  // namespace draftsmith
