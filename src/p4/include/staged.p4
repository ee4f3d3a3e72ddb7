/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slot's step, sml_slot_step() of core/slot.h, for a pipeline of stages: a register belongs to
 * one stage, a packet can access it once while it passes, and each access is one read and write of
 * at most two words, with at most two comparisons, which answers with one word. That is what a
 * Tofino can do (p4/tna/switchml.p4). BMv2 runs it, too (-DSML_STAGED), and there tests compare it
 * with core/slot.h.
 *
 *	stage	registers				answers
 *	0	(tables only: job, rank, member, place)
 *	1	slot_use, slot_begins, slot_incarnation	which use the buffer has; does this one begin?
 *	2	slot_digest, slot_about, tickets	is it the same tensor?
 *	3	slot_seen_0, slot_seen_1		is the rank in already?
 *		slot_ticket, slot_last_rank
 *	4 …	lanes
 *
 * Whether a use is complete is known only after stage 3, and half of the lanes can be read in a
 * pass. So a packet can pass more than once (meta.next_pass):
 *
 *	FIRST ----------- the last rank ------------------> FINISH -> result to all, or to one rank
 *	  |  \                                                ^
 *	  |   `-- all are in already: a duplicate --> LOAD ---+
 *	  `------ another tensor --> MISMATCH -> to the daemon
 *
 * FINISH makes the use complete and draws its ticket; the use's later FINISHes resend. A packet can
 * be lost before its FINISH. Then all ranks are in but the use is not complete, and the FINISH of
 * the next duplicate completes it.
 *
 * slot_use is the pair (s, incarnation). s = use: FILLING. s = use + 1: COMPLETE. A buffer's uses
 * all have its parity, so s tells which. Another incarnation: FRESH. slot_begins is the same
 * register once more, because an access has one answer.
 *
 * A target defines, before it includes this file: lanes_t, and in registers.p4 how to access a
 * register.
 */
#ifndef SML_P4_SLOT
#define SML_P4_SLOT

struct pair_t {
    bit<32> lo;
    bit<32> hi;
}

// A packet of use u that begins finds s = u - 1, and one that completes finds s = u: both are
// meta.expected, and make it 1 more.
#define DO_use_first                                                                               \
    answer = value.lo;                                                                             \
    if (value.hi != meta.incarnation || value.lo == meta.expected) {                               \
        value.lo = meta.expected + 1;                                                              \
        value.hi = meta.incarnation;                                                               \
    }
#define DO_use_later                                                                               \
    answer = value.lo;                                                                             \
    if (value.hi == meta.incarnation && value.lo == meta.expected) {                               \
        value.lo = meta.expected + 1;                                                              \
    }
#define DO_begins_first                                                                            \
    answer = 0;                                                                                    \
    if (value.hi != meta.incarnation || value.lo == meta.expected) {                               \
        answer = 1;                                                                                \
        value.lo = meta.expected + 1;                                                              \
        value.hi = meta.incarnation;                                                               \
    }
#define DO_begins_later                                                                            \
    answer = 0;                                                                                    \
    if (value.hi == meta.incarnation && value.lo == meta.expected) {                               \
        answer = 1;                                                                                \
        value.lo = meta.expected + 1;                                                              \
    }
#define DO_fresh_first                                                                             \
    answer = 0;                                                                                    \
    if (value != meta.incarnation) {                                                               \
        answer = 1;                                                                                \
    }                                                                                              \
    value = meta.incarnation;
#define DO_fresh_later                                                                             \
    answer = 0;                                                                                    \
    if (value != meta.incarnation) {                                                               \
        answer = 1;                                                                                \
    }
// (digest, chunk)
#define DO_digest_begin value.lo = hdr.sml.digest; value.hi = hdr.sml.chunk; answer = 1;
#define DO_digest_compare                                                                          \
    answer = 0;                                                                                    \
    if (value.lo == hdr.sml.digest) {                                                              \
        answer = 1;                                                                                \
    }
