/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lanes of a packet in pairs, for the staged form (staged.p4): lane i of the first half and
 * lane i of the second half are two halves of one register, as a stateful ALU of Tofino has them.
 * Such an ALU changes both, but it answers with one: a pass that stores, adds or takes the greater
 * answers with the first half, and STEP_LOAD_REST with the second one. Pairs are numbered in octal,
 * because the preprocessor counts by joining digits.
 */
#ifndef SML_P4_LANES
#define SML_P4_LANES

#define PAIRS_OF_32_LANES(X)                                                                       \
    X(000) X(001) X(002) X(003) X(004) X(005) X(006) X(007) X(010) X(011) X(012) X(013)            \
    X(014) X(015) X(016) X(017)
#if SML_LANES == 32
#define EACH_PAIR(X) PAIRS_OF_32_LANES(X)
#elif SML_LANES == 40
#define EACH_PAIR(X) PAIRS_OF_32_LANES(X) X(020) X(021) X(022) X(023)
#elif SML_LANES == 64
#define EACH_PAIR(X)                                                                               \
    PAIRS_OF_32_LANES(X)                                                                           \
    X(020) X(021) X(022) X(023) X(024) X(025) X(026) X(027) X(030) X(031) X(032) X(033)            \
    X(034) X(035) X(036) X(037)
#else
#error the form with pairs of lanes has 32, 40 or 64 lanes
#endif

#define FIRST_FIELD(i) int<32> a##i;
#define REST_FIELD(i) int<32> b##i;
header lanes_t {
    EACH_PAIR(FIRST_FIELD)
    EACH_PAIR(REST_FIELD)
}

struct lane_pair_t {
    int<32> lo;
    int<32> hi;
}

// The rest of a list of fields.
#define FIRST_IN_LIST(i) , hdr.lanes.a##i
#define REST_IN_LIST(i) , hdr.lanes.b##i
#define AND_LANES EACH_PAIR(FIRST_IN_LIST) EACH_PAIR(REST_IN_LIST)

#define CLEAR_LANES(i)                                                                             \
    hdr.lanes.a##i = 0;                                                                            \
    hdr.lanes.b##i = 0;

// What registers do. `value` is the pair, and `answer` is what the packet gets.
#define DO_lanes_store(i) value.lo = hdr.lanes.a##i; value.hi = hdr.lanes.b##i; answer = value.lo;
#define DO_lanes_add(i)                                                                            \
    value.lo = value.lo + hdr.lanes.a##i;                                                          \
    value.hi = value.hi + hdr.lanes.b##i;                                                          \
    answer = value.lo;
#define DO_lanes_max(i)                                                                            \
    if (value.lo < hdr.lanes.a##i) {                                                               \
        value.lo = hdr.lanes.a##i;                                                                 \
    }                                                                                              \
    if (value.hi < hdr.lanes.b##i) {                                                               \
        value.hi = hdr.lanes.b##i;                                                                 \
    }                                                                                              \
    answer = value.lo;
#define DO_lanes_rest(i) answer = value.hi;

#endif
