"""Every limit, with its unit in its name. Each wait has an end, each queue a bound."""

from __future__ import annotations

# Leases
TTL_MS = 30_000
# Eight busy Python threads delayed a heartbeat by 0.54 s: below this a lease is lost for nothing.
TTL_MIN_MS = 500
TTL_MAX_MS = 24 * 3_600_000
BEATS_PER_TTL = 3
MARGINS_PER_TTL = 6
POLL_MS = 1_000
# Where nobody can ring, how often a look-out asks its SQLite file whether others have written.
HINT_MS = 25
# The shortest time from look to look; hints that bring nothing are followed ever more seldom.
HINT_GAP_MS = 1
HINT_MAX_MS = 250
# All workers hear of one task: each waits up to so long for each other one before it claims.
HERD_MS = 2
HERD_MAX_MS = 500
WORKER_KEPT_MS = 24 * 3_600_000
GRACE_MS = 25_000
KILL_AFTER_MS = 5_000
# A worker's process that was killed is started again, after a pause that doubles.
RESTART_MS = 100
RESTART_MAX_MS = 30_000
# Who lived for so long has not died of its start.
LIVED_MS = 10_000
# How long the last death may take to be recorded, when there is nothing else to wait for. It takes
# 20 ms; where the store is away it must not lengthen the grace.
RECORDED_MS = 500

# Resumes
MAX_RESUMES = 5
MAX_EXPIRIES = 50
# A task that ended this many leases in a row without a result is given to an idle worker only.
SUSPECT_RESUMES = 3
RESUME_BACKOFF_MS = 1_000
RESUME_BACKOFF_MAX_MS = 300_000

# Attempts
# A wait shorter than this keeps its lease: letting go and being granted anew costs more.
MOMENT_MS = 2_000
# What is kept of the grace to write down what was cut off.
LAST_WORDS_MS = 2_000
RESEND_MS = 20
RESEND_MAX_MS = 1_000
BUSY_KEY_MS = 5_000
TRANSACTION_MS = 1_000

# Sizes
PAYLOAD_BYTES = 1 << 20
# A body carries one payload and its small fields; a failed attempt's error comes with a traceback.
BODY_BYTES = PAYLOAD_BYTES + (1 << 16)
KEY_CHARACTERS = 512
NAME_CHARACTERS = 256
REASON_CHARACTERS = 2_000
ERROR_CHARACTERS = 20_000
SUBMIT_BATCH = 1_000
CLAIM_BATCH = 50
APPEND_BATCH = 100
RENEW_BATCH = 2_000
REAP_BATCH = 100
READ_BATCH = 2_000
PRUNE_BATCH = 500
LIST_ROWS = 100
LISTED_EFFECTS = 20_000
TOKENS = 1_000

# Locks and connections
LOCK_TIMEOUT_MS = 200
IN_TRANSACTION_MIN_MS = 1_000
CONNECT_TIMEOUT_S = 5
HTTP_TIMEOUT_MIN_S = 1.0
REQUEST_S = 30.0
KEEP_ALIVE_S = 75
# Notices: how long a webhook may take to answer, and when it is told again.
NOTICE_S = 10
NOTICE_LEAVES_S = 1
NOTICES = 20
NOTICE_THREADS = 8
NOTICE_KEPT_MS = 48 * 3_600_000
NOTICE_OURS_MS = 60_000
NOTICE_AGAIN_MS = 1_000
NOTICE_AGAIN_MAX_MS = 3_600_000
SERVER_LEAVES_S = 4
# Longer than any body takes (REQUEST_S), any idling (KEEP_ALIVE_S), any stream (120).
CONNECTION_S = 150
SERVER_CONNECTIONS = 2_000
BACKLOG = 512
SQLITE_BUSY_MS = 10_000
REAP_TRIES = 5
# A look does not see what should not be there, like a wake that was missed; a sweep does.
SWEEP_MS = 60_000
# How often reviews are asked whether their doubts have ended elsewhere: a person takes longer.
REVIEWS_MS = 10_000
# An owner that writes as fast as it can must not keep others from ending its lease.
TAKE_OVER_TRIES = 100

# What a caller may say, and how long a client tries
DURATION_MAX_MS = 3_650 * 24 * 3_600_000
PRIORITY_MAX = 1_000_000
CLIENT_CONNECTIONS = 8
CLIENT_TRIES = 3
CLIENT_POLL_MIN_MS = 10
CLIENT_POLL_MAX_MS = 500
CLIENT_OUTAGE_MS = 60_000

# Numbers in the database are 64-bit.
INTEGER_MAX = 2**63 - 1
