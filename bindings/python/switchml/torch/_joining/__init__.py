# SPDX-License-Identifier: BSD-3-Clause
"""How the ranks of a group find each other and join their job, before the first call.

    meeting.py, terms.py    they meet in the group's store, and compare their settings
    notice.py, peers.py     what they wait for meanwhile, and who of them is known to be dead
    address.py              where rank 0 can be reached
    job_name.py             what the job is called
    rendezvous.py           the job itself

Nothing here knows of calls, or of process groups.
"""
