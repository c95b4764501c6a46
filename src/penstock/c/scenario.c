/* Calls penstock.h from C99; EXPECT ends a scenario with the text of what did not hold. */
#include "penstock/c/scenario.h"

#include <penstock.h>
#include <string.h>

#define TEXT_OF(x) #x
#define LINE_TEXT(line) TEXT_OF(line)
/* Ends the scenario with what did not hold. */
#define EXPECT(condition) \
  if (!(condition)) return "scenario.c:" LINE_TEXT(__LINE__) ": " #condition

enum { kWidth = 4 };

static penstock_pipeline* load(const char* path) {
  penstock_pipeline* pipeline = NULL;
  const penstock_option options[] = {{"capacity", "4"}};
  penstock_load(path, options, 1, &pipeline, NULL);
  return pipeline;
}

static penstock_tensor row_of(float* values, int64_t* dims) {
  penstock_tensor tensor = {PENSTOCK_F32, 1, NULL, NULL, 0};
  dims[0] = kWidth;
  tensor.dims = dims;
  tensor.data = values;
  tensor.capacity_bytes = kWidth * sizeof *values;
  return tensor;
}

static void fill(float* values, float number) {
  for (int i = 0; i < kWidth; ++i) values[i] = number;
}

static int32_t push(penstock_pipeline* pipeline, float number, penstock_error** error) {
  float values[kWidth];
  int64_t dims[1];
  fill(values, number);
  const penstock_tensor tensor = row_of(values, dims);
  return penstock_push(pipeline, &tensor, 1, NULL, NULL, error);
}

/* The first number of the result's only output; -1 where it has none. */
static float first_of(const penstock_result* result) {
  penstock_tensor tensor;
  if (penstock_result_tensor(result, 0, &tensor, NULL) != PENSTOCK_OK) return -1;
  return ((const float*)tensor.data)[0];
}

const char* penstock_scenario_frames_in_order(const char* package) {
  penstock_pipeline* pipeline = load(package);
  EXPECT(pipeline != NULL);
  EXPECT(penstock_input_count(pipeline) == 1);
  EXPECT(strcmp(penstock_input(pipeline, 0)->name, "x") == 0);
  EXPECT(penstock_input(pipeline, 0)->rank == 1);
  EXPECT(penstock_input(pipeline, 0)->dims[0].size == kWidth);
  EXPECT(strcmp(penstock_output(pipeline, 0)->name, "y") == 0);
  EXPECT(penstock_output(pipeline, 1) == NULL);
  for (int frame = 1; frame <= 3; ++frame)
    EXPECT(push(pipeline, (float)frame, NULL) == PENSTOCK_OK);
  EXPECT(penstock_close(pipeline, NULL) == PENSTOCK_OK);
  for (int frame = 1; frame <= 3; ++frame) {
    penstock_result* result = NULL;
    EXPECT(penstock_pop(pipeline, PENSTOCK_FOR_EVER, &result, NULL) == PENSTOCK_OK);
    EXPECT(penstock_result_number(result) == (uint64_t)frame - 1);
    EXPECT(penstock_result_count(result) == 1);
    EXPECT(first_of(result) == 2 * (float)frame);
    EXPECT(penstock_result_error(result) == NULL);
    EXPECT(penstock_result_latency_ns(result) > 0);
    penstock_result_free(result);
  }
  penstock_result* none = (penstock_result*)&none;
  EXPECT(penstock_pop(pipeline, PENSTOCK_FOR_EVER, &none, NULL) == PENSTOCK_OK);
  EXPECT(none == NULL);
  penstock_free(pipeline);
  return NULL;
}

const char* penstock_scenario_outcomes(const char* package) {
  penstock_pipeline* pipeline = load(package);
  EXPECT(push(pipeline, 0, NULL) == PENSTOCK_OK);
  EXPECT(push(pipeline, -1, NULL) == PENSTOCK_OK);
  EXPECT(push(pipeline, 1, NULL) == PENSTOCK_OK);
  penstock_result* results[3];
  for (int i = 0; i < 3; ++i) {
    EXPECT(penstock_pop(pipeline, PENSTOCK_FOR_EVER, &results[i], NULL) == PENSTOCK_OK);
  }
  EXPECT(penstock_result_outcome(results[0]) == PENSTOCK_OUTCOME_DROPPED);
  EXPECT(penstock_error_code(penstock_result_error(results[0])) == PENSTOCK_ABORTED);
  EXPECT(penstock_result_outcome(results[1]) == PENSTOCK_OUTCOME_ERROR);
  const penstock_error* error = penstock_result_error(results[1]);
  EXPECT(strcmp(penstock_error_reason(error), "negative") == 0);
  EXPECT(strcmp(penstock_error_place_kind(error, 0), "stage") == 0);
  EXPECT(strcmp(penstock_error_place_name(error, 0), "stage0") == 0);
  int frame = -1;
  for (size_t i = 0; i < penstock_error_place_count(error); ++i) {
    if (strcmp(penstock_error_place_kind(error, i), "frame") != 0) continue;
    EXPECT(penstock_error_place_name(error, i) == NULL);
    frame = (int)penstock_error_place_number(error, i);
  }
  EXPECT(frame == 1);
  EXPECT(penstock_error_place_kind(error, penstock_error_place_count(error)) == NULL);
  EXPECT(strstr(penstock_error_message(error), "frame 1") != NULL);
  EXPECT(penstock_result_count(results[1]) == 0);
  EXPECT(first_of(results[2]) == 2);
  penstock_free(pipeline); /* Results outlive it. */
  EXPECT(first_of(results[2]) == 2);
  for (int i = 0; i < 3; ++i) penstock_result_free(results[i]);
  return NULL;
}

