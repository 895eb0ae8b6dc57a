// A TensorFlow filesystem: smartssd://<card>/<path>?<parameters> is read from the card of that name, a process behind
// a Unix socket. What goes over the socket is described in protocol.py.
//
// The plugin knows no Python and no OpenCL. Every question can be asked again: where the card is gone, or its answer
// is not one, the same question goes to it anew until the time is up. What the card says is believed only if it has the
// length it must have, the number of the question, and the checksum of its bytes.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "tensorflow/c/experimental/filesystem/filesystem_interface.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr char kScheme[] = "smartssd://";
constexpr size_t kRequestHead = 36, kReplyHead = 28, kNameLimit = 8192, kCardLimit = 32, kIdle = 64;
constexpr uint64_t kAskLimit = 16u << 20;      // bytes of a file that one question asks for
constexpr uint64_t kRecordsAhead = 4u << 20;   // bytes of records: enough of them to fill a batch
constexpr uint64_t kAnswerLimit = 1u << 30;    // bytes of records or names that one answer may have
constexpr uint64_t kSentenceLimit = 64u << 10;
constexpr uint64_t kSizeLimit = 4096;          // side of an image, in pixels
constexpr double kTimeoutLimitS = 3600;
constexpr auto kStartGrace = std::chrono::milliseconds(1000);

enum Op : uint8_t { kRead = 2, kStat = 3, kList = 4, kGlob = 5 };
enum Kind : uint8_t { kPlain = 0, kRecords = 1 };

// -- checksums ---------------------------------------------------------------------------------------------------

// A CRC of 32 bits, sixteen bytes at a step ("slicing", Kounavis and Berry 2005).
class Crc {
 public:
  explicit Crc(uint32_t polynomial) {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? polynomial : 0);
      tables_[0][i] = value;
    }
    for (int t = 1; t < 16; ++t)
      for (int i = 0; i < 256; ++i)
        tables_[t][i] = (tables_[t - 1][i] >> 8) ^ tables_[0][tables_[t - 1][i] & 255];
  }

  uint32_t operator()(const char* data, size_t size, uint32_t before = 0) const {
    const auto* byte = reinterpret_cast<const unsigned char*>(data);
    uint32_t state = ~before;
    for (; size >= 16; size -= 16, byte += 16) {
      uint32_t next = 0;
      for (int i = 0; i < 4; ++i) next ^= tables_[15 - i][byte[i] ^ ((state >> (8 * i)) & 255)];
      for (int i = 4; i < 16; ++i) next ^= tables_[15 - i][byte[i]];
      state = next;
    }
    for (; size; --size, ++byte) state = (state >> 8) ^ tables_[0][(state ^ *byte) & 255];
    return ~state;
  }

 private:
  std::array<std::array<uint32_t, 256>, 16> tables_;
};

const Crc kCrc32(0xEDB88320u);   // as in zlib: what a reply carries
const Crc kCrc32c(0x82F63B78u);  // Castagnoli: what a TFRecord file carries

// TFRecord keeps a CRC turned by 15 bits and moved (tensorflow/core/lib/hash/crc32c.h).
uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

template <typename T>
void Put(std::string* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) to->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
}

template <typename T>
T Get(const char* from) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  return static_cast<T>(value);
}

// -- what this process knows -------------------------------------------------------------------------------------

// Open connections that nobody uses right now, and what Python has told. One lock: it is held for moments only.
struct Shared {
  std::mutex lock;
  std::string folder;
  double timeout_s = 20;
  std::map<std::string, std::vector<int>> idle;
  std::set<std::string> seen;  // cards that have answered this process: one of them that is gone may come back
  pid_t owner = 0;
  int wake[2] = {-1, -1};
  std::atomic<bool> closing{false};
  std::atomic<uint64_t> id{1};
};

// Never destroyed: threads of tf.data may still read while the process ends.
Shared& shared() {
  static Shared* const instance = new Shared;
  return *instance;
}

