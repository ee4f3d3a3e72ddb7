/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How staged.p4 accesses a register in BMv2, which runs one packet at a time in ingress: read,
 * DO_<access>, and write. Registers have no structures here, so each half of a pair has its own.
 */
#ifndef SML_P4_REGISTERS
#define SML_P4_REGISTERS

// A table with constant entries has their number as its size.
#define CONST_SIZE(n)

#define PAIR_REGISTER(name, size)                                                                  \
    register<bit<32>>(size) name##_lo;                                                             \
    register<bit<32>>(size) name##_hi;
#define WORD_REGISTER(name, size) register<bit<32>>(size) name;
#define PAIR_ACCESS(name, access)
#define WORD_ACCESS(name, access)
#define PAIR_FLAG(name, access)
#define WORD_FLAG(name, access)

#define EXECUTE_PAIR_OF(type, result, name, access, index)                                         \
    {                                                                                              \
        pair_t value;                                                                              \
        type answer;                                                                               \
        name##_lo.read(value.lo, (bit<32>)index);                                                  \
        name##_hi.read(value.hi, (bit<32>)index);                                                  \
        DO_##access                                                                                \
        name##_lo.write((bit<32>)index, value.lo);                                                 \
        name##_hi.write((bit<32>)index, value.hi);                                                 \
        result = answer;                                                                           \
    }
#define EXECUTE_WORD_OF(type, result, name, access, index)                                         \
    {                                                                                              \
        bit<32> value;                                                                             \
        type answer;                                                                               \
        name.read(value, (bit<32>)index);                                                          \
        DO_##access                                                                                \
        name.write((bit<32>)index, value);                                                         \
        result = answer;                                                                           \
    }
#define EXECUTE_PAIR(result, name, access, index)                                                  \
    EXECUTE_PAIR_OF(bit<32>, result, name, access, index)
#define EXECUTE_WORD(result, name, access, index)                                                  \
    EXECUTE_WORD_OF(bit<32>, result, name, access, index)
#define EXECUTE_PAIR_FLAG(result, name, access, index)                                             \
    EXECUTE_PAIR_OF(bit<1>, result, name, access, index)
#define EXECUTE_WORD_FLAG(result, name, access, index)                                             \
    EXECUTE_WORD_OF(bit<1>, result, name, access, index)

#define LANE_REGISTER(i)                                                                           \
    register<bit<32>>(2 * SML_SLOTS) lanes_##i##_lo;                                               \
    register<bit<32>>(2 * SML_SLOTS) lanes_##i##_hi;

// All lanes are stepped after the decision, without tables. BMv2 reads registers without a sign.
#define LANE_TABLES
#define EXECUTE_LANES(field, i, access)                                                            \
    {                                                                                              \
        lane_pair_t value;                                                                         \
        int<32> answer;                                                                            \
        bit<32> bits;                                                                              \
        lanes_##i##_lo.read(bits, (bit<32>)meta.buffer);                                           \
        value.lo = (int<32>)bits;                                                                  \
        lanes_##i##_hi.read(bits, (bit<32>)meta.buffer);                                           \
        value.hi = (int<32>)bits;                                                                  \
        DO_##access(i)                                                                             \
        lanes_##i##_lo.write((bit<32>)meta.buffer, (bit<32>)value.lo);                             \
        lanes_##i##_hi.write((bit<32>)meta.buffer, (bit<32>)value.hi);                             \
        hdr.lanes.field##i = answer;                                                               \
    }
#define EXECUTE_STORE(i) EXECUTE_LANES(a, i, lanes_store)
#define EXECUTE_ADD(i) EXECUTE_LANES(a, i, lanes_add)
#define EXECUTE_MAX(i) EXECUTE_LANES(a, i, lanes_max)
#define EXECUTE_REST(i) EXECUTE_LANES(b, i, lanes_rest)
#define OTHER_LANES                                                                                \
    if (step == STEP_STORE) {                                                                      \
        EACH_PAIR(EXECUTE_STORE)                                                                   \
    } else if (step == STEP_ADD32) {                                                               \
        EACH_PAIR(EXECUTE_ADD)                                                                     \
    } else if (step == STEP_MAX) {                                                                 \
        EACH_PAIR(EXECUTE_MAX)                                                                     \
    } else if (step == STEP_LOAD_REST) {                                                           \
        EACH_PAIR(EXECUTE_REST)                                                                    \
    }

#endif
