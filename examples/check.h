/* Ends the program with horing's own explanation if a call fails. */
#ifndef CHECK_H_
#define CHECK_H_

#include <horing/horing.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    if ((call) != horingSuccess) {                                                             \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, horingGetLastError(NULL)); \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

#endif
