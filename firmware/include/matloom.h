/* Matloom's driver: Program files and engines, for bare metal, for an RTOS, and for Linux.
 *
 * C11, freestanding: no allocation, no variables of its own, no library (memcpy, memmove and memset,
 * which compilers call by themselves, are in firmware/support). All that is remembered
 * lies in a `struct matloom_program` (one a file) and a `struct matloom_engine` (one an engine),
 * which the caller provides and does not change. An engine belongs to one thread at a time;
 * `matloom_interrupt` alone may be called from an interrupt handler meanwhile.
 *
 * A program is opened once (`matloom_program_open`), an engine probed once (`matloom_probe`), the
 * program put into memory that the engine reaches (`matloom_attach`), and then run as often as
 * wanted (`matloom_run`, or step by step with `matloom_start` and `matloom_wait`).
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

/* What a call returns. */
enum matloom_result {
  MATLOOM_OK = 0,
  MATLOOM_BUSY,                /* the engine is at work */
  MATLOOM_ERROR_ARGUMENT,      /* a number or pointer of the caller is out of its range */
  MATLOOM_ERROR_MAGIC,         /* no Program file */
  MATLOOM_ERROR_FORMAT,        /* a file of another format version: compile it again */
  MATLOOM_ERROR_SIZE,          /* fewer bytes than the file has, or more than a file may have */
  MATLOOM_ERROR_CHECKSUM,      /* damaged bytes */
  MATLOOM_ERROR_INTERFACE,     /* made for another version of registers and instructions */
  MATLOOM_ERROR_DIRECTORY,     /* sections out of order, out of place or of a wrong size */
  MATLOOM_ERROR_SECTION,       /* a section is absent, or required and unknown */
  MATLOOM_ERROR_FIELD,         /* a field outside its limits */
  MATLOOM_ERROR_LIST,          /* a list that no record, or more than one, owns */
  MATLOOM_ERROR_TEXT,          /* texts that do not follow each other, or a name given twice */
  MATLOOM_ERROR_CONFIGURATION, /* fields of the configuration are not those of this version */
  MATLOOM_ERROR_TENSOR,        /* no such tensor, or one of an impossible shape or scale */
  MATLOOM_ERROR_CONSTANT,      /* a constant outside the host's data */
  MATLOOM_ERROR_REGION,        /* sizes of regions do not fit what lies in them */
  MATLOOM_ERROR_BINDING,       /* a tensor is bound where it must not be */
  MATLOOM_ERROR_COMMANDS,      /* a command buffer outside the image, kept bytes out of order */
  MATLOOM_ERROR_ORDER,         /* a step reads what nothing made, or makes it a second time */
  MATLOOM_ERROR_VARIABLE,      /* a variable's tensors or place */
  MATLOOM_ERROR_BUS,           /* a register access failed */
  MATLOOM_ERROR_IDENTITY,      /* no engine of this interface version */
  MATLOOM_ERROR_DIGEST,        /* the engine has another configuration than the program */
  MATLOOM_ERROR_MEMORY,        /* too little memory, or misaligned, or beyond 32 bits */
  MATLOOM_ERROR_STATE,         /* not attached, at work, or not reset after a fault or timeout */
  MATLOOM_ERROR_FAULT,         /* the engine stopped: see matloom_fault */
  MATLOOM_ERROR_TIMEOUT,       /* no end in time */
  MATLOOM_ERROR_HOST           /* a step of the host has no function, or its function failed */
};

/* Where a rule of the format is broken: section (0: header, directory or file), record, offset. */
struct matloom_problem {
  uint32_t section;
  uint32_t record;
  uint32_t offset;
};

/* A program that was opened. Its members are the driver's. */
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
  const char* name;    /* UTF-8, ends with a zero byte, lies in the file */
  uint32_t name_bytes; /* without the zero byte */
  uint32_t dtype;      /* enum matloom_dtype */
  uint32_t bytes;      /* of all elements, which lie one after the other, the last axis inner */
  uint32_t axes;
  int32_t zero_point;
  uint64_t scale; /* bits of a double; of a zero, of either sign, where it has none */
};

