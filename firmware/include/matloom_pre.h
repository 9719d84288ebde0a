/* Preprocessing in front of a network, equal to `matloom.pre` bit for bit.
 *
 * C11, freestanding, no allocation, no variables. The compiler makes the tables; a network in C
 * contains them, with a function for each input that calls these. In floating point, use
 * -ffp-contract=off on processors that can fuse products and sums, to get the same bits. */
#ifndef MATLOOM_PRE_H
#define MATLOOM_PRE_H

#include "matloom.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A range of pixels or frequencies, and the index of its first weight. */
struct matloom_taps {
  uint16_t first;
  uint16_t count;
  uint32_t weights;
};

/* An image: cropped, resized, and each byte looked up. */
struct matloom_image {
  uint32_t source_width;
  uint32_t height;
  uint32_t width;
  uint32_t channels; /* 1 for grey, 3 */
  bool reversed;     /* blue first */
  bool planes;       /* channels before rows */
  const struct matloom_taps* rows;
  const struct matloom_taps* columns;
  const uint16_t* weights; /* of an axis; they sum to 4096 */
  const uint8_t* table;    /* channels x 256 elements of `element_bytes` */
  uint32_t element_bytes;
};

/* Turns an image of `depth` bytes per pixel (red, green and blue; 1 for grey) into an input. */
void matloom_image(void* output, const uint8_t* image, uint32_t depth,
                   const struct matloom_image* how);

/* Logarithms of bands of frequencies, or cepstral coefficients. */
struct matloom_mel {
  uint32_t samples;
  uint32_t window;
  uint32_t step;
  uint32_t frames;
  uint32_t points; /* of the transform, a power of two */
  uint32_t mels;
  uint32_t coefficients; /* 0 for logarithms */
  bool peak;             /* divide by the largest sample first */
  float floor;
  float offset;
  const float* hann;
  const float* cosines; /* points / 2 */
  const float* sines;
  const struct matloom_taps* bands;
  const float* weights;
  const float* dct; /* coefficients x mels */
};

/* Computes features of a waveform; `work` has 2 * points + mels numbers. */
void matloom_mel(float* features, const int16_t* samples, float* work,
                 const struct matloom_mel* how);

/* The audio front end of TensorFlow Lite Micro. */
struct matloom_micro {
  uint32_t window;
  uint32_t step;
  uint32_t frames;
  uint32_t points;
  uint32_t mels;
  const int16_t* hann;
  const uint16_t* order;   /* points / 2 */
  const int16_t* twiddles; /* points / 2 pairs of real and imaginary */
  const int16_t* halves;   /* points / 4 pairs */
  const struct matloom_taps* bands;
  const int16_t* weights;
  uint32_t smoothing_bits;
  uint32_t smoothing[2]; /* of even and odd bands */
  uint32_t least;
  const int16_t* gains; /* 33 x 3; none without gain control */
  uint32_t gain_shift;
  int32_t correction;
  const uint16_t* logarithms; /* 129 */
  uint32_t log_shift;
};

/* Computes features of a waveform: `transform` has `points` numbers, `energy` points / 2 + 1, and
 * `noise` one for each band. */
void matloom_micro_frontend(uint16_t* features, const int16_t* samples, int16_t* transform,
                            int32_t* energy, uint32_t* noise, const struct matloom_micro* how);

#ifdef __cplusplus
}
#endif

#endif
