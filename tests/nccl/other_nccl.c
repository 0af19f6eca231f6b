/* Another libnccl.so.2, of which a program is weaned. */
int ncclGetVersion(int* version) {
  *version = 1;
  return 0;
}
int ncclCommInitAll(void** comms, int count, const int* devices) {
  (void)comms, (void)count, (void)devices;
  return 3;
}
int ncclAllReduce(const void* in, void* out, unsigned long count, int type, int op, void* comm,
                  void* stream) {
  (void)in, (void)out, (void)count, (void)type, (void)op, (void)comm, (void)stream;
  return 3;
}
int ncclGroupStart(void) {
  return 3;
}
int ncclGroupEnd(void) {
  return 3;
}
int ncclCommDestroy(void* comm) {
  (void)comm;
  return 3;
}
