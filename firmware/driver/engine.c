/* One engine: probe, attach, start, wait, reset, fault, counters. */
#include "internal.h"

#define REGION_STEP (MATLOOM_INPUT_BASE_OFFSET - MATLOOM_PROGRAM_BASE_OFFSET)
#define EVENTS (MATLOOM_IRQ_STATUS_DONE_MASK | MATLOOM_IRQ_STATUS_FAULT_MASK)

/* Returns a register; 0 if the access failed, which the engine remembers until `outcome`. */
static OUTLINE uint32_t get(struct matloom_engine* engine, uint32_t offset) {
  uint32_t value = 0;
  if (engine->port.read32 == NULL) return engine->port.registers[offset / 4u];
  if (engine->port.read32(engine->port.context, offset, &value)) return value;
  engine->bus_failed = true;
  return 0;
}

static OUTLINE void put(struct matloom_engine* engine, uint32_t offset, uint32_t value) {
  if (engine->port.write32 == NULL) {
    engine->port.registers[offset / 4u] = value;
  } else if (!engine->port.write32(engine->port.context, offset, value)) {
    engine->bus_failed = true;
  }
}

/* Returns the result of a call, or BUS if an access failed meanwhile. */
static OUTLINE enum matloom_result outcome(struct matloom_engine* engine,
                                           enum matloom_result result) {
  const bool failed = engine->bus_failed;
  engine->bus_failed = false;
  return failed ? MATLOOM_ERROR_BUS : result;
}

static OUTLINE void barrier(const struct matloom_engine* engine) {
  if (engine->port.barrier != NULL) engine->port.barrier(engine->port.context);
}

/* When a wait began, and how often it has polled. */
struct wait {
  uint32_t start;
  uint32_t questions;
};

static struct wait begin_wait(const struct matloom_engine* engine) {
  struct wait wait = {0, 0};
  if (engine->port.now != NULL) wait.start = engine->port.now(engine->port.context);
  return wait;
}

/* Whether time is left; if so, lets other tasks run before the next poll. */
static bool keep_waiting(const struct matloom_engine* engine, struct wait* wait) {
  uint32_t passed = ++wait->questions;
  if (engine->port.now != NULL) passed = engine->port.now(engine->port.context) - wait->start;
  if (engine->port.timeout != 0 && passed > engine->port.timeout) return false;
  if (engine->port.wait != NULL) engine->port.wait(engine->port.context);
  return true;
}

enum matloom_result matloom_reset(struct matloom_engine* engine) {
  const uint32_t active =
      MATLOOM_STATUS_BUSY_MASK | MATLOOM_STATUS_FAULT_MASK | MATLOOM_STATUS_RESETTING_MASK;
  struct wait wait = begin_wait(engine);
  engine->resident = NONE;
  engine->stopped = true;
  if (engine->unfinished && engine->attached.program != NULL) {
    engine->attached.state_lost = count(engine->attached.program, MATLOOM_SECTION_VARIABLES) != 0;
  }
  put(engine, MATLOOM_CONTROL_OFFSET, MATLOOM_CONTROL_RESET_MASK);
  while ((get(engine, MATLOOM_STATUS_OFFSET) & active) != 0 && !engine->bus_failed) {
    if (!keep_waiting(engine, &wait)) return MATLOOM_ERROR_TIMEOUT;
  }
  put(engine, MATLOOM_IRQ_STATUS_OFFSET, EVENTS);
  if (!engine->bus_failed) {
    engine->unfinished = false;
    engine->stopped = false;
  }
  return outcome(engine, MATLOOM_OK);
}

enum matloom_result matloom_probe(struct matloom_engine* engine, const struct matloom_port* port) {
  const struct matloom_engine empty = {.port = *port, .resident = NONE};
  *engine = empty;
  const uint32_t identity = get(engine, MATLOOM_ID_OFFSET);
  engine->digest = get(engine, MATLOOM_DIGEST_OFFSET);
  enum matloom_result result =
      outcome(engine, identity == MATLOOM_IDENTITY ? MATLOOM_OK : MATLOOM_ERROR_IDENTITY);
  return result == MATLOOM_OK ? matloom_reset(engine) : result;
}

uint32_t matloom_digest(const struct matloom_engine* engine) { return engine->digest; }

/* Whether memory ends within the engine's 32 bits. */
static inline bool ends_in_reach(uint32_t bus, uint32_t bytes) {
  return bytes == 0 || bytes - 1u <= ~bus;
}

