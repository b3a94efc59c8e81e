#define VECTOR_BYTES 16
#include "bench/peak_body.h"

const struct peak_set peak_ref = PEAK_SET("ref");
