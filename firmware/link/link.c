/* Requests of the host link: unstuffed, checked, done once, answered. */
#include "matloom_link.h"

void matloom_link_open(struct matloom_link* link, const struct matloom_link_board* board) {
  const struct matloom_link empty = {.board = *board};
  *link = empty;
}

static uint32_t number_of(const uint8_t* bytes, uint32_t size) {
  uint32_t value = 0;
  while (size-- > 0) value = value << 8 | bytes[size];
  return value;
}

static void number_to(uint8_t* bytes, uint32_t size, uint32_t value) {
  for (uint32_t i = 0; i < size; ++i) bytes[i] = (uint8_t)(value >> 8u * i);
}

/* ---- Replies ---- */

static void say(struct matloom_link* link, const uint8_t* bytes, size_t size) {
  link->sum = matloom_checksum(link->sum, bytes, size);
  link->board.send(link->board.context, bytes, size);
}

/* Starts a reply with `length` bytes of data; kind and number are the request's. */
static void begin_reply(struct matloom_link* link, uint32_t length) {
  uint8_t header[MATLOOM_LINK_REPLY_HEADER_BYTES] = {MATLOOM_LINK_SYNC};
  header[MATLOOM_LINK_REPLY_KIND_OFFSET] = link->frame[MATLOOM_LINK_REQUEST_KIND_OFFSET];
  header[MATLOOM_LINK_REPLY_SEQUENCE_OFFSET] = link->frame[MATLOOM_LINK_REQUEST_SEQUENCE_OFFSET];
  number_to(&header[MATLOOM_LINK_REPLY_LENGTH_OFFSET], 2, length);
  link->board.send(link->board.context, header, 1);
  link->sum = 0;
  say(link, header + 1, sizeof header - 1);
}

static void end_reply(struct matloom_link* link, enum matloom_link_status status) {
  uint8_t last[MATLOOM_LINK_CRC_BYTES] = {(uint8_t)status};
  say(link, last, 1);
  number_to(last, sizeof last, link->sum);
  link->board.send(link->board.context, last, sizeof last);
}

static void reply(struct matloom_link* link, enum matloom_link_status status) {
  begin_reply(link, 0);
  end_reply(link, status);
}

/* ---- Accesses ---- */

static bool get(const struct matloom_port* port, uint32_t offset, uint32_t* value) {
  if (offset >= MATLOOM_WINDOW_BYTES) return false;
  if (port->read32 != NULL) return port->read32(port->context, offset, value);
  *value = port->registers[offset / 4u];
  return true;
}

static bool put(const struct matloom_port* port, uint32_t offset, uint32_t value) {
  if (offset >= MATLOOM_WINDOW_BYTES) return false;
  if (port->write32 != NULL) return port->write32(port->context, offset, value);
  port->registers[offset / 4u] = value;
  return true;
}

/* Where bytes lie as the processor sees them, or NULL where the host has no memory there. */
static uint8_t* place(const struct matloom_memory* memory, uint32_t bus, uint32_t size) {
  const uint32_t offset = bus - memory->bus;
  if (offset > memory->bytes || size > memory->bytes - offset) return NULL;
  return (uint8_t*)memory->address + offset;
}

/* Reads registers into the reply. After a failure the data mean nothing. */
static enum matloom_link_status read_registers(struct matloom_link* link, uint32_t offset,
                                               uint32_t length) {
  bool fine = true;
  for (uint32_t i = 0; i < length; i += 4u) {
    uint32_t value = 0;
    uint8_t bytes[4];
    fine = fine && get(&link->board.port, offset + i, &value);
    number_to(bytes, sizeof bytes, value);
    say(link, bytes, sizeof bytes);
  }
  return fine ? MATLOOM_LINK_STATUS_OKAY : MATLOOM_LINK_STATUS_BUS_ERROR;
}

static enum matloom_link_status read_memory(struct matloom_link* link, uint32_t bus,
                                            uint32_t length) {
  const struct matloom_port* port = &link->board.port;
  uint8_t* bytes = place(&link->board.memory, bus, length);
  if (bytes == NULL) {
    static const uint8_t zero = 0;
    while (length-- > 0) say(link, &zero, 1);
    return MATLOOM_LINK_STATUS_BUS_ERROR;
  }
  if (port->invalidate != NULL) port->invalidate(port->context, bytes, length);
  say(link, bytes, length);
  return MATLOOM_LINK_STATUS_OKAY;
}

