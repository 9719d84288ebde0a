/* The functions that a C compiler may call implicitly, for systems without a C library. Compile
 * them with -fno-builtin, or they call themselves. */
#include <stddef.h>

void* memset(void* to, int value, size_t bytes);
void* memcpy(void* restrict to, const void* restrict from, size_t bytes);
void* memmove(void* to, const void* from, size_t bytes);

void* memset(void* to, int value, size_t bytes) {
  unsigned char* out = to;
  for (size_t i = 0; i < bytes; ++i) out[i] = (unsigned char)value;
  return to;
}

void* memmove(void* to, const void* from, size_t bytes) {
  unsigned char* out = to;
  const unsigned char* in = from;
  if (out < in) {
    for (size_t i = 0; i < bytes; ++i) out[i] = in[i];
  } else {
    for (size_t i = bytes; i > 0; --i) out[i - 1] = in[i - 1];
  }
  return to;
}

void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  return memmove(to, from, bytes);
}
