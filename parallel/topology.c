#include "parallel/topology.h"

#include <hwloc.h>
#include <stdio.h>
#include <string.h>

/* Cores that the cgroup (version 2) lets this process use, 0 if unlimited. */
static int read_quota(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file == NULL)
        return 0;
    long long quota, period;
    int n = fscanf(file, "%lld %lld", &quota, &period);
    fclose(file);
    if (n != 2 || quota <= 0 || period <= 0)
        return 0;
    return quota / period < 1 ? 1 : (int)(quota / period);
}

static int load_allowed(hwloc_topology_t *topology)
{
    if (hwloc_topology_init(topology) != 0)
        return 0;
    if (hwloc_topology_load(*topology) != 0) {
        hwloc_topology_destroy(*topology);
        return 0;
    }
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    /* The affinity mask of the process, not of the machine. */
    if (mask != NULL && hwloc_get_cpubind(*topology, mask, HWLOC_CPUBIND_PROCESS) == 0)
        hwloc_topology_restrict(*topology, mask, 0);
    hwloc_bitmap_free(mask);
    return 1;
}

void topology_read(struct topology *out)
{
    *out = (struct topology){ .n_processors = 1, .n_cores = 1, .quota_cores = read_quota() };
    hwloc_topology_t topology;
    if (load_allowed(&topology)) {
        int processors = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
        int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
        out->n_processors = processors > 0 ? processors : 1;
        out->n_cores = cores > 0 ? cores : out->n_processors;
        hwloc_topology_destroy(topology);
    }
    out->usable = out->n_cores;
    if (out->quota_cores > 0 && out->quota_cores < out->usable)
        out->usable = out->quota_cores;
}

int topology_bind(int index)
{
    hwloc_topology_t topology;
    if (!load_allowed(&topology))
        return 0;
    int bound = 0;
    int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    hwloc_obj_t core = n > 0
        ? hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)(index % n)) : NULL;
    if (core != NULL) {
        hwloc_bitmap_t one = hwloc_bitmap_dup(core->cpuset);
        hwloc_bitmap_singlify(one);
        bound = hwloc_set_cpubind(topology, one, HWLOC_CPUBIND_THREAD) == 0;
        hwloc_bitmap_free(one);
    }
    hwloc_topology_destroy(topology);
    return bound;
}
