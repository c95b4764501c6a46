/* Penstock in C, for C and for every language that calls C.
 * Load a package or a model, push frames, pop their results. C99. docs/c.md explains it,
 * examples/c/ is a program to start from.
 *
 * Handles (penstock_pipeline, penstock_result, ...) are made by the library and freed by the
 * function of their type whose name ends in _free; freeing NULL does nothing. What an accessor
 * gives belongs to its handle and lives as long. Texts end in 0; names are as in the model's file,
 * in UTF-8 as a rule.
 *
 * Calls that can fail answer 0 (PENSTOCK_OK), or a code of penstock_code. Their last argument may
 * be NULL; else it gets the error, to be freed, or NULL where the call succeeded or memory ran out
 * even for the error. Where they fail, they write nothing else. No exception and no signal leaves
 * the library.
 *
 * Threads: every function may be called by any thread at any time, but for _free, which is the
 * handle's last call. A handle other than a pipeline never changes: several threads may read it.
 * A pipeline's own threads do not survive a fork(): in the child only _free may be called of what
 * was made before, and other calls may wait for ever. */
#ifndef PENSTOCK_C_PENSTOCK_H_
#define PENSTOCK_C_PENSTOCK_H_

#include <stddef.h>
#include <stdint.h>

#include "penstock/function/penstock_function.h" /* Element types, ports, tensors, options. */

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PENSTOCK_API __attribute__((visibility("default")))
#else
#define PENSTOCK_API
#endif

/* Grows by one whenever something is added; nothing is changed or taken away. A program runs with
 * every library whose penstock_c_version() is no less than the PENSTOCK_C_VERSION it was built
 * with. Structures that a program fills begin with their size: members that it does not know are as
 * if they were 0. Structures that the library hands out by pointer may get members behind the last.
 */
#define PENSTOCK_C_VERSION 1
PENSTOCK_API int32_t penstock_c_version(void);
PENSTOCK_API const char* penstock_version(void); /* Of Penstock: "0.1.0". */

/* ------------------------------------------------------------------------------------- Errors */

/* What kind of failure; the numbers are gRPC's. */
typedef enum penstock_code {
  PENSTOCK_CANCELLED = 1,         /* The pipeline was cancelled or is closed. */
  PENSTOCK_UNKNOWN = 2,           /* An engine failed without saying how. */
  PENSTOCK_INVALID_ARGUMENT = 3,  /* What was given is wrong in itself. */
  PENSTOCK_DEADLINE_EXCEEDED = 4, /* A timeout or a frame's deadline ran out. */
  PENSTOCK_NOT_FOUND = 5,         /* A file, tensor, stream, device or backend that is not there. */
  PENSTOCK_ALREADY_EXISTS = 6,    /* Would overwrite something. */
  PENSTOCK_PERMISSION_DENIED = 7, /* The operating system or an option refused. */
  PENSTOCK_RESOURCE_EXHAUSTED = 8,  /* Memory, slots, streams or threads ran out. */
  PENSTOCK_FAILED_PRECONDITION = 9, /* Right call, wrong time or wrong machine. */
  PENSTOCK_ABORTED = 10,            /* Dropped by a policy that was chosen. */
  PENSTOCK_OUT_OF_RANGE = 11,       /* An index past the end. */
  PENSTOCK_UNIMPLEMENTED = 12,      /* Nothing here does this. */
  PENSTOCK_INTERNAL = 13,           /* Penstock's fault. */
  PENSTOCK_UNAVAILABLE = 14,        /* An engine, a worker or a stage cannot be reached. */
  PENSTOCK_DATA_LOSS = 15,          /* A file is truncated, changed or corrupt. */
  PENSTOCK_UNAUTHENTICATED = 16     /* A server does not know who asks. */
} penstock_code;

typedef struct penstock_error penstock_error;

PENSTOCK_API int32_t penstock_error_code(const penstock_error* error);
/* "invalid_argument" */
PENSTOCK_API const char* penstock_error_code_name(const penstock_error* error);
/* For people, in one line, places and reason: "stage 'head': frame 3: bad pads". Not for programs.
 */
