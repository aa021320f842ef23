"""Runs one ClickHouse server until it is killed: clickhouse-local of libchdb, with open listeners.

Usage: clickhouse.py LIBRARY ARGUMENT...   (the arguments of clickhouse-local, without --query)
"""
import ctypes
import os
import pty
import sys

# The listeners are open as long as the last query runs: 34 days.
QUERY = """
SYSTEM START LISTEN TCP;
SYSTEM START LISTEN HTTP;
SELECT sleepEachRow(3) FROM numbers(1000000)
SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0 FORMAT Null
"""

library = ctypes.CDLL(sys.argv[1])
library.chdb_set_signal_handlers_enabled(0)

# Unless clickhouse-local is interactive, it aborts the process at the first exception that leaves
# the thread of a connection: one native client that names an unknown database ends the server.
# Interactive mode needs a terminal as standard input.
terminal, standard_input = pty.openpty()
os.dup2(standard_input, 0)

options = ["--interactive", "--disable_suggestion", "--logger.console", "--log-level=warning"]
arguments = ["clickhouse", *sys.argv[2:], *options, "--query", QUERY]
encoded = (ctypes.c_char_p * len(arguments))(*map(os.fsencode, arguments))
library.chdb_query_cmdline.restype = ctypes.c_void_p
library.chdb_result_error.restype = ctypes.c_char_p
library.chdb_result_error.argtypes = [ctypes.c_void_p]
result = library.chdb_query_cmdline(len(arguments), encoded)
error = library.chdb_result_error(result) or b"the last query ended"
sys.exit(error.decode(errors="replace"))
