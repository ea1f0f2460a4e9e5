"""Sends the commands that it reads by redis-py, one a line, words between tabs, and writes what
came of each: HOST:PORT TOKEN VERSION are its arguments.
"""

import sys

import redis


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    client = redis.Redis(host=host, port=int(port), password=sys.argv[2], protocol=int(sys.argv[3]), client_name="test", decode_responses=True)
    for line in sys.stdin:
        try:
            got = client.execute_command(*line.rstrip("\n").split("\t"))
        except redis.RedisError as error:
            print("error:", error, flush=True)
            continue
        if isinstance(got, list):
            got = " ".join(map(str, got))
        print("PONG" if got is True else got, flush=True)


main()
