/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch for BMv2's simple_switch: the slots, and an Ethernet switch for everything else.
 *
 *	frame -> parser -> a contribution to a job? - no -> forwarding by the MAC address
 *	                   checks, slot's step, lanes       (a probe of a job: stamped before)
 *	                     absorbed, duplicate, … ------> drop
 *	                     resend ---------------------> the rank's port --+
 *	                     completed ------------------> multicast group --+-> egress: address it
 *	                     mismatch -------------------> forwarded to the daemon
 *
 * A job's multicast group has one node for each rank, whose replication id is 1 + rank.
 *
 * SML_LANES: the lanes of every packet. SML_SLOTS: of all jobs together. SML_STAGED: the slots as
 * Tofino has them, for tests. SML_TEST_LOSS: of that form, with a register by which a test loses
 * packets between passes.
 * docs/p4.md describes it.
 */
#include <core.p4>
#include <v1model.p4>

#ifndef SML_LANES
#define SML_LANES 256
#endif
#ifndef SML_SLOTS
#define SML_SLOTS 1024
#endif
#include "constants.p4"

#define SML_MEMBERS 4096
#define SML_HOSTS 1024

#include "steps.p4"
#ifdef SML_STAGED
#include "lanes_pairs.p4"
#else
#include "blocks.p4"
#include "lanes_wide.p4"
#endif
#include "headers.p4"
#include "parser.p4"
#ifndef SML_STAGED
// Results are as long as their contributions.
#define RESULT_DATAGRAM_BYTES hdr.udp.length
#endif
#include "tables.p4"
#ifdef SML_STAGED
#include "placement.p4"
#include "registers.p4"
#include "staged.p4"
#else
#include "sums_wide.p4"
#include "slot.p4"
#endif

parser SmlParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard) {
    FrameParser() frame;

    state start {
        frame.apply(packet, hdr);
        transition accept;
    }
}

// UDP's checksum of a datagram with lanes; 0 has become 0xffff, as UDP has it.
control UdpChecksum(in headers_t hdr, in bit<16> given, out bit<16> checksum) {
    apply {
#define UDP_FIELDS                                                                                 \
    8w0, PROTOCOL_UDP, hdr.udp.length, hdr.udp.src, hdr.udp.dst, hdr.udp.length, given,            \
        hdr.sml.magic, hdr.sml.version, hdr.sml.kind, hdr.sml.job, hdr.sml.key, hdr.sml.epoch,     \
        hdr.sml.use, hdr.sml.chunk, hdr.sml.digest, hdr.sml.slot, hdr.sml.rank, hdr.sml.op,        \
        hdr.sml.lane_kind, hdr.sml.shard, hdr.sml.lanes
#define SUM_FIELDS(AND_REST)                                                                       \
    if (hdr.ipv4.isValid()) {                                                                      \
        hash(checksum, HashAlgorithm.csum16, 16w0,                                                 \
             { hdr.ipv4.src, hdr.ipv4.dst, UDP_FIELDS AND_REST }, 32w0x10000);                     \
    } else {                                                                                       \
        hash(checksum, HashAlgorithm.csum16, 16w0,                                                 \
             { hdr.ipv6.src, hdr.ipv6.dst, UDP_FIELDS AND_REST }, 32w0x10000);                     \
    }
#ifdef SML_ROUNDS_INT8
        if (hdr.int8.isValid()) {
            SUM_FIELDS(AND_INT8)
        } else
#endif
#ifdef SML_ROUNDS_INT16
        if (hdr.int16.isValid()) {
            SUM_FIELDS(AND_INT16)
        } else
#endif
        {
            SUM_FIELDS(AND_LANES)
        }
    }
}

control SmlVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
    }
}

control SmlIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    JobLookup() job_lookup;
    Admission() admission;
    AdmissionVerdict() admission_verdict;
#ifdef SML_STAGED
    Placement() placement;
    Preparation() preparation;
#endif
    SlotStep() slot_step;
    Forwarding() forwarding;
    UdpChecksum() udp_checksum;
    // By job and fate, and by job and rank.
    counter(SML_MAX_JOBS * SML_P4_FATES, CounterType.packets_and_bytes) fates;
    counter(SML_MAX_JOBS * SML_MAX_CHILDREN, CounterType.packets) contributions;
    counter(SML_MAX_JOBS * SML_MAX_CHILDREN, CounterType.packets) resends;
    bool known;
    bit<32> sum;
    bit<16> checksum;
#ifndef SML_STAGED
    bit<48> quotient;
#endif

#ifdef SML_TEST_LOSS
    // How many packets are yet to be lost on their way to each pass.
    register<bit<32>>((bit<32>)PASS_MISMATCH + 1) losses;
    bit<32> yet;
