#include "horing/horing.h"

/* Used by arguments_test.cpp: numbers as a C compiler sees them. */
int horingVersionSeenByC(void) {
  return HORING_VERSION_CODE;
}
unsigned long horingUniqueIdSizeSeenByC(void) {
  return (unsigned long)sizeof(horingUniqueId);
}
