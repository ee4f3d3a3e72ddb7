/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch for Tofino: the slots of staged.p4, and an Ethernet switch for everything else. It
 * was run with 32 and 40 lanes on the vendor's model, never on hardware (docs/p4.md).
 *
 *	frame -> ingress: a contribution to a job? - no -> forwarding by the MAC address
 *	   ^              tables, slot's step, lanes
 *	   |                absorbed, duplicate, … ------> drop
 *	   +--- again ----- to be passed again            (the pipe's own recirculation port)
 *	                    resend ---------------------> the rank's port --+
 *	                    completed ------------------> multicast group --+-> egress: address it
 *	                    mismatch -------------------> the daemon's port +
 *
 * What is only forwarded to one port skips egress. All else has a bridge_t in front of it on its
 * way to egress, and a packet that passes again has a pass_t in front of it. Registers belong to a
 * pipe, so all ranks of a job are at ports of one pipe.
 *
 * SML_LANES: the lanes of every packet, 32 or 40; 64 do not fit into a Tofino 1. SML_SLOTS: of all
 * jobs together.
 */
#include <core.p4>
#include <tna.p4>

#include "constants.p4"

#ifndef SML_LANES
#define SML_LANES 32
#endif
#ifndef SML_SLOTS
#define SML_SLOTS 4096
#endif
#define SML_MEMBERS 1024
#define SML_HOSTS 1024

// The number of each pipe's recirculation port, in the lower 7 bits of a port's number.
const bit<9> RECIRCULATION_PORT = 68;

#include "steps.p4"
#include "lanes_pairs.p4"
#include "headers.p4"
// What changes in a probe: the checksum of all else is wanted.
#define STAMPED_FIELDS(h)                                                                          \
    h.chunk, h.digest, h.slot, h.rank, h.op, h.lane_kind, h.shard
// They keep the header of a pass, which comes before the frame.
#define PARSED inout
#define NOTE_PARAMETERS , out bit<16> rest_of_checksum
#define NOTE_DECLARATIONS Checksum() rest;
#define NOTE_UDP rest.subtract({ hdr.udp.checksum });
#define NOTE_SML                                                                                   \
    rest.subtract({ STAMPED_FIELDS(hdr.sml) });                                                    \
    rest_of_checksum = rest.get();
#include "parser.p4"
// Egress gets at most 160 bytes of a packet.
#define HEADERS_ONLY
#include "parser.p4"
#include "tables.p4"
#include "placement.p4"
#include "registers.p4"
#include "staged.p4"

// Why a packet goes through egress.
const bit<8> WAY_FLOODED = 0;
const bit<8> WAY_RESULT = 1;
const bit<8> WAY_DAEMON = 2; // a mismatch

// In front of a packet in egress.
header bridge_t {
    bit<8> way;
    bit<8> to_rank;    // unless it is a copy of a group
    bit<16> place;
    bit<16> from_port; // not flooded back to it
    bit<16> sum;       // the checksum of our header and the lanes, which egress cannot parse
}

// In front of a packet that passes again.
header pass_t {
    bit<8> pass;
}

// The bytes between UDP's addresses and its ports, as one word: the protocol and the length, which
// is that of a full packet.
const bit<16> PSEUDO = (bit<16>)PROTOCOL_UDP + UDP_BYTES + SML_HEADER_BYTES + 4 * SML_LANES;

struct frame_t {
    bridge_t bridge;
    pass_t pass;
    headers_t inner;
}

struct ingress_metadata_t {
    metadata_t sml;
    bool is_stamped;          // its UDP checksum has to change, too
    bit<16> lane_bytes;
    bit<16> payload_bytes;
    bit<16> excess_bytes;     // of UDP's payload, more than its number of lanes says
    bit<16> rest_of_checksum; // of a probe's datagram, without the fields that are stamped
}

struct egress_metadata_t {
    metadata_t sml;
    bool is_ours;   // a result, or a mismatch for the daemon
    bit<16> pseudo; // in a field, because the deparser adds only fields
    bit<16> rest_of_checksum;
}

parser SmlIngressParser(packet_in packet, out frame_t hdr, out ingress_metadata_t meta,
                        out ingress_intrinsic_metadata_t intrinsic) {
    FrameParser() frame;

    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        transition select(intrinsic.ingress_port) {
            RECIRCULATION_PORT &&& 9w0x7f: parse_pass;
            default: parse_frame;
        }
    }

    state parse_pass {
        packet.extract(hdr.pass);
        transition parse_frame;
    }

    state parse_frame {
        frame.apply(packet, hdr.inner, meta.rest_of_checksum);
        transition accept;
    }
}