PENSTOCK_API const char* penstock_error_message(const penstock_error* error);
/* The reason alone: "bad pads". */
PENSTOCK_API const char* penstock_error_reason(const penstock_error* error);
/* Where, from the outermost place to the innermost. */
PENSTOCK_API size_t penstock_error_place_count(const penstock_error* error);
/* "stage", "frame", "tensor", ...; NULL for an index past the end, as below. */
PENSTOCK_API const char* penstock_error_place_kind(const penstock_error* error, size_t index);
/* NULL for places that have a number. */
PENSTOCK_API const char* penstock_error_place_name(const penstock_error* error, size_t index);
/* 0 for places that have a name. */
PENSTOCK_API uint64_t penstock_error_place_number(const penstock_error* error, size_t index);
PENSTOCK_API void penstock_error_free(penstock_error* error);

/* ------------------------------------------------------------------------------------ Tensors */

/* penstock_tensor (penstock_function.h) is how tensors come and go: `dtype` by ONNX's number, also
 * those that functions may not use; `rank` sizes at `dims`; C order at `data`; `capacity_bytes`
 * from there on. Where the library hands one out, it is read only unless said otherwise. */
enum {
  PENSTOCK_STRING = 8 /* `data` is penstock_string[], one for each element. */
};

typedef struct penstock_string {
  const char* data; /* May hold zeros; ends in one more where the library hands it out. */
  size_t bytes;
} penstock_string;

/* ---------------------------------------------------------------------------------- Pipelines */

typedef struct penstock_pipeline penstock_pipeline;

/* Loads and starts the package (a folder or a zip), or the ONNX model, at `path`.
 * Options, any number of them, `options` may be NULL where there are none; a value is a text:
 *   capacity         slots of every edge, 1 to 1000000
 *   in_flight        most frames between push and pop
 *   max_held         results that may be held beside those in the slots
 *   policy           where the input is full: block, drop_oldest, drop_newest, latest, error
 *   on_error         where a frame fails: deliver, stop
 *   max_age_ms       a frame's deadline since its push; max_run_ms: a call that takes longer hangs
 *   max_left_behind  calls that hang, left behind by each stage instance
 *   streams          most sequences at a time; evict: 1: one more takes another's place
 *   pinned           0 or 1: whether threads stay on their CPUs
 *   native_code      0: packages with function libraries or custom operators are refused
 *   trace            1: keep what penstock_write_trace() writes
 *   backend.NAME.KEY a setting of a backend
 * and for a model, which is otherwise run whole, once on each CPU of the process:
 *   backend          by which it is run ("onnxruntime")
 *   cut              a stage ends after this node or tensor; once for each cut
 *   devices          "cpu:0,cpu:1": of the stages
 * Plugins are found once in a process, at the first call.
 * Errors: of the file, of an option (named), of the engines; see penstock_code. */
PENSTOCK_API int32_t penstock_load(const char* path, const penstock_option* options,
                                   size_t option_count, penstock_pipeline** pipeline,
                                   penstock_error** error);
/* Cancels, and waits for the calls in progress. Results may outlive their pipeline. */
PENSTOCK_API void penstock_free(penstock_pipeline* pipeline);

/* What a start wants to be known: another engine than at the split, shared devices. NULL past the
 * end. */
PENSTOCK_API size_t penstock_warning_count(const penstock_pipeline* pipeline);
PENSTOCK_API const char* penstock_warning(const penstock_pipeline* pipeline, size_t index);

/* Inputs and outputs in the model's order, as they stay for the pipeline's life. A port's rank is
 * -1 where it is not known, its dtype 0 where that is not. NULL past the end. */
PENSTOCK_API size_t penstock_input_count(const penstock_pipeline* pipeline);
PENSTOCK_API const penstock_port* penstock_input(const penstock_pipeline* pipeline, size_t index);
PENSTOCK_API size_t penstock_output_count(const penstock_pipeline* pipeline);
PENSTOCK_API const penstock_port* penstock_output(const penstock_pipeline* pipeline, size_t index);

/* Timeouts are in nanoseconds. */
enum { PENSTOCK_NO_WAIT = 0, PENSTOCK_FOR_EVER = -1 };

/* One frame as it came out. */
typedef struct penstock_result penstock_result;