static enum matloom_link_status write_registers(struct matloom_link* link, uint32_t offset,
                                                uint32_t length) {
  const uint8_t* data = link->frame + MATLOOM_LINK_REQUEST_HEADER_BYTES;
  const struct matloom_port* port = &link->board.port;
  if (port->barrier != NULL) port->barrier(port->context);
  for (uint32_t i = 0; i < length; i += 4u) {
    if (!put(port, offset + i, number_of(data + i, 4))) return MATLOOM_LINK_STATUS_BUS_ERROR;
  }
  return MATLOOM_LINK_STATUS_OKAY;
}

static enum matloom_link_status write_memory(struct matloom_link* link, uint32_t bus,
                                             uint32_t length) {
  const uint8_t* data = link->frame + MATLOOM_LINK_REQUEST_HEADER_BYTES;
  const struct matloom_port* port = &link->board.port;
  uint8_t* bytes = place(&link->board.memory, bus, length);
  if (bytes == NULL) return MATLOOM_LINK_STATUS_BUS_ERROR;
  for (uint32_t i = 0; i < length; ++i) bytes[i] = data[i];
  if (port->clean != NULL) port->clean(port->context, bytes, length);
  return MATLOOM_LINK_STATUS_OKAY;
}

/* ---- Kinds of requests ---- */

static void say_hello(struct matloom_link* link) {
  const struct matloom_link_board* board = &link->board;
  uint8_t data[MATLOOM_LINK_HELLO_BYTES] = {0};
  const char* name = board->name;
  number_to(&data[MATLOOM_LINK_HELLO_IDENTITY_OFFSET], 4, MATLOOM_LINK_IDENTITY);
  number_to(&data[MATLOOM_LINK_HELLO_CLOCK_HZ_OFFSET], 4, board->clock_hz);
  number_to(&data[MATLOOM_LINK_HELLO_CONFIG_DIGEST_OFFSET], 4, board->digest);
  number_to(&data[MATLOOM_LINK_HELLO_MEMORY_BASE_OFFSET], 4, board->memory.bus);
  number_to(&data[MATLOOM_LINK_HELLO_MEMORY_BYTES_OFFSET], 4, board->memory.bytes);
  number_to(&data[MATLOOM_LINK_HELLO_FRESH_OFFSET], 4, link->fresh);
  for (uint32_t i = MATLOOM_LINK_HELLO_BOARD_OFFSET; i < sizeof data && *name != '\0'; ++i) {
    data[i] = (uint8_t)*name++;
  }
  begin_reply(link, sizeof data);
  say(link, data, sizeof data);
  end_reply(link, MATLOOM_LINK_STATUS_OKAY);
}

/* A hello is always done, and gives the same answer if it is repeated. */
static void greet(struct matloom_link* link, uint8_t sequence) {
  if (!link->session || (uint8_t)(link->due - sequence) != 1u) link->fresh = !link->session;
  link->session = true;
  link->due = (uint8_t)(sequence + 1u);
  say_hello(link);
}

static uint32_t await(const struct matloom_link_board* board, uint32_t cycles) {
  uint32_t passed = 0;
  if (board->await != NULL) return board->await(board->context, cycles);
  while (passed != cycles) {
    uint32_t status = 0;
    uint32_t enable = 0;
    if (!get(&board->port, MATLOOM_IRQ_STATUS_OFFSET, &status) ||
        !get(&board->port, MATLOOM_IRQ_ENABLE_OFFSET, &enable) || (status & enable) != 0) {
      break;
    }
    ++passed;
  }
  return passed;
}

/* Answers a read or a wait, with its data. */
static enum matloom_link_status answer(struct matloom_link* link, uint32_t kind, uint32_t address,
                                       uint32_t length) {
  enum matloom_link_status status = MATLOOM_LINK_STATUS_OKAY;
  uint8_t passed[4];
  if (kind == MATLOOM_LINK_REQUEST_WAIT) {
    number_to(passed, sizeof passed, await(&link->board, address));
    length = sizeof passed;
  }
  begin_reply(link, length);
  if (kind == MATLOOM_LINK_REQUEST_WAIT) {
    say(link, passed, length);
  } else if (kind == MATLOOM_LINK_REQUEST_READ_MEMORY) {
    status = read_memory(link, address, length);
  } else {
    status = read_registers(link, address, length);
  }
  end_reply(link, status);
  return status;
}

static bool is_write(uint32_t kind) {
  return kind == MATLOOM_LINK_REQUEST_WRITE_REGISTERS || kind == MATLOOM_LINK_REQUEST_WRITE_MEMORY;
}

