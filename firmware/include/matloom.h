/* Matloom's driver: Program files and engines, for bare metal, for an RTOS, and for Linux.
 *
 * C11, freestanding: no allocation, no global variables, no library (memcpy, memmove and memset,
 * which compilers call implicitly, are in firmware/support). All state is in a
 * `struct matloom_program` (one for each file) and a `struct matloom_engine` (one for each engine),
 * which the caller provides but does not change. Only one thread at a time may use an engine;
 * meanwhile, an interrupt handler may call `matloom_interrupt`, but nothing else.
 *
 * Open a program once (`matloom_program_open`), probe the engine once (`matloom_probe`), put the
 * program into memory that the engine can access (`matloom_attach`), then run it as often as you
 * like (`matloom_run`, or step by step with `matloom_start` and `matloom_wait`).
 */
#ifndef MATLOOM_H
#define MATLOOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "matloom_format.h"
#include "matloom_regs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a call. */
enum matloom_result {
  MATLOOM_OK = 0,
  MATLOOM_BUSY,                /* the engine is running */
  MATLOOM_ERROR_ARGUMENT,      /* an argument is out of range */
  MATLOOM_ERROR_MAGIC,         /* not a Program file */
  MATLOOM_ERROR_FORMAT,        /* another format version: compile it again */
  MATLOOM_ERROR_SIZE,          /* fewer bytes than the file has, or more than a file may have */
  MATLOOM_ERROR_CHECKSUM,      /* damaged bytes */
  MATLOOM_ERROR_INTERFACE,     /* compiled for another version of registers and instructions */
  MATLOOM_ERROR_DIRECTORY,     /* sections out of order, out of place or of a wrong size */
  MATLOOM_ERROR_SECTION,       /* a section is missing, or required and unknown */
  MATLOOM_ERROR_FIELD,         /* a field outside its limits */
  MATLOOM_ERROR_LIST,          /* a list that no record, or more than one, owns */
  MATLOOM_ERROR_TEXT,          /* texts that do not follow each other, or a name given twice */
  MATLOOM_ERROR_CONFIGURATION, /* fields of the configuration are not those of this version */
  MATLOOM_ERROR_TENSOR,        /* no such tensor, or one of an impossible shape or scale */
  MATLOOM_ERROR_CONSTANT,      /* a constant outside the host's data */
  MATLOOM_ERROR_REGION,        /* sizes of regions do not match their contents */
  MATLOOM_ERROR_BINDING,       /* a tensor is in the wrong place of a region */
  MATLOOM_ERROR_COMMANDS,      /* a command buffer outside the image, kept bytes out of order */
  MATLOOM_ERROR_ORDER,         /* a step reads a tensor before it is written, or writes it twice */
  MATLOOM_ERROR_VARIABLE,      /* a variable's tensors or place */
  MATLOOM_ERROR_BUS,           /* a register access failed */
  MATLOOM_ERROR_IDENTITY,      /* not an engine of this interface version */
  MATLOOM_ERROR_DIGEST,        /* the program is for another configuration */
  MATLOOM_ERROR_MEMORY,        /* too little memory, or misaligned, or beyond 32 bits */
  MATLOOM_ERROR_STATE,         /* not attached, running, or not reset after a fault or timeout */
  MATLOOM_ERROR_FAULT,         /* the engine stopped: see matloom_fault */
  MATLOOM_ERROR_TIMEOUT,       /* the run did not end in time */
  MATLOOM_ERROR_HOST           /* no function for the host's steps, or it failed */
};

/* Where a file breaks a rule: section (0: header, directory or file), record, offset. */
struct matloom_problem {
  uint32_t section;
  uint32_t record;
  uint32_t offset;
};

/* An opened program. Its members are private to the driver. */
struct matloom_program {
  const uint8_t* file;
  uint32_t digest;
  struct matloom_problem problem;
  struct {
    uint32_t offset; /* in the file */
    uint32_t count;  /* records, or bytes */
  } section[MATLOOM_SECTIONS];
};

/* A tensor. */
struct matloom_tensor {
  const char* name;    /* UTF-8, ends with a zero byte, in the file */
  uint32_t name_bytes; /* without the zero byte */
  uint32_t dtype;      /* enum matloom_dtype */
  uint32_t bytes;      /* of all elements, contiguous, the last axis varies fastest */
  uint32_t axes;
  int32_t zero_point;
  uint64_t scale; /* bits of a double; 0.0 or -0.0 if it has none */
};