/* Whether memory is there, aligned, large enough and within the engine's 32 bits. */
static bool is_memory(const struct matloom_memory* memory, uint32_t needed) {
  return memory->address != NULL && memory->bus % MATLOOM_FILE_ALIGNMENT == 0 &&
         memory->bytes >= needed && ends_in_reach(memory->bus, needed);
}

/* Writes the regions of the engine's program to its registers. */
static void place(struct matloom_engine* engine) {
  const struct matloom_program* program = engine->attached.program;
  for (uint32_t region = 0; region < 4u; ++region) {
    put(engine, MATLOOM_PROGRAM_BASE_OFFSET + region * REGION_STEP, engine->attached.bus[region]);
    put(engine, MATLOOM_PROGRAM_BYTES_OFFSET + region * REGION_STEP,
        matloom_region_bytes(program, region));
  }
  engine->placed = engine->bus_failed ? NULL : program;
  engine->resident = NONE;
}

/* Attaches a program; `image_bus` says where its image lies, NULL that it is to be copied. */
static enum matloom_result attach(struct matloom_engine* engine,
                                  const struct matloom_program* program,
                                  const struct matloom_memory* memory, const uint32_t* image_bus) {
  const bool in_place = image_bus != NULL;
  const struct matloom_attached none = {0};
  uint32_t offset = 0;
  if (engine->stopped || engine->unfinished) return MATLOOM_ERROR_STATE;
  if (program->digest != engine->digest) return MATLOOM_ERROR_DIGEST;
  if (!is_memory(memory, matloom_program_memory(program, in_place))) return MATLOOM_ERROR_MEMORY;
  engine->attached = none;
  engine->attached.program = program;
  for (uint32_t region = 0; region < 4u; ++region) {
    if (in_place && region == MATLOOM_REGION_PROGRAM) {
      engine->attached.bus[region] = *image_bus;
      continue;
    }
    engine->attached.bus[region] = memory->bus + offset;
    engine->attached.region[region] = (uint8_t*)memory->address + offset;
    offset += round_up(matloom_region_bytes(program, region));
  }
  place(engine);
  if (!in_place) {
    matloom_bring(engine, engine->attached.region[MATLOOM_REGION_PROGRAM],
                  begin_of(program, MATLOOM_SECTION_IMAGE),
                  count(program, MATLOOM_SECTION_IMAGE));
  }
  const enum matloom_result result = outcome(engine, MATLOOM_OK);
  if (result != MATLOOM_OK) {
    engine->attached = none;
    return result;
  }
  matloom_begin_placed(engine);
  return MATLOOM_OK;
}

enum matloom_result matloom_attach(struct matloom_engine* engine,
                                   const struct matloom_program* program,
                                   const struct matloom_memory* memory) {
  return attach(engine, program, memory, NULL);
}

enum matloom_result matloom_attach_in_place(struct matloom_engine* engine,
                                            const struct matloom_program* program,
                                            const struct matloom_memory* memory,
                                            uint32_t file_bus) {
  const uint32_t image = program->section[MATLOOM_SECTION_IMAGE].offset;
  const uint32_t bus = file_bus + image;
  if (file_bus % MATLOOM_FILE_ALIGNMENT != 0 ||
      !ends_in_reach(file_bus, image + count(program, MATLOOM_SECTION_IMAGE))) {
    return MATLOOM_ERROR_MEMORY;
  }
  return attach(engine, program, memory, &bus);
}

void matloom_exchange(struct matloom_engine* engine, struct matloom_attached* other) {
  const struct matloom_attached before = engine->attached;
  engine->attached = *other;
  *other = before;
}

/* Commands of a step, offset and bytes; those of its repetition if its weights are there. */
static const uint8_t* commands_of(const struct matloom_engine* engine, uint32_t step) {
  const uint8_t* record = AT(engine->attached.program, ENGINE_STEPS, step);
  if (LENGTH(record, ENGINE_STEPS, REPEAT) != 0 && engine->resident == step) {
    record = LIST(engine->attached.program, record, ENGINE_STEPS, REPEAT, REPEATS).first;
  }
  return FIELD(record, ENGINE_STEPS, COMMAND_OFFSET);
}

