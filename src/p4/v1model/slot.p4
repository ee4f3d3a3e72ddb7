/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slot's step: sml_slot_step() of core/slot.h, with registers instead of struct sml_slot. A
 * buffer of another incarnation (an earlier epoch or job) is FRESH, so nothing is cleared when a
 * job begins. It is COMPLETE when all ranks are in `seen`, and FILLING otherwise. The ingress
 * pipeline of simple_switch is one thread, so that one packet at a time is in a slot.
 */
#ifndef SML_P4_SLOT
#define SML_P4_SLOT

control SlotStep(inout headers_t hdr, inout metadata_t meta) {
    register<bit<32>>(2 * SML_SLOTS) slot_incarnation;
    register<bit<32>>(2 * SML_SLOTS) slot_use;
    register<bit<64>>(2 * SML_SLOTS) slot_seen;
    // digest (32 bits), operation and kind of lanes (8 each), the first and the last rank (8 each)
    register<bit<64>>(2 * SML_SLOTS) slot_about;
    register<bit<32>>(2 * SML_SLOTS) slot_chunk;
    register<bit<32>>(2 * SML_SLOTS) slot_ticket;
    // For each job, its two streams: the incarnation, and the next ticket.
    register<bit<64>>(2 * SML_MAX_JOBS) tickets;
    Lanes() lanes;
    Sums() sums;

    bit<32> buffer;
    bit<32> incarnation;
    bit<32> use;
    bit<64> seen;
    bit<64> about;
    bit<32> chunk;
    bit<32> ticket;
    bit<32> ahead;
    bool begins;
    bit<8> step;
    bit<32> stream;
    bit<64> drawn;

    action decide() {
        buffer = meta.first_buffer + 2 * (bit<32>)hdr.sml.slot + (hdr.sml.use & 1);
        slot_incarnation.read(incarnation, buffer);
        slot_use.read(use, buffer);
        slot_seen.read(seen, buffer);
        slot_about.read(about, buffer);
        slot_chunk.read(chunk, buffer);
        slot_ticket.read(ticket, buffer);
        ahead = hdr.sml.use - use;
        begins = false;
        step = STEP_STORE;
    }

    // The numbers of a stream's tickets begin after those of its slots.
    action draw_ticket() {
        tickets.read(drawn, stream);
        if (drawn[63:32] != meta.incarnation) {
            drawn = meta.incarnation ++
                      (bit<32>)(hdr.sml.slot < meta.head_slots ? meta.head_slots : meta.data_slots);
        }
        ticket = drawn[31:0];
        drawn = drawn[63:32] ++ (ticket + 1);
        tickets.write(stream, drawn);
        slot_ticket.write(buffer, ticket);
    }

    action begin() {
        seen = 0;
        about = hdr.sml.digest ++ hdr.sml.op ++ hdr.sml.lane_kind ++ hdr.sml.rank ++ hdr.sml.rank;
        slot_incarnation.write(buffer, meta.incarnation);
        slot_use.write(buffer, hdr.sml.use);
        slot_chunk.write(buffer, hdr.sml.chunk);
    }

    action make_result() {
        hdr.sml.kind = SML_PACKET_RESULT;
        hdr.sml.key = meta.tag;
        hdr.sml.chunk = ticket;
        hdr.sml.digest = about[63:32];
        hdr.sml.op = about[31:24];
        hdr.sml.lane_kind = about[23:16];
        hdr.sml.rank = about[7:0];
        meta.is_result = 1;
    }

    // What asks for a result again may have lanes of another kind than the result.
    action carry(in bit<16> n) {
        hdr.lanes.setInvalid();
        hdr.int8.setInvalid();
#ifdef SML_ROUNDS_INT16
        hdr.int16.setInvalid();
#endif
        hdr.sml.lanes = n;
        hdr.udp.length = UDP_BYTES + SML_HEADER_BYTES + 4 * n;
    }

    action carry_lanes() {
        carry(SML_LANES);
        hdr.lanes.setValid();
    }

    action carry_int8() {
        carry(SML_INT8_LANES);
        hdr.int8.setValid();
    }

#ifdef SML_ROUNDS_INT16
    action carry_int16() {
        carry(SML_INT16_LANES);
        hdr.int16.setValid();
    }
#endif

    apply {
        decide();
        if (incarnation != meta.incarnation) {
            if (hdr.sml.use != (hdr.sml.use & 1)) {
                meta.verdict = SML_VERDICT_EARLY_USE;
            }
            begins = true;
        } else if (ahead != 0) {
            // It has the buffer's parity, so the buffer's next use is 2 ahead.
            if (ahead[31:31] == 1) {
                meta.verdict = SML_VERDICT_STALE_USE;
            } else if (ahead != 2 || seen != meta.all) {
                meta.verdict = SML_VERDICT_EARLY_USE;
            }
            begins = true;
        } else if (seen == meta.all) {
            meta.verdict = SML_VERDICT_RESEND;
        } else if (seen & meta.rank_bit != 0) {
            meta.verdict = SML_VERDICT_DUPLICATE;
        } else if (about[63:16] != hdr.sml.digest ++ hdr.sml.op ++ hdr.sml.lane_kind) {
            meta.verdict = SML_VERDICT_MISMATCH;
        }

        if (meta.verdict == SML_VERDICT_ABSORBED) {
            if (begins) {
                begin();
            } else if (hdr.sml.op == SML_LANE_MAX && hdr.sml.lane_kind == SML_LANE_INT16_PAIR) {
                step = STEP_MAX16;
            } else if (hdr.sml.op == SML_LANE_MAX) {
                step = STEP_MAX;
            } else if (hdr.sml.lane_kind == SML_LANE_INT16_PAIR) {
                step = STEP_ADD16;
            } else {
                step = STEP_ADD32;
            }
            seen = seen | meta.rank_bit;
            slot_seen.write(buffer, seen);
            about = about[63:8] ++ hdr.sml.rank;
            slot_about.write(buffer, about);
            if (seen == meta.all) {
                meta.verdict = SML_VERDICT_COMPLETED;
                stream = 2 * (bit<32>)meta.place;
                if (hdr.sml.slot >= meta.head_slots) {
                    stream = stream + 1;
                }
                draw_ticket();
                make_result();
            }
        } else if (meta.verdict == SML_VERDICT_RESEND) {
            step = STEP_LOAD;
            meta.to_rank = hdr.sml.rank;
            make_result();
            if (hdr.sml.lane_kind == SML_LANE_INT8_ROUNDED) {
                carry_int8();
#ifdef SML_ROUNDS_INT16
            } else if (hdr.sml.lane_kind == SML_LANE_INT16_ROUNDED) {
                carry_int16();
#endif
            } else {
                carry_lanes();
            }
        } else if (meta.verdict == SML_VERDICT_MISMATCH) {
            // For the daemon: what the first rank believes.
            hdr.sml.kind = SML_P4_KIND_MISMATCH;
            hdr.sml.key = meta.daemon_key;
            hdr.sml.chunk = chunk;
            hdr.sml.op = about[15:8];
        }
        // In one place, because p4c writes what a control does wherever it is applied.
        if (meta.verdict == SML_VERDICT_ABSORBED || meta.is_result == 1) {
            if (hdr.lanes.isValid()) {
                lanes.apply(hdr.lanes, buffer, step);
            } else {
                sums.apply(hdr, buffer, step, meta.is_result == 1);
            }
        }
    }
}

#endif