/* A step of a program. */
struct matloom_step_info {
  uint32_t kind;  /* enum matloom_step */
  uint32_t index; /* among the steps of its kind */
  uint32_t operator_number; /* of a step of the host: enum matloom_operator; else 0xffffffff */
  uint32_t inputs;          /* numbers of tensors that it reads and makes */
  uint32_t outputs;
};

/* How the driver reaches an engine and what the system wants to be told.
 *
 * Functions that are NULL are left out: without `read32` and `write32` registers are memory at
 * `registers`, without `wait` the driver asks again at once, without `now` every question counts
 * as one unit of time.
 */
struct matloom_port {
  void* context; /* given to every function */
  volatile uint32_t* registers;
  /* A register at a byte offset; false where the access failed. */
  bool (*read32)(void* context, uint32_t offset, uint32_t* value);
  bool (*write32)(void* context, uint32_t offset, uint32_t value);
  /* Write back what the processor's cache holds of these bytes: the engine is about to read. */
  void (*clean)(void* context, const void* address, size_t bytes);
  /* Drop what the processor's cache holds of these bytes: the engine writes them. */
  void (*invalidate)(void* context, void* address, size_t bytes);
  /* Returns once all writes before it are seen by the engine: a fence. */
  void (*barrier)(void* context);
  /* Called between two questions: sleep until the interrupt, or let other tasks run. */
  void (*wait)(void* context);
  /* A clock of any unit that may wrap around. */
  uint32_t (*now)(void* context);
  uint32_t timeout; /* of a run or a reset, in units of `now`; 0 for never */
  bool interrupts;  /* let the engine raise its interrupt at the end of a run, and at a fault */
};

/* Memory that processor and engine both reach. */
struct matloom_memory {
  void* address;  /* as the processor sees it; NULL where it only passes the place on */
  uint32_t bus;   /* as the engine sees it, a multiple of 64 */
  uint32_t bytes;
};

/* A program in memory of an engine. Its members are the driver's; all zero, it is none. */
struct matloom_attached {
  const struct matloom_program* program; /* NULL where none is attached */
  uint8_t* region[4];                    /* as the processor sees them, by enum matloom_region */
  uint32_t bus[4];                       /* as the engine sees them */
  bool state_lost;                       /* what variables hold is unknown */
};

/* An engine that was probed. Its members are the driver's. */
struct matloom_engine {
  struct matloom_port port;
  struct matloom_attached attached;
  const struct matloom_program* placed; /* whose regions the engine knows */
  uint32_t digest;
  uint32_t running;  /* step of the engine that was started last */
  uint32_t resident; /* step whose weights are in the scratchpad; none where 0xffffffff */
  bool bus_failed;
  bool unfinished; /* a run began whose end was not seen */
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
  uint32_t index;   /* of that instruction, from 0; for AXI causes of the unit's own */
  uint32_t address; /* bus address for AXI causes, end of the extent for range causes */
};

/* A function that runs a step of the host on the tensors of a call; false where it cannot. */
typedef bool (*matloom_host)(void* context, const struct matloom_program* program, uint32_t step,
                             void* const* tensors);

/* ---- Programs ---- */

/* Opens a Program file where it lies, in memory or flash, and checks all rules of docs/firmware.md.
 * `bytes` are those that may be read; the file may be shorter. The file begins at a multiple of 4 for
 * the processor, and stays unchanged as long as the program is used. Time grows with the file's
 * bytes, and with the square of its records.
 * Errors: ARGUMENT, MAGIC to VARIABLE; `program->problem` then says where. */
enum matloom_result matloom_program_open(struct matloom_program* program, const void* file,
                                         size_t bytes);

