"""Outputs of iperf3 3.12, sockperf 3.7 and mausezahn 0.6.8."""

import math
import re

IPERF3_UDP_CLIENT = """\
Connecting to host 192.0.2.2, port 5201
[  5] local 192.0.2.1 port 45796 connected to 192.0.2.2 port 5201
[ ID] Interval           Transfer     Bitrate         Total Datagrams
[  5]   0.00-1.01   sec  17.1 MBytes   143 Mbits/sec  280082  
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.01   sec  17.1 MBytes   143 Mbits/sec  0.000 ms  0/280082 (0%)  sender
[  5]   0.00-1.01   sec  8.26 MBytes  68.9 Mbits/sec  0.001 ms  143383/278723 (51%)  receiver

iperf Done.
"""
IPERF3_UDP_VERBOSE = """\
iperf 3.12
Control connection MSS 32768
Connecting to host 192.0.2.2, port 5201
      Target Bitrate: 900000000
[  5] local 192.0.2.1 port 57812 connected to 192.0.2.2 port 5201
Starting Test: protocol: UDP, 1 streams, 64 byte blocks, omitting 0 seconds, 1 second test, tos 0
[ ID] Interval           Transfer     Bitrate         Total Datagrams
[  5]   0.00-1.01   sec  17.1 MBytes   143 Mbits/sec  280082  
- - - - - - - - - - - - - - - - - - - - - - - - -
Test Complete. Summary Results:
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.01   sec  17.1 MBytes   143 Mbits/sec  0.000 ms  0/280082 (0%)  sender
[  5]   0.00-1.01   sec  8.26 MBytes  68.9 Mbits/sec  0.001 ms  143383/278723 (51%)  receiver
CPU Utilization: local/sender 52.2% (8.0%u/44.2%s), remote/receiver 26.4% (3.4%u/23.0%s)

Server output:
Accepted connection from 192.0.2.1, port 37170
[  5] local 192.0.2.2 port 5201 connected to 192.0.2.1 port 57812
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec  8.24 MBytes  68.8 Mbits/sec  0.460 ms  143383/278468 (51%)  
[  5]   1.00-1.01   sec  15.9 KBytes   403 Mbits/sec  0.001 ms  0/255 (0%)  
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.01   sec  8.26 MBytes  68.9 Mbits/sec  0.001 ms  143383/278723 (51%)  receiver


iperf Done.
"""
IPERF3_UDP_TWO_STREAMS = """\
Connecting to host 192.0.2.2, port 5201
[  5] local 192.0.2.1 port 56732 connected to 192.0.2.2 port 5201
[  7] local 192.0.2.1 port 40279 connected to 192.0.2.2 port 5201
[ ID] Interval           Transfer     Bitrate         Total Datagrams
[  5]   0.00-1.00   sec   640 KBytes  5242 Kbits/sec  20  
[  7]   0.00-1.00   sec   640 KBytes  5242 Kbits/sec  20  
[SUM]   0.00-1.00   sec  1.25 MBytes  10485 Kbits/sec  40  
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec   640 KBytes  5242 Kbits/sec  0.000 ms  0/20 (0%)  sender
[  5]   0.00-1.00   sec   640 KBytes  5242 Kbits/sec  0.047 ms  0/20 (0%)  receiver
[  7]   0.00-1.00   sec   640 KBytes  5242 Kbits/sec  0.000 ms  0/20 (0%)  sender
[  7]   0.00-1.00   sec   640 KBytes  5242 Kbits/sec  0.047 ms  1/20 (5%)  receiver
[SUM]   0.00-1.00   sec  1.25 MBytes  10485 Kbits/sec  0.000 ms  0/40 (0%)  sender
[SUM]   0.00-1.00   sec  1.25 MBytes  10483 Kbits/sec  0.047 ms  1/40 (2.5%)  receiver

iperf Done.
"""
IPERF3_UDP_SERVER = """\
-----------------------------------------------------------
Server listening on 5201 (test #1)
-----------------------------------------------------------
Accepted connection from 192.0.2.1, port 37084
[  5] local 192.0.2.2 port 5201 connected to 192.0.2.1 port 45796
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec  5.96 MBytes  50.0 Mbits/sec  0.006 ms  0/4243 (0%)  
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec  5.96 MBytes  50.0 Mbits/sec  0.006 ms  3/4243 (0.071%)  receiver
"""
IPERF3_TCP_CLIENT = """\
Connecting to host 192.0.2.2, port 5201
[  5] local 192.0.2.1 port 37106 connected to 192.0.2.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  2.11 GBytes  18.1 Gbits/sec    0   1023 KBytes       
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-1.00   sec  2.11 GBytes  18.1 Gbits/sec    7             sender
[  5]   0.00-1.00   sec  2.10 GBytes  18.0 Gbits/sec                  receiver

iperf Done.
"""
IPERF3_REFUSED = "iperf3: error - unable to connect to server: Connection refused\n"
IPERF3_USAGE = """\
iperf3: unrecognized option '--bogus'
Usage: iperf3 [-s|-c host] [options]
       iperf3 [-h|--help] [-v|--version]

Server or Client:
  -p, --port      #         server port to listen on/connect to
"""
IPERF3_UDP_JSON = {
    "start": {
        "version": "iperf 3.12",
        "target_bitrate": 5000000,
        "test_start": {
            "protocol": "UDP",
            "num_streams": 1,
            "blksize": 200,
            "duration": 1,
            "reverse": 0,
            "target_bitrate": 5000000,
        },
    },
    "intervals": [],
    "end": {
        "streams": [{"udp": {"packets": 3123, "lost_packets": 10, "out_of_order": 0}}],
        "sum": {
            "seconds": 1.000165,
            "bytes": 624600,
            "bits_per_second": 4996265.4,
            "jitter_ms": 0.0127,
            "lost_packets": 10,
            "packets": 3123,
            "lost_percent": 0.32,
            "sender": True,
        },
        "sum_sent": {
            "seconds": 1.000107,
            "bytes": 624600,
            "bits_per_second": 4996265.4,
            "lost_packets": 0,
            "packets": 3123,
        },
        "sum_received": {
            "seconds": 1.000165,
            "bytes": 622600,
            "bits_per_second": 4979978.3,
            "lost_packets": 10,
            "packets": 3123,
        },
    },
}
IPERF3_TCP_JSON = {
    "start": {"version": "iperf 3.12", "test_start": {"protocol": "TCP", "duration": 10}},
    "end": {
        "sum_sent": {"seconds": 10.0, "bits_per_second": 942.5e6, "retransmits": 12},
        "sum_received": {"seconds": 10.04, "bits_per_second": 941.3e6},
    },
}
SOCKPERF = """\
sockperf: \x1b[2;35m== version #3.7-no.git == \x1b[0m
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)

[ 0] IP = 192.0.2.2       PORT = 11111 # UDP
sockperf: Warmup stage (sending a few dummy messages)...
sockperf: Starting test...
sockperf: Test end (interrupted by timer)
sockperf: Test ended
sockperf: [Total Run] RunTime=2.001 sec; Warm up time=400 msec; \
SentMessages=34038; ReceivedMessages=34037
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=1.550 sec; SentMessages=23169; ReceivedMessages=23169
sockperf: \x1b[2;35m====> avg-latency=33.413 (std-dev=22.032)\x1b[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Latency is 33.413 usec
sockperf: \x1b[2;35mTotal 23169 observations\x1b[0m; each percentile contains 231.69 observations
sockperf: ---> <MAX> observation =  776.977
sockperf: ---> percentile 99.999 =  776.977
sockperf: ---> percentile 99.990 =  549.966
sockperf: ---> percentile 99.900 =  221.565
sockperf: ---> percentile 99.000 =  150.058
sockperf: ---> percentile 90.000 =   43.698
sockperf: ---> percentile 75.000 =   37.455
sockperf: ---> percentile 50.000 =   33.973
sockperf: ---> percentile 25.000 =   30.432
sockperf: ---> <MIN> observation =    3.835
"""
SOCKPERF_NO_ANSWER = """\
sockperf: == version #3.7-no.git == 
sockperf: Warmup stage (sending a few dummy messages)...
sockperf: Starting test...
sockperf: Test end (interrupted by timer)
sockperf: Test ended
sockperf: No messages were received from the server. Is the server down?
"""
SOCKPERF_USAGE = """\
sockperf is a tool for testing network latency and throughput.
version 3.7-no.git

Usage: sockperf <subcommand> [options] [args]
Type: 'sockperf <subcommand> --help' for help on a specific subcommand.
"""
MAUSEZAHN = "Mausezahn will send 100 frames... 0.01 seconds (18678 packets per second)\n"
MAUSEZAHN_STOPPED = "Mausezahn will send frames infinitely...\n"
MAUSEZAHN_USAGE = """\
mausezahn 0.6.8, a fast versatile traffic generator
http://www.netsniff-ng.org

Usage: mausezahn [options] [interface] <keyword>|<arg-string>|<hex-string>
Options:
  -x <port>             Interactive mode with telnet CLI, default port: 25542
"""


