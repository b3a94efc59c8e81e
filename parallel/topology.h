/* topology.h - which processors this process may use (hwloc, the affinity mask
 * and the cgroup's quota), and binding a thread to one of them.
 * Threads: any; memory: none kept. */
#ifndef PARALLEL_TOPOLOGY_H
#define PARALLEL_TOPOLOGY_H

struct topology {
    int n_processors;           /* in the affinity mask, hardware threads */
    int n_cores;                /* physical cores in the mask */
    int quota_cores;            /* of the cgroup, rounded down, at least 1; 0: none */
    int usable;                 /* cores worth a rank: min of the above */
};

void topology_read(struct topology *out);

/* Bind the calling thread to physical core `index` modulo the usable ones, one
 * hardware thread of it.  0: it could not be bound (a container may refuse);
 * the thread then runs where the system puts it. */
int topology_bind(int index);

#endif