// A pipe that becomes readable when this process ends.
int OpenWake(Shared& all) {
  if (pipe(all.wake) != 0) return errno;
  for (int end : all.wake) fcntl(end, F_SETFD, FD_CLOEXEC);
  return 0;
}

// Forget connections that a fork of this process shares with it: two readers of one socket get each other's bytes.
void OwnConnections(Shared& all) {
  if (all.owner == getpid()) return;
  for (auto& [card, sockets] : all.idle)
    for (int socket : sockets) close(socket);
  all.idle.clear();
  if (all.owner) OpenWake(all);
  all.owner = getpid();
}

int TakeIdle(const std::string& card) {
  Shared& all = shared();
  std::lock_guard<std::mutex> hold(all.lock);
  OwnConnections(all);
  auto& sockets = all.idle[card];
  if (sockets.empty()) return -1;
  int socket = sockets.back();
  sockets.pop_back();
  return socket;
}

void GiveIdle(const std::string& card, int socket) {
  Shared& all = shared();
  std::lock_guard<std::mutex> hold(all.lock);
  OwnConnections(all);
  all.seen.insert(card);
  auto& sockets = all.idle[card];
  if (sockets.size() < kIdle)
    sockets.push_back(socket);
  else
    close(socket);
}

void DropIdle(const std::string& card) {
  Shared& all = shared();
  std::lock_guard<std::mutex> hold(all.lock);
  OwnConnections(all);
  for (int socket : all.idle[card]) close(socket);
  all.idle[card].clear();
}

// -- names -------------------------------------------------------------------------------------------------------

struct Name {
  std::string card;
  std::string path;       // with parameters, as the card gets it
  double timeout_s = 20;
  uint64_t pixels = 0;    // bytes of the image that this name stands for; 0 where it stands for something else
  bool records = false;   // a shard whose images become pixels
};

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void Fail(TF_Status* status, TF_Code code, const std::string& sentence) {
  TF_SetStatus(status, code, sentence.c_str());
}

// Take a URI apart. The card judges the parameters; what is read here is only what this side must know as well.
bool Parse(const char* uri, Name* name, TF_Status* status) {
  std::string text(uri);
  const size_t scheme = strlen(kScheme);
  if (text.compare(0, scheme, kScheme) == 0) text.erase(0, scheme);
  const size_t slash = text.find('/');
  name->card = text.substr(0, slash);
  name->path = slash == std::string::npos ? "" : text.substr(slash + 1);
  const bool fits = !name->card.empty() && name->card.size() <= kCardLimit && name->card[0] != '-' &&
                    name->card[0] != '_' &&
                    std::all_of(name->card.begin(), name->card.end(), [](unsigned char c) {
                      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
                             c == '_';
                    });
  if (!fits) {
    Fail(status, TF_INVALID_ARGUMENT,
         "the card in '" + std::string(uri) + "' is '" + name->card +
             "'; allowed: the name of one card, such as card0: up to 32 letters, digits, - and _, and no pattern");
    return false;
  }
  if (name->path.size() > kNameLimit) {
    Fail(status, TF_INVALID_ARGUMENT, "a name of " + std::to_string(name->path.size()) + " bytes; allowed: " +
                                          std::to_string(kNameLimit) + " at most");
    return false;
  }
  {
    std::lock_guard<std::mutex> hold(shared().lock);
    name->timeout_s = shared().timeout_s;
  }
  const size_t mark = name->path.rfind('?');
  if (mark == std::string::npos || name->path.find('=', mark) == std::string::npos ||
      name->path.find('/', mark) != std::string::npos)
    return true;
  uint64_t size = 0, item = 1;
  for (size_t at = mark + 1; at <= name->path.size();) {
    const size_t end = std::min(name->path.find('&', at), name->path.size());
    const std::string part = name->path.substr(at, end - at);
    at = end + 1;
    if (part.compare(0, 5, "size=") == 0 && part.size() <= 24) size = strtoull(part.c_str() + 5, nullptr, 10);
    if (part == "dtype=float32") item = 4;
    if (part.compare(0, 8, "timeout=") == 0) {
      const double asked = strtod(part.c_str() + 8, nullptr);
      if (asked > 0 && asked <= kTimeoutLimitS) name->timeout_s = asked;
    }
  }
  name->records = size && EndsWith(name->path.substr(0, mark), ".tfrecord");
  if (size && size <= kSizeLimit && !name->records) name->pixels = size * size * 3 * item;
  return true;
}

