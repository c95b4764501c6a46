/* Four functions in one library. Start your own from here: scale (stateless, with a setting), count
 * (stateful), scatter (one frame, several items) and sum (items back to one frame). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penstock/function/penstock_function.h"

enum { kWidth = 4, kMostItems = 8 };

static const penstock_dim kRow[] = {{kWidth, NULL, -1}};
static const penstock_dim kOne[] = {{1, NULL, -1}};
static const penstock_dim kItems[] = {{-1, "n", kMostItems}, {kWidth, NULL, -1}};

static const penstock_port kX = {"x", PENSTOCK_F32, 1, kRow};
static const penstock_port kY = {"y", PENSTOCK_F32, 1, kRow};
static const penstock_port kNumber = {"number", PENSTOCK_I64, 1, kOne};
static const penstock_port kList = {"items", PENSTOCK_F32, 2, kItems};

static int32_t answer(int32_t result, char* message, size_t bytes, const char* text) {
  snprintf(message, bytes, "%s", text);
  return result;
}

/* y = factor x; the state is the factor. A frame of zeros is dropped, a negative one refused. */
static int32_t create_scale(const penstock_option* options, size_t count, void** state,
                            char* message, size_t bytes) {
  float* factor = malloc(sizeof *factor);
  if (factor == NULL) return answer(PENSTOCK_ERROR, message, bytes, "out of memory");
  *factor = 2;
  for (size_t i = 0; i < count; ++i) {
    char* end = NULL;
    const int known = strcmp(options[i].key, "factor") == 0;
    if (known) *factor = strtof(options[i].value, &end);
    if (known && end != options[i].value && *end == '\0') continue;
    snprintf(
        message, bytes,
        known ? "factor: expected a number, found '%s'" : "unknown setting '%s'; there is 'factor'",
        known ? options[i].value : options[i].key);
    free(factor);
    return PENSTOCK_ERROR;
  }
  *state = factor;
  return PENSTOCK_OK;
}

static int32_t run_scale(void* state, penstock_frame* frame) {
  const float factor = *(const float*)state;
  const float* x = frame->inputs[0].data;
  float* y = frame->outputs[0].data;
  int zero = 1;
  for (int i = 0; i < kWidth; ++i) {
    if (x[i] < 0) return answer(PENSTOCK_ERROR, frame->message, frame->message_bytes, "negative");
    zero = zero && x[i] == 0;
    y[i] = factor * x[i];
  }
  return zero ? answer(PENSTOCK_DROP, frame->message, frame->message_bytes, "all zero")
              : PENSTOCK_OK;
}

/* number = how many frames it has seen. */
static int32_t create_count(const penstock_option* options, size_t count, void** state,
                            char* message, size_t bytes) {
  (void)options;
  (void)count;
  *state = calloc(1, sizeof(int64_t));
  return *state != NULL ? PENSTOCK_OK : answer(PENSTOCK_ERROR, message, bytes, "out of memory");
}

static int32_t run_count(void* state, penstock_frame* frame) {
  int64_t* number = frame->outputs[0].data;
  *number = ++*(int64_t*)state;
  return PENSTOCK_OK;
}

/* As many items as x[0] says, at most kMostItems: item k is x + k. */
static int32_t run_scatter(void* state, penstock_frame* frame) {
  (void)state;
  const float* x = frame->inputs[0].data;
  float* items = frame->outputs[0].data;
  const float most = kMostItems; /* Compared before the cast, for x may be any float. */
  const int64_t count = x[0] >= most ? kMostItems : x[0] > 0 ? (int64_t)x[0] : 0;
  for (int64_t k = 0; k < count; ++k) {
    for (int i = 0; i < kWidth; ++i) items[k * kWidth + i] = x[i] + (float)k;
  }
  frame->outputs[0].dims[0] = count;
  return PENSTOCK_OK;
}

/* y = the sum of the items. */
static int32_t run_sum(void* state, penstock_frame* frame) {
  (void)state;
  const penstock_tensor* items = &frame->inputs[0];
  const float* values = items->data;
  float* y = frame->outputs[0].data;
  memset(y, 0, kWidth * sizeof *y);
  for (int64_t k = 0; k < items->dims[0]; ++k) {
    for (int i = 0; i < kWidth; ++i) y[i] += values[k * kWidth + i];
  }
  return PENSTOCK_OK;
}

static const penstock_function kFunctions[] = {
    {"scale", 0, 1, &kX, 1, &kY, create_scale, free, run_scale},
    {"count", 1, 1, &kX, 1, &kNumber, create_count, free, run_count},
    {"scatter", 0, 1, &kX, 1, &kList, NULL, NULL, run_scatter},
    {"sum", 0, 1, &kList, 1, &kY, NULL, NULL, run_sum},
};

#ifndef EXAMPLE_VERSION /* Tests build another. */
#define EXAMPLE_VERSION PENSTOCK_FUNCTION_VERSION
#endif

const penstock_library* penstock_functions(void) {
  static const penstock_library library = {EXAMPLE_VERSION, sizeof kFunctions / sizeof *kFunctions,
                                           kFunctions};
  return &library;
}
