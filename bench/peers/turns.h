#pragma once
// The program of a rank in the comparison: it connects to the conductor (sweep.py), sleeps until the conductor requests a turn,
// takes the turn, and reports its duration. Between turns it keeps its connections but uses no core.
//
// Messages on the connection, one line each:
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
