/* Operators that the engine leaves to the host, equal to the reference kernels bit for bit.
 *
 * C11, freestanding, no allocation, no variables. The compiler computes all arguments that depend
 * on scales. Input and output arrays must not overlap, except that those of matloom_copy may be the
 * same. */
#ifndef MATLOOM_KERNELS_H
#define MATLOOM_KERNELS_H

#include "matloom.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplier of Q0.31 and left shift that scale an integer, rounded twice. */
struct matloom_scale {
  int32_t multiplier;
  int32_t shift;
};

/* Integers: their type, and the integer that represents zero. */
struct matloom_integers {
  uint32_t dtype;
  int32_t zero_point;
};

/* RESHAPE, SQUEEZE and EXPAND_DIMS: the same bytes. */
void matloom_copy(void* output, const void* input, uint32_t bytes);

/* Any element-wise operator of one 8-bit tensor: `table` has its result for each byte. */
void matloom_lookup(void* output, const void* input, const uint8_t* table, uint32_t elements);

/* SOFTMAX of int8 along the last axis, `columns` long; outputs have scale 1/256 and zero point
 * -128. `scale` converts differences to Q5.26; those below `least` are ignored. */
void matloom_softmax_int8(int8_t* output, const int8_t* input, uint32_t rows, uint32_t columns,
                          struct matloom_scale scale, int32_t least);

/* LOG_SOFTMAX of int8 in the same way; outputs have scale 1/16 and zero point 127. */
void matloom_log_softmax_int8(int8_t* output, const int8_t* input, uint32_t rows,
                              uint32_t columns, struct matloom_scale scale, int32_t least);

/* QUANTIZE of float32 to `dtype`: int8, uint8 or int16. */
void matloom_quantize(void* output, const float* input, uint32_t dtype, uint32_t elements,
                      float scale, int32_t zero_point);

/* QUANTIZE from integers to integers, int8, uint8 or int16, by `scale`. */
void matloom_requantize(void* output, const void* input, struct matloom_integers made,
                        struct matloom_integers given, uint32_t elements,
                        struct matloom_scale scale);

/* DEQUANTIZE of int8, uint8 or int16. */
void matloom_dequantize(float* output, const void* input, uint32_t dtype, uint32_t elements,
                        double scale, int32_t zero_point);

/* ARG_MAX, or ARG_MIN if `largest` is false, of int8, uint8 or float32, along an axis of
 * `length` with `outer` elements before and `inner` after it: the first position. NaN counts as the
 * extreme. */
void matloom_pick(int32_t* output, const void* input, uint32_t dtype, bool largest, uint32_t outer,
                  uint32_t length, uint32_t inner);

/* A tensor that GATHER selects slices of `bytes` bytes from: `outer` elements before the axis, its
 * length, and the number of indices. */
struct matloom_slices {
  uint32_t outer;
  uint32_t length;
  uint32_t count;
  uint32_t bytes;
};

/* GATHER with indices of int32 or int64: the slices along an axis that they name. Returns false, with
 * the output incomplete, if an index is negative or too large. */
bool matloom_gather(void* output, const void* input, const void* indices, uint32_t index_dtype,
                    struct matloom_slices from);

/* LOGISTIC of int16, or TANH if `tangent` is true; outputs have scale 2**-15. Arguments are
 * products with `multiplier`, shifted right by `right` bits, over 3 * 2**12. */
void matloom_curve(int16_t* output, const int16_t* input, uint32_t elements, bool tangent,
                   int32_t multiplier, int32_t right);

/* One step of an LSTM: rows of the batch, cells, index of the step's first sum of the inputs and
 * distance to the next row's, and the zero point of the output. */
struct matloom_lstm {
  uint32_t batch;
  uint32_t cells;
  uint32_t first;
  uint32_t apart;
  int32_t zero_point;
};

/* LSTM_CELL: the rest of an int8 LSTM's step, after its products. `sums` of the inputs and `again`
 * of the recurrence have the gates input, forget, cell and output one after another. `scales` are
 * multipliers, then shifts, for the gates' sums of inputs, for those of the recurrence, for the
 * kept part of the state, for its new part, and for the output; the last pair is the limit of the
 * state (0: none) and the left shift to Q3.12. */
void matloom_lstm_cell(int8_t* output, int16_t* after, const int32_t* sums, const int32_t* again,
                       const int16_t* before, const int32_t* scales, struct matloom_lstm step);

/* QuantizeLinear of ONNX: float32 to int8 or uint8, rounding halves to even. NaN becomes the
 * smallest integer. */
