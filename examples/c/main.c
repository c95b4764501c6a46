/* Runs a package or a model over a stream of frames: all zeros but for their number. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <penstock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(penstock_error* error) {
  fprintf(stderr, "frames: %s\n", penstock_error_message(error));
  for (size_t i = 0; i < penstock_error_place_count(error); ++i) {
    const char* name = penstock_error_place_name(error, i);
    fprintf(stderr, "  %s ", penstock_error_place_kind(error, i));
    name ? fprintf(stderr, "%s\n", name)
         : fprintf(stderr, "%" PRIu64 "\n", penstock_error_place_number(error, i));
  }
  penstock_error_free(error);
  return 1;
}

/* Fills every input in place, in the pipeline's own memory: nothing is copied. Open dimensions keep
 * their bound. */
static int32_t push(penstock_pipeline* pipeline, int frame, int64_t timeout_ns,
                    penstock_error** error) {
  penstock_tensor* inputs = NULL;
  const int32_t code = penstock_acquire_input(pipeline, timeout_ns, &inputs, error);
  if (code != PENSTOCK_OK) return code;
  for (size_t i = 0; i < penstock_input_count(pipeline); ++i) {
    memset(inputs[i].data, 0, inputs[i].capacity_bytes);
    if (inputs[i].dtype != PENSTOCK_F32) continue;
    float* values = inputs[i].data;
    for (uint64_t k = 0; k < inputs[i].capacity_bytes / sizeof *values; ++k)
      values[k] = (float)frame;
  }
  return penstock_push_acquired(pipeline, NULL, NULL, error);
}

static void print(const penstock_pipeline* pipeline, const penstock_result* result) {
  printf("frame %" PRIu64 ":", penstock_result_number(result));
  if (penstock_result_error(result)) {
    printf(" %s", penstock_error_message(penstock_result_error(result)));
  }
  for (size_t i = 0; i < penstock_result_count(result); ++i) {
    penstock_tensor tensor;
    if (penstock_result_tensor(result, i, &tensor, NULL) != PENSTOCK_OK) continue;
    printf(" %s", penstock_output(pipeline, i)->name);
    if (tensor.dtype == PENSTOCK_F32) printf(" = %g ...", ((const float*)tensor.data)[0]);
  }
  printf("\n");
}

/* Pushes while there is room, which a pop makes where there is none: it waits for room only while no
 * frame is in the pipeline. How many have room is the package's own, one perhaps. */
static int32_t fill(penstock_pipeline* pipeline, int frames, int popped, int* pushed,
                    penstock_error** error) {
  while (*pushed < frames) {
    const int waits = *pushed == popped;
    penstock_error* full = NULL;
    const int32_t code =
        push(pipeline, *pushed, waits ? PENSTOCK_FOR_EVER : PENSTOCK_NO_WAIT, &full);
    if (code == PENSTOCK_DEADLINE_EXCEEDED && !waits) {
      penstock_error_free(full);
      return PENSTOCK_OK;
    }
    *error = full;
    if (code != PENSTOCK_OK) return code;
    ++*pushed;
  }
  return PENSTOCK_OK;
}

/* One thread is enough. */
static int32_t run(penstock_pipeline* pipeline, int frames, penstock_error** error) {
  for (int popped = 0, pushed = 0; popped < frames; ++popped) {
    int32_t code = fill(pipeline, frames, popped, &pushed, error);
    if (code != PENSTOCK_OK) return code;
    penstock_result* result = NULL;
    code = penstock_pop(pipeline, PENSTOCK_FOR_EVER, &result, error);
    if (code != PENSTOCK_OK) return code;
    print(pipeline, result);
    penstock_result_free(result);
  }
  return PENSTOCK_OK;
}

/* -1 where it is none. */
static int number_in(const char* text) {
  char* end = NULL;
  errno = 0;
  const long number = strtol(text, &end, 10);
  const int is_whole = end != text && *end == '\0' && errno == 0;
  return is_whole && number >= 0 && number <= INT_MAX ? (int)number : -1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: frames MODEL_OR_PACKAGE FRAMES\n");
    return 2;
  }
  const int frames = number_in(argv[2]);
  if (frames < 0) {
    fprintf(stderr, "frames: FRAMES: expected a whole number from 0 to %d, found '%s'\n", INT_MAX,
            argv[2]);
    return 2;
  }
  penstock_pipeline* pipeline = NULL;
  penstock_error* error = NULL;
  if (penstock_load(argv[1], NULL, 0, &pipeline, &error) != PENSTOCK_OK) return fail(error);
  const int32_t code = run(pipeline, frames, &error);
  penstock_free(pipeline);
  return code == PENSTOCK_OK ? 0 : fail(error);
}
