"""Makes the gRPC calls that it reads, one a line, and writes what came of each.

Words are between tabs, messages in hex: METHOD STREAM GZIP SECONDS NAME=VALUE,... MESSAGE comes
in, CODE ANSWER MESSAGE goes out. Of a stream it is the first answer.
"""

import sys

import grpc


def same(octets):
    return octets


def make(channel, method, streams, gzip, seconds, metadata, message):
    kind = channel.stream_stream if streams == "true" else channel.unary_unary
    called = kind(method, request_serializer=same, response_deserializer=same)
    options = {
        "timeout": int(seconds) or None,
        "metadata": [tuple(pair.split("=", 1)) for pair in metadata.split(",") if pair],
        "compression": grpc.Compression.Gzip if gzip == "true" else None,
    }
    octets = bytes.fromhex(message)
    try:
        if streams == "true":
            answers = called(iter([octets]), **options)
            answer = next(answers)
            answers.cancel()
        else:
            answer = called(octets, **options)
    except grpc.RpcError as error:
        return error.code().value[0], "", error.details()
    return 0, answer.hex(), ""


def main():
    with grpc.insecure_channel(sys.argv[1]) as channel:
        for line in sys.stdin:
            print(*make(channel, *line.rstrip("\n").split("\t")), sep="\t", flush=True)


main()