// A table that misses leaves its answers as they were, so all of them begin as 0.
@pa_auto_init_metadata
// Hardware subtracts one container of 16 bits from another.
@pa_container_size("ingress", "meta.lane_bytes", 16)
@pa_container_size("ingress", "meta.payload_bytes", 16)
@pa_container_size("ingress", "meta.excess_bytes", 16)
// Into one word, p4c 1.2.5.16's assembler would copy the bytes beside same_digest, which the same
// register also answers: they have the first rank.
@pa_container_size("ingress", "hdr.inner.sml.chunk", 16)
control SmlIngress(inout frame_t hdr, inout ingress_metadata_t meta,
                   in ingress_intrinsic_metadata_t intrinsic,
                   in ingress_intrinsic_metadata_from_parser_t from_parser,
                   inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                   inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    JobLookup() job_lookup;
    Admission() admission;
    AdmissionVerdict() admission_verdict;
    Placement() placement;
    Preparation() preparation;
    SlotStep() slot_step;
    Forwarding() forwarding;
    // By job and fate, and by job and rank, whose bits are joined: no action can multiply.
    Counter<bit<64>, bit<16>>(SML_MAX_JOBS * SML_P4_FATES, CounterType_t.PACKETS_AND_BYTES) fates;
    Counter<bit<64>, bit<16>>(SML_MAX_JOBS * SML_MAX_CHILDREN, CounterType_t.PACKETS) contributions;
    Counter<bit<64>, bit<16>>(SML_MAX_JOBS * SML_MAX_CHILDREN, CounterType_t.PACKETS) resends;
    bool known;
    bit<1> is_right_length;
    bit<1> is_admitted;
    bit<1> is_contribution;
    bit<16> member;

    // Where the probe comes from, for the daemon.
    action stamp() {
        hdr.inner.sml.chunk = hdr.inner.ethernet.src[47:16];
        hdr.inner.sml.digest = hdr.inner.ethernet.src[15:0] ++ 7w0 ++ intrinsic.ingress_port;
        hdr.inner.sml.slot = 0;
        hdr.inner.sml.op = 0;
        hdr.inner.sml.lane_kind = SML_P4_STAMPED;
    }

    action stamp_tag() {
        hdr.inner.sml.slot = hdr.inner.vlan.tci;
        hdr.inner.sml.op = 1;
    }

    // Three tables, because the compiler else makes one step of all, which hardware cannot do.
    action measure_lane_bytes() {
        @in_hash {
            meta.lane_bytes = hdr.inner.sml.lanes[13:0] ++ 2w0;
        }
    }

    action measure_payload_bytes() {
        meta.payload_bytes = hdr.inner.udp.length - (UDP_BYTES + SML_HEADER_BYTES);
    }

    table measure_payload {
        actions = { measure_payload_bytes; }
        const default_action = measure_payload_bytes();
        size = 1;
    }

    table measure_lanes {
        actions = { measure_lane_bytes; }
        const default_action = measure_lane_bytes();
        size = 1;
    }

    action subtract_lengths() {
        meta.excess_bytes = meta.payload_bytes - meta.lane_bytes;
    }

    table find_excess {
        actions = { subtract_lengths; }
        const default_action = subtract_lengths();
        size = 1;
    }

    action set_right_length() {
        is_right_length = 1;
    }

    // The two highest bits of the number of lanes are not in lane_bytes.
    table lengths {
        key = {
            hdr.inner.sml.kind: exact;
            hdr.inner.sml.lanes[15:14]: exact;
            meta.excess_bytes: exact;
        }
        actions = { set_right_length; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            (SML_PACKET_CONTRIBUTION, 0, 0): set_right_length();
        }
        size = 1;
    }

    action admit() {
        is_admitted = 1;
    }

    // All that sml_pool_check() checks, but its order, which the verdicts below have.
    table admitted {
        key = {
            meta.sml.started: ternary;
            meta.sml.is_member: ternary;
            meta.sml.is_placed: ternary;
            hdr.inner.lanes.isValid(): ternary;
            hdr.inner.sml.lane_kind: ternary;
            hdr.inner.sml.op: ternary;
        }
        actions = { admit; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            (1, 1, 1, true, SML_LANE_INT32, 0 &&& 0xfe): admit();
        }
        size = 1;
    }

    action drop() {
        for_deparser.drop_ctl = 1;
    }

    action to_port() {
        for_tm.ucast_egress_port = meta.sml.port[8:0];
        for_tm.bypass_egress = 1;
    }

    // To this pipe's recirculation port.
    action to_next_pass() {
        hdr.pass.setValid();
        hdr.pass.pass = meta.sml.next_pass;
        for_tm.ucast_egress_port = intrinsic.ingress_port[8:7] ++ RECIRCULATION_PORT[6:0];
        for_tm.bypass_egress = 1;
    }

    action to_egress(bit<8> way) {
        hdr.bridge.setValid();
        hdr.bridge.way = way;
        hdr.bridge.to_rank = meta.sml.to_rank;
        hdr.bridge.place = meta.sml.place;
    }

    action to_flood() {
        hdr.bridge.setValid();
        hdr.bridge.way = WAY_FLOODED;
        hdr.bridge.from_port = 7w0 ++ intrinsic.ingress_port;
        for_tm.mcast_grp_a = SML_P4_FLOOD_GROUP;
    }

    action to_group() {
        to_egress(WAY_RESULT);
        for_tm.mcast_grp_a = meta.sml.group;
    }

    action to_one_rank() {
        to_egress(WAY_RESULT);
        for_tm.ucast_egress_port = meta.sml.rank_port[8:0];
    }

    // A mismatch: its checksum is made in egress.
    action to_daemon() {
        to_egress(WAY_DAEMON);
        for_tm.ucast_egress_port = meta.sml.port[8:0];
    }

    // The daemon's port is not known, so all ports get it, also the sender's.
    action to_daemon_flooded() {
        to_egress(WAY_DAEMON);
        for_tm.mcast_grp_a = SML_P4_FLOOD_GROUP;
    }

    table dispatch {
        key = {
            is_contribution: ternary;
            meta.sml.next_pass: ternary;
            meta.sml.verdict: ternary;
            meta.sml.is_flooded: ternary;
        }
        actions = {
            drop; to_port; to_next_pass; to_flood; to_group; to_one_rank; to_daemon;
            to_daemon_flooded;
        }
        const default_action = drop();
        const entries = {
            (0, _, _, 0): to_port();
            (0, _, _, _): to_flood();
            (_, PASS_LOAD, _, _): to_next_pass();
            (_, PASS_FINISH, _, _): to_next_pass();
            (_, PASS_MISMATCH, _, _): to_next_pass();
            (_, _, SML_VERDICT_COMPLETED, _): to_group();
            (_, _, SML_VERDICT_RESEND, _): to_one_rank();
            (_, _, SML_VERDICT_MISMATCH, 0): to_daemon();
            (_, _, SML_VERDICT_MISMATCH, _): to_daemon_flooded();
        }
        size = 9;
    }

    apply {
        known = false;
        is_contribution = 0;
        is_right_length = 0;
        is_admitted = 0;
        meta.sml.verdict = SML_VERDICT_ABSORBED;
        if (hdr.pass.isValid()) {
            meta.sml.pass = hdr.pass.pass;
        }
        hdr.pass.setInvalid();
        measure_lanes.apply();
        measure_payload.apply();
        forwarding.apply(hdr.inner, meta.sml);
        if (hdr.inner.sml.isValid()) {
            job_lookup.apply(hdr.inner, meta.sml, known);
            admission.apply(hdr.inner, meta.sml);
            placement.apply(hdr.inner, meta.sml);
            preparation.apply(hdr.inner, meta.sml);
        }
        find_excess.apply();
        lengths.apply();
        admitted.apply();
        member = (bit<16>)(meta.sml.place[SML_P4_JOB_BITS - 1:0] ++
                           hdr.inner.sml.rank[SML_P4_CHILD_BITS - 1:0]);
        if (known && hdr.inner.sml.kind == SML_PACKET_PROBE) {
            stamp();
            if (hdr.inner.vlan.isValid()) {
                stamp_tag();
            }
            // A datagram without a checksum keeps being one.
            if (hdr.inner.udp.checksum != 0) {
                meta.is_stamped = true;
            }
        } else if (known && hdr.inner.sml.kind != SML_PACKET_PROBE_REPLY) {
            is_contribution = 1;
            if (is_admitted == 1) {
                slot_step.apply(hdr.inner, meta.sml);
            } else if (is_right_length == 0) {
                meta.sml.verdict = SML_VERDICT_MALFORMED;
            } else {
                meta.sml.verdict = SML_VERDICT_OUT_OF_RANGE;
                admission_verdict.apply(hdr.inner, meta.sml);
            }
            if (meta.sml.next_pass == PASS_FIRST) {
                fates.count((bit<16>)(meta.sml.place[SML_P4_JOB_BITS - 1:0] ++
                                      meta.sml.verdict[SML_P4_FATE_BITS - 1:0]));
                if (meta.sml.verdict == SML_VERDICT_ABSORBED ||
                    meta.sml.verdict == SML_VERDICT_COMPLETED) {
                    contributions.count(member);
                } else if (meta.sml.verdict == SML_VERDICT_RESEND) {
                    resends.count(member);
                }
            }
        }
        dispatch.apply();
    }
}

