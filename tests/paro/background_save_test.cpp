// horingParoStartSave: what is saved is what was there when it was called, whatever training does meanwhile.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "../sanitizer.h"
#include "../temporary_folder.h"
#include "job.h"

namespace {
std::atomic<int> still_training{0};
std::atomic<bool> dies_at_mkdir{false};
}  // namespace

// In place of the system's, also for the library, which calls it before it writes: waits until all ranks have trained.
extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  if (dies_at_mkdir) ::kill(::getpid(), SIGKILL);
  while (still_training > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

namespace {

class BackgroundSave : public testing::Test {
 protected:
  static constexpr int kRanks = 4;

  void SetUp() override { comms_ = makeGrid(2, 2); }
  void TearDown() override { destroyAll(comms_); }

  // body(paro, trainee) on every rank.
  template <typename Body>
  void run(horingParoStrategy_t strategy, Body body) {
    onClients(comms_, configOf(strategy), kModel, body);
  }
  static Reference trained(int steps) {
    Reference reference(kModel, Optimizer::kAdam);
    for (int step = 0; step < steps; ++step) reference.step(kRanks, 1, step, 1);
    return reference;
  }
  std::string folder(const std::string& name) const { return temporary_.path() / name; }
  static uint64_t copied(horingParo_t paro) {
    horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
    EXPECT_PARO(horingParoGetUsage(paro, &usage));
    return usage.snapshotBytes;
  }

  std::vector<horingComm_t> comms_;

 private:
  const horing::test::TemporaryFolder temporary_;
};

TEST_F(BackgroundSave, HasWhatWasThereWhenItWasStarted) {
  for (const auto strategy : {horingParoNNN, horingParoNIG, horingParoIII, horingParoIIG, horingParoGGG}) {
    SCOPED_TRACE(strategy);
    const std::string path = folder(std::to_string(strategy));
    still_training = kRanks;
    run(strategy, [&](horingParo_t paro, Trainee& trainee) {
      trainee.initialise();
      for (int step = 0; step < 2; ++step) trainee.step(Optimizer::kAdam, 1, step);
      ASSERT_PARO(horingParoStartSave(paro, path.c_str(), 2));
      for (int step = 2; step < 4; ++step) trainee.step(Optimizer::kAdam, 1, step);
      trainee.expectParams(trained(4));
      EXPECT_GT(copied(paro), 0u);
      for (const auto result :
           {horingParoSave(paro, path.c_str(), 4), horingParoLoad(paro, path.c_str(), nullptr),
            horingParoStartSave(paro, path.c_str(), 4), horingParoCheckFolder(paro, path.c_str())})
        EXPECT_TRUE(paroRefuses(result, horingInvalidUsage,
                                "while a save is under way: expected horingParoWaitSave"));
      --still_training;
      ASSERT_PARO(horingParoWaitSave(paro));
      EXPECT_EQ(copied(paro), 0u);
      EXPECT_PARO(horingParoWaitSave(paro));  // there is none
    });
    run(strategy, [&](horingParo_t paro, Trainee& trainee) {
      uint64_t step = 0;
      ASSERT_PARO(horingParoLoad(paro, path.c_str(), &step));
      EXPECT_EQ(step, 2u);
      trainee.expectParams(trained(2));
      trainee.step(Optimizer::kAdam, 1, 2);  // with the optimizer's values
      trainee.expectParams(trained(3));
    });
    if (HasFailure()) return;
  }
}

TEST_F(BackgroundSave, TellsAllRanksWhatWentWrongWhenTheyWait) {
  const std::string file = folder("file"), path = folder("checkpoint");
  std::ofstream(file) << "mine";
  run(horingParoIIG, [&](horingParo_t paro, Trainee& trainee) {
    trainee.initialise();
    ASSERT_PARO(horingParoStartSave(paro, (trainee.rank() == 2 ? file : path).c_str(), 1));
    trainee.step(Optimizer::kAdam, 1, 0);
    EXPECT_TRUE(paroRefuses(horingParoWaitSave(paro), horingSystemError, "rank 2: cannot create"));
    ASSERT_PARO(horingParoStartSave(paro, path.c_str(), 1));  // the next one is not harmed
    EXPECT_PARO(horingParoWaitSave(paro));
    EXPECT_PARO(horingParoLoad(paro, path.c_str(), nullptr));
    trainee.expectParams(trained(1));
    ASSERT_PARO(horingParoGatherParams(paro, 0));
    EXPECT_TRUE(paroRefuses(horingParoStartSave(paro, path.c_str(), 1), horingInvalidUsage,
                            "horingParoStartSave while bucket 0 is gathered"));
    ASSERT_PARO(horingParoReleaseParams(paro, 0));
    ASSERT_PARO(horingParoStartSave(paro, path.c_str(), 2));  // destroyed without a wait: it is completed
  });
  run(horingParoGGG, [&](horingParo_t paro, Trainee&) {
    uint64_t step = 0;
    ASSERT_PARO(horingParoLoad(paro, path.c_str(), &step));
    EXPECT_EQ(step, 2u);
  });
}

// Its exit code.
int saveBeside(int rank, int victim, const horingUniqueId& id, const std::string& folder) {
  horingComm_t comm = nullptr;
  if (horingCommInitRank(&comm, 3, id, rank) != horingSuccess) return 10;
  const horingParoConfig_t config = configOf(horingParoGGG);
  horingParo_t paro = nullptr;
  if (horingParoCreate(&paro, comm, &config, kModel.data(), kModel.size()) != horingSuccess) return 11;
  dies_at_mkdir = rank == victim;
  if (horingParoStartSave(paro, folder.c_str(), 1) != horingSuccess) return 12;
  const horingResult_t result = horingParoWaitSave(paro);
  const std::string text = horingParoGetLastError();
  std::fprintf(stderr, "%d, %s\n", result, text.c_str());
  return result == horingRemoteError && text.find("rank " + std::to_string(victim)) != std::string::npos ? 0
                                                                                                         : 13;
}

TEST(BackgroundSaveOfProcesses, NamesARankThatWasKilledMeanwhile) {
  if (horing::test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
  const horing::test::TemporaryFolder temporary;
  constexpr int kVictim = 1;
  horingUniqueId id;
  ASSERT_EQ(horingGetUniqueId(&id), horingSuccess);
  pid_t ranks[3];
  for (int rank = 0; rank < 3; ++rank) {
    ranks[rank] = ::fork();
    ASSERT_GE(ranks[rank], 0);
    if (ranks[rank] == 0) ::_exit(saveBeside(rank, kVictim, id, temporary.path() / "checkpoint"));
  }
  for (int rank = 0; rank < 3; ++rank) {
    int status = -1;
    ASSERT_EQ(::waitpid(ranks[rank], &status, 0), ranks[rank]);
    if (rank == kVictim)
      EXPECT_TRUE(WIFSIGNALED(status)) << status;
    else
      EXPECT_EQ(status, 0) << "rank " << rank;
  }
}

}  // namespace