const char* penstock_scenario_borrowed_inputs(const char* package) {
  penstock_pipeline* pipeline = load(package);
  for (int frame = 1; frame <= 20; ++frame) {
    penstock_tensor* inputs = NULL;
    EXPECT(penstock_acquire_input(pipeline, PENSTOCK_FOR_EVER, &inputs, NULL) == PENSTOCK_OK);
    EXPECT(inputs[0].capacity_bytes >= kWidth * sizeof(float));
    fill(inputs[0].data, (float)frame);
    penstock_push_options options = {.size = sizeof options};
    options.tag = (uint64_t)frame + 100;
    uint64_t number = 0;
    EXPECT(penstock_push_acquired(pipeline, &options, &number, NULL) == PENSTOCK_OK);
    EXPECT(number == (uint64_t)frame - 1);
    penstock_result* result = NULL;
    EXPECT(penstock_pop(pipeline, PENSTOCK_FOR_EVER, &result, NULL) == PENSTOCK_OK);
    EXPECT(first_of(result) == 2 * (float)frame);
    EXPECT(penstock_result_tag(result) == options.tag);
    penstock_result_free(result);
  }
  penstock_tensor* inputs = NULL;
  EXPECT(penstock_acquire_input(pipeline, PENSTOCK_NO_WAIT, &inputs, NULL) == PENSTOCK_OK);
  inputs[0].dims[0] = 1 << 20;
  EXPECT(penstock_push_acquired(pipeline, NULL, NULL, NULL) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_push_acquired(pipeline, NULL, NULL, NULL) == PENSTOCK_FAILED_PRECONDITION);
  EXPECT(penstock_acquire_input(pipeline, PENSTOCK_NO_WAIT, &inputs, NULL) == PENSTOCK_OK);
  EXPECT(penstock_release_input(pipeline, NULL) == PENSTOCK_OK);
  EXPECT(push(pipeline, 3, NULL) == PENSTOCK_OK); /* Nobody holds the turn to push. */
  penstock_free(pipeline);
  return NULL;
}

static void count_up(void* counter) {
  ++*(int*)counter;
}

const char* penstock_scenario_lent_memory(const char* package) {
  penstock_pipeline* pipeline = load(package);
  float values[kWidth];
  int64_t dims[1];
  int released = 0;
  fill(values, 5);
  penstock_tensor tensor = row_of(values, dims);
  penstock_push_options options = {.size = sizeof options};
  options.release = count_up;
  options.release_context = &released;
  EXPECT(penstock_push(pipeline, &tensor, 1, &options, NULL, NULL) == PENSTOCK_OK);
  penstock_result* result = NULL;
  EXPECT(penstock_pop(pipeline, PENSTOCK_FOR_EVER, &result, NULL) == PENSTOCK_OK);
  EXPECT(first_of(result) == 10);
  penstock_result_free(result);
  dims[0] = 1; /* Not the declared size: the memory stays the caller's. */
  EXPECT(penstock_push(pipeline, &tensor, 1, &options, NULL, NULL) == PENSTOCK_INVALID_ARGUMENT);
  penstock_free(pipeline);
  EXPECT(released == 1);
  return NULL;
}

struct answers {
  int count;
  float sum;
  int wrong;
};

static void take(void* context, penstock_result* result) {
  struct answers* answers = context;
  ++answers->count;
  answers->sum += first_of(result);
  answers->wrong += penstock_result_tag(result) != 7;
  penstock_result_free(result);
}