/* As matloom_program_open for a file that was linked into the firmware by those who compiled it:
 * checks header, checksum, configuration's digest (when attached) and directory, which find every
 * damage by chance, and not the rules within sections, which the compiler has checked. Of any other
 * file it may read and write memory that is none of the program's. Where matloom_program_open is not
 * called, a linker leaves half of the driver out. Errors: ARGUMENT, MAGIC to SECTION. */
enum matloom_result matloom_program_use(struct matloom_program* program, const void* file,
                                        size_t bytes);

/* Number of tensors; tensors are numbered from 0. */
uint32_t matloom_program_tensors(const struct matloom_program* program);

/* Number of steps, of engine and host, in order of execution. */
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

/* Number of the tensor of a name. Errors: ARGUMENT where there is none. */
enum matloom_result matloom_program_find(const struct matloom_program* program, const char* name,
                                         uint32_t* number);

/* Describes a step. Errors: ARGUMENT. */
enum matloom_result matloom_program_step(const struct matloom_program* program, uint32_t step,
                                         struct matloom_step_info* info);

/* Tensor that a step reads (`output` false) or makes at a place, which must exist. A negative
 * number is that of a constant of the host: constant n is -1 - n. */
int32_t matloom_program_operand(const struct matloom_program* program, uint32_t step, bool output,
                                uint32_t place);

/* First byte of a constant of the host, which must exist; multiples of 16 in the host's data. */
const void* matloom_program_constant(const struct matloom_program* program, uint32_t number);

/* Bytes of memory that `matloom_attach` needs, or `matloom_attach_in_place` where `in_place`. */
uint32_t matloom_program_memory(const struct matloom_program* program, bool in_place);

/* ---- Engines ---- */

/* Takes an engine up: keeps the port, checks identity and interface version, and resets the engine,
 * whatever it was at. Errors: BUS, IDENTITY, TIMEOUT. */
enum matloom_result matloom_probe(struct matloom_engine* engine, const struct matloom_port* port);

/* Digest of the engine's configuration, which a program must have as well. */
uint32_t matloom_digest(const struct matloom_engine* engine);

/* Puts a program into memory that the engine reaches, its image copied, and sets those variables to
 * their first values that are on the device; where the host keeps some, matloom_reset_state must be
 * called before matloom_run. `memory->address` must not be NULL, and the memory be the driver's
 * alone from then on. Errors: BUS, after which no program is attached, DIGEST, MEMORY, STATE. */
enum matloom_result matloom_attach(struct matloom_engine* engine,
                                   const struct matloom_program* program,
                                   const struct matloom_memory* memory);

/* As matloom_attach, but the engine reads the image where the file lies, whose first byte has the
 * bus address `file_bus`, a multiple of 64. */
enum matloom_result matloom_attach_in_place(struct matloom_engine* engine,
                                            const struct matloom_program* program,
                                            const struct matloom_memory* memory,
                                            uint32_t file_bus);

/* Exchanges the program that is attached for another one, or none, which `other` then keeps. Programs
 * that were attached to one engine, each in memory of its own, run alternately; each has a structure
 * of its own. Weights stay in the scratchpad until another program's step is started. */
void matloom_exchange(struct matloom_engine* engine, struct matloom_attached* other);

/* Where a tensor lies in a region as a step of the engine reads or makes it, or NULL where it does
 * not, or no program is attached: inputs may be written there and outputs read there, instead of
 * being copied. NULL too for outputs of int32, which the engine leaves as four planes of bytes.
 * Other steps may use the same bytes. */
void* matloom_place(const struct matloom_engine* engine, uint32_t tensor);

/* Copies tensors that a step of the engine reads into their regions. `tensors` has a pointer for
 * each tensor of the program; one that is the tensor's place is not copied, and variables on the
 * device stay there. Elements of more than a byte are little-endian, on any processor. `step` counts
 * the engine's steps. Errors: ARGUMENT, STATE. */