// -- one question, one answer --------------------------------------------------------------------------------------

struct Reply {
  int code = 0, kind = 0;
  uint64_t size = 0, room = 0;
  std::unique_ptr<char[]> data;
};

int LeftMs(Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::min<int64_t>(std::max<int64_t>(left + 1, 0), 1 << 30));
}

// Wait until a socket is ready, the time is up (false), or this process ends (false). No socket: just wait.
bool Wait(int socket, short events, Clock::time_point until) {
  Shared& all = shared();
  while (!all.closing && Clock::now() < until) {
    pollfd both[2] = {{all.wake[0], POLLIN, 0}, {socket, events, 0}};
    const int ready = poll(both, socket < 0 ? 1 : 2, LeftMs(until));
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && socket >= 0 && both[1].revents) return true;
  }
  return false;
}

int Connect(const std::string& card, bool* missing, std::string* why) {
  std::string path;
  {
    std::lock_guard<std::mutex> hold(shared().lock);
    path = shared().folder + "/" + card + ".sock";
  }
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    *why = path + " is too long for a socket";
    return -1;
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (socket < 0) {
    *why = std::string("no socket: ") + strerror(errno);
    return -1;
  }
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  fcntl(socket, F_SETFL, O_NONBLOCK);
#ifdef SO_NOSIGPIPE
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof(on));
#endif
  if (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return socket;
  *missing = errno == ENOENT;
  *why = errno == ENOENT         ? "it has no socket"
         : errno == ECONNREFUSED ? "nobody listens on its socket: it was killed"
                                 : std::string("its socket says: ") + strerror(errno);
  close(socket);
  return -1;
}

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

bool Send(int socket, const std::string& data, Clock::time_point until, std::string* why) {
  for (size_t sent = 0; sent < data.size();) {
    const ssize_t count = send(socket, data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
    if (count > 0) {
      sent += count;
    } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (Wait(socket, POLLOUT, until)) continue;
      *why = "it takes no questions";
      return false;
    } else {
      *why = "it left before it had the question";
      return false;
    }
  }
  return true;
}

bool Receive(int socket, char* data, size_t size, Clock::time_point until, std::string* why) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = recv(socket, data + done, size - done, 0);
    if (count > 0) {
      done += count;
      if (Clock::now() < until) continue;  // bytes that drip must not keep us for ever
      *why = "its answer was not whole in time";
      return false;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (Wait(socket, POLLIN, until)) continue;
      *why = done ? "its answer was not whole in time" : "it did not answer in time";
      return false;
    }
    *why = "it left in the middle of an answer";
    return false;
  }
  return true;
}

bool KnownCode(int code) {
  switch (code) {
    case TF_OK:
    case TF_INVALID_ARGUMENT:
    case TF_NOT_FOUND:
    case TF_PERMISSION_DENIED:
    case TF_RESOURCE_EXHAUSTED:
    case TF_FAILED_PRECONDITION:
    case TF_INTERNAL:
    case TF_DATA_LOSS:
      return true;
    default:  // above all not OUT_OF_RANGE: TensorFlow takes that for the end of a file
      return false;
  }
}

