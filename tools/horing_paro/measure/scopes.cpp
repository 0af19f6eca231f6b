#include "horing_paro/measure/scopes.h"

namespace horing::paro {

size_t bytesOf(horingDataType_t type) {
  return type == horingFloat64 ? 8 : type == horingFloat32 ? 4 : 2;
}

Status Scopes::open() {
  HORING_ASSIGN(global_place_, placeIn(global_));
  HORING_ASSIGN(const Groups groups, groupsIn(global_));
  grid_ = gridOf(groups.sizes);
  horingComm_t made = nullptr;
  HORING_TRY(statusOfHoring(horingCommSplit(global_, groups.own, groups.local, &made, nullptr)));
  group_.reset(made);
  HORING_TRY(statusOfHoring(horingCommSplit(global_, groups.local, groups.own, &made, nullptr)));
  rail_.reset(made);
  return {};
}

horingComm_t Scopes::at(horingParoScope_t scope) const {
  return scope == horingParoGroup ? group_.get() : scope == horingParoRail ? rail_.get() : global_;
}

Status Scopes::run(horingParoScope_t scope, horingParoCollective_t collective, Part vector,
                   horingDataType_t type) {
  if (collective == horingParoReduceScatter) return reduceScatter(scope, vector, type).status();
  if (collective == horingParoAllReduce)
    return statusOfHoring(horingAllReduce(vector.data, vector.data, vector.bytes / bytesOf(type), type,
                                          horingAvg, at(scope), nullptr));
  HORING_ASSIGN(const Part mine, partOf(scope, vector));
  return allGather(scope, mine.data, vector, type);
}

Status Scopes::allGather(horingParoScope_t scope, const char* own, Part vector, horingDataType_t type) {
  HORING_ASSIGN(const Part mine, partOf(scope, vector));
  return statusOfHoring(
      horingAllGather(own, vector.data, mine.bytes / bytesOf(type), type, at(scope), nullptr));
}

Result<Part> Scopes::reduceScatter(horingParoScope_t scope, Part vector, horingDataType_t type) {
  HORING_ASSIGN(const Part mine, partOf(scope, vector));
  HORING_TRY(statusOfHoring(horingReduceScatter(vector.data, mine.data, mine.bytes / bytesOf(type), type,
                                                horingAvg, at(scope), nullptr)));
  return mine;
}

Result<Part> Scopes::partOf(horingParoScope_t scope, Part vector) const {
  HORING_ASSIGN(const Place place, placeIn(at(scope)));
  const size_t bytes = vector.bytes / static_cast<size_t>(place.ranks);
  return Part{vector.data + static_cast<size_t>(place.rank) * bytes, bytes};
}

Result<double> Scopes::slowest(double value) {
  HORING_TRY(statusOfHoring(horingAllReduce(&value, &value, 1, horingFloat64, horingMax, global_, nullptr)));
  return value;
}

}  // namespace horing::paro