enum matloom_result matloom_write_inputs(const struct matloom_engine* engine, uint32_t step,
                                         void* const* tensors);

/* Copies tensors that a step of the engine made out of their regions, as matloom_write_inputs;
 * sums of int32 are joined, little-endian. Errors: ARGUMENT, STATE. */
enum matloom_result matloom_read_outputs(const struct matloom_engine* engine, uint32_t step,
                                         void* const* tensors);

/* Starts a step of the engine, counted among the engine's; the shorter way where its weights are
 * still in the scratchpad. Errors: ARGUMENT, BUS, STATE. */
enum matloom_result matloom_start(struct matloom_engine* engine, uint32_t step);

/* Says how the run is: BUSY, OK once it ended. Errors: BUS, FAULT, STATE. */
enum matloom_result matloom_poll(struct matloom_engine* engine);

/* Waits for the end of the run. Errors: BUS, FAULT, STATE, TIMEOUT. */
enum matloom_result matloom_wait(struct matloom_engine* engine);

/* Acknowledges the engine's interrupt: for a handler. Returns whether it was this engine's. */
bool matloom_interrupt(const struct matloom_engine* engine);

/* Lets bus transfers end and resets every unit, which also ends a fault. Weights are lost, what
 * variables hold is not, unless a run was under way. Errors: BUS, TIMEOUT. */
enum matloom_result matloom_reset(struct matloom_engine* engine);

/* Cycles without any progress after which the engine itself stops with a fault; 0 for never.
 * Errors: BUS. */
enum matloom_result matloom_watchdog(struct matloom_engine* engine, uint32_t cycles);

/* Why the engine stopped. Errors: BUS. */
enum matloom_result matloom_fault(struct matloom_engine* engine,
                                  struct matloom_fault_record* record);

/* What the last run cost, in cycles and events. Errors: BUS. */
enum matloom_result matloom_counters(struct matloom_engine* engine,
                                     struct matloom_counters* counters);

/* Cycle in which a slot of the completion-time table was reached, 0 for never. Errors: ARGUMENT,
 * BUS. */
enum matloom_result matloom_timestamp(struct matloom_engine* engine, uint32_t slot,
                                      uint32_t* cycle);

/* Sets all variables to their first values: those of the engine in memory, those of the host in
 * `tensors`, which may be NULL where there are none. Errors: ARGUMENT, STATE. */
enum matloom_result matloom_reset_state(struct matloom_engine* engine, void* const* tensors);

/* As matloom_reset_state, but to the values in `values`, one for each variable in the program's
 * order. Errors: ARGUMENT, STATE. */
enum matloom_result matloom_write_state(struct matloom_engine* engine, void* const* tensors,
                                        const void* const* values);

/* Copies what variables hold to `values`; arguments as for matloom_write_state. Errors: ARGUMENT,
 * STATE, where it is unknown. */
enum matloom_result matloom_read_state(const struct matloom_engine* engine, void* const* tensors,
                                       void* const* values);

/* Runs a network once: every step in order, the host's by `host`, which may be NULL where there
 * are none. Inputs are read from, outputs left in `tensors`, as for matloom_write_inputs; variables
 * of the host are carried over. Errors: ARGUMENT, BUS, FAULT, HOST, STATE, TIMEOUT; after one, reset
 * the engine, and the state of a network that has variables. */
enum matloom_result matloom_run(struct matloom_engine* engine, void* const* tensors,
                                matloom_host host, void* context);

/* CRC-32 of Ethernet and zlib over bytes that follow those of the checksum `before`; 0 for none. */
uint32_t matloom_checksum(uint32_t before, const void* bytes, size_t size);

/* A few words for a result, or a cause of a fault: for people. In a file of their own, so that
 * they cost nothing where they are not used. */
const char* matloom_result_text(enum matloom_result result);
const char* matloom_fault_text(uint32_t cause);

#ifdef __cplusplus
}
#endif

#endif