// Ask on an open connection. False where what came back is no answer to this question; `why` says what it was.
bool Exchange(int socket, Op op, const Name& name, uint64_t offset, uint64_t count, Clock::time_point until,
              Reply* reply, std::string* why) {
  const uint64_t id = shared().id++;
  std::string request = "LKQ1";
  Put<uint8_t>(&request, op);
  request.append(3, '\0');
  Put<uint32_t>(&request, name.path.size());
  Put<uint64_t>(&request, id);
  Put<uint64_t>(&request, offset);
  Put<uint64_t>(&request, count);
  static_assert(kRequestHead == 4 + 1 + 3 + 4 + 8 + 8 + 8, "as in protocol.py");
  request += name.path;
  if (!Send(socket, request, until, why)) return false;
  char head[kReplyHead];
  if (!Receive(socket, head, sizeof(head), until, why)) return false;
  const uint32_t crc = Get<uint32_t>(head + 8);
  const uint64_t size = Get<uint64_t>(head + 20);
  reply->code = static_cast<unsigned char>(head[4]);
  reply->kind = static_cast<unsigned char>(head[5]);
  if (memcmp(head, "LKR1", 4) != 0 || !KnownCode(reply->code) || Get<uint64_t>(head + 12) != id) {
    *why = "its answer was no answer to the question";
    return false;
  }
  uint64_t least = 0, most = kSentenceLimit;
  if (reply->code == TF_OK) {
    const bool read = op == kRead;
    least = read ? 8 + name.pixels : op == kStat ? 17 : 0;
    most = op == kStat ? 17 : !read || name.records ? kAnswerLimit : 8 + (name.pixels ? name.pixels : count);
    if (reply->kind != (read && name.records ? kRecords : kPlain)) least = 1, most = 0;
  }
  if (size < least || size > most) {
    *why = "its answer had " + std::to_string(size) + " bytes, which cannot be";
    return false;
  }
  if (size > reply->room || !reply->data) {
    reply->room = 0;
    reply->data.reset(new char[size]);
    reply->room = size;
  }
  reply->size = size;
  if (!Receive(socket, reply->data.get(), size, until, why)) return false;
  memset(head + 8, 0, 4);
  if (kCrc32(reply->data.get(), size, kCrc32(head, sizeof(head))) != crc) {
    *why = "its answer was not what its checksum says";
    return false;
  }
  if (reply->code == TF_OK && op == kRead && !name.records &&
      Get<uint64_t>(reply->data.get()) != (name.pixels ? 0 : offset)) {
    *why = "its answer was of another place in the file";
    return false;
  }
  return true;
}

// The cards that there are, for a sentence.
std::string Others() {
  std::string folder, found;
  {
    std::lock_guard<std::mutex> hold(shared().lock);
    folder = shared().folder;
  }
  if (DIR* entries = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(entries)) {
      const std::string file = entry->d_name;
      if (EndsWith(file, ".sock")) found += (found.empty() ? "" : ", ") + file.substr(0, file.size() - 5);
    }
    closedir(entries);
  }
  return found.empty() ? "none" : found;
}

// Ask until there is an answer or the time is up. False: `status` holds the sentence, of the card or of this side.
bool Ask(const Name& name, Op op, uint64_t offset, uint64_t count, Reply* reply, TF_Status* status) {
  const auto start = Clock::now();
  const auto until = start + std::chrono::microseconds(static_cast<int64_t>(name.timeout_s * 1e6));
  auto pause = std::chrono::milliseconds(5);
  std::string why = "it was not asked";
  while (true) {
    bool missing = false;
    int socket = TakeIdle(name.card);
    const bool used = socket >= 0;
    if (!used) socket = Connect(name.card, &missing, &why);
    if (socket >= 0) {
      if (Exchange(socket, op, name, offset, count, until, reply, &why)) {
        GiveIdle(name.card, socket);
        if (reply->code == TF_OK) return true;
        Fail(status, static_cast<TF_Code>(reply->code), std::string(reply->data.get(), reply->size));
        return false;
      }
      close(socket);
      DropIdle(name.card);  // whatever happened to this one has happened to the others
    }
    if (shared().closing) {
      Fail(status, TF_CANCELLED, "this process ends, and reads no more from the card " + name.card);
      return false;
    }
    if (missing) {
      std::unique_lock<std::mutex> hold(shared().lock);
      const bool known = shared().seen.count(name.card);
      hold.unlock();
      if (!known && Clock::now() - start >= kStartGrace) {
        Fail(status, TF_FAILED_PRECONDITION,
             "no card called " + name.card + " runs on this machine; running: " + Others() +
                 ". `labkit card start` or labkit.card.Card starts one");
        return false;
      }
    }
    if (Clock::now() >= until) {
      char seconds[32];
      snprintf(seconds, sizeof(seconds), "%g", name.timeout_s);
      Fail(status, TF_DEADLINE_EXCEEDED, "the card " + name.card + " gave no answer within " + seconds + " s: " + why);
      return false;
    }
    if (used) continue;  // that connection was old; a new one is tried at once
    Wait(-1, 0, std::min(until, Clock::now() + pause));
    pause = std::min(2 * pause, std::chrono::milliseconds(200));
  }
}