/* What a frame is pushed with besides its inputs. Zeros are the defaults; `size` is
 * sizeof(penstock_push_options). */
typedef struct penstock_push_options {
  size_t size;
  uint64_t tag;       /* The caller's own; its result gives it back. */
  uint64_t stream;    /* The sequence of frames that it is of. */
  int64_t timeout_ns; /* To wait for room; 0: as PENSTOCK_NO_WAIT. */
  int64_t
      within_ns; /* No stage begins with the frame later than this from now on; 0: max_age_ms. */
  int32_t high;  /* 1: before normal ones that wait to push. */
  int32_t unordered; /* 1: `done` is called as soon as the frame is, behind those of its stream. */
  /* NULL: the inputs are copied. Else they are read in place, and this is called once, by any
   * thread, when they are no longer needed; not at all where the push fails. It must not call
   * Penstock. */
  void (*release)(void* context);
  void* release_context;
  /* NULL: the frame comes out by penstock_pop(). Else this is called with it once, by a thread of
   * the pipeline's, and frees it; not at all where the push fails. It should be short, must not
   * wait for other frames, nor free the pipeline. */
  void (*done)(void* context, penstock_result* result);
  void* done_context;
} penstock_push_options;

/* Gives the pipeline a frame: one tensor for each input, in their order. `options` NULL: defaults,
 * but that it waits for room as long as it takes. `number` (0, 1, 2, ...; in which results come
 * out) may be NULL. Errors: INVALID_ARGUMENT  a count, type or shape is not the declared one, or a
 * tensor makes no sense: names the input; DEADLINE_EXCEEDED  no room in time; RESOURCE_EXHAUSTED no
 * room and policy error, or a stream too many; CANCELLED  closed, cancelled or stopped. */
PENSTOCK_API int32_t penstock_push(penstock_pipeline* pipeline, const penstock_tensor* inputs,
                                   size_t input_count, const penstock_push_options* options,
                                   uint64_t* number, penstock_error** error);

/* Without a copy: borrows the next frame's own inputs. `*inputs` are as many as there are inputs,
 * to be written at `data`, with the sizes of open dimensions, which arrive at their bounds, at
 * `dims`; then given by penstock_push_acquired(), or given back by penstock_release_input().
 * Between the two, pushes of other threads wait. Errors: as penstock_push(); UNIMPLEMENTED  an
 * input has no slots to write to (texts). */
PENSTOCK_API int32_t penstock_acquire_input(penstock_pipeline* pipeline, int64_t timeout_ns,
                                            penstock_tensor** inputs, penstock_error** error);
/* `options` as at penstock_push(), but for timeout_ns, high and release. Where it fails, the inputs
 * are given back. FAILED_PRECONDITION: none are borrowed. */
PENSTOCK_API int32_t penstock_push_acquired(penstock_pipeline* pipeline,
                                            const penstock_push_options* options, uint64_t* number,
                                            penstock_error** error);
PENSTOCK_API int32_t penstock_release_input(penstock_pipeline* pipeline, penstock_error** error);

/* The next frame in order, however it ended; NULL when the pipeline is closed and all are out.
 * Errors: DEADLINE_EXCEEDED  none came in time. */
PENSTOCK_API int32_t penstock_pop(penstock_pipeline* pipeline, int64_t timeout_ns,
                                  penstock_result** result, penstock_error** error);

/* One frame through the empty pipeline: `tag`, `stream` and `within_ns` of the options hold. The
 * result has its outputs as copies. Several threads may call it, none may push meanwhile.
 * Errors: the frame's own; FAILED_PRECONDITION  frames that were pushed are in flight. */
PENSTOCK_API int32_t penstock_run(penstock_pipeline* pipeline, const penstock_tensor* inputs,
                                  size_t input_count, const penstock_push_options* options,
                                  penstock_result** result, penstock_error** error);

/* No more input; frames in flight finish. */
PENSTOCK_API int32_t penstock_close(penstock_pipeline* pipeline, penstock_error** error);
/* Waits until all that was pushed can be popped, and until `done` of that has returned; in such a
 * callback for none. Errors: DEADLINE_EXCEEDED  not in time; FAILED_PRECONDITION  results that
 * nobody pops leave no room for the frames behind them. */