control SmlIngressDeparser(packet_out packet, inout frame_t hdr, in ingress_metadata_t meta,
                           in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() stamped;
    Checksum() ours;

#define INNER_FIRST(i) , hdr.inner.lanes.a##i
#define INNER_REST(i) , hdr.inner.lanes.b##i
    apply {
        if (hdr.bridge.isValid()) {
            hdr.bridge.sum = ours.update(
                { hdr.inner.sml.magic, hdr.inner.sml.version, hdr.inner.sml.kind,
                  hdr.inner.sml.job, hdr.inner.sml.key, hdr.inner.sml.epoch, hdr.inner.sml.use,
                  hdr.inner.sml.chunk, hdr.inner.sml.digest, hdr.inner.sml.slot,
                  hdr.inner.sml.rank, hdr.inner.sml.op, hdr.inner.sml.lane_kind,
                  hdr.inner.sml.shard, hdr.inner.sml.lanes EACH_PAIR(INNER_FIRST)
                  EACH_PAIR(INNER_REST) });
        }
        if (meta.is_stamped) {
            hdr.inner.udp.checksum =
                stamped.update({ meta.rest_of_checksum, STAMPED_FIELDS(hdr.inner.sml) }, true);
        }
        packet.emit(hdr);
    }
}

parser SmlEgressParser(packet_in packet, out frame_t hdr, out egress_metadata_t meta,
                       out egress_intrinsic_metadata_t intrinsic) {
    HeadersParser() headers;

    state start {
        packet.extract(intrinsic);
        packet.extract(hdr.bridge);
        headers.apply(packet, hdr.inner);
        transition accept;
    }
}