#define DO_digest_load answer = value.lo;
#define DO_digest_chunk answer = value.hi;
// (operation, the first rank)
#define DO_about_begin value.lo = (bit<32>)hdr.sml.op; value.hi = (bit<32>)hdr.sml.rank; answer = 1;
#define DO_about_compare                                                                           \
    answer = 0;                                                                                    \
    if (value.lo == (bit<32>)hdr.sml.op) {                                                         \
        answer = 1;                                                                                \
    }
#define DO_about_load answer = value.lo;
#define DO_about_rank answer = value.hi;
// (the last ticket drawn, incarnation)
#define DO_ticket_draw                                                                             \
    if (value.hi != meta.incarnation) {                                                            \
        value.lo = meta.first_ticket;                                                              \
        value.hi = meta.incarnation;                                                               \
    } else {                                                                                       \
        value.lo = value.lo + 1;                                                                   \
    }                                                                                              \
    answer = value.lo;
#define DO_seen_0_begin value = meta.rank_bit_0; answer = 0;
#define DO_seen_0_join answer = value; value = value | meta.rank_bit_0;
#define DO_seen_0_read answer = value;
#define DO_seen_1_begin value = meta.rank_bit_1; answer = 0;
#define DO_seen_1_join answer = value; value = value | meta.rank_bit_1;
#define DO_seen_1_read answer = value;
#define DO_ticket_write value = ticket; answer = value;
#define DO_ticket_read answer = value;
#define DO_last_write value = (bit<32>)hdr.sml.rank; answer = value;
#define DO_last_read answer = value;

// What a packet is to its buffer.
const bit<8> PHASE_OTHER = 0;   // of another use, or nothing of a use
const bit<8> PHASE_BEGINS = 1;  // the use begins
const bit<8> PHASE_JOINS = 2;   // of the use that the buffer has, and the same tensor
const bit<8> PHASE_DIFFERS = 3; // of that use, and another tensor

// Numbers of ranks in octal, by the word of `seen` that has their bit.
#define EACH_OF_8(X, d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7)
#define EACH_RANK_0(X) EACH_OF_8(X, 0) EACH_OF_8(X, 1) EACH_OF_8(X, 2) EACH_OF_8(X, 3)
#define EACH_RANK_1(X) EACH_OF_8(X, 4) EACH_OF_8(X, 5) EACH_OF_8(X, 6) EACH_OF_8(X, 7)
// The rank's bit is not set.
#define NOT_IN(i) 32w0 &&& (32w1 << (8w0o##i & 31))

