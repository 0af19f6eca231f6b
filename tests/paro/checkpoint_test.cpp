// horingParoSave and horingParoLoad: any strategy loads what any other has saved, and nothing is lost or half loaded.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "../temporary_folder.h"
#include "forgery.h"
#include "job.h"

namespace {
std::atomic<bool> dies_at_fsync{false};
}

// Replaces the system's function, also for the library: written data is not yet on disk.
extern "C" int fsync(int fd) {
  if (dies_at_fsync) ::kill(::getpid(), SIGKILL);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace {

namespace fs = std::filesystem;

class Folder : public horing::test::TemporaryFolder {
 public:
  std::string operator/(const std::string& name) const { return path() / name; }
};

std::vector<std::string> filesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Ranks with a client each; body(paro, trainee).
struct Job {
  std::vector<horingComm_t> comms;
  horingParoStrategy_t strategy = horingParoIIG;
  std::vector<horingParoParam_t> params = kModel;
  int state_values = 2;

  template <typename Body>
  void run(Body body) const {
    horingParoConfig_t config = configOf(strategy);
    config.stateValues = state_values;
    onClients(comms, config, params, body);
  }
  // Trains `steps` steps from the start, and saves.
  void trainAndSave(const std::string& folder, int steps) const {
    run([&](horingParo_t paro, Trainee& trainee) {
      trainee.initialise();
      for (int step = 0; step < steps; ++step) trainee.step(Optimizer::kAdam, 1, step);
      ASSERT_PARO(horingParoSave(paro, folder.c_str(), static_cast<uint64_t>(steps)));
    });
  }
};

Reference trained(int ranks, int steps) {
  Reference reference(kModel, Optimizer::kAdam);
  for (int step = 0; step < steps; ++step) reference.step(ranks, 1, step, 1);
  return reference;
}

// Loads, sees the parameters, and that the optimizer's values are there, too: the next step needs them.
void expectLoaded(const Job& job, const std::string& folder, Reference reference, uint64_t saved_step) {
  Reference next = reference;
  next.step(static_cast<int>(job.comms.size()), 1, 7, 1);
  job.run([&](horingParo_t paro, Trainee& trainee) {
    uint64_t step = 0;
    ASSERT_PARO(horingParoLoad(paro, folder.c_str(), &step));
    EXPECT_EQ(step, saved_step);
    ASSERT_NO_FATAL_FAILURE(trainee.expectParams(reference));
    trainee.step(Optimizer::kAdam, 1, 7);
    trainee.expectParams(next);
  });
}

TEST(Checkpoint, AnyStrategyOnAnyRanksLoadsWhatAnyOtherSaved) {
  const std::vector<std::vector<horingComm_t>> layouts = {makeGrid(2, 2), makeGrid(1, 3),
                                                          makeGroupsOf({3, 1}), makeGrid(2, 1)};
  const auto strategies = {horingParoNNN, horingParoNIG, horingParoIII, horingParoING, horingParoGGG};
  for (const auto& writers : layouts)
    for (const auto saved_by : strategies) {
      const Folder folder;
      const std::string path = folder / "checkpoint";
      const Job writer{writers, saved_by};
      writer.trainAndSave(path, 2);
      for (const auto& readers : layouts)
        for (const auto loaded_by : strategies) {
          // Each pair of strategies on one pair of layouts, each pair of layouts with one pair of strategies.
          if (&readers != &writers && loaded_by != saved_by) continue;
          SCOPED_TRACE(testing::Message() << saved_by << " on " << writers.size() << " to " << loaded_by
                                          << " on " << readers.size());
          expectLoaded({readers, loaded_by}, path, trained(static_cast<int>(writers.size()), 2), 2);
          if (testing::Test::HasFailure()) return;
        }
    }
  for (const auto& comms : layouts) destroyAll(comms);
}

// As the files have it.
struct StoredSection {
  uint64_t param, first, count;
  uint32_t kind, type;
  uint64_t offset;
  unsigned char digest[32];
};

class Damage : public testing::Test {
 protected:
  Damage() : comms_(makeGrid(2, 2)), path_(folder_ / "checkpoint") { Job{comms_}.trainAndSave(path_, 1); }
  ~Damage() override { destroyAll(comms_); }

  // Every rank refuses the checkpoint, and nothing of it has come in.
  void expectRefused(const Job& job, horingResult_t result, const char* named) {
    job.run([&](horingParo_t paro, Trainee& trainee) {
      trainee.initialise();
      uint64_t step = 99;
      EXPECT_TRUE(paroRefuses(horingParoLoad(paro, path_.c_str(), &step), result, named));
      EXPECT_EQ(step, 99u);
      trainee.expectParams(Reference(job.params, Optimizer::kSgd));
    });
  }
  void expectRefused(horingResult_t result, const char* named) { expectRefused(Job{comms_}, result, named); }

  // The file of a rank.
  std::string shard(int rank) const {
    for (const std::string& name : filesIn(path_))
      if (name.ends_with(std::string("-").append(std::to_string(rank)))) return path_ + "/" + name;
    return {};
  }
  static void flip(const std::string& path, int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset, offset < 0 ? std::ios::end : std::ios::beg);
    const int byte = file.get();
    file.seekp(offset, offset < 0 ? std::ios::end : std::ios::beg);
    file.put(static_cast<char>(byte ^ 4));
  }

  // Changes section `number` of a rank's file and all digests above it, as only a deliberate forger can.
  template <typename Change>
  void forge(int rank, size_t number, Change change) const {
    const std::string path = shard(rank);
    std::string file = contentOf(path);
    auto* const section = reinterpret_cast<StoredSection*>(file.data()) + number;
    const size_t index_bytes = reinterpret_cast<const StoredSection*>(file.data())->offset;
    const std::string old_index = digestOf(file.substr(0, index_bytes));
    change(*section);
    std::ofstream(path, std::ios::binary) << file;
    std::string manifest = contentOf(path_ + "/manifest");
    manifest.replace(manifest.find(old_index), old_index.size(), digestOf(file.substr(0, index_bytes)));
    manifest.erase(manifest.rfind("digest "));
    writeManifest(path_ + "/manifest", manifest);
  }

  const std::vector<horingComm_t> comms_;
  const Folder folder_;
  const std::string path_;
};

TEST_F(Damage, ThatSomebodyMeantIsFound) {
  const std::string manifest = contentOf(path_ + "/manifest"), file = contentOf(shard(2));
  const struct {
    std::function<void(StoredSection&)> change;
    const char* named;
  } forgeries[] = {
      {[](StoredSection& section) { --section.first; }, "is there twice or not at all"},
      {[](StoredSection& section) { --section.count; }, "is there twice or not at all"},
      {[](StoredSection& section) { section.count = UINT64_MAX / 4 + 2; }, "elements that it does not have"},
      {[](StoredSection& section) { section.first = UINT64_MAX; }, "elements that it does not have"},
      {[](StoredSection& section) { section.offset = UINT64_MAX - 8; }, "elements that are not in the file"},
      {[](StoredSection& section) { section.offset = 0; }, "elements that are not in the file"},
      {[](StoredSection& section) { section.param = 10; }, "a number that no parameter has"},
      {[](StoredSection& section) { section.kind = 4; }, "a value that it does not have"},
      {[](StoredSection& section) { section.type = horingInt8; }, "elements of another type"},
      {[](StoredSection& section) { section.digest[3] ^= 1; }, "are damaged: their digest is another one"}};
  for (const auto& forgery : forgeries) {
    forge(2, 0, forgery.change);
    expectRefused(horingInvalidArgument, forgery.named);
    std::ofstream(path_ + "/manifest", std::ios::binary) << manifest;
    std::ofstream(shard(2), std::ios::binary) << file;
  }
  expectLoaded({comms_}, path_, trained(4, 1), 1);
}

TEST_F(Damage, OfElementsIsFoundAndToldWhere) {
  flip(shard(2), -3);
  expectRefused(horingInvalidArgument, "are damaged: their digest is another one");
  expectRefused(horingInvalidArgument, "of parameter");
  flip(shard(2), -3);
  expectLoaded({comms_}, path_, trained(4, 1), 1);
}

TEST_F(Damage, OfAnIndexIsFound) {
  flip(shard(0), 8);
  expectRefused(horingInvalidArgument, "-0: the index is damaged");
}

TEST_F(Damage, OfTheManifestIsFound) {
  const int64_t length = static_cast<int64_t>(fs::file_size(path_ + "/manifest"));
  for (int64_t offset = 0; offset < length; offset += 97) {
    flip(path_ + "/manifest", offset);
    expectRefused(horingInvalidArgument, "the manifest is truncated, damaged or of another version");
    flip(path_ + "/manifest", offset);
  }
  expectLoaded({comms_}, path_, trained(4, 1), 1);
}

TEST_F(Damage, TruncatedFilesAreNamed) {
  const std::string manifest = path_ + "/manifest";
  fs::resize_file(shard(1), fs::file_size(shard(1)) - 1);
  expectRefused(horingInvalidArgument, "bytes, and the manifest says");
  fs::resize_file(manifest, fs::file_size(manifest) / 2);
  expectRefused(horingInvalidArgument, "/manifest: there is no digest: the manifest is truncated");
  fs::resize_file(manifest, 0);
  expectRefused(horingInvalidArgument, "/manifest: there is no digest");
}

// Opening such a pipe would block for ever.
TEST_F(Damage, PipesAndFoldersAreNoFiles) {
  const std::string manifest = path_ + "/manifest", file = shard(1), text = contentOf(manifest);
  fs::remove(manifest);
  ASSERT_EQ(::mkfifo(manifest.c_str(), 0600), 0);
  expectRefused(horingInvalidArgument, "/manifest is not a file");
  fs::remove(manifest);
  std::ofstream(manifest, std::ios::binary) << text;
  fs::remove(file);
  fs::create_directory(file);
  expectRefused(horingInvalidArgument, "-1 is not a file");

  // The files of a new checkpoint replace any file with their temporary name, and are not written through it.
  const std::string other = folder_ / "other";
  std::ofstream(other) << "mine";
  fs::create_symlink(other, manifest + ".new");
  Job{comms_}.trainAndSave(path_, 2);
  EXPECT_EQ(contentOf(other), "mine");
  expectLoaded({comms_}, path_, trained(4, 2), 2);
  ASSERT_EQ(::mkfifo((manifest + ".new").c_str(), 0600), 0);
  Job{comms_}.trainAndSave(path_, 3);
  expectLoaded({comms_}, path_, trained(4, 3), 3);
}

TEST_F(Damage, AManifestLongerThanAnyIsNotRead) {
  fs::resize_file(path_ + "/manifest", uint64_t{1} << 31);
  expectRefused(horingInvalidArgument, "/manifest has 2147483648 bytes: no manifest has as many");
}

TEST_F(Damage, MissingFilesAreNamed) {
  fs::remove(shard(3));
  expectRefused(horingSystemError, "cannot open");
  fs::remove_all(path_);
  expectRefused(horingSystemError, "/manifest: No such file");
}

TEST_F(Damage, AnotherModelIsRefusedWithTheFirstDifference) {
  Job job{comms_};
  job.params[5].count = 20;
  expectRefused(job, horingInvalidArgument,
                "its parameter 5 has 19 float16 elements, trainable, and that of this one 20 float16 "
                "elements, trainable");
  job.params.pop_back();
  expectRefused(job, horingInvalidArgument, "it has 10 parameters, and this one has 9");
  job.params = kModel;
  job.state_values = 1;
  expectRefused(job, horingInvalidArgument, "it has 2 values of state for each element, and this one has 1");
}

TEST_F(Damage, WithinAStepNothingIsSavedOrLoaded) {
  Job{comms_}.run([&](horingParo_t paro, Trainee& trainee) {
    const auto refuses = [&](const char* named) {
      return paroRefuses(horingParoSave(paro, path_.c_str(), 5), horingInvalidUsage, named) &&
             paroRefuses(horingParoLoad(paro, path_.c_str(), nullptr), horingInvalidUsage, named);
    };
    trainee.initialise();
    ASSERT_PARO(horingParoGatherParams(paro, 0));
    EXPECT_TRUE(refuses("expected horingParoReleaseParams before"));
    ASSERT_PARO(horingParoReleaseParams(paro, 0));
    ASSERT_PARO(horingParoOpenGrads(paro, 0));
    EXPECT_TRUE(refuses("bucket 0 has open gradients: expected horingParoSyncParams before"));
    ASSERT_PARO(horingParoReduceGrads(paro, 0));
    EXPECT_TRUE(refuses("expected horingParoSyncParams before"));
  });
  expectLoaded({comms_}, path_, trained(4, 1), 1);
}

TEST_F(Damage, IsNotDoneToFilesThatOnlyHaveASimilarName) {
  const std::vector<std::string> others = {"shard-00001.tar", "shard-0-of-4", "shard-",
                                           "shard-0123456789abcdef-0.bak", "manifest.old"};
  for (const std::string& name : others) std::ofstream(path_ + "/" + name) << "mine";
  std::ofstream(path_ + "/shard-0123456789abcdef-3.new") << "of a save that failed";
  std::ofstream(path_ + "/shard-0123456789abcdef-12") << "of a save that failed";
  Job{comms_}.trainAndSave(path_, 2);
  std::vector<std::string> left = filesIn(path_);
  EXPECT_EQ(left.size(), 5 + others.size());
  for (const std::string& name : others)
    EXPECT_TRUE(std::binary_search(left.begin(), left.end(), name)) << name << " is gone";
}

TEST_F(Damage, IsNotDoneByRanksThatSeeDifferentFolders) {
  const fs::path apart = folder_ / "apart";
  fs::create_directory(apart);
  Job{comms_}.run([&](horingParo_t paro, Trainee& trainee) {
    trainee.initialise();
    const std::string folder = trainee.rank() < 2 ? path_ : apart.string();
    EXPECT_TRUE(paroRefuses(horingParoSave(paro, folder.c_str(), 2), horingInvalidUsage,
                            "rank 0: rank 2 has written"));
  });
  expectLoaded({comms_}, path_, trained(4, 1), 1);
}

TEST_F(Damage, ASaveThatFailsOnOneRankLeavesNothing) {
  const std::vector<std::string> before = filesIn(path_);
  const std::string file = folder_ / "file";
  std::ofstream(file) << "mine";
  Job{comms_}.run([&](horingParo_t paro, Trainee& trainee) {
    trainee.initialise();
    const std::string& folder = trainee.rank() == 2 ? file : path_;
    EXPECT_TRUE(
        paroRefuses(horingParoSave(paro, folder.c_str(), 2), horingSystemError, "rank 2: cannot create"));
  });
  EXPECT_EQ(filesIn(path_), before);
  expectLoaded({comms_}, path_, trained(4, 1), 1);
}

TEST_F(Damage, IsNotDoneByALookAtTheFolder) {
  const std::vector<std::string> before = filesIn(path_);
  const std::string fresh = folder_ / "fresh", file = folder_ / "file";
  std::ofstream(file) << "mine";
  Job{comms_}.run([&](horingParo_t paro, Trainee& trainee) {
    EXPECT_PARO(horingParoCheckFolder(paro, fresh.c_str()));
    EXPECT_PARO(horingParoCheckFolder(paro, path_.c_str()));
    EXPECT_TRUE(
        paroRefuses(horingParoCheckFolder(paro, file.c_str()), horingSystemError, "rank 0: cannot create"));
    EXPECT_TRUE(paroRefuses(horingParoCheckFolder(paro, (folder_ / "no/folder").c_str()), horingSystemError,
                            "rank 0: cannot make the folder"));
    const std::string& folder = trainee.rank() == 3 ? path_ : fresh;
    EXPECT_TRUE(paroRefuses(horingParoCheckFolder(paro, folder.c_str()), horingInvalidUsage,
                            "rank 0: rank 3 has written"));
    EXPECT_TRUE(paroRefuses(horingParoCheckFolder(paro, nullptr), horingInvalidArgument, "folder is NULL"));
  });
  EXPECT_EQ(filesIn(path_), before);
  EXPECT_TRUE(filesIn(fresh).empty());
  expectLoaded({comms_}, path_, trained(4, 1), 1);
}

// Bytes that a process may write to a file from now on.
void limitFiles(rlim_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST_F(Damage, AFullDiskLeavesTheLastCheckpoint) {
  const std::vector<std::string> before = filesIn(path_);
  Job{comms_}.run([&](horingParo_t paro, Trainee& trainee) {
    trainee.initialise();
    ASSERT_PARO(horingParoSave(paro, (folder_ / "other").c_str(), 2));  // its connections are files, too
    limitFiles(4000);
    EXPECT_TRUE(paroRefuses(horingParoSave(paro, path_.c_str(), 2), horingSystemError, "cannot write"));
    EXPECT_NE(std::string(horingParoGetLastError()).find("rank "), std::string::npos);
  });
  limitFiles(RLIM_INFINITY);
  expectLoaded({comms_}, path_, trained(4, 1), 1);
  // The next one that succeeds takes its place and what the failed one has left.
  Job{comms_}.trainAndSave(path_, 3);
  EXPECT_EQ(filesIn(path_).size(), before.size());
  expectLoaded({comms_}, path_, trained(4, 3), 3);
}

// A process that dies while it writes.
void dieWhileSaving(const std::string& folder) {
  const std::vector<horingComm_t> comms = makeGrid(2, 2);
  Job{comms}.run([&](horingParo_t paro, Trainee& trainee) {
    trainee.initialise();
    dies_at_fsync = true;
    (void)horingParoSave(paro, folder.c_str(), 2);
  });
}

TEST(CheckpointDeathTest, AWriterThatDiesLeavesTheLastCheckpoint) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  // The child runs this test from its beginning, in the folder that the parent has made.
  constexpr char kVariable[] = "PARO_TEST_DYING_WRITER";
  const bool is_child = std::getenv(kVariable) != nullptr;
  std::optional<Folder> folder;  // none of the child's, which could not remove it
  if (!is_child) folder.emplace();
  const std::string path = is_child ? std::getenv(kVariable) : *folder / "checkpoint";
  const Setting told(kVariable, path);
  if (!is_child) {
    const std::vector<horingComm_t> comms = makeGrid(2, 2);
    Job{comms}.trainAndSave(path, 1);
    destroyAll(comms);
  }
  EXPECT_EXIT(dieWhileSaving(path), testing::KilledBySignal(SIGKILL), "");
  const std::vector<std::string> left = filesIn(path);
  EXPECT_GT(left.size(), 5u) << "it died before it wrote";
  const std::vector<horingComm_t> comms = makeGrid(2, 2);
  expectLoaded({comms}, path, trained(4, 1), 1);
  Job{comms}.trainAndSave(path, 2);
  EXPECT_EQ(filesIn(path).size(), 5u);  // the dead process's files are gone, too
  destroyAll(comms);
}

}  // namespace