def sockperf_summary(latencies_us):
    """Return sockperf's summary of some half round trips."""
    n, ordered = len(latencies_us), sorted(latencies_us) or [1.0]
    mean = sum(ordered) / len(ordered)
    deviation = (sum((x - mean) ** 2 for x in ordered) / max(len(ordered) - 1, 1)) ** 0.5
    text = SOCKPERF.split("Test ended\n")[1].replace("23169", str(n))
    text = text.replace("33.413", f"{mean:.3f}").replace("22.032", f"{deviation:.3f}")
    for share in (25, 50, 75, 90, 99, 99.9, 99.99, 99.999):
        value = ordered[max(math.ceil(share / 100 * len(ordered) - 1e-9), 1) - 1]
        text = re.sub(rf"(percentile {share:.3f} = *)[\d.]+", rf"\g<1>{value:.3f}", text)
    text = re.sub(r"(<MIN> observation = *)[\d.]+", rf"\g<1>{ordered[0]:.3f}", text)
    return re.sub(r"(<MAX> observation = *)[\d.]+", rf"\g<1>{ordered[-1]:.3f}", text)


def sockperf_log(latencies_us, begin_s=2.4, summary=True, closed=True, kind="latency"):
    """Return a full log of sockperf; of kind ``rtt`` the latencies are whole round trips."""
    divisor = 2 if kind == "latency" else 1
    rule = "------------------------------\n"
    lines, sent = [], begin_s
    for number, latency in enumerate(latencies_us):
        received = sent + divisor * latency / 1e6
        lines.append(f"{number}, {sent:.9f}, {received:.9f}, {latency:.3f}\n")
        sent = received + 1e-6
    text = f"{rule}test was performed using the following parameters: --msg-size=64\n{rule}"
    if summary:
        text += sockperf_summary(latencies_us)
    header = f"{rule}packet, txTime(sec), rxTime(sec), {kind}(usec)\n"
    return text + header + "".join(lines) + (rule if closed else "")
