/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How staged.p4 accesses a register in Tofino: a stateful ALU runs DO_<access>.
 */
#ifndef SML_P4_REGISTERS
#define SML_P4_REGISTERS

// Of a table with constant entries.
#define CONST_SIZE(n) size = n;

#define PAIR_REGISTER(name, size) Register<pair_t, bit<16>>(size) name;
#define WORD_REGISTER(name, size) Register<bit<32>, bit<16>>(size) name;
#define ACCESS(type, answer_type, name, access)                                                    \
    RegisterAction<type, bit<16>, answer_type>(name) access = {                                    \
        void apply(inout type value, out answer_type answer) {                                     \
            DO_##access                                                                            \
        }                                                                                          \
    };
#define PAIR_ACCESS(name, access) ACCESS(pair_t, bit<32>, name, access)
#define WORD_ACCESS(name, access) ACCESS(bit<32>, bit<32>, name, access)
// The same with one bit as the answer.
#define PAIR_FLAG(name, access) ACCESS(pair_t, bit<1>, name, access)
#define WORD_FLAG(name, access) ACCESS(bit<32>, bit<1>, name, access)
#define EXECUTE_PAIR(result, name, access, index) result = access.execute(index);
#define EXECUTE_WORD EXECUTE_PAIR
#define EXECUTE_PAIR_FLAG EXECUTE_PAIR
#define EXECUTE_WORD_FLAG EXECUTE_PAIR

#define LANE_ACCESS(i, access)                                                                     \
    RegisterAction<lane_pair_t, bit<16>, int<32>>(lanes_##i) access##_##i = {                      \
        void apply(inout lane_pair_t value, out int<32> answer) {                                  \
            DO_##access(i)                                                                         \
        }                                                                                          \
    };
#define LANE_REGISTER(i)                                                                           \
    Register<lane_pair_t, bit<16>>(2 * SML_SLOTS) lanes_##i;                                       \
    LANE_ACCESS(i, lanes_store)                                                                    \
    LANE_ACCESS(i, lanes_add)                                                                      \
    LANE_ACCESS(i, lanes_max)                                                                      \
    LANE_ACCESS(i, lanes_rest)
#define LANE_TABLE(i)                                                                              \
    action store_##i() {                                                                           \
        EXECUTE_STORE(i)                                                                           \
    }                                                                                              \
    action add_##i() {                                                                             \
        EXECUTE_ADD(i)                                                                             \
    }                                                                                              \
    action max_##i() {                                                                             \
        EXECUTE_MAX(i)                                                                             \
    }                                                                                              \
    action rest_##i() {                                                                            \
        EXECUTE_REST(i)                                                                            \
    }                                                                                              \
    table step_##i {                                                                               \
        key = {                                                                                    \
            step: exact;                                                                           \
        }                                                                                          \
        actions = { store_##i; add_##i; max_##i; rest_##i; @defaultonly NoAction; }                \
        const default_action = NoAction();                                                         \
        const entries = {                                                                          \
            STEP_STORE: store_##i();                                                               \
            STEP_ADD32: add_##i();                                                                 \
            STEP_MAX: max_##i();                                                                   \
            STEP_LOAD_REST: rest_##i();                                                            \
        }                                                                                          \
        size = 4;                                                                                  \
    }

#define EXECUTE_STORE(i) hdr.lanes.a##i = lanes_store_##i.execute(meta.buffer);
#define EXECUTE_ADD(i) hdr.lanes.a##i = lanes_add_##i.execute(meta.buffer);
#define EXECUTE_MAX(i) hdr.lanes.a##i = lanes_max_##i.execute(meta.buffer);
#define EXECUTE_REST(i) hdr.lanes.b##i = lanes_rest_##i.execute(meta.buffer);
#define APPLY_STEP(i) step_##i.apply();
#define OTHER_LANES EACH_PAIR(APPLY_STEP)
#define LANE_TABLES EACH_PAIR(LANE_TABLE)

#endif
