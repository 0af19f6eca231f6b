// From the functions of include/horing/paro.h to the client: handles, errors, NULL.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/float_environment.h"
#include "base/thread_object.h"
#include "horing/paro.h"
#include "paro/client.h"
#include "paro/convert.h"
#include "paro/rates.h"
#include "paro/sized.h"
#include "paro/strategy.h"

struct horingParo {
  std::unique_ptr<horing::paro::Client> client;
};

namespace horing::paro {
namespace {

// Programs own these and give no size: they keep the one that they have.
static_assert(sizeof(horingParoBucket_t) == 24 && sizeof(horingParoPlace_t) == 24 &&
              sizeof(horingParoParam_t) == 16 && sizeof(horingParoOperation_t) == 40 &&
              sizeof(horingParoRates_t) == 144);

// Thread-local: the API gives the text no owner, as in horing.h.
struct LastError {
  std::string text;
};
using ThreadLastError = ThreadObject<LastError>;
thread_local bool out_of_memory = false;

horingResult_t report(const Status& status) {
  if (!status.ok()) {
    ThreadLastError::get().text = status.message();
    out_of_memory = false;
  }
  return static_cast<horingResult_t>(status.code());
}

// Every entry point is one call of this: no exception leaves the library.
template <typename Body>
horingResult_t guarded(Body body) noexcept {
  const DefaultFloats floats;
  try {
    return report(body());
  } catch (...) {
    out_of_memory = true;
    return horingSystemError;
  }
}

Status checkPointer(const void* pointer, const char* name) {
  if (pointer) return {};
  return makeStatus(Code::kInvalidArgument, "%s is NULL: expected an address", name);
}

template <typename T>
Status deliver(Result<T> result, T* to) {
  HORING_TRY(result.status());
  *to = result.take();
  return {};
}

// Runs body(client) after checking `out`.
template <typename Body>
horingResult_t onClient(horingParo_t paro, const void* out, const char* name, Body body) noexcept {
  return guarded([&]() -> Status {
    HORING_TRY(checkPointer(paro, "paro"));
    HORING_TRY(checkPointer(out, name));
    return body(*paro->client);
  });
}
template <typename Body>
horingResult_t onClient(horingParo_t paro, Body body) noexcept {
  return onClient(paro, paro, "paro", body);
}

// Writes the result of body(client) to a struct that says its size.
template <typename Struct, typename Body>
horingResult_t answer(horingParo_t paro, Struct* to, Body body) noexcept {
  return onClient(paro, to, kSizeRule<Struct>.name, [&](Client& client) -> Status {
    HORING_TRY(checkSize(*to));
    const Result<Struct> result = body(client);
    HORING_TRY(result.status());
    giveKnownFields(result.value(), *to);
    return {};
  });
}

// Checks a rank's own arguments, and copies them to `description`, unless they cannot be read.
Status readArguments(const horingParoConfig_t* config, std::span<const horingParoParam_t> params,
                     Description& description) {
  description.config = HORING_PARO_CONFIG_INITIALIZER;
  if (config) HORING_TRY(readSized(*config, description.config));
  const horingParoConfig_t& given = description.config;
  if (given.strategy != horingParoAuto) HORING_TRY(findRow(given.strategy).status());
  if (given.stateValues < 0 || given.stateValues > HORING_PARO_MAX_STATE)
    return makeStatus(Code::kInvalidArgument, "config.stateValues is %d: expected 0 to %d", given.stateValues,
                      HORING_PARO_MAX_STATE);
  if (given.microSteps < 1 || given.microSteps > kMaxMicroSteps)
    return makeStatus(Code::kInvalidArgument, "config.microSteps is %d: expected 1 to %d", given.microSteps,
                      kMaxMicroSteps);
  const int gather_types[] = {0, horingBfloat16, horingFloat16, horingFloat32};
  if (std::ranges::find(gather_types, given.gatherType) == std::end(gather_types))
    return makeStatus(Code::kInvalidArgument,
                      "config.gatherType is %d: expected horingBfloat16, horingFloat16, horingFloat32, or 0",
                      given.gatherType);
  if (given.gradBuffers < 0 || given.gradBuffers == 1 || given.gradBuffers > HORING_PARO_MAX_GRAD_BUFFERS)
    return makeStatus(Code::kInvalidArgument, "config.gradBuffers is %d: expected 2 to %d, or 0 for 2",
                      given.gradBuffers, HORING_PARO_MAX_GRAD_BUFFERS);
  if (given.memory) HORING_TRY(readSized(*given.memory, description.memory));
  if ((description.memory.allocate == nullptr) != (description.memory.release == nullptr))
    return makeStatus(Code::kInvalidArgument,
                      "config.memory has one of allocate and release: expected both, or neither");
  if (!description.memory.onGpu && description.memory.stream)
    return makeStatus(Code::kInvalidArgument,
                      "config.memory has a stream, and onGpu is 0: expected onGpu 1, or no stream");
  if (!params.data() && !params.empty())
    return makeStatus(Code::kInvalidArgument, "params is NULL: expected %zu parameters", params.size());
  if (params.size() > kMaxParams)
    return makeStatus(Code::kInvalidArgument, "%zu parameters: expected at most %zu", params.size(),
                      kMaxParams);
  HORING_ASSIGN(description.names, readNames(given.names, params.size()));
  HORING_TRY(checkParams(params, description.names));
  description.params.assign(params.begin(), params.end());
  description.units.assign(params.size(), 0);
  if (given.units) description.units.assign(given.units, given.units + params.size());
  description.config.units = nullptr;
  description.config.names = nullptr;
  description.config.memory = nullptr;
  return {};
}

}  // namespace
}  // namespace horing::paro

