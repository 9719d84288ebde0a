/* Header, directory and checksum of a Program file. */
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

const uint8_t* matloom_record(const struct matloom_program* program, uint32_t section,
                              uint32_t number) {
  return begin_of(program, section) + number * section_rules[section].record_bytes;
}

struct list matloom_list(const struct matloom_program* program, const uint8_t* range,
                         uint32_t section) {
  const struct list found = {matloom_record(program, section, load32(range)),
                             load32(range + 4)};
  return found;
}

enum matloom_result matloom_refuse(struct matloom_program* program, enum matloom_result error,
                                   uint32_t section, uint32_t record) {
  program->problem.section = section;
  program->problem.record = record;
  return error;
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
  if (matloom_checksum(0, program->file + after_checksum, total - after_checksum) !=
      head(program, MATLOOM_FILE_HEADER_CHECKSUM_OFFSET)) {
    return MATLOOM_ERROR_CHECKSUM;
  }
  if (head(program, MATLOOM_FILE_HEADER_INTERFACE_OFFSET) != MATLOOM_INTERFACE_VERSION) {
    return MATLOOM_ERROR_INTERFACE;
  }
  program->digest = head(program, MATLOOM_FILE_HEADER_DIGEST_OFFSET);
  return MATLOOM_OK;
}

/* A field of an entry of the directory. */
#define ENTRY(entry, field) load32((entry) + MATLOOM_FILE_DIRECTORY_##field##_OFFSET)

/* Whether a section lies after `end`, at the next multiple of its alignment, after zeros. */
static bool follows(const struct matloom_program* program, const uint8_t* entry,
                            uint32_t end, uint32_t alignment) {
  const uint32_t total = head(program, MATLOOM_FILE_HEADER_TOTAL_BYTES_OFFSET);
  const uint32_t offset = ENTRY(entry, OFFSET);
  if (offset % alignment != 0 || offset - end >= 64u || offset > total ||
      ENTRY(entry, BYTES) > total - offset) {
    return false;
  }
  while (end < offset) {
    if (program->file[end++] != 0) return false;
  }
  return true;
}

/* Stores a known section. */
static bool take(struct matloom_program* program, const uint8_t* entry,
                         const struct section_rule* rule) {
  const uint32_t tag = ENTRY(entry, TAG);
  const uint32_t records = ENTRY(entry, COUNT);
  const uint32_t bytes = ENTRY(entry, BYTES);
  program->section[tag].offset = ENTRY(entry, OFFSET);
  program->section[tag].count = records;
  return ENTRY(entry, RECORD_BYTES) == rule->record_bytes &&
         records == bytes / rule->record_bytes && bytes % rule->record_bytes == 0 &&
         records >= rule->least && (!rule->single || records == 1u);
}

static enum matloom_result check_directory(struct matloom_program* program) {
  const uint32_t total = head(program, MATLOOM_FILE_HEADER_TOTAL_BYTES_OFFSET);
  const uint32_t sections = head(program, MATLOOM_FILE_HEADER_SECTIONS_OFFSET);
  const uint8_t* entry = program->file + MATLOOM_FILE_HEADER_BYTES;
  uint32_t last = 0;
  if (sections > (total - MATLOOM_FILE_HEADER_BYTES) / MATLOOM_FILE_DIRECTORY_BYTES) {
    return MATLOOM_ERROR_DIRECTORY;
  }
  uint32_t end = MATLOOM_FILE_HEADER_BYTES + sections * MATLOOM_FILE_DIRECTORY_BYTES;
  for (uint32_t i = 0; i < sections; ++i) {
    const uint32_t tag = ENTRY(entry, TAG);
    const uint32_t flags = ENTRY(entry, FLAGS);
    const bool known = tag < MATLOOM_SECTIONS;
    if (tag <= last || flags > MATLOOM_FILE_REQUIRED ||
        !follows(program, entry, end, known ? section_rules[tag].alignment : 8u)) {
      return matloom_refuse(program, MATLOOM_ERROR_DIRECTORY, 0, i);
    }
    if (known) {
      if (!take(program, entry, &section_rules[tag])) {
        return matloom_refuse(program, MATLOOM_ERROR_DIRECTORY, tag, i);
      }
    } else if (flags != 0) {
      return matloom_refuse(program, MATLOOM_ERROR_SECTION, tag, 0);
    }
    end = ENTRY(entry, OFFSET) + ENTRY(entry, BYTES);
    last = tag;
    entry += MATLOOM_FILE_DIRECTORY_BYTES;
  }
  return end == total ? MATLOOM_OK : MATLOOM_ERROR_DIRECTORY;
}

/* Checks that no required section is missing. */
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
