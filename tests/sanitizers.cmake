# What is not built and run under a sanitizer, and why: the one list of it. A name is a folder of tests/, or a suite, as in
# horing_test(NAME); horing_check_left_out() refuses any other. The suite's test is then disabled, and its program built by nobody.

# horing_leave_out(SANITIZER WHY NAMES...): `thread` and `address` are the presets tsan and asan.
function(horing_leave_out sanitizer why)
  set_property(GLOBAL APPEND PROPERTY HORING_LEFT_OUT ${ARGN})
  if(HORING_SANITIZE MATCHES ${sanitizer})
    message(VERBOSE "Left out: ${ARGN}. ${why}")
    set_property(GLOBAL APPEND PROPERTY HORING_LEFT_OUT_HERE ${ARGN})
  endif()
endfunction()

foreach(sanitizer thread address)
  horing_leave_out(${sanitizer} "They look at the sources and at exported names, or run programs that are not instrumented." guide layers install)
endforeach()
horing_leave_out(thread "No thread is ever started, by what is tested or by the tests."
  schedule algorithms sim simulated selection fuzz engine_collectives engine_in_place engine_point_to_point engine_fold)
horing_leave_out(thread "What is tested runs on the thread that calls it." topology launch)
horing_leave_out(thread "The perf programs and horing-info start a thread for each rank, the others none but the library's; other suites drive the \
library from threads in more ways."
  programs/perf programs/ho_ring programs/peers programs/horing_topo programs/horing_info programs/horing_tune programs/horing_check
  programs/horing_paro programs/rdma_vm programs/horing_run)
horing_leave_out(thread "Jobs in an environment that lacks something. Which way they go is decided by one thread while they start, and \
other suites go each of the ways."
  trouble_environment trouble_rights trouble_small_memory trouble_secret)
horing_leave_out(thread "It looks at what the processes of a job leave behind." trouble_leftovers)
foreach(sanitizer thread address)
  horing_leave_out(${sanitizer} "Its networks are dead for as many seconds as real ones are: a minute and a half, and nothing that a \
sanitizer does not see in the tests of the socket transport." trouble_networks)
  horing_leave_out(${sanitizer} "What it measures then is the sanitizer." horing_check)
endforeach()

# add_subdirectory() of each folder that is not left out; `prefix` is what they are in, below tests/: programs/, or nothing.
function(horing_add_test_folders prefix)
  get_property(left_out GLOBAL PROPERTY HORING_LEFT_OUT_HERE)
  foreach(folder ${ARGN})
    if(NOT "${prefix}${folder}" IN_LIST left_out)
      add_subdirectory(${folder})
    endif()
  endforeach()
endfunction()

# Once all suites are known, which they are where nothing is left out.
function(horing_check_left_out)
  if(HORING_SANITIZE OR NOT HORING_BUILD_PROGRAMS)
    return()
  endif()
  get_property(names GLOBAL PROPERTY HORING_LEFT_OUT)
  foreach(name ${names})
    if(NOT TARGET test_${name} AND NOT EXISTS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${name}/CMakeLists.txt)
      message(FATAL_ERROR "tests/sanitizers.cmake leaves out '${name}', which is neither a folder of tests/ nor a suite")
    endif()
  endforeach()
endfunction()
