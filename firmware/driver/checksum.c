/* The checksum of Program files, frames of the host link, and images for the boot loader. */
#include "internal.h"

uint32_t matloom_checksum(uint32_t before, const void* bytes, size_t size) {
  /* Four bits at a time: the remainders of 0 to 15. */
  static const uint32_t remainders[16] = {
      0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u,
      0x4db26158u, 0x5005713cu, 0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu,
      0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
  const uint8_t* next = bytes;
  uint32_t sum = ~before;
  for (const uint8_t* end = next + size; next != end; ++next) {
    sum ^= *next;
    sum = sum >> 4 ^ remainders[sum & 15u];
    sum = sum >> 4 ^ remainders[sum & 15u];
  }
  return ~sum;
}
