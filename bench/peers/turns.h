#pragma once
// The life of a rank in the comparison: it connects to the conductor (sweep.py), sleeps until it is told to take a turn,
// takes it, and says how long it took. Between turns it holds its connections but uses no core.
//
// Words on the connection, one line each:
//   rank to conductor, first:  RANK SIZE
//   conductor to rank:         core NUMBER           to which it binds itself
//   rank to conductor:         ok
//                              failed REASON
//   conductor to rank:         COLLECTIVE BYTES WARMUPS ITERATIONS check|trust
//   rank to conductor:         ok NANOSECONDS WRONG      of all iterations together; elements that are wrong
//                              failed REASON
// The end of the connection ends the rank.
#include "peers/library.h"

namespace horing::bench {

// Everything that the mains of the libraries have in common. The one argument is the conductor's socket. Returns the exit
// code.
int takeTurns(Library& library, int argc, char** argv);

}  // namespace horing::bench
