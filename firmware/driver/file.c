/* Header, directory and checksum of a Program file; what a program says of itself. */
#include "internal.h"

/* One section of the format. */
struct section_rule {
  uint8_t record_bytes;
  uint8_t alignment;
  uint8_t least; /* 0 or 1 */
  bool single;   /* one record at most; else the file's limit is the only one */
  bool optional;
};

#define SECTION_RULE(name, record_bytes, least, most, alignment, optional) \
  [MATLOOM_SECTION_##name] = {record_bytes, alignment, least, (most) == 1u, optional},

static const struct section_rule section_rules[MATLOOM_SECTIONS] = {
    MATLOOM_SECTION_TABLE(SECTION_RULE)};

const uint8_t* matloom_at(const struct matloom_program* program, uint32_t field, uint32_t record) {
  const uint32_t section = field >> 4;
  return begin_of(program, section) + record * section_rules[section].record_bytes +
         4u * (field & 15u);
}

uint32_t matloom_word(const struct matloom_program* program, uint32_t field, uint32_t record) {
  return load32(matloom_at(program, field, record));
}

struct range matloom_range(const struct matloom_program* program, uint32_t field,
                           uint32_t record) {
  const uint8_t* words = matloom_at(program, field, record);
  const struct range found = {load32(words), load32(words + 4)};
  return found;
}

int32_t matloom_integer(const struct matloom_program* program, uint32_t number) {
  return (int32_t)WORD(program, INTEGERS, number, VALUE);
}

struct binding matloom_binding(const struct matloom_program* program, uint32_t number) {
  struct binding found = {WORD(program, BINDINGS, number, TENSOR),
                          WORD(program, BINDINGS, number, REGION),
                          {WORD(program, BINDINGS, number, OFFSET), 0}};
  found.span.end = found.span.start + matloom_tensor_bytes(program, found.tensor);
  return found;
}

enum matloom_result matloom_refuse(struct matloom_program* program, enum matloom_result error,
                                   uint32_t section, uint32_t record) {
  program->problem.section = section;
  program->problem.record = record;
  return error;
}

/* CRC-32 of IEEE 802.3, four bits at a time: the remainders of 0 to 15. */
static uint32_t crc32(const uint8_t* bytes, uint32_t size) {
  static const uint32_t remainders[16] = {
      0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u,
      0x4db26158u, 0x5005713cu, 0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu,
      0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
  uint32_t sum = 0xffffffffu;
  for (uint32_t i = 0; i < size; ++i) {
    sum ^= bytes[i];
    sum = sum >> 4 ^ remainders[sum & 15u];
    sum = sum >> 4 ^ remainders[sum & 15u];
  }
  return ~sum;
}

static uint32_t head(const struct matloom_program* program, uint32_t offset) {
  return load32(program->file + offset);
}

/* Checks the header against the bytes that may be read. */
static enum matloom_result check_header(struct matloom_program* program, size_t bytes) {
  const uint32_t after_checksum = MATLOOM_FILE_HEADER_CHECKSUM_OFFSET + 4u;
  if (bytes < MATLOOM_FILE_HEADER_BYTES) return MATLOOM_ERROR_SIZE;
  if (head(program, MATLOOM_FILE_HEADER_MAGIC_OFFSET) != MATLOOM_FILE_MAGIC_LOW ||
      head(program, MATLOOM_FILE_HEADER_MAGIC_OFFSET + 4u) != MATLOOM_FILE_MAGIC_HIGH) {
    return MATLOOM_ERROR_MAGIC;
  }
  if (head(program, MATLOOM_FILE_HEADER_FORMAT_OFFSET) != MATLOOM_FILE_FORMAT_VERSION) {
    return MATLOOM_ERROR_FORMAT;
  }
  const uint32_t total = head(program, MATLOOM_FILE_HEADER_TOTAL_BYTES_OFFSET);
  if (total < MATLOOM_FILE_HEADER_BYTES || total > bytes || total > MATLOOM_FILE_LIMIT) {
    return MATLOOM_ERROR_SIZE;
  }
  if (crc32(program->file + after_checksum, total - after_checksum) !=
      head(program, MATLOOM_FILE_HEADER_CHECKSUM_OFFSET)) {
    return MATLOOM_ERROR_CHECKSUM;
  }
  if (head(program, MATLOOM_FILE_HEADER_INTERFACE_OFFSET) != MATLOOM_INTERFACE_VERSION) {
    return MATLOOM_ERROR_INTERFACE;
  }
  program->digest = head(program, MATLOOM_FILE_HEADER_DIGEST_OFFSET);
  return MATLOOM_OK;
}

/* An entry of the directory. */
struct entry {
  uint32_t tag, flags, offset, bytes, count, record_bytes;
};

static struct entry entry(const struct matloom_program* program, uint32_t number) {
  const uint8_t* record =
      program->file + MATLOOM_FILE_HEADER_BYTES + number * MATLOOM_FILE_DIRECTORY_BYTES;
  const struct entry found = {load32(record + MATLOOM_FILE_DIRECTORY_TAG_OFFSET),
                              load32(record + MATLOOM_FILE_DIRECTORY_FLAGS_OFFSET),
                              load32(record + MATLOOM_FILE_DIRECTORY_OFFSET_OFFSET),
                              load32(record + MATLOOM_FILE_DIRECTORY_BYTES_OFFSET),
                              load32(record + MATLOOM_FILE_DIRECTORY_COUNT_OFFSET),
                              load32(record + MATLOOM_FILE_DIRECTORY_RECORD_BYTES_OFFSET)};
  return found;
}

/* Whether a section lies behind `end`, at the next multiple of its alignment, after zeros. */
static bool follows(const struct matloom_program* program, const struct entry* found, uint32_t end,
                    uint32_t total) {
  const uint32_t alignment =
      found->tag < MATLOOM_SECTIONS ? section_rules[found->tag].alignment : 8u;
  if (found->offset % alignment != 0 || found->offset < end || found->offset - end >= 64u ||
      found->offset > total || found->bytes > total - found->offset) {
    return false;
  }
  for (uint32_t i = end; i < found->offset; ++i) {
    if (program->file[i] != 0) return false;
  }
  return true;
}

/* Takes a section that is known up. */
static bool take(struct matloom_program* program, const struct entry* found) {
  const struct section_rule* rule = &section_rules[found->tag];
  program->section[found->tag].offset = found->offset;
  program->section[found->tag].count = found->count;
  return found->record_bytes == rule->record_bytes &&
         found->count == found->bytes / rule->record_bytes &&
         found->bytes % rule->record_bytes == 0 && found->count >= rule->least &&
         (!rule->single || found->count == 1u);
}

static enum matloom_result check_directory(struct matloom_program* program) {
  const uint32_t total = head(program, MATLOOM_FILE_HEADER_TOTAL_BYTES_OFFSET);
  const uint32_t sections = head(program, MATLOOM_FILE_HEADER_SECTIONS_OFFSET);
  if (sections > (total - MATLOOM_FILE_HEADER_BYTES) / MATLOOM_FILE_DIRECTORY_BYTES) {
    return MATLOOM_ERROR_DIRECTORY;
  }
  uint32_t end = MATLOOM_FILE_HEADER_BYTES + sections * MATLOOM_FILE_DIRECTORY_BYTES;
  uint32_t last = 0;
  for (uint32_t i = 0; i < sections; ++i) {
    const struct entry found = entry(program, i);
    if (found.tag <= last || found.flags > MATLOOM_FILE_REQUIRED ||
        !follows(program, &found, end, total)) {
      return matloom_refuse(program, MATLOOM_ERROR_DIRECTORY, 0, i);
    }
    end = found.offset + found.bytes;
    last = found.tag;
    if (found.tag >= MATLOOM_SECTIONS) {
      if (found.flags == 0) continue;
      return matloom_refuse(program, MATLOOM_ERROR_SECTION, found.tag, 0);
    }
    if (!take(program, &found)) {
      return matloom_refuse(program, MATLOOM_ERROR_DIRECTORY, found.tag, i);
    }
  }
  return end == total ? MATLOOM_OK : MATLOOM_ERROR_DIRECTORY;
}

/* Checks that no section is absent that must be there. */
static enum matloom_result check_presence(struct matloom_program* program) {
  for (uint32_t tag = 1; tag < MATLOOM_SECTIONS; ++tag) {
    if (program->section[tag].offset == 0 && !section_rules[tag].optional) {
      return matloom_refuse(program, MATLOOM_ERROR_SECTION, tag, 0);
    }
  }
  return MATLOOM_OK;
}

enum matloom_result matloom_program_use(struct matloom_program* program, const void* file,
                                        size_t bytes) {
  if (program == NULL || file == NULL || (uintptr_t)file % 4u != 0) return MATLOOM_ERROR_ARGUMENT;
  const struct matloom_program empty = {.file = file};
  *program = empty;
  enum matloom_result result = check_header(program, bytes);
  if (result == MATLOOM_OK) result = check_directory(program);
  if (result == MATLOOM_OK) result = check_presence(program);
  return result;
}

enum matloom_result matloom_program_open(struct matloom_program* program, const void* file,
                                         size_t bytes) {
  enum matloom_result result = matloom_program_use(program, file, bytes);
  if (result == MATLOOM_OK) result = matloom_check_limits(program);
  if (result == MATLOOM_OK) result = matloom_check_parts(program);
  if (result == MATLOOM_OK) result = matloom_check_steps(program);
  if (result == MATLOOM_OK) result = matloom_check_variables(program);
  return result;
}