// -- files ---------------------------------------------------------------------------------------------------------

// One open file. It keeps the last stretch that the card gave: TensorFlow reads an image of 3 MB in three pieces, and
// records must be made whole.
struct File {
  Name name;
  std::mutex lock;
  uint64_t place = 0;      // of the first byte of `kept`
  const char* kept = nullptr;
  uint64_t size = 0;       // bytes of `kept`
  Reply reply;             // where they lie as the card gave them
  std::string framed;      // where they lie between checksums
  uint64_t end = ~0ull;    // length of the file, as soon as it is known
};

// Put records between their lengths and checksums, as a TFRecord file has them.
bool Frame(const Reply& reply, std::string* framed) {
  framed->clear();
  framed->reserve(reply.size + 256);
  for (uint64_t at = 8; at < reply.size;) {
    if (reply.size - at < 4) return false;
    const uint64_t length = Get<uint32_t>(reply.data.get() + at);
    at += 4;
    if (length > reply.size - at) return false;
    const size_t head = framed->size();
    Put<uint64_t>(framed, length);
    Put<uint32_t>(framed, Masked(kCrc32c(framed->data() + head, 8)));
    framed->append(reply.data.get() + at, length);
    Put<uint32_t>(framed, Masked(kCrc32c(reply.data.get() + at, length)));
    at += length;
  }
  return true;
}

// Let `file` keep a stretch that begins at or before `offset`; nothing is kept behind the end.
bool Fetch(File* file, uint64_t offset, uint64_t count, TF_Status* status) {
  count = std::min(count, kAskLimit);
  if (file->name.records) count = std::max(count, kRecordsAhead);
  file->size = 0;
  if (!Ask(file->name, kRead, offset, count, &file->reply, status)) return false;
  file->place = Get<uint64_t>(file->reply.data.get());
  if (!file->name.records) {
    file->kept = file->reply.data.get() + 8;
    file->size = file->reply.size - 8;
    if (file->name.pixels || file->size < count) file->end = file->place + file->size;
    return true;
  }
  const bool whole = Frame(file->reply, &file->framed);
  file->kept = file->framed.data();
  file->size = whole ? file->framed.size() : 0;
  if (whole && file->size == 0 && file->place <= offset) {
    file->end = file->place;
    return true;
  }
  if (whole && file->place <= offset && offset - file->place < file->size) return true;
  file->size = 0;
  Fail(status, TF_INTERNAL, "the card " + file->name.card + " gave records that do not fit together");
  return false;
}

int64_t ReadAt(File* file, uint64_t offset, size_t count, char* buffer, TF_Status* status) {
  std::lock_guard<std::mutex> hold(file->lock);
  size_t done = 0;
  TF_SetStatus(status, TF_OK, "");
  while (done < count && offset + done < file->end) {
    const uint64_t at = offset + done;
    if (at < file->place || at - file->place >= file->size) {
      if (!Fetch(file, at, count - done, status)) {
        // TensorFlow throws away what comes with an error, and here those are the good records before a damaged one.
        // A short read that went well makes it ask again, and then it gets the error alone.
        const TF_Code code = TF_GetCode(status);
        if (done && (code == TF_DATA_LOSS || code == TF_INVALID_ARGUMENT)) TF_SetStatus(status, TF_OK, "");
        return static_cast<int64_t>(done);
      }
      if (at < file->place || at - file->place >= file->size) break;
    }
    const size_t skip = at - file->place, part = std::min<size_t>(count - done, file->size - skip);
    memcpy(buffer + done, file->kept + skip, part);
    done += part;
  }
  if (done < count) TF_SetStatus(status, TF_OUT_OF_RANGE, "the file ends here");
  return static_cast<int64_t>(done);
}