PENSTOCK_API int32_t penstock_drain(penstock_pipeline* pipeline, int64_t timeout_ns,
                                    penstock_error** error);
/* Stops now; frames in flight come out as cancelled. */
PENSTOCK_API int32_t penstock_cancel(penstock_pipeline* pipeline, penstock_error** error);
/* Nobody wants this frame: it comes out as cancelled, in its place. NOT_FOUND: it was too late, or
 * it was never pushed. */
PENSTOCK_API int32_t penstock_cancel_frame(penstock_pipeline* pipeline, uint64_t number,
                                           penstock_error** error);

/* Another package takes the frames pushed from now on, with the options of the load; nothing is
 * lost. Its inputs and outputs are the same ones. Where it fails, nothing changes. */
PENSTOCK_API int32_t penstock_replace(penstock_pipeline* pipeline, const char* path,
                                      penstock_error** error);
/* Another value of a constant that was split off as a parameter, for frames pushed from now on; in
 * the stage of that name, or everywhere where `stage` is NULL. It is copied. */
PENSTOCK_API int32_t penstock_set_parameter(penstock_pipeline* pipeline, const char* stage,
                                            const char* name, const penstock_tensor* value,
                                            penstock_error** error);

/* The plan as plan.json has it (docs/plan.md), to be freed by penstock_text_free(). */
PENSTOCK_API int32_t penstock_plan_json(const penstock_pipeline* pipeline, char** text,
                                        penstock_error** error);
PENSTOCK_API void penstock_text_free(char* text);
/* What each stage did when, for Perfetto. FAILED_PRECONDITION: loaded without trace=1. */
PENSTOCK_API int32_t penstock_write_trace(const penstock_pipeline* pipeline, const char* file,
                                          penstock_error** error);

/* ------------------------------------------------------------------------------------ Results */

typedef enum penstock_outcome {
  PENSTOCK_OUTCOME_OK = 0,       /* It has its outputs. */
  PENSTOCK_OUTCOME_ERROR = 1,    /* A stage failed, or its deadline passed. */
  PENSTOCK_OUTCOME_DROPPED = 2,  /* By a policy or a function. */
  PENSTOCK_OUTCOME_CANCELLED = 3 /* It, or the pipeline, was cancelled. */
} penstock_outcome;

PENSTOCK_API uint64_t penstock_result_number(const penstock_result* result);
PENSTOCK_API uint64_t penstock_result_tag(const penstock_result* result);
PENSTOCK_API uint64_t penstock_result_stream(const penstock_result* result);
PENSTOCK_API int32_t penstock_result_outcome(const penstock_result* result);
PENSTOCK_API int64_t penstock_result_latency_ns(const penstock_result* result); /* Push to pop. */
/* Why it has no outputs: names stage and frame. NULL where it has. Belongs to the result. */
PENSTOCK_API const penstock_error* penstock_result_error(const penstock_result* result);
/* As many as there are outputs, or 0 unless the outcome is OK. */
PENSTOCK_API size_t penstock_result_count(const penstock_result* result);
/* Output `index`, in the pipeline's own memory, until the result is freed.
 * Errors: OUT_OF_RANGE  no such output; UNIMPLEMENTED  it is no tensor (a sequence, a map). */
PENSTOCK_API int32_t penstock_result_tensor(const penstock_result* result, size_t index,
                                            penstock_tensor* tensor, penstock_error** error);
/* Gives the slot back; who holds many results holds the pipeline up. */
PENSTOCK_API void penstock_result_free(penstock_result* result);

/* ------------------------------------------------------------------------------------ Streams */

/* Sequences of frames, each with states of its own; stream 0 is always there. Functions of one
 * stream fail with FAILED_PRECONDITION while frames of it are in flight, and while
 * penstock_replace() waits for frames to end. */

/* The stream's next frame reads the states' initial values. */
PENSTOCK_API int32_t penstock_reset_stream(penstock_pipeline* pipeline, uint64_t stream,
                                           penstock_error** error);
