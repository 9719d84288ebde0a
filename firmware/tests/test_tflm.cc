/* The operator for TensorFlow Lite Micro on a fake bus: a test plays the interpreter.
 *
 * Arguments: Program files of digits (a step of the host), of a product, and of a streaming
 * network. */
#include <stdarg.h>
#include <string.h>

#include "check.h"
#include "fake_bus.h"
#include "matloom_op.h"

void MicroPrintf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
}

namespace {

struct File {
  alignas(64) char bytes[65536];
  size_t size;
};

File digits, product, streaming;
fake bus;
matloom_engine engine;
size_t arena_left;
alignas(16) char arena[65536];

/* The persistent part of an arena: grows, and is never given back. */
void* AllocatePersistentBuffer(TfLiteContext*, size_t bytes) {
  bytes = (bytes + 15) / 16 * 16;
  if (bytes > arena_left) return nullptr;
  arena_left -= bytes;
  return arena + arena_left;
}

/* An interpreter of one node: tensor 0 is its input, tensor 1 its output. */
struct Interpreter {
  int8_t data[2][4096];
  TfLiteIntArray shapes[2];
  TfLiteEvalTensor tensors[2];
  TfLiteIntArray ends[2];
  TfLiteContext context;
  TfLiteNode node;
};

Interpreter* current;

TfLiteEvalTensor* GetEvalTensor(const TfLiteContext*, int tensor) {
  return &current->tensors[tensor];
}

void Open(Interpreter* one, const File& file, const TfLiteIntArray& in, const TfLiteIntArray& out) {
  *one = {};
  one->shapes[0] = in;
  one->shapes[1] = out;
  for (int i = 0; i < 2; ++i) {
    one->tensors[i] = {{one->data[i]}, &one->shapes[i], kTfLiteInt8};
    one->ends[i] = {1, {i}};
  }
  one->context = {AllocatePersistentBuffer, GetEvalTensor};
  one->node = {&one->ends[0], &one->ends[1], nullptr};
  one->node.user_data =
      matloom::Register_MATLOOM()->init(&one->context, file.bytes, file.size);
}

const TfLiteIntArray kInput = {2, {3, 20}}, kOutput = {2, {3, 10}};

TfLiteStatus Prepare(Interpreter* one) {
  return matloom::Register_MATLOOM()->prepare(&one->context, &one->node);
}

TfLiteStatus Invoke(Interpreter* one) {
  current = one;
  return matloom::Register_MATLOOM()->invoke(&one->context, &one->node);
}

/* A new engine of the product's configuration, and an empty arena. */
void SetUp(uint32_t memory_bytes = FAKE_MEMORY_BYTES) {
  matloom_program program;
  EQUAL(matloom_program_open(&program, product.bytes, product.size), MATLOOM_OK);
  fake_open(&bus, program.digest);
  const matloom_port port = fake_port(&bus);
  EQUAL(matloom_probe(&engine, &port), MATLOOM_OK);
  matloom_memory memory = fake_memory(&bus);
  memory.bytes = memory_bytes;
  matloom::UseEngine(&engine, memory);
  arena_left = sizeof arena;
}

/* The fake engine leaves the complement of its input. */
void CheckRun(Interpreter* one) {
  for (int i = 0; i < 60; ++i) one->data[0][i] = static_cast<int8_t>(5 * i - 128);
  memset(one->data[1], 0, sizeof one->data[1]);
  EQUAL(Invoke(one), kTfLiteOk);
  for (int i = 0; i < 30; ++i) EQUAL(one->data[1][i], static_cast<int8_t>(~(5 * i - 128)));
}

void TestRuns() {
  static Interpreter one, other;
  SetUp();
  Open(&one, product, kInput, kOutput);
  Open(&other, product, kInput, kOutput);
  EQUAL(Prepare(&one), kTfLiteOk);
  EQUAL(Prepare(&other), kTfLiteOk);
  CheckRun(&one);
  const matloom_program* attached = engine.attached.program;
  CheckRun(&one);
  CHECK(engine.attached.program == attached);
  CheckRun(&other);
  CHECK(engine.attached.program != attached);
  CheckRun(&one);
  EQUAL(bus.runs, 4);
}

void TestFaults() {
  static Interpreter one;
  SetUp();
  Open(&one, product, kInput, kOutput);
  EQUAL(Prepare(&one), kTfLiteOk);
  bus.fault = 2;
  EQUAL(Invoke(&one), kTfLiteError);
  bus.fault = 0;
  bus.registers[0x24 / 4] = 0;
  CheckRun(&one);
  bus.busy_polls = NEVER;
  EQUAL(Invoke(&one), kTfLiteError);
  bus.busy_polls = 1;
  CheckRun(&one);
}

void TestTensors() {
  static Interpreter one;
  SetUp();
  Open(&one, product, kInput, kOutput);
  EQUAL(Prepare(&one), kTfLiteOk);
  one.tensors[0].type = kTfLiteUInt8;
  EQUAL(Invoke(&one), kTfLiteError);
  one.tensors[0].type = kTfLiteFloat32;
  EQUAL(Invoke(&one), kTfLiteError);
  one.tensors[0].type = kTfLiteInt8;
  one.shapes[1].data[1] = 11;
  EQUAL(Invoke(&one), kTfLiteError);
  one.shapes[1].data[1] = 10;
  one.shapes[0].size = 1;
  EQUAL(Invoke(&one), kTfLiteError);
  EQUAL(bus.runs, 0);
  one.shapes[0].size = 2;
  CheckRun(&one);
}

void TestRefusals() {
  static Interpreter one;
  SetUp();
  Open(&one, digits, kInput, kOutput); /* has a step of the host */
  EQUAL(Prepare(&one), kTfLiteError);
  product.bytes[100] = static_cast<char>(product.bytes[100] ^ 1);
  Open(&one, product, kInput, kOutput);
  product.bytes[100] = static_cast<char>(product.bytes[100] ^ 1);
  EQUAL(Prepare(&one), kTfLiteError);
  Open(&one, product, kInput, kOutput);
  one.ends[0].size = 2; /* one input too many */
  EQUAL(Prepare(&one), kTfLiteError);
  one.ends[0].size = 1;
  one.ends[1].size = 0;
  EQUAL(Prepare(&one), kTfLiteError);
  one.ends[1].size = 1;
  arena_left = 0;
  EQUAL(Prepare(&one), kTfLiteError);
  Open(&one, product, kInput, kOutput);
  CHECK(one.node.user_data == nullptr);
  EQUAL(Prepare(&one), kTfLiteError);
  SetUp(64); /* memory for less than the program */
  Open(&one, product, kInput, kOutput);
  EQUAL(Prepare(&one), kTfLiteError);
}

/* Variables stay from call to call, begin again with Reset, and want the engine for themselves. */
void TestVariables() {
  static Interpreter one, other;
  matloom_program program;
  matloom_tensor tensor;
  uint32_t number;
  SetUp();
  EQUAL(matloom_program_open(&program, streaming.bytes, streaming.size), MATLOOM_OK);
  TfLiteIntArray shapes[2];
  for (int i = 0; i < 2; ++i) {
    EQUAL((i == 0 ? matloom_program_input : matloom_program_output)(&program, 0, &number),
          MATLOOM_OK);
    EQUAL(matloom_program_tensor(&program, number, &tensor), MATLOOM_OK);
    shapes[i].size = static_cast<int>(tensor.axes);
    for (uint32_t axis = 0; axis < tensor.axes; ++axis) {
      shapes[i].data[axis] = static_cast<int>(matloom_program_axis(&program, number, axis));
    }
  }
  CHECK(matloom_program_variables(&program) > 0);
  Open(&one, streaming, shapes[0], shapes[1]);
  EQUAL(Prepare(&one), kTfLiteOk);
  EQUAL(Invoke(&one), kTfLiteOk);
  uint8_t* arena_region = engine.attached.region[MATLOOM_REGION_ARENA];
  const uint8_t first = *arena_region;
  *arena_region = static_cast<uint8_t>(~first); /* what a run would leave */
  EQUAL(Invoke(&one), kTfLiteOk);
  EQUAL(*arena_region, static_cast<uint8_t>(~first));
  matloom::Register_MATLOOM()->reset(&one.context, one.node.user_data);
  EQUAL(Invoke(&one), kTfLiteOk);
  EQUAL(*arena_region, first);
  Open(&other, product, kInput, kOutput);
  EQUAL(Prepare(&other), kTfLiteError);
}

void Read(File* file, const char* path) {
  FILE* stream = fopen(path, "rb");
  CHECK(stream != nullptr);
  file->size = fread(file->bytes, 1, sizeof file->bytes, stream);
  fclose(stream);
}

}  // namespace

int main(int count, char** arguments) {
  static Interpreter early;
  EQUAL(count, 4);
  Read(&digits, arguments[1]);
  Read(&product, arguments[2]);
  Read(&streaming, arguments[3]);
  Open(&early, product, kInput, kOutput);
  EQUAL(Prepare(&early), kTfLiteError); /* without an engine */
  TestRuns();
  TestFaults();
  TestTensors();
  TestRefusals();
  TestVariables();
  return 0;
}