/* A step of a program. */
struct matloom_step_info {
  uint32_t kind;  /* enum matloom_step */
  uint32_t index; /* among the steps of its kind */
  uint32_t operator_number; /* of a host step: enum matloom_operator; else 0xffffffff */
  uint32_t inputs;          /* number of tensors that it reads, and that it writes */
  uint32_t outputs;
};

/* Access to an engine, and hooks for the system.
 *
 * Functions may be NULL: without `read32` and `write32`, registers are memory at `registers`;
 * without `wait`, the driver polls without a pause; without `now`, each poll counts as one unit of
 * time.
 */
struct matloom_port {
  void* context; /* passed to every function */
  volatile uint32_t* registers;
  /* Access a register at a byte offset; return false if the access failed. */
  bool (*read32)(void* context, uint32_t offset, uint32_t* value);
  bool (*write32)(void* context, uint32_t offset, uint32_t value);
  /* Write these bytes back from the processor's cache: the engine is about to read them. */
  void (*clean)(void* context, const void* address, size_t bytes);
  /* Drop these bytes from the processor's cache: the engine writes them. */
  void (*invalidate)(void* context, void* address, size_t bytes);
  /* A fence: returns once the engine sees all earlier writes. */
  void (*barrier)(void* context);
  /* Called between two polls: sleep until the interrupt, or let other tasks run. */
  void (*wait)(void* context);
  /* A clock in any unit; it may wrap around. */
  uint32_t (*now)(void* context);
  uint32_t timeout; /* of a run or a reset, in units of `now`; 0: none */
  bool interrupts;  /* raise the interrupt at the end of a run and on a fault */
};

/* Memory that processor and engine can both access. */
struct matloom_memory {
  void* address;  /* as the processor sees it; NULL if it does not access it */
  uint32_t bus;   /* as the engine sees it, a multiple of 64 */
  uint32_t bytes;
};

/* A program in an engine's memory. Its members are private; all zero means no program. */
struct matloom_attached {
  const struct matloom_program* program; /* NULL if none is attached */
  uint8_t* region[4];                    /* as the processor sees them, by enum matloom_region */
  uint32_t bus[4];                       /* as the engine sees them */
  bool state_lost;                       /* the values of variables are unknown */
};

/* A probed engine. Its members are private to the driver. */
struct matloom_engine {
  struct matloom_port port;
  struct matloom_attached attached;
  const struct matloom_program* placed; /* program whose regions are in the registers */
  uint32_t digest;
  uint32_t running;  /* engine step that was started last */
  uint32_t resident; /* step whose weights are in the scratchpad; 0xffffffff: none */
  bool bus_failed;
  bool unfinished; /* a run began, and its end was not seen */
  bool stopped;    /* by a fault or a timeout: only a reset helps */
};

/* Counters of the last run, by enum matloom_counter. */
struct matloom_counters {
  uint32_t value[MATLOOM_COUNTERS];
};

/* Why the engine stopped. */
struct matloom_fault_record {
  uint32_t cause;   /* enum matloom_fault */
  uint32_t unit;    /* 0 dispatch, 1 LOAD, 2 EXEC, 3 POST, 4 STORE */
  uint32_t opcode;  /* of the instruction at fault */
  uint32_t index;   /* of that instruction, from 0; for AXI causes, within its unit */
  uint32_t address; /* bus address for AXI causes, end of the extent for range causes */
};

/* Runs a host step on the tensors of a call; returns false if it cannot. */
typedef bool (*matloom_host)(void* context, const struct matloom_program* program, uint32_t step,
                             void* const* tensors);

/* ---- Programs ---- */

/* Opens a Program file in place, in memory or flash, and checks all rules of docs/firmware.md.
 * `bytes` may be read; the file may be shorter. The file must begin at an address that is a
 * multiple of 4, and must not change while the program is in use. The time grows with the file's
 * size, and with the square of the number of records. Errors: ARGUMENT, MAGIC to VARIABLE;
 * `program->problem` then says where. */
enum matloom_result matloom_program_open(struct matloom_program* program, const void* file,
                                         size_t bytes);