control SmlEgress(inout frame_t hdr, inout egress_metadata_t meta,
                  in egress_intrinsic_metadata_t intrinsic,
                  in egress_intrinsic_metadata_from_parser_t from_parser,
                  inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                  inout egress_intrinsic_metadata_for_output_port_t for_port) {
    Addressing() addressing;
    Counter<bit<64>, bit<16>>(SML_MAX_JOBS, CounterType_t.PACKETS_AND_BYTES) sent;
    bool found;

    apply {
        meta.is_ours = false;
        meta.pseudo = PSEUDO;
        // Not in the parser: its checksum would subtract every header that it extracts afterwards.
        meta.rest_of_checksum = ~hdr.bridge.sum;
        meta.sml.place = hdr.bridge.place;
        meta.sml.to_rank = hdr.bridge.to_rank;
        if (hdr.bridge.way == WAY_RESULT) {
            // Copies of a group are numbered from 1 on.
            if (intrinsic.egress_rid != 0) {
                meta.sml.to_rank = (bit<8>)intrinsic.egress_rid - 1;
            }
            addressing.apply(hdr.inner, meta.sml, found);
            if (found) {
                meta.is_ours = true;
                sent.count(meta.sml.place);
            } else {
                for_deparser.drop_ctl = 1;
            }
        } else if (hdr.bridge.way == WAY_DAEMON) {
            meta.is_ours = true;
        } else if (hdr.bridge.from_port == 7w0 ++ intrinsic.egress_port) {
            for_deparser.drop_ctl = 1;
        }
        hdr.bridge.setInvalid();
    }
}

control SmlEgressDeparser(packet_out packet, inout frame_t hdr, in egress_metadata_t meta,
                          in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() ipv4;
    Checksum() udp_in_ipv4;
    Checksum() udp_in_ipv6;

#define UDP_FIELDS                                                                                 \
    meta.pseudo, hdr.inner.udp.src, hdr.inner.udp.dst, hdr.inner.udp.length, meta.rest_of_checksum
    apply {
        if (meta.is_ours) {
            if (hdr.inner.ipv4.isValid()) {
                hdr.inner.ipv4.checksum = ipv4.update(
                    { hdr.inner.ipv4.version_ihl, hdr.inner.ipv4.tos, hdr.inner.ipv4.length,
                      hdr.inner.ipv4.id, hdr.inner.ipv4.fragment, hdr.inner.ipv4.ttl,
                      hdr.inner.ipv4.protocol, hdr.inner.ipv4.src, hdr.inner.ipv4.dst });
                hdr.inner.udp.checksum = udp_in_ipv4.update(
                    { hdr.inner.ipv4.src, hdr.inner.ipv4.dst, UDP_FIELDS }, true);
            }
            if (hdr.inner.ipv6.isValid()) {
                hdr.inner.udp.checksum = udp_in_ipv6.update(
                    { hdr.inner.ipv6.src, hdr.inner.ipv6.dst, UDP_FIELDS }, true);
            }
        }
        packet.emit(hdr);
    }
}

Pipeline(SmlIngressParser(), SmlIngress(), SmlIngressDeparser(), SmlEgressParser(), SmlEgress(),
         SmlEgressDeparser()) pipe;
Switch(pipe) main;