const char* penstock_scenario_callbacks(const char* package) {
  penstock_pipeline* pipeline = load(package);
  struct answers answers = {0, 0, 0};
  float values[kWidth];
  int64_t dims[1];
  const penstock_tensor tensor = row_of(values, dims);
  penstock_push_options options = {.size = sizeof options};
  options.timeout_ns = PENSTOCK_FOR_EVER;
  options.tag = 7;
  options.done = take;
  options.done_context = &answers;
  for (int frame = 1; frame <= 10; ++frame) {
    fill(values, (float)frame);
    EXPECT(penstock_push(pipeline, &tensor, 1, &options, NULL, NULL) == PENSTOCK_OK);
  }
  EXPECT(penstock_drain(pipeline, PENSTOCK_FOR_EVER, NULL) == PENSTOCK_OK);
  penstock_free(pipeline); /* All callbacks are over. */
  EXPECT(answers.count == 10 && answers.sum == 110 && answers.wrong == 0);
  return NULL;
}

const char* penstock_scenario_statistics(const char* package) {
  penstock_pipeline* pipeline = load(package);
  float values[kWidth];
  int64_t dims[1];
  fill(values, 4);
  const penstock_tensor tensor = row_of(values, dims);
  penstock_result* result = NULL;
  EXPECT(penstock_run(pipeline, &tensor, 1, NULL, &result, NULL) == PENSTOCK_OK);
  EXPECT(first_of(result) == 8);
  penstock_statistics* statistics = NULL;
  EXPECT(penstock_take_statistics(pipeline, &statistics, NULL) == PENSTOCK_OK);
  EXPECT(penstock_statistics_totals(statistics)->pushed == 1);
  EXPECT(penstock_statistics_totals(statistics)->ok == 1);
  EXPECT(penstock_statistics_stage_count(statistics) == 1);
  const penstock_stage_statistics* stage = penstock_statistics_stage(statistics, 0);
  EXPECT(strcmp(stage->name, "stage0") == 0);
  EXPECT(stage->frames == 1 && stage->compute_infer.count == 1);
  EXPECT(penstock_statistics_stage(statistics, 1) == NULL);
  EXPECT(penstock_statistics_edge_count(statistics) == 2);
  EXPECT(strcmp(penstock_statistics_edge(statistics, 0)->tensors[0], "x") == 0);
  EXPECT(penstock_statistics_edge(statistics, 0)->capacity == 4);
  penstock_free(pipeline);
  EXPECT(strcmp(stage->backend, "function") == 0); /* A snapshot of its own. */
  penstock_statistics_free(statistics);
  penstock_result_free(result);
  return NULL;
}

const char* penstock_scenario_open_dimensions(const char* items) {
  penstock_pipeline* pipeline = load(items);
  EXPECT(pipeline != NULL);
  const penstock_port* output = penstock_output(pipeline, 0);
  EXPECT(output->rank == 2 && output->dims[0].size == -1 && output->dims[0].bound == 8);
  EXPECT(strcmp(output->dims[0].symbol, "n") == 0);
  EXPECT(push(pipeline, 3, NULL) == PENSTOCK_OK);
  penstock_result* result = NULL;
  penstock_tensor tensor;
  EXPECT(penstock_pop(pipeline, PENSTOCK_FOR_EVER, &result, NULL) == PENSTOCK_OK);
  EXPECT(penstock_result_tensor(result, 0, &tensor, NULL) == PENSTOCK_OK);
  EXPECT(tensor.rank == 2 && tensor.dims[0] == 3 && tensor.dims[1] == kWidth);
  EXPECT(tensor.capacity_bytes == 3 * kWidth * sizeof(float));
  penstock_result_free(result);
  penstock_free(pipeline);
  return NULL;
}

/* The code of a push of `tensor`, whose error must name `part`; -1 where it does not. */
static int32_t refused(penstock_pipeline* pipeline, penstock_tensor tensor, const char* part) {
  penstock_error* error = NULL;
  const int32_t code = penstock_push(pipeline, &tensor, 1, NULL, NULL, &error);
  const int named = strstr(penstock_error_message(error), part) != NULL;
  penstock_error_free(error);
  return named ? code : -1;
}

