/* log.h - one line per event on stderr.
 *
 *   2026-11-30T02:54:29Z info  model loaded dir=models/demo tensors=63
 *
 * The text may contain what strangers sent: control bytes are escaped, so an
 * event is always one line.  The level is the only process-wide state below
 * server/ (one of the two exceptions to "no mutable globals").
 *
 * Threads: any; a line is written with one write call.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_NONE };

void log_set_level(enum log_level level);
enum log_level log_level(void);

void log_write(enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