enum matloom_result matloom_start(struct matloom_engine* engine, uint32_t step) {
  if (engine->attached.program == NULL || engine->stopped || engine->unfinished) {
    return MATLOOM_ERROR_STATE;
  }
  if (step >= count(engine->attached.program, MATLOOM_SECTION_ENGINE_STEPS)) {
    return MATLOOM_ERROR_ARGUMENT;
  }
  if (engine->placed != engine->attached.program) place(engine);
  const uint8_t* commands = commands_of(engine, step);
  matloom_drop_outputs(engine);
  engine->running = step;
  engine->resident = NONE;
  put(engine, MATLOOM_COMMAND_OFFSET_OFFSET, load32(commands));
  put(engine, MATLOOM_COMMAND_BYTES_OFFSET, load32(commands + 4));
  put(engine, MATLOOM_IRQ_STATUS_OFFSET, EVENTS);
  put(engine, MATLOOM_IRQ_ENABLE_OFFSET, engine->port.interrupts ? EVENTS : 0);
  barrier(engine);
  /* An engine that was not told all must not run. */
  if (!engine->bus_failed) {
    engine->unfinished = true;
    put(engine, MATLOOM_CONTROL_OFFSET, MATLOOM_CONTROL_START_MASK);
  }
  return outcome(engine, MATLOOM_OK);
}

enum matloom_result matloom_poll(struct matloom_engine* engine) {
  const uint32_t ends = MATLOOM_STATUS_DONE_MASK | MATLOOM_STATUS_FAULT_MASK;
  if (!engine->unfinished) return MATLOOM_ERROR_STATE;
  const uint32_t status = get(engine, MATLOOM_STATUS_OFFSET);
  if (engine->bus_failed) return outcome(engine, MATLOOM_ERROR_BUS);
  if ((status & ends) == 0 || (status & MATLOOM_STATUS_BUSY_MASK) != 0) return MATLOOM_BUSY;
  if ((status & MATLOOM_STATUS_FAULT_MASK) != 0) {
    engine->stopped = true;
    return MATLOOM_ERROR_FAULT;
  }
  barrier(engine);
  matloom_drop_outputs(engine);
  engine->unfinished = false;
  engine->resident = engine->running;
  return MATLOOM_OK;
}

enum matloom_result matloom_wait(struct matloom_engine* engine) {
  struct wait wait = begin_wait(engine);
  while (true) {
    const enum matloom_result result = matloom_poll(engine);
    if (result != MATLOOM_BUSY) return result;
    if (!keep_waiting(engine, &wait)) {
      engine->stopped = true;
      return MATLOOM_ERROR_TIMEOUT;
    }
  }
}

bool matloom_interrupt(const struct matloom_engine* engine) {
  /* A copy: the engine's own members belong to the thread that was interrupted. */
  struct matloom_engine view = *engine;
  const uint32_t events = get(&view, MATLOOM_IRQ_STATUS_OFFSET) & EVENTS;
  if (events != 0) put(&view, MATLOOM_IRQ_STATUS_OFFSET, events);
  return events != 0;
}

enum matloom_result matloom_watchdog(struct matloom_engine* engine, uint32_t cycles) {
  put(engine, MATLOOM_TIMEOUT_OFFSET, cycles);
  return outcome(engine, MATLOOM_OK);
}

enum matloom_result matloom_fault(struct matloom_engine* engine,
                                  struct matloom_fault_record* record) {
  const uint32_t fault = get(engine, MATLOOM_FAULT_OFFSET);
  record->cause = (fault & MATLOOM_FAULT_CAUSE_MASK) >> MATLOOM_FAULT_CAUSE_SHIFT;
  record->unit = (fault & MATLOOM_FAULT_UNIT_MASK) >> MATLOOM_FAULT_UNIT_SHIFT;
  record->opcode = (fault & MATLOOM_FAULT_OPCODE_MASK) >> MATLOOM_FAULT_OPCODE_SHIFT;
  record->index = get(engine, MATLOOM_FAULT_INDEX_OFFSET);
  record->address = get(engine, MATLOOM_FAULT_ADDRESS_OFFSET);
  return outcome(engine, MATLOOM_OK);
}

enum matloom_result matloom_counters(struct matloom_engine* engine,
                                     struct matloom_counters* counters) {
  for (uint32_t i = 0; i < MATLOOM_COUNTERS; ++i) {
    counters->value[i] = get(engine, MATLOOM_COUNTERS_OFFSET + 4u * i);
  }
  return outcome(engine, MATLOOM_OK);
}

enum matloom_result matloom_timestamp(struct matloom_engine* engine, uint32_t slot,
                                      uint32_t* cycle) {
  const uint32_t slots = (MATLOOM_WINDOW_BYTES - MATLOOM_TIMESTAMPS_OFFSET) / 4u;
  if (slot >= slots) return MATLOOM_ERROR_ARGUMENT;
  *cycle = get(engine, MATLOOM_TIMESTAMPS_OFFSET + 4u * slot);
  return outcome(engine, MATLOOM_OK);
}