/* Whether a request is one of the page: its kind, its registers on their boundary, its data. */
static bool is_request(const struct matloom_link* link, uint32_t kind, uint32_t length,
                       uint32_t address) {
  const uint32_t data =
      link->used - MATLOOM_LINK_REQUEST_HEADER_BYTES - MATLOOM_LINK_CRC_BYTES;
  if (data != (is_write(kind) ? length : 0u) || length > MATLOOM_LINK_MAX_DATA_BYTES) return false;
  switch (kind) {
    case MATLOOM_LINK_REQUEST_READ_REGISTERS:
    case MATLOOM_LINK_REQUEST_WRITE_REGISTERS:
      return ((address | length) & 3u) == 0;
    case MATLOOM_LINK_REQUEST_WAIT:
      return length == 4u;
    default:
      return kind == MATLOOM_LINK_REQUEST_READ_MEMORY || kind == MATLOOM_LINK_REQUEST_WRITE_MEMORY;
  }
}

/* Does a request that is due, or one that changes nothing again; returns the status it answered. */
static enum matloom_link_status perform(struct matloom_link* link, uint32_t kind) {
  const uint32_t length = number_of(link->frame + MATLOOM_LINK_REQUEST_LENGTH_OFFSET, 2);
  const uint32_t address = number_of(link->frame + MATLOOM_LINK_REQUEST_ADDRESS_OFFSET, 4);
  enum matloom_link_status status = MATLOOM_LINK_STATUS_BAD_REQUEST;
  if (is_request(link, kind, length, address)) {
    if (kind == MATLOOM_LINK_REQUEST_WRITE_REGISTERS) {
      status = write_registers(link, address, length);
    } else if (kind == MATLOOM_LINK_REQUEST_WRITE_MEMORY) {
      status = write_memory(link, address, length);
    } else {
      return answer(link, kind, address, length);
    }
  }
  reply(link, status);
  return status;
}

/* Finds out whether a request is due, was done before, or comes too early. */
static void decide(struct matloom_link* link) {
  const uint32_t kind = link->frame[MATLOOM_LINK_REQUEST_KIND_OFFSET] & 15u;
  const uint8_t sequence = link->frame[MATLOOM_LINK_REQUEST_SEQUENCE_OFFSET];
  const uint8_t ago = (uint8_t)(link->due - sequence);
  uint8_t* kept = &link->kept[sequence % MATLOOM_LINK_WINDOW_REQUESTS];
  if (kind == MATLOOM_LINK_REQUEST_HELLO) {
    greet(link, sequence);
  } else if (!link->session) {
    reply(link, MATLOOM_LINK_STATUS_NO_SESSION);
  } else if (ago > MATLOOM_LINK_WINDOW_REQUESTS) {
    reply(link, MATLOOM_LINK_STATUS_SEQUENCE);
  } else if (ago != 0 && is_write(kind)) {
    reply(link, (enum matloom_link_status)*kept);
  } else if (ago != 0) {
    (void)perform(link, kind);
  } else {
    ++link->due;
    *kept = (uint8_t)perform(link, kind);
  }
}

/* ---- Frames ---- */

static void keep(struct matloom_link* link, uint8_t byte) {
  if (link->used == sizeof link->frame) {
    link->damaged = true;
  } else {
    link->frame[link->used++] = byte;
  }
}

/* A delimiter came: answers the request before it, if there was one. */
static void end_frame(struct matloom_link* link) {
  const uint32_t least = MATLOOM_LINK_REQUEST_HEADER_BYTES + MATLOOM_LINK_CRC_BYTES;
  if (link->started && link->awake) {
    /* The checksum of bytes and their checksum is always the same. */
    if (link->damaged || link->left != 0 || link->used < least ||
        matloom_checksum(0, link->frame, link->used) != (uint32_t)~MATLOOM_LINK_CRC_RESIDUE) {
      link->frame[MATLOOM_LINK_REQUEST_KIND_OFFSET] = 0;
      link->frame[MATLOOM_LINK_REQUEST_SEQUENCE_OFFSET] = 0;
      reply(link, MATLOOM_LINK_STATUS_BAD_FRAME);
    } else {
      decide(link);
    }
  }
  link->used = 0;
  link->left = 0;
  link->zero = false;
  link->started = false;
  link->damaged = false;
  link->awake = true;
}

void matloom_link_take(struct matloom_link* link, uint8_t byte) {
  if (byte == MATLOOM_LINK_DELIMITER) {
    end_frame(link);
  } else if (link->left != 0) {
    keep(link, byte);
    --link->left;
  } else {
    if (link->zero) keep(link, 0);
    link->left = (uint32_t)byte - 1u;
    link->zero = byte != 255u;
    link->started = true;
  }
}