const char* penstock_scenario_wrong_input(const char* package) {
  penstock_pipeline* pipeline = load(package);
  float values[kWidth] = {0};
  int64_t dims[2];
  const penstock_tensor right = row_of(values, dims);
  penstock_tensor wrong = right;
  wrong.dtype = PENSTOCK_I64;
  EXPECT(refused(pipeline, wrong, "32 bytes") == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(refused(pipeline, wrong, "of i64, where f32 is taken") == PENSTOCK_INVALID_ARGUMENT);
  wrong.dtype = PENSTOCK_I32;
  EXPECT(refused(pipeline, wrong, "f32[4]") == PENSTOCK_INVALID_ARGUMENT);
  wrong.dtype = 99;
  EXPECT(refused(pipeline, wrong, "99") == PENSTOCK_INVALID_ARGUMENT);
  wrong = right;
  wrong.data = NULL;
  EXPECT(refused(pipeline, wrong, "NULL") == PENSTOCK_INVALID_ARGUMENT);
  wrong = right;
  wrong.dims = NULL;
  EXPECT(refused(pipeline, wrong, "no sizes") == PENSTOCK_INVALID_ARGUMENT);
  wrong = right;
  wrong.rank = -1;
  EXPECT(refused(pipeline, wrong, "rank") == PENSTOCK_INVALID_ARGUMENT);
  wrong = right;
  wrong.rank = 2;
  dims[0] = dims[1] = (int64_t)1 << 40;
  EXPECT(refused(pipeline, wrong, "counted") == PENSTOCK_INVALID_ARGUMENT);
  dims[1] = -4;
  EXPECT(refused(pipeline, wrong, "-4") == PENSTOCK_INVALID_ARGUMENT);
  dims[0] = kWidth;
  penstock_error* error = NULL;
  EXPECT(penstock_push(pipeline, &right, 0, NULL, NULL, &error) == PENSTOCK_INVALID_ARGUMENT);
  penstock_error_free(error);
  penstock_push_options no_size = {0};
  EXPECT(penstock_push(pipeline, &right, 1, &no_size, NULL, NULL) == PENSTOCK_INVALID_ARGUMENT);
  values[0] = 1;
  EXPECT(push(pipeline, 1, NULL) == PENSTOCK_OK); /* It takes frames still. */
  penstock_free(pipeline);
  return NULL;
}

const char* penstock_scenario_null(void) {
  penstock_error* error = NULL;
  penstock_pipeline* pipeline = NULL;
  penstock_result* result = NULL;
  penstock_tensor tensor;
  EXPECT(penstock_load(NULL, NULL, 0, &pipeline, &error) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(strstr(penstock_error_message(error), "path") != NULL);
  penstock_error_free(error);
  EXPECT(penstock_load("x", NULL, 1, &pipeline, NULL) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_push(NULL, NULL, 0, NULL, NULL, NULL) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_pop(NULL, 0, &result, NULL) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_result_tensor(NULL, 0, &tensor, NULL) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_close(NULL, NULL) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_input(NULL, 0) == NULL && penstock_result_count(NULL) == 0);
  EXPECT(penstock_error_code(NULL) == 0 && penstock_error_place_kind(NULL, 0) == NULL);
  EXPECT(strcmp(penstock_error_code_name(NULL), "ok") == 0);
  penstock_free(NULL);
  penstock_result_free(NULL);
  penstock_error_free(NULL);
  penstock_states_free(NULL);
  penstock_statistics_free(NULL);
  penstock_text_free(NULL);
  return NULL;
}

/* The code of a load with one option, whose error must name `part`; -1 where it does not. */
static int32_t not_loaded(const char* path, const char* key, const char* value, const char* part) {
  penstock_pipeline* pipeline = NULL;
  penstock_error* error = NULL;
  const penstock_option option = {key, value};
  const int32_t code = penstock_load(path, &option, 1, &pipeline, &error);
  const int named = pipeline == NULL && strstr(penstock_error_message(error), part) != NULL;
  penstock_error_free(error);
  return named ? code : -1;
}

const char* penstock_scenario_errors(const char* package) {
  penstock_pipeline* pipeline = NULL;
  penstock_error* error = NULL;
  EXPECT(penstock_c_version() >= PENSTOCK_C_VERSION);
  EXPECT(penstock_load("/none.penstock.zip", NULL, 0, &pipeline, &error) == PENSTOCK_NOT_FOUND);
  EXPECT(penstock_error_code(error) == PENSTOCK_NOT_FOUND);
  EXPECT(strcmp(penstock_error_code_name(error), "not_found") == 0);
  penstock_error_free(error);
  EXPECT(not_loaded(package, "capacitty", "1", "'capacity'") == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(not_loaded(package, "capacity", "0", "1 to 1000000") == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(not_loaded(package, "capacity", "4x", "'4x'") == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(not_loaded(package, "max_age_ms", "soon", "soon") == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(not_loaded(package, "policy", "x", "drop_oldest") == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(not_loaded(package, "evict", "1", "'streams' beside it") == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(not_loaded(package, "cut", "a", "package") == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(not_loaded(package, "native_code", "0", "native") == PENSTOCK_PERMISSION_DENIED);
  EXPECT(not_loaded(package, "backend.none.x", "0", "none") == PENSTOCK_NOT_FOUND);
  pipeline = load(package);
  EXPECT(push(pipeline, 1, NULL) == PENSTOCK_OK);
  EXPECT(penstock_close(pipeline, NULL) == PENSTOCK_OK);
  EXPECT(push(pipeline, 1, &error) == PENSTOCK_CANCELLED);
  penstock_error_free(error);
  EXPECT(penstock_write_trace(pipeline, "/none", NULL) == PENSTOCK_FAILED_PRECONDITION);
  EXPECT(penstock_cancel_frame(pipeline, 99, NULL) == PENSTOCK_NOT_FOUND);
  penstock_free(pipeline);
  return NULL;
}
