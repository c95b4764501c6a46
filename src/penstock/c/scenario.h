/* What c_test.cc asks of penstock.h, in C. Each answers NULL, or what was not as expected.
 * `package` holds "scale" of examples/function/example.c: y = 2 x over f32[4]; zeros are dropped,
 * negative ones are errors. `items` holds "scatter": f32[n<=8,4]. */
#ifndef PENSTOCK_C_SCENARIO_H_
#define PENSTOCK_C_SCENARIO_H_

#ifdef __cplusplus
extern "C" {
#endif

const char* penstock_scenario_frames_in_order(const char* package);
const char* penstock_scenario_outcomes(const char* package);
const char* penstock_scenario_borrowed_inputs(const char* package);
const char* penstock_scenario_lent_memory(const char* package);
const char* penstock_scenario_callbacks(const char* package);
const char* penstock_scenario_statistics(const char* package);
const char* penstock_scenario_open_dimensions(const char* items);
const char* penstock_scenario_wrong_input(const char* package);
const char* penstock_scenario_null(void);
const char* penstock_scenario_errors(const char* package);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_C_SCENARIO_H_ */