control SlotStep(inout headers_t hdr, inout metadata_t meta) {
    PAIR_REGISTER(slot_use, 2 * SML_SLOTS)
    PAIR_REGISTER(slot_begins, 2 * SML_SLOTS)
    WORD_REGISTER(slot_incarnation, 2 * SML_SLOTS)
    PAIR_REGISTER(slot_digest, 2 * SML_SLOTS)
    PAIR_REGISTER(slot_about, 2 * SML_SLOTS)
    PAIR_REGISTER(tickets, 2 * SML_MAX_JOBS)
    WORD_REGISTER(slot_seen_0, 2 * SML_SLOTS)
    WORD_REGISTER(slot_seen_1, 2 * SML_SLOTS)
    WORD_REGISTER(slot_ticket, 2 * SML_SLOTS)
    WORD_REGISTER(slot_last_rank, 2 * SML_SLOTS)

    bit<32> held;   // s, before this packet
    bit<1> begins; // 1: the use begins, or (FINISH) becomes complete
    bit<1> fresh;  // 1: the buffer was FRESH
    bit<32> ahead;  // held - use
    bit<1> same_digest;
    bit<1> same_about;
    bit<32> seen_0; // before this packet; 0 when the use begins
    bit<32> seen_1;
    bit<32> missing_0; // after it
    bit<32> missing_1;
    bit<32> ticket;
    bit<32> last_rank;
    bit<32> about;
    bit<8> phase;
    bit<8> step;
    bit<8> is_new;

    PAIR_ACCESS(slot_use, use_first)
    PAIR_ACCESS(slot_use, use_later)
    PAIR_FLAG(slot_begins, begins_first)
    PAIR_FLAG(slot_begins, begins_later)
    WORD_FLAG(slot_incarnation, fresh_first)
    WORD_FLAG(slot_incarnation, fresh_later)
    PAIR_FLAG(slot_digest, digest_begin)
    PAIR_FLAG(slot_digest, digest_compare)
    PAIR_ACCESS(slot_digest, digest_load)
    PAIR_ACCESS(slot_digest, digest_chunk)
    PAIR_FLAG(slot_about, about_begin)
    PAIR_FLAG(slot_about, about_compare)
    PAIR_ACCESS(slot_about, about_load)
    PAIR_ACCESS(slot_about, about_rank)
    PAIR_ACCESS(tickets, ticket_draw)
    WORD_ACCESS(slot_seen_0, seen_0_begin)
    WORD_ACCESS(slot_seen_0, seen_0_join)
    WORD_ACCESS(slot_seen_0, seen_0_read)
    WORD_ACCESS(slot_seen_1, seen_1_begin)
    WORD_ACCESS(slot_seen_1, seen_1_join)
    WORD_ACCESS(slot_seen_1, seen_1_read)
    WORD_ACCESS(slot_ticket, ticket_write)
    WORD_ACCESS(slot_ticket, ticket_read)
    WORD_ACCESS(slot_last_rank, last_write)
    WORD_ACCESS(slot_last_rank, last_read)
    EACH_PAIR(LANE_REGISTER)

    LANE_TABLES

    action clear_lanes() {
        EACH_PAIR(CLEAR_LANES)
    }

    // ---- stage 1: which use has the buffer, and does this packet begin or complete one? ----
    // A register has a table of its own, because an action accesses one register. There are no
    // conditions, because Tofino's assembler does not see that their branches exclude each other.

    action use_by_first() {
        EXECUTE_PAIR(held, slot_use, use_first, meta.buffer)
    }

    action use_by_later() {
        EXECUTE_PAIR(held, slot_use, use_later, meta.buffer)
    }

    action begins_by_first() {
        EXECUTE_PAIR_FLAG(begins, slot_begins, begins_first, meta.buffer)
    }

    action begins_by_later() {
        EXECUTE_PAIR_FLAG(begins, slot_begins, begins_later, meta.buffer)
    }

    action fresh_by_first() {
        EXECUTE_WORD_FLAG(fresh, slot_incarnation, fresh_first, meta.buffer)
    }

    action fresh_by_later() {
        EXECUTE_WORD_FLAG(fresh, slot_incarnation, fresh_later, meta.buffer)
    }

    // A FRESH buffer begins only with use 0 or 1, by its parity.
#define USE_TABLE(name, first, later)                                                              \
    table name {                                                                                   \
        key = {                                                                                    \
            meta.pass: ternary;                                                                    \
            meta.is_use_first: ternary;                                                            \
        }                                                                                          \
        actions = { first; later; @defaultonly NoAction; }                                         \
        const default_action = NoAction();                                                         \
        const entries = {                                                                          \
            (PASS_FIRST, 1): first();                                                              \
            (PASS_FIRST, _): later();                                                              \
            (PASS_FINISH, _): later();                                                             \
        }                                                                                          \
        CONST_SIZE(4)                                                                              \
    }
    USE_TABLE(find_use, use_by_first, use_by_later)
    USE_TABLE(find_begins, begins_by_first, begins_by_later)
    USE_TABLE(find_fresh, fresh_by_first, fresh_by_later)

    // ---- stage 2: the tensor ----

    action begin_digest() {
        EXECUTE_PAIR_FLAG(same_digest, slot_digest, digest_begin, meta.buffer)
    }

    action compare_digest() {
        EXECUTE_PAIR_FLAG(same_digest, slot_digest, digest_compare, meta.buffer)
    }

    action load_digest() {
        EXECUTE_PAIR(hdr.sml.digest, slot_digest, digest_load, meta.buffer)
    }

    action load_chunk() {
        EXECUTE_PAIR(hdr.sml.chunk, slot_digest, digest_chunk, meta.buffer)
    }

    action begin_about() {
        EXECUTE_PAIR_FLAG(same_about, slot_about, about_begin, meta.buffer)
    }

    action compare_about() {
        EXECUTE_PAIR_FLAG(same_about, slot_about, about_compare, meta.buffer)
    }

    action load_about() {
        EXECUTE_PAIR(about, slot_about, about_load, meta.buffer)
    }

    action load_first_rank() {
        EXECUTE_PAIR(about, slot_about, about_rank, meta.buffer)
    }

#define TENSOR_TABLE(name, begin, compare, load, load_for_daemon)                                  \
    table name {                                                                                   \
        key = {                                                                                    \
            meta.pass: ternary;                                                                    \
            begins: ternary;                                                                       \
        }                                                                                          \
        actions = { begin; compare; load; load_for_daemon; @defaultonly NoAction; }                \
        const default_action = NoAction();                                                         \
        const entries = {                                                                          \
            (PASS_FIRST, 1): begin();                                                              \
            (PASS_FIRST, _): compare();                                                            \
            (PASS_FINISH, _): load();                                                              \
            (PASS_MISMATCH, _): load_for_daemon();                                                 \
        }                                                                                          \
        CONST_SIZE(4)                                                                              \
    }
    TENSOR_TABLE(find_digest, begin_digest, compare_digest, load_digest, load_chunk)
    TENSOR_TABLE(find_about, begin_about, compare_about, load_about, load_first_rank)

    // ---- stage 3: what the packet is to its buffer, which ranks are in, and the ticket ----

    action write_ticket() {
        EXECUTE_WORD(ticket, slot_ticket, ticket_write, meta.buffer)
    }

    action read_ticket() {
        EXECUTE_WORD(ticket, slot_ticket, ticket_read, meta.buffer)
    }

    action write_last_rank() {
        EXECUTE_WORD(last_rank, slot_last_rank, last_write, meta.buffer)
    }

    action read_last_rank() {
        EXECUTE_WORD(last_rank, slot_last_rank, last_read, meta.buffer)
    }

#define FINISH_TABLE(name, write, read)                                                            \
    table name {                                                                                   \
        key = {                                                                                    \
            meta.pass: ternary;                                                                    \
            begins: ternary;                                                                       \
        }                                                                                          \
        actions = { write; read; @defaultonly NoAction; }                                          \
        const default_action = NoAction();                                                         \
        const entries = {                                                                          \
            (PASS_FINISH, 1): write();                                                             \
            (PASS_FINISH, _): read();                                                              \
        }                                                                                          \
        CONST_SIZE(4)                                                                              \
    }
    FINISH_TABLE(find_ticket, write_ticket, read_ticket)
    FINISH_TABLE(find_last_rank, write_last_rank, read_last_rank)

    action phase_begins() {
        phase = PHASE_BEGINS;
    }

    action phase_joins() {
        phase = PHASE_JOINS;
    }

    action phase_differs() {
        phase = PHASE_DIFFERS;
    }

#define SEE_ACTIONS(word)                                                                          \
    action begin_##word() {                                                                        \
        EXECUTE_WORD(seen_##word, slot_seen_##word, seen_##word##_begin, meta.buffer)              \
    }                                                                                              \
    action join_##word() {                                                                         \
        EXECUTE_WORD(seen_##word, slot_seen_##word, seen_##word##_join, meta.buffer)               \
    }                                                                                              \
    action read_##word() {                                                                         \
        EXECUTE_WORD(seen_##word, slot_seen_##word, seen_##word##_read, meta.buffer)               \
    }
    SEE_ACTIONS(0)
    SEE_ACTIONS(1)

#define SEE_TABLE(name, begin, join, read)                                                         \
    table name {                                                                                   \
        key = {                                                                                    \
            meta.pass: ternary;                                                                    \
            begins: ternary;                                                                       \
            fresh: ternary;                                                                        \
            ahead: ternary;                                                                        \
            same_digest: ternary;                                                                  \
            same_about: ternary;                                                                   \
        }                                                                                          \
        actions = { begin; join; read; @defaultonly NoAction; }                                    \
        const default_action = NoAction();                                                         \
        const entries = {                                                                          \
            (PASS_FIRST, 1, _, _, _, _): begin();                                                  \
            (PASS_FIRST, _, 0, 0, 1, 1): join();                                                   \
            (PASS_FIRST, _, 0, 0, _, _): read();                                                   \
        }                                                                                          \
        CONST_SIZE(4)                                                                              \
    }
    SEE_TABLE(classify, phase_begins, phase_joins, phase_differs)
    SEE_TABLE(see_0, begin_0, join_0, read_0)
    SEE_TABLE(see_1, begin_1, join_1, read_1)

    // ---- stage 4: what to do with the lanes ----

    action do_nothing() {
        step = STEP_NONE;
        is_new = 0;
    }

    action do_differ() {
        step = STEP_NONE;
        is_new = 1;
    }

    action do_store() {
        step = STEP_STORE;
        is_new = 1;
    }

    action do_add() {
        step = STEP_ADD32;
        is_new = 1;
    }

    action do_max() {
        step = STEP_MAX;
        is_new = 1;
    }

    action do_load_rest() {
        step = STEP_LOAD_REST;
        is_new = 0;
    }

    // A rank that is in already is a duplicate, whatever tensor it sends.
#define DECIDE_RANK_0(i)                                                                           \
    (PASS_FIRST, PHASE_JOINS, SML_LANE_MAX, 8w0o##i, NOT_IN(i), _): do_max();                      \
    (PASS_FIRST, PHASE_JOINS, _, 8w0o##i, NOT_IN(i), _): do_add();                                 \
    (PASS_FIRST, PHASE_DIFFERS, _, 8w0o##i, NOT_IN(i), _): do_differ();
#define DECIDE_RANK_1(i)                                                                           \
    (PASS_FIRST, PHASE_JOINS, SML_LANE_MAX, 8w0o##i, _, NOT_IN(i)): do_max();                      \
    (PASS_FIRST, PHASE_JOINS, _, 8w0o##i, _, NOT_IN(i)): do_add();                                 \
    (PASS_FIRST, PHASE_DIFFERS, _, 8w0o##i, _, NOT_IN(i)): do_differ();
    table decide {
        key = {
            meta.pass: ternary;
            phase: ternary;
            hdr.sml.op: ternary;
            hdr.sml.rank: ternary;
            seen_0: ternary;
            seen_1: ternary;
        }
        actions = { do_nothing; do_differ; do_store; do_add; do_max; do_load_rest; }
        const default_action = do_nothing();
        const entries = {
            (PASS_FINISH, _, _, _, _, _): do_load_rest();
            (PASS_LOAD, _, _, _, _, _): do_add(); // the packet's lanes are 0
            (PASS_FIRST, PHASE_BEGINS, _, _, _, _): do_store();
            EACH_RANK_0(DECIDE_RANK_0)
            EACH_RANK_1(DECIDE_RANK_1)
        }
        CONST_SIZE(256)
    }

    // ---- stages 4 and 5: which ranks are missing after this packet? ----

    action join_seen() {
        seen_0 = seen_0 | meta.rank_bit_0;
        seen_1 = seen_1 | meta.rank_bit_1;
    }

    action find_missing() {
        missing_0 = seen_0 ^ meta.all_0;
        missing_1 = seen_1 ^ meta.all_1;
    }

    // ---- stage 6: the verdict, or the next pass ----

    action absorbed() {
        meta.verdict = SML_VERDICT_ABSORBED;
    }

    action completed() {
        meta.verdict = SML_VERDICT_COMPLETED;
    }

    action resend() {
        meta.verdict = SML_VERDICT_RESEND;
        meta.to_rank = hdr.sml.rank;
    }

    action duplicate() {
        meta.verdict = SML_VERDICT_DUPLICATE;
    }

    action mismatch() {
        meta.verdict = SML_VERDICT_MISMATCH;
    }

    action stale_use() {
        meta.verdict = SML_VERDICT_STALE_USE;
    }

    action early_use() {
        meta.verdict = SML_VERDICT_EARLY_USE;
    }

    action pass_again(bit<8> pass) {
        meta.next_pass = pass;
    }

    table judge {
        key = {
            meta.pass: ternary;
            phase: ternary;
            is_new: ternary;
            begins: ternary;
            fresh: ternary;
            ahead: ternary;
            missing_0: ternary;
            missing_1: ternary;
        }
        actions = {
            absorbed; completed; resend; duplicate; mismatch; stale_use; early_use; pass_again;
        }
        const default_action = early_use();
        const entries = {
            (PASS_LOAD, _, _, _, _, _, _, _): pass_again(PASS_FINISH);
            (PASS_MISMATCH, _, _, _, _, _, _, _): mismatch();
            (PASS_FINISH, _, _, 1, _, _, _, _): completed();
            (PASS_FIRST, PHASE_DIFFERS, 1, _, _, _, _, _): pass_again(PASS_MISMATCH);
            (PASS_FIRST, PHASE_BEGINS, _, _, _, _, 0, 0): pass_again(PASS_FINISH);
            (PASS_FIRST, PHASE_BEGINS, _, _, _, _, _, _): absorbed();
            (PASS_FIRST, PHASE_JOINS, 1, _, _, _, 0, 0): pass_again(PASS_FINISH);
            (PASS_FIRST, PHASE_JOINS, 1, _, _, _, _, _): absorbed();
            // All ranks are in, but the packet that should have completed the use was lost.
            (PASS_FIRST, PHASE_JOINS, 0, _, _, _, 0, 0): pass_again(PASS_LOAD);
            (PASS_FIRST, PHASE_DIFFERS, 0, _, _, _, 0, 0): pass_again(PASS_LOAD);
            (PASS_FIRST, PHASE_JOINS, 0, _, _, _, _, _): duplicate();
            (PASS_FIRST, PHASE_DIFFERS, 0, _, _, _, _, _): duplicate();
            // Another use, or a complete one. A COMPLETE buffer has s = use + 1.
            (_, _, _, _, 1, _, _, _): early_use();
            (PASS_FINISH, _, _, _, _, 1, _, _): resend();
            (PASS_FIRST, _, _, _, _, 1, _, _): pass_again(PASS_LOAD);
            (_, _, _, _, _, 0x80000000 &&& 0xfffffffe, _, _): stale_use();
            (_, _, _, _, _, 0x80000000 &&& 0x80000000, _, _): early_use();
            (_, _, _, _, _, _, _, _): stale_use();
        }
        CONST_SIZE(32)
    }

    action make_result() {
        hdr.sml.kind = SML_PACKET_RESULT;
        hdr.sml.key = meta.tag;
        hdr.sml.chunk = ticket;
        hdr.sml.op = about[7:0];
        hdr.sml.rank = last_rank[7:0];
        meta.is_result = 1;
    }

    // For the daemon: what the first rank believes.
    action make_mismatch() {
        hdr.sml.kind = SML_P4_KIND_MISMATCH;
        hdr.sml.key = meta.daemon_key;
        hdr.sml.op = about[7:0];
    }

    table answer_with {
        key = {
            meta.pass: exact;
        }
        actions = { make_result; make_mismatch; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            PASS_FINISH: make_result();
            PASS_MISMATCH: make_mismatch();
        }
        CONST_SIZE(2)
    }

    apply {
        held = 0;
        begins = 0;
        fresh = 0;
        same_digest = 0;
        same_about = 0;
        seen_0 = 0;
        seen_1 = 0;
        ticket = 0;
        last_rank = 0;
        about = 0;
        phase = PHASE_OTHER;
        if (meta.pass == PASS_LOAD) {
            clear_lanes();
        }
        // Stage 1.
        find_use.apply();
        find_begins.apply();
        find_fresh.apply();
        // Stage 2.
        ahead = held - hdr.sml.use;
        find_digest.apply();
        find_about.apply();
        if (meta.pass == PASS_FINISH && begins == 1) {
            EXECUTE_PAIR(ticket, tickets, ticket_draw, meta.stream)
        }
        // Stage 3.
        classify.apply();
        see_0.apply();
        see_1.apply();
        find_ticket.apply();
        find_last_rank.apply();
        // Stage 4, and the others have the rest of the lanes.
        decide.apply();
        OTHER_LANES
        join_seen();
        find_missing();
        judge.apply();
        answer_with.apply();
    }
}

#endif