/* Like matloom_program_open, for a trusted file that is linked into the firmware: checks only
 * header, checksum and directory, and the configuration's digest when attached. That finds
 * accidental damage; the rules within sections are left to the compiler. An untrusted file could
 * make the driver read and write any memory. If matloom_program_open is not called, the linker
 * drops half of the driver. Errors: ARGUMENT, MAGIC to SECTION. */
enum matloom_result matloom_program_use(struct matloom_program* program, const void* file,
                                        size_t bytes);

/* Number of tensors; tensors are numbered from 0. */
uint32_t matloom_program_tensors(const struct matloom_program* program);

/* Number of steps of engine and host, which are numbered in order of execution. */
uint32_t matloom_program_steps(const struct matloom_program* program);

/* Number of variables, which a network keeps from run to run. */
uint32_t matloom_program_variables(const struct matloom_program* program);

/* Describes a tensor. Errors: ARGUMENT. */
enum matloom_result matloom_program_tensor(const struct matloom_program* program, uint32_t number,
                                           struct matloom_tensor* tensor);

/* Length of an axis of a tensor, which must exist. */
uint32_t matloom_program_axis(const struct matloom_program* program, uint32_t number,
                              uint32_t axis);

/* Number of the tensor that is the network's input at a place. Errors: ARGUMENT. */
enum matloom_result matloom_program_input(const struct matloom_program* program, uint32_t place,
                                          uint32_t* number);

/* Number of the tensor that is the network's output at a place. Errors: ARGUMENT. */
enum matloom_result matloom_program_output(const struct matloom_program* program, uint32_t place,
                                           uint32_t* number);

/* Number of the tensor with a name. Errors: ARGUMENT if there is none. */
enum matloom_result matloom_program_find(const struct matloom_program* program, const char* name,
                                         uint32_t* number);

/* Describes a step. Errors: ARGUMENT. */
enum matloom_result matloom_program_step(const struct matloom_program* program, uint32_t step,
                                         struct matloom_step_info* info);

/* Tensor that a step reads (`output` false) or writes at a place, which must exist. Negative
 * numbers are constants of the host: constant n is -1 - n. */
int32_t matloom_program_operand(const struct matloom_program* program, uint32_t step, bool output,
                                uint32_t place);

/* First byte of a host constant, which must exist; a multiple of 16 within the host's data. */
const void* matloom_program_constant(const struct matloom_program* program, uint32_t number);

/* Bytes of memory that `matloom_attach` needs, or `matloom_attach_in_place` if `in_place`. */
uint32_t matloom_program_memory(const struct matloom_program* program, bool in_place);

/* ---- Engines ---- */

/* Initialises an engine: stores the port, checks identity and interface version, and resets the
 * engine, whatever it was doing. Errors: BUS, IDENTITY, TIMEOUT. */
enum matloom_result matloom_probe(struct matloom_engine* engine, const struct matloom_port* port);

/* Digest of the engine's configuration, which must equal a program's. */
uint32_t matloom_digest(const struct matloom_engine* engine);

/* Puts a program into memory that the engine can access: copies its image, and sets the variables
 * on the device to their initial values. If the host keeps some, call matloom_reset_state before
 * matloom_run. `memory->address` must not be NULL, and nothing else may use the memory from then
 * on. Errors: BUS (no program is attached afterwards), DIGEST, MEMORY, STATE. */
enum matloom_result matloom_attach(struct matloom_engine* engine,
                                   const struct matloom_program* program,
                                   const struct matloom_memory* memory);

/* Like matloom_attach, but the engine reads the image from the file, whose first byte is at the bus
 * address `file_bus`, a multiple of 64. */
enum matloom_result matloom_attach_in_place(struct matloom_engine* engine,
                                            const struct matloom_program* program,
                                            const struct matloom_memory* memory,
                                            uint32_t file_bus);

/* Swaps the attached program, or none, with the one in `other`. Programs that were attached to one
 * engine, each in its own memory and with its own structure, can so run alternately. Weights stay
 * in the scratchpad until a step of another program is started. */
void matloom_exchange(struct matloom_engine* engine, struct matloom_attached* other);

/* Address in a region at which an engine step reads or writes a tensor; NULL if none does, or if no
 * program is attached. Inputs can be written and outputs read there without a copy. Also NULL for
 * int32 outputs, which the engine leaves as four planes of bytes. Other steps may use the same
 * bytes. */
