/* SPDX-License-Identifier: BSD-3-Clause */
/* What to do with the lanes of a packet and those of the slot's buffer: sml_lane_combine(). */
#ifndef SML_P4_STEPS
#define SML_P4_STEPS

// Not every program uses all of them.
const bit<8> STEP_STORE = 0; // the first rank: stored = arrived
const bit<8> STEP_ADD32 = 1; // stored = arrived += stored
@noWarn("unused") const bit<8> STEP_ADD16 = 2; // the same, in 16-bit halves
const bit<8> STEP_MAX = 3;   // stored = arrived = the greater
@noWarn("unused") const bit<8> STEP_MAX16 = 7; // the same, in 16-bit halves
@noWarn("unused") const bit<8> STEP_LOAD = 4;  // arrived = stored: a result again
// Only in the staged form, in which a packet can see half of the stored lanes in each pass:
@noWarn("unused") const bit<8> STEP_NONE = 5;
@noWarn("unused") const bit<8> STEP_LOAD_REST = 6; // the second half of arrived = stored

#endif