// No exception may leave the plugin.
template <typename Result, typename Work>
Result Guard(TF_Status* status, Result failed, Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    Fail(status, TF_RESOURCE_EXHAUSTED, "no memory left to read from the card");
  } catch (...) {
    Fail(status, TF_INTERNAL, "the plugin of the card failed");
  }
  return failed;
}

void Close(TF_RandomAccessFile* file) { delete static_cast<File*>(file->plugin_file); }

int64_t Read(const TF_RandomAccessFile* file, uint64_t offset, size_t count, char* buffer, TF_Status* status) {
  return Guard<int64_t>(status, 0, [&] {
    return ReadAt(static_cast<File*>(file->plugin_file), offset, count, buffer, status);
  });
}

// Nothing is asked yet: one question a file is enough, and it comes with the first read.
void Open(const TF_Filesystem*, const char* uri, TF_RandomAccessFile* file, TF_Status* status) {
  Guard<int>(status, 0, [&] {
    auto opened = std::make_unique<File>();
    if (!Parse(uri, &opened->name, status)) return 0;
    file->plugin_file = opened.release();
    TF_SetStatus(status, TF_OK, "");
    return 0;
  });
}

// A file as memory. TensorFlow uses it as the memory of a tensor, which must begin at a multiple of 64 bytes.
struct Region {
  static constexpr size_t kAlignment = 64;
  std::unique_ptr<char, decltype(&free)> data{nullptr, &free};
  uint64_t size = 0;
};

void CloseRegion(TF_ReadOnlyMemoryRegion* region) { delete static_cast<Region*>(region->plugin_memory_region); }
const void* RegionData(const TF_ReadOnlyMemoryRegion* region) {
  return static_cast<Region*>(region->plugin_memory_region)->data.get();
}
uint64_t RegionLength(const TF_ReadOnlyMemoryRegion* region) {
  return static_cast<Region*>(region->plugin_memory_region)->size;
}

void OpenRegion(const TF_Filesystem*, const char* uri, TF_ReadOnlyMemoryRegion* region, TF_Status* status) {
  Guard<int>(status, 0, [&] {
    File file;
    if (!Parse(uri, &file.name, status)) return 0;
    std::string whole;
    std::vector<char> part(1 << 20);
    do {
      const int64_t count = ReadAt(&file, whole.size(), part.size(), part.data(), status);
      whole.append(part.data(), count);
    } while (TF_GetCode(status) == TF_OK);
    if (TF_GetCode(status) != TF_OUT_OF_RANGE) return 0;
    if (whole.empty()) {
      Fail(status, TF_INVALID_ARGUMENT, std::string(uri) + " is empty");
      return 0;
    }
    auto kept = std::make_unique<Region>();
    void* room = nullptr;
    if (posix_memalign(&room, Region::kAlignment, whole.size()) != 0) throw std::bad_alloc();
    kept->data.reset(static_cast<char*>(room));
    kept->size = whole.size();
    memcpy(room, whole.data(), whole.size());
    region->plugin_memory_region = kept.release();
    TF_SetStatus(status, TF_OK, "");
    return 0;
  });
}

// -- folders -------------------------------------------------------------------------------------------------------

bool Look(const char* uri, TF_FileStatistics* found, TF_Status* status) {
  return Guard<bool>(status, false, [&] {
    Name name;
    Reply reply;
    if (!Parse(uri, &name, status) || !Ask(name, kStat, 0, 0, &reply, status)) return false;
    found->length = Get<int64_t>(reply.data.get());
    found->mtime_nsec = Get<int64_t>(reply.data.get() + 8);
    found->is_directory = reply.data[16] != 0;
    TF_SetStatus(status, TF_OK, "");
    return true;
  });
}