void* matloom_place(const struct matloom_engine* engine, uint32_t tensor);

/* Copies the tensors that an engine step reads into their regions. `tensors` has a pointer for each
 * tensor of the program; a tensor whose pointer equals its place is not copied, and variables on
 * the device stay there. Elements of several bytes are little-endian on any processor. `step`
 * counts engine steps. Errors: ARGUMENT, STATE. */
enum matloom_result matloom_write_inputs(const struct matloom_engine* engine, uint32_t step,
                                         void* const* tensors);

/* Copies the tensors that an engine step wrote out of their regions, like matloom_write_inputs;
 * int32 sums are joined, little-endian. Errors: ARGUMENT, STATE. */
enum matloom_result matloom_read_outputs(const struct matloom_engine* engine, uint32_t step,
                                         void* const* tensors);

/* Starts an engine step, counted among engine steps; uses its shorter commands if its weights are
 * still in the scratchpad. Errors: ARGUMENT, BUS, STATE. */
enum matloom_result matloom_start(struct matloom_engine* engine, uint32_t step);

/* State of the run: BUSY, or OK once it has ended. Errors: BUS, FAULT, STATE. */
enum matloom_result matloom_poll(struct matloom_engine* engine);

/* Waits for the end of the run. Errors: BUS, FAULT, STATE, TIMEOUT. */
enum matloom_result matloom_wait(struct matloom_engine* engine);

/* Acknowledges the engine's interrupt, in a handler. Returns whether it was this engine's. */
bool matloom_interrupt(const struct matloom_engine* engine);

/* Waits until bus transfers end and resets every unit, which also clears a fault. Weights are lost;
 * variables keep their values unless a run was in progress. Errors: BUS, TIMEOUT. */
enum matloom_result matloom_reset(struct matloom_engine* engine);

/* Sets the cycles without progress after which the engine stops with a fault; 0: never.
 * Errors: BUS. */
enum matloom_result matloom_watchdog(struct matloom_engine* engine, uint32_t cycles);

/* Why the engine stopped. Errors: BUS. */
enum matloom_result matloom_fault(struct matloom_engine* engine,
                                  struct matloom_fault_record* record);

/* What the last run cost, in cycles and events. Errors: BUS. */
enum matloom_result matloom_counters(struct matloom_engine* engine,
                                     struct matloom_counters* counters);

/* Cycle in which a slot of the completion-time table was reached; 0: never. Errors: ARGUMENT,
 * BUS. */
enum matloom_result matloom_timestamp(struct matloom_engine* engine, uint32_t slot,
                                      uint32_t* cycle);

/* Sets all variables to their initial values: those on the device in memory, those of the host in
 * `tensors`, which may be NULL if there are none. Errors: ARGUMENT, STATE. */
enum matloom_result matloom_reset_state(struct matloom_engine* engine, void* const* tensors);

/* Like matloom_reset_state, but with the values in `values`, one for each variable in the program's
 * order. Errors: ARGUMENT, STATE. */
enum matloom_result matloom_write_state(struct matloom_engine* engine, void* const* tensors,
                                        const void* const* values);

/* Copies the values of variables to `values`; arguments as for matloom_write_state. Errors:
 * ARGUMENT, STATE (also if they are unknown). */
enum matloom_result matloom_read_state(const struct matloom_engine* engine, void* const* tensors,
                                       void* const* values);

/* Runs a network once: every step in order; `host` runs the host's, and may be NULL if there are
 * none. Inputs are read from `tensors` and outputs written there, as for matloom_write_inputs; the
 * host's variables keep their new values. Errors: ARGUMENT, BUS, FAULT, HOST, STATE, TIMEOUT; after
 * an error, reset the engine, and the state if the network has variables. */
enum matloom_result matloom_run(struct matloom_engine* engine, void* const* tensors,
                                matloom_host host, void* context);

/* CRC-32 as in Ethernet and zlib; `before` is the checksum of the preceding bytes, 0 at first. */
uint32_t matloom_checksum(uint32_t before, const void* bytes, size_t size);

/* A short text for a result or for the cause of a fault. Both are in a separate file, so they cost
 * nothing unless used. */
const char* matloom_result_text(enum matloom_result result);
const char* matloom_fault_text(uint32_t cause);

#ifdef __cplusplus
}
#endif

#endif