/* The same for all streams, while no frame is in flight. */
PENSTOCK_API int32_t penstock_reset_states(penstock_pipeline* pipeline, penstock_error** error);
/* Forgets the stream: there is room for another one. */
PENSTOCK_API int32_t penstock_end_stream(penstock_pipeline* pipeline, uint64_t stream,
                                         penstock_error** error);

/* What a stream's next frame reads of its states, as copies. */
typedef struct penstock_states penstock_states;

PENSTOCK_API int32_t penstock_save_stream(penstock_pipeline* pipeline, uint64_t stream,
                                          penstock_states** states, penstock_error** error);
PENSTOCK_API size_t penstock_states_count(const penstock_states* states);
PENSTOCK_API const char* penstock_states_name(const penstock_states* states, size_t index);
PENSTOCK_API int32_t penstock_states_tensor(const penstock_states* states, size_t index,
                                            penstock_tensor* tensor, penstock_error** error);
PENSTOCK_API void penstock_states_free(penstock_states* states);
/* The stream's next frame reads these, all of them, which are copied. */
PENSTOCK_API int32_t penstock_restore_stream(penstock_pipeline* pipeline, uint64_t stream,
                                             const char* const* names,
                                             const penstock_tensor* values, size_t count,
                                             penstock_error** error);

/* --------------------------------------------------------------------------------- Statistics */

/* How things stood when it was taken. */
typedef struct penstock_statistics penstock_statistics;

typedef struct penstock_totals {
  uint64_t pushed, popped, ok, errors, drops, cancelled; /* Frames. */
  uint64_t streams, streams_evicted;                     /* Known now, and evicted so far. */
  uint64_t memory_bytes; /* Of the host, at most; UINT64_MAX where nothing bounds it. */
} penstock_totals;

/* Of a duration, within 3 %; all 0 before the first. */
typedef struct penstock_quantiles {
  uint64_t count;
  double p50_ns, p90_ns, p99_ns, max_ns;
} penstock_quantiles;

/* A stage, its replicas together. */
typedef struct penstock_stage_statistics {
  const char* name;
  const char* device;  /* "cpu:0,cpu:1" */
  const char* backend; /* "onnxruntime", several joined by "+". */
  int32_t replicas;
  int32_t lanes;                  /* Calls in flight, at most, of each replica. */
  uint64_t frames, errors, drops; /* Computed, failed, dropped here. */
  uint64_t surplus;               /* Rows of batched calls that were thrown away. */
  uint64_t copies, allocations;   /* Of tensors, since the start. */
  const uint64_t* calls;          /* [n - 1]: calls that held n frames. */
  size_t calls_count;
  /* From being ready to its start; binding; the backend's run; handing on; between memories. */
  penstock_quantiles queue, compute_input, compute_infer, compute_output, transfer;
} penstock_stage_statistics;

typedef struct penstock_edge_statistics {
  const char* name;   /* "stage0 -> stage1" */
  const char* policy; /* "block" */
  const char* memory; /* "host" */
  const char* const* tensors;
  size_t tensor_count;
  int32_t capacity;          /* Slots. */
  int32_t backend_allocated; /* 1: nothing bounds a tensor's shape, and `bytes` is 0. */
  uint64_t depth;            /* Frames in it now. */
  uint64_t drops;            /* By its policy. */
  uint64_t bytes;            /* Of its slots. */
} penstock_edge_statistics;

PENSTOCK_API int32_t penstock_take_statistics(const penstock_pipeline* pipeline,
                                              penstock_statistics** statistics,
                                              penstock_error** error);
PENSTOCK_API const penstock_totals* penstock_statistics_totals(
    const penstock_statistics* statistics);
PENSTOCK_API size_t penstock_statistics_stage_count(const penstock_statistics* statistics);
PENSTOCK_API const penstock_stage_statistics* penstock_statistics_stage(
    const penstock_statistics* statistics, size_t index);
PENSTOCK_API size_t penstock_statistics_edge_count(const penstock_statistics* statistics);
PENSTOCK_API const penstock_edge_statistics* penstock_statistics_edge(
    const penstock_statistics* statistics, size_t index);
PENSTOCK_API void penstock_statistics_free(penstock_statistics* statistics);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_C_PENSTOCK_H_ */
