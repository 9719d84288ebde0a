/* LOGISTIC and TANH of int16, and what a step of an LSTM of int8 does after its products, as
 * TensorFlow Lite Micro's kernels. */
#include "fixed_point.h"

enum gate { INPUT, FORGET, CELL, OUTPUT, GATES };
/* Scales after those of the gates' sums of inputs and of the recurrence, and the state's limits. */
enum { KEPT = 2 * GATES, NEW, MADE, LIMITS, COLUMNS };

/* sigmoid(k / 24) as fractions of 2**16, a few of them raised for less error in between. */
static const uint16_t sigmoids[256] = {
    32768, 33451, 34133, 34813, 35493, 36169, 36843, 37513, 38180, 38841, 39498, 40149,
    40794, 41432, 42064, 42688, 43304, 43912, 44511, 45102, 45683, 46255, 46817, 47369,
    47911, 48443, 48964, 49475, 49975, 50464, 50942, 51409, 51865, 52311, 52745, 53169,
    53581, 53983, 54374, 54755, 55125, 55485, 55834, 56174, 56503, 56823, 57133, 57433,
    57724, 58007, 58280, 58544, 58800, 59048, 59288, 59519, 59743, 59959, 60168, 60370,
    60565, 60753, 60935, 61110, 61279, 61441, 61599, 61750, 61896, 62036, 62172, 62302,
    62428, 62549, 62666, 62778, 62886, 62990, 63090, 63186, 63279, 63368, 63454, 63536,
    63615, 63691, 63765, 63835, 63903, 63968, 64030, 64090, 64148, 64204, 64257, 64308,
    64357, 64405, 64450, 64494, 64536, 64576, 64614, 64652, 64687, 64721, 64754, 64786,
    64816, 64845, 64873, 64900, 64926, 64950, 64974, 64997, 65019, 65039, 65060, 65079,
    65097, 65115, 65132, 65149, 65164, 65179, 65194, 65208, 65221, 65234, 65246, 65258,
    65269, 65280, 65291, 65301, 65310, 65319, 65328, 65337, 65345, 65352, 65360, 65367,
    65374, 65381, 65387, 65393, 65399, 65404, 65410, 65415, 65420, 65425, 65429, 65433,
    65438, 65442, 65445, 65449, 65453, 65456, 65459, 65462, 65465, 65468, 65471, 65474,
    65476, 65479, 65481, 65483, 65485, 65488, 65489, 65491, 65493, 65495, 65497, 65498,
    65500, 65501, 65503, 65504, 65505, 65507, 65508, 65509, 65510, 65511, 65512, 65513,
    65514, 65515, 65516, 65517, 65517, 65518, 65519, 65520, 65520, 65521, 65522, 65522,
    65523, 65523, 65524, 65524, 65525, 65525, 65526, 65526, 65526, 65527, 65527, 65528,
    65528, 65528, 65529, 65529, 65529, 65529, 65530, 65530, 65530, 65530, 65531, 65531,
    65531, 65531, 65531, 65532, 65532, 65532, 65532, 65532, 65532, 65533, 65533, 65533,
    65533, 65533, 65533, 65533, 65533, 65534, 65534, 65534, 65534, 65534, 65534, 65534,
    65534, 65534, 65534, 65535};

static int64_t limited(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

static int64_t word(int64_t x) { return limited(x, -32768, 32767); }

/* The sigmoid of a magnitude with `bits` below an entry, shifted left by as many. */
static int32_t interpolated(uint32_t magnitude, uint32_t bits, int32_t last) {
  const uint32_t entry = magnitude >> bits;
  if (entry >= 255u) return last * (1 << bits);
  const uint32_t part = magnitude & ((1u << bits) - 1u);
  const uint32_t rise = (uint32_t)sigmoids[entry + 1u] - sigmoids[entry];
  return (int32_t)(((uint32_t)sigmoids[entry] << bits) + part * rise);
}

static uint32_t magnitude_of(int32_t x) { return (uint32_t)(x < 0 ? -x : x); }

/* Q0.15 of a number over 3 * 2**12. */
static int32_t sigmoid_of(int32_t x) {
  const int32_t result = interpolated(magnitude_of(x), 9, 65534);
  return (x < 0 ? (1 << 25) - result + 511 : result + 512) >> 10;
}

static int32_t tangent_of(int32_t x) {
  const int32_t result = interpolated(magnitude_of(x), 8, 65535) - (1 << 23);
  return (x < 0 ? 127 - result : result + 128) >> 8;
}

/* Q0.15 of Q3.12. */
static int64_t logistic(int64_t given) { return sigmoid_of(3 * (int32_t)given); }

/* Q0.15 of Q3.12 that is shifted left by `shift`, or right. */
static int64_t hyperbolic(int64_t given, int32_t shift) {
  const int32_t right = shift < 0 ? -shift : 0;
  const int32_t factor = 3 * (1 << (shift < 0 ? 0 : shift));
  return tangent_of(((int32_t)given * factor + ((1 << right) >> 1)) >> right);
}

void matloom_curve(int16_t* output, const int16_t* input, uint32_t elements, bool tangent,
                   int32_t multiplier, int32_t right) {
  for (uint32_t i = 0; i < elements; ++i) {
    const int64_t product = (int64_t)input[i] * multiplier + (((int64_t)1 << right) >> 1);
    const int32_t x = (int32_t)(product >> right);
    output[i] = (int16_t)(tangent ? tangent_of(x) : sigmoid_of(x));
  }
}

static int64_t scaled_by(int64_t x, const int32_t* scales, int column) {
  return scaled(x, (struct matloom_scale){scales[column], scales[COLUMNS + column]});
}

void matloom_lstm_cell(int8_t* output, int16_t* after, const int32_t* sums, const int32_t* again,
                       const int16_t* before, const int32_t* scales, struct matloom_lstm step) {
  const int32_t limit = scales[LIMITS], shift = scales[COLUMNS + LIMITS];
  for (uint32_t i = 0; i < step.batch * step.cells; ++i) {
    const uint32_t row = i / step.cells, unit = i % step.cells;
    int64_t gates[GATES];
    for (uint32_t gate = 0; gate < GATES; ++gate) {
      const uint32_t place = gate * step.cells + unit;
      const int64_t sum = sums[step.first + row * step.apart + place];
      const int64_t recurrent = again[row * GATES * step.cells + place];
      const int64_t given = word(scaled_by(sum, scales, (int)gate));
      gates[gate] = word(given + word(scaled_by(recurrent, scales, (int)(GATES + gate))));
    }
    const int64_t old = logistic(gates[FORGET]) * before[i];
    const int64_t more = logistic(gates[INPUT]) * hyperbolic(gates[CELL], 0);
    int64_t state = word(word(scaled_by(old, scales, KEPT)) + word(scaled_by(more, scales, NEW)));
    if (limit != 0) state = limited(state, -limit, limit);
    const int64_t made = hyperbolic(state, shift) * logistic(gates[OUTPUT]);
    after[i] = (int16_t)state;
    output[i] = (int8_t)limited(scaled_by(made, scales, MADE) + step.zero_point, -128, 127);
  }
}