void Stat(const TF_Filesystem*, const char* uri, TF_FileStatistics* stats, TF_Status* status) {
  Look(uri, stats, status);
}

void PathExists(const TF_Filesystem*, const char* uri, TF_Status* status) {
  TF_FileStatistics found;
  Look(uri, &found, status);
}

bool PathsExist(const TF_Filesystem*, char** uris, int count, TF_Status** statuses) {
  bool all = true;
  TF_Status* own = TF_NewStatus();
  for (int i = 0; i < count; ++i) {
    TF_FileStatistics found;
    all &= Look(uris[i], &found, statuses ? statuses[i] : own);
  }
  TF_DeleteStatus(own);
  return all;
}

// TensorFlow looks at the status only, so "no" must be one.
bool IsDirectory(const TF_Filesystem*, const char* uri, TF_Status* status) {
  TF_FileStatistics found;
  if (!Look(uri, &found, status)) return false;
  if (!found.is_directory) Fail(status, TF_FAILED_PRECONDITION, std::string(uri) + " is not a folder");
  return found.is_directory;
}

int64_t GetFileSize(const TF_Filesystem*, const char* uri, TF_Status* status) {
  TF_FileStatistics found;
  if (!Look(uri, &found, status)) return -1;
  if (!found.is_directory) return found.length;
  Fail(status, TF_FAILED_PRECONDITION, std::string(uri) + " is a folder");
  return -1;
}

char* Copy(const std::string& text) {
  char* copy = static_cast<char*>(malloc(text.size() + 1));
  if (copy) memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

// Ask for names and hand them over, each with `before` in front of it.
int Names(const char* uri, Op op, TF_Status* status, char*** entries, bool whole) {
  return Guard<int>(status, -1, [&] {
    Name name;
    Reply reply;
    if (!Parse(uri, &name, status) || !Ask(name, op, 0, 0, &reply, status)) return -1;
    const char *at = reply.data.get(), *end = at + reply.size;
    if (reply.size && end[-1] != '\0') {
      Fail(status, TF_INTERNAL, "the card " + name.card + " gave names without an end");
      return -1;
    }
    const int count = static_cast<int>(std::count(at, end, '\0'));
    const std::string before = whole ? kScheme + name.card + "/" : "";
    *entries = static_cast<char**>(calloc(std::max(count, 1), sizeof(char*)));
    if (!*entries) throw std::bad_alloc();
    for (int i = 0; i < count; ++i, at += strlen(at) + 1) {
      (*entries)[i] = Copy(before + at);
      if (!(*entries)[i]) {
        for (int j = 0; j < i; ++j) free((*entries)[j]);
        free(*entries);
        throw std::bad_alloc();
      }
    }
    TF_SetStatus(status, TF_OK, "");
    return count;
  });
}

int GetChildren(const TF_Filesystem*, const char* uri, char*** entries, TF_Status* status) {
  return Names(uri, kList, status, entries, false);
}

int GetMatchingPaths(const TF_Filesystem*, const char* pattern, char*** entries, TF_Status* status) {
  return Names(pattern, kGlob, status, entries, true);
}

// Parameters would be lost by TensorFlow's own way, and so would the name of the card.
char* TranslateName(const TF_Filesystem*, const char* uri) { return strdup(uri); }

// Nothing is cached but connections.
void FlushCaches(const TF_Filesystem*) {
  Shared& all = shared();
  std::lock_guard<std::mutex> hold(all.lock);
  OwnConnections(all);
  for (auto& [card, sockets] : all.idle) {
    for (int socket : sockets) close(socket);
    sockets.clear();
  }
}

// -- what a card refuses ---------------------------------------------------------------------------------------------

void ReadOnly(const char* uri, TF_Status* status) {
  Fail(status, TF_PERMISSION_DENIED, std::string(uri) + " cannot be changed: a card is read, and never written");
}

void NoWriter(const TF_Filesystem*, const char* uri, TF_WritableFile*, TF_Status* status) { ReadOnly(uri, status); }
void NoChange(const TF_Filesystem*, const char* uri, TF_Status* status) { ReadOnly(uri, status); }
void NoMove(const TF_Filesystem*, const char*, const char* target, TF_Status* status) { ReadOnly(target, status); }
void NoDelete(const TF_Filesystem*, const char* uri, uint64_t* files, uint64_t* folders, TF_Status* status) {
  *files = 0;
  *folders = 1;
  ReadOnly(uri, status);
}

// TensorFlow wants these where it is offered a way to write; nobody ever gets as far.
void CloseWriter(TF_WritableFile*) {}
void NoAppend(const TF_WritableFile*, const char*, size_t, TF_Status* status) { ReadOnly("the card", status); }

void Init(TF_Filesystem*, TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }
void Cleanup(TF_Filesystem*) {}

}  // namespace