#endif

    // Where the probe comes from, for the daemon; its UDP checksum is changed by the difference.
#define LESS(word) sum = sum + (bit<32>)(~(word));
#define MORE(word) sum = sum + (bit<32>)(word);
    action stamp() {
        sum = (bit<32>)(~hdr.udp.checksum);
        LESS(hdr.sml.chunk[31:16])
        LESS(hdr.sml.chunk[15:0])
        LESS(hdr.sml.digest[31:16])
        LESS(hdr.sml.digest[15:0])
        LESS(hdr.sml.slot)
        LESS(hdr.sml.rank ++ hdr.sml.op)
        LESS(hdr.sml.lane_kind ++ hdr.sml.shard)
        hdr.sml.chunk = hdr.ethernet.src[47:16];
        hdr.sml.digest = hdr.ethernet.src[15:0] ++ (bit<16>)standard.ingress_port;
        hdr.sml.slot = 0;
        hdr.sml.op = 0;
        hdr.sml.lane_kind = SML_P4_STAMPED;
    }

    action stamp_tag() {
        hdr.sml.slot = hdr.vlan.tci;
        hdr.sml.op = 1;
    }

    action finish_stamp() {
        MORE(hdr.sml.chunk[31:16])
        MORE(hdr.sml.chunk[15:0])
        MORE(hdr.sml.digest[31:16])
        MORE(hdr.sml.digest[15:0])
        MORE(hdr.sml.slot)
        MORE(hdr.sml.rank ++ hdr.sml.op)
        MORE(hdr.sml.lane_kind ++ hdr.sml.shard)
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        checksum = ~sum[15:0];
    }

    // In the order of sml_pool_check().
    action check_lengths() {
        meta.verdict = SML_VERDICT_ABSORBED;
        if (hdr.sml.kind != SML_PACKET_CONTRIBUTION ||
            (bit<32>)hdr.udp.length !=
                (bit<32>)UDP_BYTES + (bit<32>)SML_HEADER_BYTES + 4 * (bit<32>)hdr.sml.lanes) {
            meta.verdict = SML_VERDICT_MALFORMED;
        }
    }

#ifdef SML_STAGED
    // It has no halves of lanes.
    action check_ranges() {
        if (!hdr.lanes.isValid() || meta.is_placed == 0 || hdr.sml.op > SML_LANE_MAX ||
            hdr.sml.lane_kind != SML_LANE_INT32) {
            meta.verdict = SML_VERDICT_OUT_OF_RANGE;
        }
    }
#else
    // P4 has no division by a variable: slot / shards is (slot * shards_inverse) >> 24.
    action check_ranges() {
        quotient = ((bit<48>)hdr.sml.slot * (bit<48>)meta.shards_inverse) >> 24;
        if (hdr.sml.slot >= meta.head_slots + meta.data_slots ||
            (bit<16>)hdr.sml.shard != hdr.sml.slot - quotient[15:0] * (bit<16>)meta.shards) {
            meta.verdict = SML_VERDICT_OUT_OF_RANGE;
        }
    }

    // In a packet of the length that its kind of lanes has. Those that are rounded have no MAX.
    action check_lanes() {
        if (!(hdr.lanes.isValid() && hdr.sml.lane_kind <= SML_LANE_INT16_PAIR &&
              hdr.sml.op <= SML_LANE_MAX)
#ifdef SML_ROUNDS_INT8
            && !(hdr.int8.isValid() && hdr.sml.lane_kind == SML_LANE_INT8_ROUNDED &&
                 hdr.sml.op == SML_LANE_SUM)
#endif
#ifdef SML_ROUNDS_INT16
            && !(hdr.int16.isValid() && hdr.sml.lane_kind == SML_LANE_INT16_ROUNDED &&
                 hdr.sml.op == SML_LANE_SUM)
#endif
        ) {
            meta.verdict = SML_VERDICT_OUT_OF_RANGE;
        }
    }
