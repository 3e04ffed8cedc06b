#!/usr/bin/python3
"""counter.py DATABASE COUNT: adds one to a counter in an SQLite database, COUNT times, each in a transaction of its own
that also inserts a row and removes an older one. Prints the number of its transactions."""

import os
import sqlite3
import sys
import time

path, count = sys.argv[1], int(sys.argv[2])
database = sqlite3.connect(path, timeout=60, isolation_level=None)
done = 0
while done < count:
    try:
        database.execute("begin immediate")
        (number,) = database.execute("select n from counter").fetchone()
        database.execute("update counter set n = ?", (number + 1,))
        database.execute("insert into work values (?, ?, ?)", (os.getpid(), done, "x" * (done * 37 % 3000)))
        database.execute("delete from work where process = ? and number = ?", (os.getpid(), done - 3))
        database.execute("commit")
        done += 1
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        if database.in_transaction:
            database.execute("rollback")
        time.sleep(0.02)
print(done)
