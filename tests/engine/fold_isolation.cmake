# cmake -DNM=... -DLIBRARY=... -P fold_isolation.cmake
# The files compiled for wide instructions may not define a function that the linker could also take for others: one
# inline function of theirs, merged into the rest of the program, is an illegal instruction on an older CPU.
execute_process(COMMAND ${NM} --defined-only --print-file-name ${LIBRARY} OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "cannot list the symbols of ${LIBRARY}")
endif()
if(NOT symbols MATCHES "fold_plain[^\n]* T ")
  message(FATAL_ERROR "${LIBRARY} does not hold fold_plain, so there is nothing to check")
endif()
string(REGEX MATCHALL "[^\n]*fold_(avx2|avx512)\\.[^\n]* [Wu] [^\n]*" shared "${symbols}")
if(shared)
  string(JOIN "\n" text ${shared})
  message(FATAL_ERROR "merged functions in files for wide instructions:\n${text}")
endif()
