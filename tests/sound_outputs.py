"""What tools print where nothing is wrong, for the tests that read it as it is or damaged."""

TALKER = {
    "tool": "talker",
    "clock": "tai",
    "tai_offset_s": 37,
    "clock_step_ns": -3,
    "stamp_clock": "none",
    "ended_by": "count",
    "payload_bytes": 18,
    "attempts": 12,
    "sent": 10,
    "send_errors": {"ENOBUFS": 2},
    "refused_reports": 0,
    "late": 1,
    "unsent": 0,
    "late_tolerance_ns": 10000,
    "worst_late_ns": 12345,
    "txtime_missed": 0,
    "txtime_invalid": 0,
    "missing_stamps": 0,
    "start_ns": 1000,
    "first_ns": 1010,
    "last_ns": 10010,
    "achieved_pps": 1e6,
    "payload_mbps": 144.0,
}
STREAM = {
    "port": 5001,
    "received": 5,
    "unique": 4,
    "duplicates": 1,
    "out_of_order": 0,
    "short_datagrams": 0,
    "bytes": 90,
    "first_ns": 7,
    "last_ns": 9,
    "longest_gap_ns": 1,
    "longest_gap_after": 3,
    "missing_stamps": 0,
    "socket_drops": 0,
    "buffer_bytes": 425984,
}
LISTENER = {
    "tool": "listener",
    "clock": "tai",
    "tai_offset_s": 37,
    "clock_step_ns": 0,
    "stamp_clock": "phc",
    "ended_by": "quiet",
    "logged": 5,
    "realtime_priority": 0,
    "receive_errors": {},
    "streams": [STREAM],
}

PROCESSOR = {
    "processor": 1,
    "checks": 1000,
    "used_ns": 4_000_000,
    "stalls": 2,
    "stalled_ns": 5_000_000,
    "longest_ns": 4_000_000,
    "kept": [[10, 1_000_000], [20, 4_000_000]],
}
STALLS = {
    "tool": "stallmeter",
    "threshold_ns": 500_000,
    "seconds": 1.0,
    "processors": [{**PROCESSOR, "processor": 0, "stalls": 0, "kept": []}, PROCESSOR],
}

# As iputils 20221126 printed it.
PING = """\
PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.045 ms
64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=0.031 ms
64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=0.040 ms (DUP!)
64 bytes from 10.0.0.2: icmp_seq=4 ttl=64 time=1.20 ms

--- 10.0.0.2 ping statistics ---
4 packets transmitted, 3 received, +1 duplicates, 25% packet loss, time 31ms
rtt min/avg/max/mdev = 0.031/0.425/1.200/0.548 ms
"""
FRAMES = {"frames": 5, "bytes": 500, "stream_frames": 3, "stream_fragments": 1}
ALARM = {"time_ns": 5, "stream": 1, "difference": 7, "base": -2, "passed": 9, "discarded": 0}
# pmc at both ends and phc2sys, as linuxptp 3.1.1 prints them; the time receiver had
# free_running set.
TRANSMITTER = """\
sending: GET CURRENT_DATA_SET
sending: GET PARENT_DATA_SET
\t624c0b.fffe.e2f8c6-0 seq 0 RESPONSE MANAGEMENT CURRENT_DATA_SET 
\t\tstepsRemoved     0
\t\toffsetFromMaster 0.0
\t\tmeanPathDelay    0.0
sending: GET PORT_DATA_SET
\t624c0b.fffe.e2f8c6-0 seq 1 RESPONSE MANAGEMENT PARENT_DATA_SET 
\t\tparentPortIdentity                    624c0b.fffe.e2f8c6-0
\t\tparentStats                           0
\t\tobservedParentOffsetScaledLogVariance 0xffff
\t\tobservedParentClockPhaseChangeRate    0x7fffffff
\t\tgrandmasterPriority1                  128
\t\tgm.ClockClass                         248
\t\tgm.ClockAccuracy                      0xfe
\t\tgm.OffsetScaledLogVariance            0xffff
\t\tgrandmasterPriority2                  128
\t\tgrandmasterIdentity                   624c0b.fffe.e2f8c6
\t624c0b.fffe.e2f8c6-1 seq 2 RESPONSE MANAGEMENT PORT_DATA_SET 
\t\tportIdentity            624c0b.fffe.e2f8c6-1
\t\tportState               MASTER
\t\tlogMinDelayReqInterval  -3
\t\tpeerMeanPathDelay       0
"""
RECEIVER = """\
sending: GET CURRENT_DATA_SET
sending: GET PARENT_DATA_SET
sending: GET PORT_DATA_SET
\tc2dddd.fffe.33cb8e-0 seq 0 RESPONSE MANAGEMENT CURRENT_DATA_SET 
\t\tstepsRemoved     1
\t\toffsetFromMaster -573.0
\t\tmeanPathDelay    1412.0
\tc2dddd.fffe.33cb8e-0 seq 1 RESPONSE MANAGEMENT PARENT_DATA_SET 
\t\tparentPortIdentity                    624c0b.fffe.e2f8c6-1
\t\tgrandmasterIdentity                   624c0b.fffe.e2f8c6
\tc2dddd.fffe.33cb8e-1 seq 2 RESPONSE MANAGEMENT PORT_DATA_SET 
\t\tportIdentity            c2dddd.fffe.33cb8e-1
\t\tportState               UNCALIBRATED
\tc2dddd.fffe.33cb8e-2 seq 2 RESPONSE MANAGEMENT PORT_DATA_SET 
\t\tportIdentity            c2dddd.fffe.33cb8e-2
\t\tportState               LISTENING
"""
PHC2SYS = """\
phc2sys[201.310]: Waiting for ptp4l...
phc2sys[202.311]: CLOCK_REALTIME phc offset       -21 s2 freq  +10012 delay   1400
phc2sys[203.311]: phc offset      9100 s1 freq  +16003 delay  87000
phc2sys[204.311]: [ptp4l.0.config:6] CLOCK_REALTIME phc offset  130 s2 freq  -7005 delay    510
phc2sys[205.311]: eth1 sys offset     -5300 s2 freq  -45001 delay   6700
phc2sys[206.311]: CLOCK_REALTIME rms  380 max  390 freq  -9002 +/-  55 delay  1600 +/-   2
phc2sys[207.311]: CLOCK_REALTIME rms 21 max 41 freq -17003 +/- 17 delay 0+/- 0
"""