using namespace horing;
using namespace horing::paro;

extern "C" {

const char* horingParoGetLastError(void) {
  try {
    if (!out_of_memory) return ThreadLastError::get().text.c_str();
  } catch (...) {  // no memory
  }
  return "out of memory";
}

horingResult_t horingParoGetStrategy(horingParoStrategy_t strategy, const horingParoStrategyInfo_t** info) {
  return guarded([&]() -> Status {
    HORING_TRY(checkPointer(info, "info"));
    return deliver(findRow(strategy), info);
  });
}

horingResult_t horingParoFindStrategy(const char* name, horingParoStrategy_t* strategy) {
  return guarded([&]() -> Status {
    HORING_TRY(checkPointer(name, "name"));
    HORING_TRY(checkPointer(strategy, "strategy"));
    return deliver(findStrategy(name), strategy);
  });
}

horingResult_t horingParoGetEstimate(horingParoStrategy_t strategy, const horingParoModel_t* model,
                                     horingParoEstimate_t* result) {
  return guarded([&]() -> Status {
    HORING_TRY(checkPointer(model, "model"));
    HORING_TRY(checkPointer(result, "estimate"));
    HORING_TRY(checkSize(*result));
    horingParoModel_t given = HORING_PARO_MODEL_INITIALIZER;
    HORING_TRY(readSized(*model, given));
    HORING_ASSIGN(const Row* const row, findRow(strategy));
    HORING_ASSIGN(const horingParoEstimate_t cost, estimate(*row, given));
    giveKnownFields(cost, *result);
    return {};
  });
}

horingResult_t horingParoMeasure(horingComm_t comm, size_t bytes, horingParoRates_t* rates) {
  return guarded([&]() -> Status {
    HORING_TRY(checkPointer(comm, "comm"));
    HORING_TRY(checkPointer(rates, "rates"));
    return deliver(measureRates(comm, bytes, *makeHostBackend({})), rates);
  });
}

horingResult_t horingParoGetSeconds(const horingParoEstimate_t* estimate, int vectors,
                                    const horingParoRates_t* rates, double* seconds) {
  return guarded([&]() -> Status {
    HORING_TRY(checkPointer(estimate, "estimate"));
    HORING_TRY(checkPointer(rates, "rates"));
    HORING_TRY(checkPointer(seconds, "seconds"));
    horingParoEstimate_t given = HORING_PARO_ESTIMATE_INITIALIZER;
    HORING_TRY(readSized(*estimate, given));
    if (given.numOperations < 0 || given.numOperations > HORING_PARO_MAX_OPERATIONS || vectors < 1)
      return makeStatus(
          Code::kInvalidArgument,
          "%d operations on %d vectors: expected an estimate of horingParoGetEstimate, and at least 1",
          given.numOperations, vectors);
    *seconds = secondsOf(given, vectors, *rates);
    return {};
  });
}

horingResult_t horingParoConvert(const void* from, horingDataType_t fromType, void* to,
                                 horingDataType_t toType, size_t count) {
  return guarded([&]() -> Status {
    for (const horingDataType_t type : {fromType, toType})
      if (bytesOf(type) == 0)
        return makeStatus(
            Code::kInvalidArgument,
            "type is %d: expected horingFloat16, horingBfloat16, horingFloat32 or horingFloat64",
            static_cast<int>(type));
    if (count == 0) return {};
    HORING_TRY(checkPointer(from, "from"));
    HORING_TRY(checkPointer(to, "to"));
    convert(from, fromType, to, toType, count);
    return {};
  });
}

horingResult_t horingParoCreate(horingParo_t* paro, horingComm_t comm, const horingParoConfig_t* config,
                                const horingParoParam_t* params, size_t numParams) {
  return guarded([&]() -> Status {
    HORING_TRY(checkPointer(comm, "comm"));
    Description description;
    Status refused = checkPointer(paro, "paro");
    if (refused.ok()) refused = readArguments(config, {params, numParams}, description);
    auto made = std::make_unique<horingParo>();
    HORING_ASSIGN(made->client, Client::create(comm, std::move(description), refused));
    *paro = made.release();
    return {};
  });
}

horingResult_t horingParoDestroy(horingParo_t paro) {
  return onClient(paro, [&](Client& client) -> Status {
    HORING_TRY(client.mayEnd());
    delete paro;
    return {};
  });
}

horingResult_t horingParoGetInfo(horingParo_t paro, horingParoInfo_t* info) {
  return answer(paro, info, [](const Client& client) -> Result<horingParoInfo_t> { return client.info(); });
}

horingResult_t horingParoGetUsage(horingParo_t paro, horingParoUsage_t* usage) {
  return answer(paro, usage,
                [](const Client& client) -> Result<horingParoUsage_t> { return client.usage(); });
}

horingResult_t horingParoGetPlace(horingParo_t paro, size_t param, horingParoPlace_t* place) {
  return onClient(paro, place, "place", [&](Client& client) { return deliver(client.place(param), place); });
}

horingResult_t horingParoGetBucket(horingParo_t paro, int bucket, horingParoBucket_t* info) {
  return onClient(paro, info, "info",
                  [&](Client& client) { return deliver(client.bucketInfo(bucket), info); });
}

horingResult_t horingParoSetParam(horingParo_t paro, size_t param, const void* values, size_t count,
                                  horingDataType_t type) {
  return onClient(paro, [&](Client& client) { return client.setParam(param, {values, count, type}); });
}

horingResult_t horingParoGatherParams(horingParo_t paro, int bucket) {
  return onClient(paro, [&](Client& client) { return client.gatherParams(bucket); });
}

horingResult_t horingParoGatherMasters(horingParo_t paro, int bucket) {
  return onClient(paro, [&](Client& client) { return client.gatherMasters(bucket); });
}

horingResult_t horingParoGetParam(horingParo_t paro, size_t param, const void** values) {
  return onClient(paro, values, "values",
                  [&](Client& client) { return deliver(client.param(param), values); });
}

horingResult_t horingParoReleaseParams(horingParo_t paro, int bucket) {
  return onClient(paro, [&](Client& client) { return client.releaseParams(bucket); });
}

horingResult_t horingParoOpenGrads(horingParo_t paro, int bucket) {
  return onClient(paro, [&](Client& client) { return client.openGrads(bucket); });
}

horingResult_t horingParoGetGrad(horingParo_t paro, size_t param, void** values) {
  return onClient(paro, values, "values",
                  [&](Client& client) { return deliver(client.grad(param), values); });
}

horingResult_t horingParoReduceGrads(horingParo_t paro, int bucket) {
  return onClient(paro, [&](Client& client) { return client.reduceGrads(bucket); });
}

horingResult_t horingParoReduceGradsOf(horingParo_t paro, int bucket, const void* const* grads,
                                       size_t numGrads) {
  return onClient(paro, grads, "grads", [&](Client& client) {
    return client.reduceGradsOf(bucket, {grads, numGrads});
  });
}

horingResult_t horingParoDiscardGrads(horingParo_t paro, int bucket) {
  return onClient(paro, [&](Client& client) { return client.discardGrads(bucket); });
}

horingResult_t horingParoSyncGrads(horingParo_t paro) {
  return onClient(paro, [&](Client& client) { return client.syncGrads(); });
}

horingResult_t horingParoGetGradNorm(horingParo_t paro, double* norm, int* overflow) {
  return onClient(paro, [&](Client& client) -> Status {
    HORING_ASSIGN(const Client::Norm whole, client.gradNorm());
    if (norm) *norm = whole.norm;
    if (overflow) *overflow = whole.overflow;
    return {};
  });
}

horingResult_t horingParoGetShard(horingParo_t paro, int bucket, horingParoShard_t* shard) {
  return answer(paro, shard, [&](Client& client) { return client.shard(bucket); });
}

horingResult_t horingParoGetMaster(horingParo_t paro, int bucket, horingParoShard_t* shard) {
  return answer(paro, shard, [&](Client& client) { return client.master(bucket); });
}

horingResult_t horingParoSyncParams(horingParo_t paro) {
  return onClient(paro, [&](Client& client) { return client.syncParams(); });
}

horingResult_t horingParoCheckFolder(horingParo_t paro, const char* folder) {
  return onClient(paro, folder, "folder", [&](Client& client) { return client.checkFolder(folder); });
}

horingResult_t horingParoSave(horingParo_t paro, const char* folder, uint64_t step) {
  return onClient(paro, folder, "folder", [&](Client& client) { return client.save(folder, step); });
}

horingResult_t horingParoStartSave(horingParo_t paro, const char* folder, uint64_t step) {
  return onClient(paro, folder, "folder", [&](Client& client) { return client.startSave(folder, step); });
}

horingResult_t horingParoWaitSave(horingParo_t paro) {
  return onClient(paro, [](Client& client) { return client.waitSave(); });
}

horingResult_t horingParoLoad(horingParo_t paro, const char* folder, uint64_t* step) {
  return onClient(paro, folder, "folder", [&](Client& client) -> Status {
    HORING_ASSIGN(const uint64_t saved, client.load(folder));
    if (step) *step = saved;
    return {};
  });
}

horingResult_t horingParoLoadByName(horingParo_t paro, const char* folder, int strict, int* loaded,
                                    uint64_t* step) {
  return onClient(paro, folder, "folder", [&](Client& client) -> Status {
    HORING_ASSIGN(const Client::Loaded found, client.loadByName(folder, strict != 0));
    if (loaded) std::copy(found.params.begin(), found.params.end(), loaded);
    if (step) *step = found.step;
    return {};
  });
}

}  // extern "C"