void matloom_onnx_quantize(void* output, const float* input, uint32_t elements, float scale,
                           struct matloom_integers made);

/* QLinearSoftmax of ONNX Runtime: int8 or uint8 along the last axis, `columns` long. `table` has
 * 256 exponentials, the largest difference first; `levels` is the number of steps from 0 to 1. */
void matloom_onnx_softmax(void* output, const void* input, const float* table, uint32_t rows,
                          uint32_t columns, float levels, struct matloom_integers made);

/* Transposes elements of `bytes` bytes: `lengths` are those of the output's axes, and `strides` the
 * bytes from one element to the next in the input for each of these. */
void matloom_transpose(void* output, const void* input, uint32_t bytes, uint32_t axes,
                       const uint32_t* lengths, const uint32_t* strides);

/* Operation of matloom_combine and matloom_reduce on two integers. */
enum matloom_operation {
  MATLOOM_ADD,
  MATLOOM_SUBTRACT,
  MATLOOM_MULTIPLY,
  MATLOOM_MINIMUM,
  MATLOOM_MAXIMUM,
  MATLOOM_LESS,
  MATLOOM_LESS_EQUAL,
  MATLOOM_EQUAL,
  MATLOOM_NOT_EQUAL
};

/* Combines two tensors of integers or booleans of type `given` element by element; results wrap
 * around. A step is 1, or 0 for a tensor of one element. */
void matloom_combine(void* output, const void* one, const void* other, uint32_t made,
                     uint32_t given, uint32_t operation, uint32_t elements, uint32_t step,
                     uint32_t other_step);

/* Converts integers and booleans to another type, keeping their lower bits. */
void matloom_convert(void* output, const void* input, uint32_t made, uint32_t given,
                     uint32_t elements);

/* Sum, minimum or maximum of integers along an axis of `length` with `outer` elements
 * before and `inner` after it. */
void matloom_reduce(void* output, const void* input, uint32_t dtype, uint32_t operation,
                    uint32_t outer, uint32_t length, uint32_t inner);

/* Takes elements of `one` where the condition holds, and of `other` elsewhere. The condition's step
 * is 1, or 0 if it has one element. */
void matloom_select(void* output, const uint8_t* condition, const void* one, const void* other,
                    uint32_t dtype, uint32_t elements, uint32_t condition_step);

/* Copies `count` parts of `bytes` bytes each, at different steps in output and input. */
void matloom_copy_parts(void* output, const void* input, uint32_t count, uint32_t bytes,
                        uint32_t step, uint32_t input_step);

/* A program that a loop runs: its body or its condition. */
struct matloom_inner {
  const uint8_t* file;
  uint32_t bytes;
  void* const* tensors; /* as for matloom_run */
  matloom_host host;    /* its context is the engine */
  /* The members below are private to these kernels. */
  struct matloom_program program;
  struct matloom_attached attached;
};

/* A copy of bytes. */
struct matloom_move {
  void* to;
  const void* from;
  uint32_t bytes;
};

struct matloom_moves {
  const struct matloom_move* first;
  uint32_t count;
};

/* A loop. Values passed from one iteration to the next have buffers, or are variables of the
 * body. */
struct matloom_loop {
  struct matloom_inner* body;
  struct matloom_inner* condition; /* decides before each iteration; NULL if the loop counts */
  const uint8_t* goes_on;          /* made by the condition, else read and made by the body */
  const int64_t* most;             /* largest number of iterations, if the loop counts */
  int64_t* iteration;              /* number of the iteration, if the loop counts */
  const void* const* begin;        /* of the body's variables, before the first iteration */
  void* const* end;                /* and after the last */
  struct matloom_moves before;     /* to the first iteration */
  struct matloom_moves entering;   /* to each iteration */
  struct matloom_moves leaving;    /* from each iteration */
  struct matloom_moves stacked;    /* from each iteration, to rows of the loop's outputs */
  struct matloom_moves after;      /* from the last iteration */
  uint32_t iterations;             /* rows of these outputs, one for each iteration */
};

/* Attaches a program of a loop, and takes its part off the memory. Attach the programs of all loops
 * before the network's own. Errors as for matloom_program_use and matloom_attach. */
enum matloom_result matloom_inner_open(struct matloom_engine* engine, struct matloom_inner* inner,
                                       struct matloom_memory* memory);

/* Runs a loop, which is a host step within matloom_run. Returns false if a run fails, or if the
 * number of iterations differs from the outputs' rows. */
bool matloom_loop(struct matloom_engine* engine, const struct matloom_loop* loop);

#ifdef __cplusplus
}
#endif

#endif