#endif

    action count_fate() {
        fates.count((bit<32>)meta.place * SML_P4_FATES + (bit<32>)meta.verdict);
    }

    action forward_flooded() {
        standard.mcast_grp = SML_P4_FLOOD_GROUP;
    }

    apply {
        known = false;
        meta.pass = meta.next_pass;
        meta.next_pass = PASS_FIRST;
        meta.port = NO_PORT;
        mark_to_drop(standard);
        if (hdr.sml.isValid()) {
            job_lookup.apply(hdr, meta, known);
        }
#ifdef SML_TEST_LOSS
        yet = 0;
        if (meta.pass != PASS_FIRST) {
            losses.read(yet, (bit<32>)meta.pass);
            if (yet != 0) {
                losses.write((bit<32>)meta.pass, yet - 1);
            }
        }
        if (yet != 0) {
            // mark_to_drop() holds.
        } else
#endif
        if (known && hdr.sml.kind == SML_PACKET_PROBE) {
            stamp();
            if (hdr.vlan.isValid()) {
                stamp_tag();
            }
            finish_stamp();
            if (hdr.udp.checksum != 0) {
                hdr.udp.checksum = checksum == 0 ? 16w0xffff : checksum;
            }
            forwarding.apply(hdr, meta);
        } else if (known && hdr.sml.kind != SML_PACKET_PROBE_REPLY) {
            check_lengths();
            if (meta.verdict == SML_VERDICT_ABSORBED) {
                admission.apply(hdr, meta);
                admission_verdict.apply(hdr, meta);
            }
#ifdef SML_STAGED
            placement.apply(hdr, meta);
            preparation.apply(hdr, meta);
#endif
            if (meta.verdict == SML_VERDICT_ABSORBED) {
                check_ranges();
#ifndef SML_STAGED
                check_lanes();
#endif
            }
            // The checksum is that of the first pass.
            if (meta.verdict == SML_VERDICT_ABSORBED && meta.pass == PASS_FIRST) {
                udp_checksum.apply(hdr, 0, checksum);
                if (hdr.udp.checksum == 0 && hdr.ipv4.isValid()) {
                    // The sender made none, which IPv4 allows.
                } else if (checksum != hdr.udp.checksum &&
                           !(checksum == 0 && hdr.udp.checksum == 0xffff)) {
                    meta.verdict = SML_P4_FATE_BAD_CHECKSUM;
                }
            }
            if (meta.verdict == SML_VERDICT_ABSORBED) {
                bit<32> member = (bit<32>)meta.place * SML_MAX_CHILDREN + (bit<32>)hdr.sml.rank;

                slot_step.apply(hdr, meta);
                if (meta.next_pass != PASS_FIRST) {
                    // It is counted in its last pass.
                } else if (meta.verdict == SML_VERDICT_ABSORBED ||
                           meta.verdict == SML_VERDICT_COMPLETED) {
                    contributions.count(member);
                }
                if (meta.verdict == SML_VERDICT_RESEND) {
                    resends.count(member);
                }
            }
            if (meta.next_pass != PASS_FIRST) {
                standard.egress_spec = standard.ingress_port; // egress sends it through ingress again
            } else {
                count_fate();
            }
            if (meta.verdict == SML_VERDICT_COMPLETED) {
                standard.mcast_grp = meta.group;
            } else if (meta.verdict == SML_VERDICT_RESEND) {
                meta.port = meta.rank_port;
            } else if (meta.verdict == SML_VERDICT_MISMATCH) {
                forwarding.apply(hdr, meta);
            }
        } else {
            forwarding.apply(hdr, meta);
        }
        if (meta.is_flooded == 1) {
            forward_flooded();
        } else if (meta.port != NO_PORT) {
            standard.egress_spec = (bit<9>)meta.port;
        }
    }
}

control SmlEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    Addressing() addressing;
    UdpChecksum() udp_checksum;
    counter(SML_MAX_JOBS, CounterType.packets_and_bytes) sent;
    bool found;
    bit<16> checksum;

    apply {
        if (meta.next_pass != PASS_FIRST) {
            recirculate_preserving_field_list(FIELDS_OF_PASS);
        } else if (meta.is_result == 1) {
            if (standard.egress_rid != 0) {
                meta.to_rank = (bit<8>)(standard.egress_rid - 1);
            }
            addressing.apply(hdr, meta, found);
            if (found) {
                sent.count((bit<32>)meta.place);
            } else {
                mark_to_drop(standard);
            }
        } else if (meta.is_flooded == 1 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
        if (meta.is_result == 1 || (hdr.sml.isValid() && meta.verdict == SML_VERDICT_MISMATCH)) {
            udp_checksum.apply(hdr, 0, checksum);
            hdr.udp.checksum = checksum == 0 ? 16w0xffff : checksum;
        }
    }
}

control SmlCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(meta.is_result == 1 && hdr.ipv4.isValid(),
                        { hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
                          hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src,
                          hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SmlDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.udp);
        packet.emit(hdr.sml);
        packet.emit(hdr.lanes);
#ifdef SML_ROUNDS_INT8
        packet.emit(hdr.int8);
#endif
#ifdef SML_ROUNDS_INT16
        packet.emit(hdr.int16);
#endif
    }
}

V1Switch(SmlParser(), SmlVerify(), SmlIngress(), SmlEgress(), SmlCompute(), SmlDeparser()) main;
