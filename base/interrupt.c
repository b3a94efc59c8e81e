#include "base/interrupt.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum status interrupt_open(struct interrupt *interrupt, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    *interrupt = (struct interrupt){ .fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC) };
    if (interrupt->fd < 0)
        return fail(err, STATUS_IO, "cannot watch for signals: %s", strerror(errno));
    pthread_sigmask(SIG_BLOCK, &set, &interrupt->before);
    return STATUS_OK;
}

int interrupt_has_come(struct interrupt *interrupt)
{
    struct signalfd_siginfo info;
    if (interrupt->has_come || read(interrupt->fd, &info, sizeof info) != (ssize_t)sizeof info)
        return interrupt->has_come;
    interrupt->has_come = 1;
    pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
    return 1;
}

void interrupt_close(struct interrupt *interrupt)
{
    if (interrupt->fd < 0)
        return;
    pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
    close(interrupt->fd);
    interrupt->fd = -1;
}
