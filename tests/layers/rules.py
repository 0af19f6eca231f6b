"""The layer diagram of src/README.md as data. A layer is a folder of src/; an include only points down."""

# Layer -> the layers that it may include, besides itself.
LAYERS = {
    "base": [],
    "cuda": ["base"],
    "schedule": ["base"],
    "topology": ["base"],
    "transport": ["base"],
    "algorithms": ["schedule"],
    "engine": ["schedule", "transport", "cuda", "base"],
    "sim": ["schedule", "topology", "base"],
    "control": ["transport", "base"],
    "launch": ["control", "base"],
    "selection": ["sim", "algorithms", "schedule", "topology", "base"],
    "comm/links": ["control", "engine", "transport", "schedule", "base"],
    "comm/reach": ["comm/links", "control", "engine", "transport", "schedule", "topology", "cuda", "base"],
    "comm/guard": ["comm/reach", "control", "engine", "base"],
    "comm/progress": ["comm/guard", "comm/reach", "comm/links", "engine", "base"],
    "comm/membership": ["comm/links", "control", "selection", "sim", "transport", "topology", "cuda", "base"],
    "comm/messages": ["comm/progress", "comm/membership", "comm/guard", "comm/reach", "comm/links", "engine", "base"],
    "comm/calls": ["comm/links", "selection", "engine", "schedule", "topology", "cuda", "base"],
    # The communicator: only it includes all its parts, and none of them includes it.
    "comm": ["comm/messages", "comm/calls", "comm/membership", "comm/progress", "comm/guard", "comm/reach", "comm/links",
             "control", "selection", "sim", "transport", "schedule", "base"],
    "comm/tuning": ["comm", "comm/calls", "selection", "engine", "sim", "schedule", "base"],
    "comm/gpu": ["comm", "comm/messages", "comm/calls", "comm/membership", "comm/progress", "comm/reach", "comm/links",
                 "control", "selection", "engine", "transport", "schedule", "topology", "cuda", "base"],
    "comm/queue": ["comm/gpu", "comm", "comm/calls", "cuda", "base"],
    "capi": ["comm/queue", "comm/gpu", "comm/tuning", "comm", "comm/calls", "launch", "control", "cuda", "base"],
    "nccl": ["base"],
    "paro": ["engine", "cuda", "base"],
}

# Single includes that go further down than the table says, each for a reason.
EXCEPTIONS = {
    ("src/capi/memory.cpp", "transport/memory/segment_list.h"),  # memory belongs to no communicator: the API keeps the list of it
    ("src/capi/lifecycle.cpp", "transport/loopback/hub.h"),  # ranks that are threads share a hub, made by the code that starts them
}

# Programs see the public header and, as vocabulary, base. These look deeper, each for a reason.
FACES = {
    "bench": ["base"],
    "bench/micro": ["base", "schedule", "algorithms", "transport", "engine", "comm/calls", "comm/links"],  # it measures the parts
    "bench/perf": ["base", "cuda"],  # it allocates buffers on GPUs
    "bench/cuda": ["cuda", "engine"],  # it measures the engine alone
    "tools": ["base"],
    "tools/horing_run": ["base", "transport", "topology"],  # it sweeps the shared memory of killed ranks, and binds ranks to cores
    "tools/horing_plan": ["base", "schedule", "algorithms"],  # it shows schedules
    "tools/horing_sim": ["base", "schedule", "algorithms", "sim", "selection"],  # it simulates schedules, and writes the selection table
    "tools/horing_topo": ["base", "topology"],  # it shows machines
    "tools/horing_tune": ["base", "launch", "selection", "comm/tuning", "comm"],  # it measures the machine under a communicator, and writes tables
    "tools/horing_check": ["base", "transport", "engine", "selection", "topology", "cuda"],  # it names the interfaces that the transport would use, folds, copies, and predicts collectives
    "tools/horing_info": ["base", "topology", "control", "selection", "comm/gpu", "comm/links", "nccl"],  # it shows the results
}

# A test folder sees its layer and all below it; these see more.
TESTS = {
    "tests/schedule": ["algorithms"],  # something has to produce the schedules that are proven
    "tests/sim": ["selection"],  # ... or simulated
    "tests/engine": ["algorithms"],  # ... or run
    "tests/simulated": ["engine", "transport", "schedule", "algorithms", "base"],  # it runs the engine over a network of its own
    "tests/comm": ["engine", "topology"],  # it looks at the parts one by one
    "tests/comm/gpu": ["comm/queue", "algorithms"],  # it gives commands, and makes plans of all schedules
    "tests/fuzz": ["comm/gpu", "comm/membership", "control", "launch", "selection", "sim", "transport", "schedule", "topology", "base"],  # all that reads the bytes of others
    "tests/programs": ["base", "control", "selection", "sim", "topology"],
}

# Folders whose headers are private to their layer, but for the front header <folder>_transport.h and those named here.
PRIVATE_PARENTS = ["transport"]
# The hub is made by the code that starts ranks as threads; memory is allocated, and mapped, above the transports; the rendezvous listens where data connections do.
# horing-check uses the adapters that the settings allow one by one.
FRONTS = ["transport/loopback/hub.h", "transport/memory/segment.h", "transport/memory/segment_list.h", "transport/socket/interfaces.h",
          "transport/verbs/device_selection.h"]
PRIVATE_SEEN_BY = ["bench/micro", "tests/fuzz"]  # they measure, and feed, the parts

# Folders without a README.md: tests/README.md describes its folders.
NO_README = ["tests/*", "tests/*/*", "bench/*/*", "src/*/*/*"]
# Numbers and words in text are the same under every locale: base/number.h and base/word.h read them, formatString() (base/status.h) writes
# numbers.
LOCALE_FREE = ["src", "tools", "include"]
READS_BY_LOCALE = r"\b(?:strto(?:d|f|ld)|atof|sto(?:d|f|ld)|setlocale)\s*\("
COMPARES_BY_LOCALE = r"\bstrn?casecmp\s*\("
WRITES_BY_LOCALE = r"\b(?:v?(?:f|d|s|sn)?printf)\s*\((?:[^;\"]|\"[^\"]*\")*?\"[^\"]*?%[-+ #0-9.*']*L?[aefgAEFG]"
PRINTS_FOR_PEOPLE = "tools"  # programs never set a locale, so that what they print themselves is plain

MAX_README_LINES = 70
MAX_SOURCE_LINES = 600  # of a file in src
MAX_OTHER_LINES = 800

# Functions of the standard library that some compilers' headers bring along and others do not: the file, or the header of its name,
# includes theirs.
STANDARD_FUNCTIONS = {
    "algorithm": "adjacent_find|all_of|any_of|binary_search|clamp|copy|copy_if|copy_n|count|count_if|equal|fill|fill_n|find|find_if|find_if_not"
                 "|for_each|generate|lower_bound|make_heap|max|max_element|min|min_element|minmax|minmax_element|mismatch|next_permutation|none_of"
                 "|nth_element|partition|pop_heap|push_heap|remove_if|replace|reverse|rotate|search|shuffle|sort|stable_partition|stable_sort"
                 "|transform|unique|upper_bound",
    "cmath": "ceil|exp|fabs|floor|hypot|isfinite|isinf|isnan|ldexp|log|log2|lround|pow|round|sqrt",
    "cstring": "memcmp|memcpy|memmove|memset|strchr|strcmp|strerror|strlen|strncmp|strstr",
    "numeric": "accumulate|gcd|inner_product|iota|lcm|partial_sum|reduce",
}