extern "C" {

// Where sockets lie, and how long a question may take unless its name says another time. May be called again.
__attribute__((visibility("default"))) int labkit_card_configure(const char* folder, double timeout_s) {
  Shared& all = shared();
  std::lock_guard<std::mutex> hold(all.lock);
  all.folder = folder;
  all.timeout_s = timeout_s;
  OwnConnections(all);
  return all.wake[0] >= 0 ? 0 : OpenWake(all);
}

// Nobody need wait for this card to come back.
__attribute__((visibility("default"))) void labkit_card_forget(const char* card) {
  DropIdle(card);
  std::lock_guard<std::mutex> hold(shared().lock);
  shared().seen.erase(card);
}

// The process ends: whoever waits for a card stops at once, and nobody asks again.
__attribute__((visibility("default"))) void labkit_card_close() {
  Shared& all = shared();
  all.closing = true;
  if (all.wake[1] >= 0 && write(all.wake[1], "", 1) < 0) return;
}

TF_CAPI_EXPORT void TF_InitPlugin(TF_FilesystemPluginInfo* info) {
  info->plugin_memory_allocate = malloc;
  info->plugin_memory_free = free;
  info->num_schemes = 1;
  auto* ops = info->ops = static_cast<TF_FilesystemPluginOps*>(calloc(1, sizeof(TF_FilesystemPluginOps)));
  ops->scheme = strdup("smartssd");
  TF_SetFilesystemVersionMetadata(ops);

  auto* file = ops->random_access_file_ops =
      static_cast<TF_RandomAccessFileOps*>(calloc(1, sizeof(TF_RandomAccessFileOps)));
  file->cleanup = Close;
  file->read = Read;

  auto* writer = ops->writable_file_ops = static_cast<TF_WritableFileOps*>(calloc(1, sizeof(TF_WritableFileOps)));
  writer->cleanup = CloseWriter;
  writer->append = NoAppend;

  auto* region = ops->read_only_memory_region_ops =
      static_cast<TF_ReadOnlyMemoryRegionOps*>(calloc(1, sizeof(TF_ReadOnlyMemoryRegionOps)));
  region->cleanup = CloseRegion;
  region->data = RegionData;
  region->length = RegionLength;

  auto* system = ops->filesystem_ops = static_cast<TF_FilesystemOps*>(calloc(1, sizeof(TF_FilesystemOps)));
  system->init = Init;
  system->cleanup = Cleanup;
  system->new_random_access_file = Open;
  system->new_read_only_memory_region_from_file = OpenRegion;
  system->path_exists = PathExists;
  system->paths_exist = PathsExist;
  system->stat = Stat;
  system->is_directory = IsDirectory;
  system->get_file_size = GetFileSize;
  system->get_children = GetChildren;
  system->get_matching_paths = GetMatchingPaths;
  system->translate_name = TranslateName;
  system->flush_caches = FlushCaches;
  system->new_writable_file = NoWriter;
  system->new_appendable_file = NoWriter;
  system->create_dir = NoChange;
  system->recursively_create_dir = NoChange;
  system->delete_file = NoChange;
  system->delete_dir = NoChange;
  system->delete_recursively = NoDelete;
  system->rename_file = NoMove;
  system->copy_file = NoMove;
}

}  // extern "C"
