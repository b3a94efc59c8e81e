/* version.h - the version of the program: `latentd version`, the Server header, /metrics. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define LATENTD_VERSION "0.1.0"

#endif
