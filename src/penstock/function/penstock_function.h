/* Functions for Penstock's pipelines as a shared library, in C.
 * Include this header only, link nothing, export penstock_functions(). examples/function/ is a
 * library to start from.
 *
 * Who owns what: everything that a library hands over (tables, names) lives as long as the process,
 * for the library is never unloaded. Everything that it is handed lives until the call returns.
 * Threads: a state is used by one thread at a time; different states at the same time.
 * Nothing may be thrown through these calls. */
#ifndef PENSTOCK_FUNCTION_PENSTOCK_FUNCTION_H_
#define PENSTOCK_FUNCTION_PENSTOCK_FUNCTION_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever anything below changes its layout or meaning. */
#define PENSTOCK_FUNCTION_VERSION 1

/* Element types; the numbers are those of ONNX's TensorProto.DataType. */
enum {
  PENSTOCK_F32 = 1,
  PENSTOCK_U8 = 2,
  PENSTOCK_I8 = 3,
  PENSTOCK_U16 = 4,
  PENSTOCK_I16 = 5,
  PENSTOCK_I32 = 6,
  PENSTOCK_I64 = 7,
  PENSTOCK_BOOL = 9,
  PENSTOCK_F16 = 10,
  PENSTOCK_F64 = 11,
  PENSTOCK_U32 = 12,
  PENSTOCK_U64 = 13,
  PENSTOCK_BF16 = 16
};

/* What a call answers. With DROP and ERROR, `message` says why in one line. */
enum {
  PENSTOCK_OK = 0,
  PENSTOCK_DROP = 1, /* The frame comes out as dropped; the pipeline goes on. */
  PENSTOCK_ERROR = 2 /* The frame comes out as an error; the pipeline goes on. */
};

/* A dimension: its size, or -1 where each frame has its own, with a name and an upper bound. */
typedef struct penstock_dim {
  int64_t size;
  const char* symbol; /* May be NULL. */
  int64_t bound;      /* Of an open dimension; -1: none, for inputs only. */
} penstock_dim;

/* A declared input or output. */
typedef struct penstock_port {
  const char* name;
  int32_t dtype;
  int32_t rank;
  const penstock_dim* dims;
} penstock_port;

/* A tensor of one frame, in C order. `capacity_bytes` is the room at `data`. */
typedef struct penstock_tensor {
  int32_t dtype;
  int32_t rank;
  int64_t* dims;
  void* data;
  uint64_t capacity_bytes;
} penstock_tensor;

/* One call. Inputs are read only and match their ports. Outputs arrive with room for their bound
 * and their dimensions at it: run() writes the data, and the sizes of open dimensions into `dims`.
 */
typedef struct penstock_frame {
  const penstock_tensor* inputs;
  penstock_tensor* outputs;
  char* message; /* For DROP and ERROR: a line of at most message_bytes with its final 0. */
  size_t message_bytes;
} penstock_frame;

/* A setting from the plan. */
typedef struct penstock_option {
  const char* key;
  const char* value;
} penstock_option;

typedef struct penstock_function {
  const char* name;
  int32_t stateful; /* 0: may be replicated. 1: sees the frames in order, one at a time. */
  int32_t input_count;
  const penstock_port* inputs;
  int32_t output_count;
  const penstock_port* outputs;
  /* Makes a state, one for each replica, on the thread that will run it. May be NULL, then every
   * call gets NULL, and options are refused. Answers OK or ERROR. */
  int32_t (*create)(const penstock_option* options, size_t option_count, void** state,
                    char* message, size_t message_bytes);
  void (*destroy)(void* state); /* May be NULL. */
  int32_t (*run)(void* state, penstock_frame* frame);
} penstock_function;

typedef struct penstock_library {
  int32_t version; /* PENSTOCK_FUNCTION_VERSION at its build. Stays the first member. */
  int32_t function_count;
  const penstock_function* functions;
} penstock_library;

/* What a library exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const penstock_library* penstock_functions(void);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_FUNCTION_PENSTOCK_FUNCTION_H_ */
