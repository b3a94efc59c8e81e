/* fuzz_safetensors - any bytes as a weight file: refused with a sentence, or every tensor readable.
 *
 * The input is the whole file.  Every accepted tensor is read to its last byte,
 * so that a range outside the mapping is seen by the address sanitizer or the
 * kernel, and found again by its name.
 */
#include "model/safetensors.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int fact)
{
    if (!fact)
        abort();
}

static void read_all(const struct safetensors *set, size_t file_size)
{
    size_t total = 0;
    for (size_t i = 0; i < safetensors_count(set); i++) {
        const struct tensor *t = safetensors_at(set, i);
        const volatile unsigned char *bytes = t->data;
        for (size_t k = 0; k < t->bytes; k++)
            (void)bytes[k];
        require(safetensors_find(set, t->name) == t);
        require(t->bytes == (size_t)t->n_elements * dtype_bytes(t->dtype));
        total += t->bytes;
        float value;
        if (t->n_elements > 0 && tensor_to_f32(t, (size_t)t->n_elements - 1, 1, &value, NULL) == STATUS_OK)
            (void)value;
    }
    require(total < file_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct safetensors *set = NULL;
    struct error err = { 0 };
    if (safetensors_open(&set, path, &err) == STATUS_OK)
        read_all(set, size);
    else
        require(err.text[0] != '\0');
    safetensors_close(set);
    close(fd);
    return 0;
}
