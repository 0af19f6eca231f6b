"""The layer diagram of src/README.md as data, with the place kept for what comes (nccl): an arrow only points down.

    capi     nccl     paro      bench  tools  tests     faces: translation, no logic
        \\      |       /
             comm             launch                     who talks to whom, which plan, when / what a launcher says
        /     |     \\         /
    engine  selection  control                           run a schedule / choose one / meet, and hear of trouble
     |  \\      |  \\       \\
     |   \\    sim  algorithms                            predict a schedule / produce one
     |    \\    |    /     \\
    transport  schedule  topology                        move bytes / say what to do / know the machine
          \\       |       /
                base                                     status, config, log, clock, checks, RAII
"""

# Folder of src/ -> the folders of src/ that it may include, besides itself.
LAYERS = {
    "base": [],
    "schedule": ["base"],
    "topology": ["base"],
    "transport": ["base"],
    "algorithms": ["schedule", "topology", "base"],
    "engine": ["schedule", "transport", "base"],
    "sim": ["schedule", "topology", "base"],
    "control": ["transport", "base"],
    "launch": ["control", "base"],
    "selection": ["sim", "algorithms", "schedule", "topology", "base"],
    "comm": ["control", "selection", "engine", "sim", "algorithms", "transport", "schedule", "topology", "base"],
    "capi": ["comm", "launch", "control", "base"],
    "nccl": ["base"],
    "paro": ["base"],
}

# Single includes that go further down than the table says, each for a reason.
EXCEPTIONS = {
    ("src/capi/memory.cpp", "transport/memory/segment_list.h"),  # memory belongs to no communicator: the API keeps the list of it
    ("src/capi/lifecycle.cpp", "transport/loopback/hub.h"),  # ranks that are threads share a hub, and whoever starts them makes it
}

# Programs see the public header and, as vocabulary, base. These look deeper, each for a reason.
FACES = {
    "bench": ["base"],
    "bench/micro": ["base", "schedule", "algorithms", "topology", "transport", "engine", "selection", "comm"],  # it measures the parts
    "bench/cuda": ["base", "schedule", "algorithms", "topology", "transport", "engine"],  # it measures the engine alone
    "tools": ["base"],
    "tools/horing_run": ["base", "transport", "topology"],  # it sweeps the shared memory of killed ranks, and binds ranks to cores
    "tools/horing_plan": ["base", "schedule", "algorithms", "topology"],  # it shows schedules
    "tools/horing_sim": ["base", "schedule", "algorithms", "topology", "sim", "selection", "comm"],  # it simulates schedules, and writes the selection table
    "tools/horing_topo": ["base", "topology"],  # it shows machines
    "tools/horing_tune": ["base", "sim", "control", "launch", "selection", "comm"],  # it measures the machine under a communicator, and writes tables
    "tools/horing_info": ["base", "topology", "transport", "control", "selection", "comm", "sim"],  # it shows what was found
}

# A test folder sees its layer and all below it; these see more.
TESTS = {
    "tests/schedule": ["algorithms", "topology"],  # something has to produce the schedules that are proven
    "tests/sim": ["algorithms", "selection"],  # ... or simulated
    "tests/engine": ["algorithms", "topology"],  # ... or run
    "tests/simulated": ["engine", "transport", "schedule", "algorithms", "topology", "base"],  # it runs the engine over a network of its own
    "tests/capi": ["transport", "engine"],
    "tests/fuzz": ["comm", "control", "launch", "selection", "sim", "transport", "schedule", "topology", "base"],  # all that reads the bytes of others
    "tests/programs": ["base", "control", "engine", "selection", "sim", "topology"],
}

# Folders whose headers are private to their layer, but for the front header <folder>_transport.h and those named here.
PRIVATE_PARENTS = ["transport"]
# The hub is made by whoever starts ranks as threads; memory is allocated, and mapped, above the transports; the rendezvous listens where data connections do.
FRONTS = ["transport/loopback/hub.h", "transport/memory/segment.h", "transport/memory/segment_list.h", "transport/socket/interfaces.h"]
PRIVATE_SEEN_BY = ["bench/micro", "tests/fuzz"]  # they measure, and feed, the parts

# Folders that need no README.md of their own: tests/README.md speaks for its folders.
NO_README = ["tests/*", "tests/*/*", "bench/*/*", "src/*/*/*"]
MAX_README_LINES = 70
MAX_SOURCE_LINES = 800
