// A TensorFlow filesystem: smartssd://<card>/<path>?<parameters> is a file of the card of that name, which is a process
// behind a Unix socket. The messages are described in protocol.py.
//
// The plugin knows no Python, no OpenCL and no format of files. Every request can be repeated: where the card is gone,
// or what it sends is no reply, the same request is sent again until the time is up. A reply counts only if its length
// is possible, if it carries the number of the request, and if its bytes are those that were asked for. A request that
// changes the card carries a token, by which the card knows what it has done already.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tensorflow/c/experimental/filesystem/filesystem_interface.h"

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char kScheme[] = "smartssd://";
constexpr char kMagic[] = "LKC2";
constexpr char kCardLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr size_t kCardLimit = 32, kNameLimit = 8192;
constexpr uint64_t kAskLimit = 16u << 20;    // bytes of a file that one request asks for
constexpr size_t kPieceLimit = 4u << 20;     // bytes of a file that one request brings
constexpr uint64_t kReplyLimit = 1u << 30;   // bytes of an image, of records or of names in one reply
constexpr uint64_t kSentenceLimit = 64u << 10;
constexpr double kTimeoutLimitS = 3600;
constexpr auto kStartGrace = milliseconds(1000);  // a card that has never answered may be starting

enum Op : uint8_t {
  kRead = 2, kStat, kList, kGlob, kBegin, kWrite, kCommit, kMakeFolder, kDelete, kDeleteFolder, kDeleteTree, kRename
};

// Every code that a card sends. Above all OUT_OF_RANGE is none: TensorFlow takes it for the end of a file.
const std::set<int> kCodes = {TF_OK, TF_INVALID_ARGUMENT, TF_NOT_FOUND, TF_ALREADY_EXISTS, TF_PERMISSION_DENIED,
                              TF_RESOURCE_EXHAUSTED, TF_FAILED_PRECONDITION, TF_INTERNAL, TF_DATA_LOSS};

#pragma pack(push, 1)
// What a message begins with; a reply has its payload next.
struct Head {
  uint32_t length;  // of what follows, in network byte order
  char magic[4];
  uint8_t kind;  // the operation of a request, the code of a reply
  uint64_t id;
};

// The name follows, or a piece of a file.
struct RequestHead {
  Head head;
  uint64_t offset, count;
};

// What the payload of kRead begins with.
struct Stretch {
  uint64_t place, end, version;
};

// The payload of kStat.
struct Statistics {
  int64_t length, mtime_ns;
  uint8_t folder;
};
#pragma pack(pop)

// What TensorFlow gets to know instead of a result.
struct Failure {
  TF_Code code;
  std::string sentence;
};

// What went wrong on one connection: on another one the same request may succeed.
struct Broken {
  std::string why;
  bool missing = false;  // there is no socket of this card
};

// Do `work` and let TensorFlow know how it ended. No exception may leave the plugin.
template <typename Work>
void Guard(TF_Status* status, Work work) {
  TF_SetStatus(status, TF_OK, "");
  try {
    work();
  } catch (const Failure& failure) {
    TF_SetStatus(status, failure.code, failure.sentence.c_str());
  } catch (const std::bad_alloc&) {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "no memory left for what the card holds");
  } catch (...) {
    TF_SetStatus(status, TF_INTERNAL, "the plugin of the card failed");
  }
}

// -- what this process knows -------------------------------------------------------------------------------------

struct State {
  std::mutex lock;
  std::string folder;                            // of the sockets
  double timeout_s = 20;
  std::map<std::string, std::vector<int>> idle;  // by card, or by file that is written: connections not in use now
  std::set<std::string> known;                   // cards that have answered: one of them that is gone may come back
  pid_t owner = 0;                               // the process that opened the connections
  std::atomic<bool> closing{false};
  std::atomic<uint64_t> id{1};
};

// Never destroyed: threads of tf.data may still read while the process ends.
State& state() {
  static State* const instance = new State;
  return *instance;
}

void CloseAll(std::vector<int>& sockets) {
  for (int socket : sockets) close(socket);
  sockets.clear();
}

// Lock the state. A fork of this process has the same connections, but two readers of one socket get each other's
// bytes: the fork closes them.
std::unique_lock<std::mutex> Lock() {
  std::unique_lock<std::mutex> hold(state().lock);
  if (state().owner != getpid()) {
    for (auto& [card, sockets] : state().idle) CloseAll(sockets);
    state().owner = getpid();
  }
  return hold;
}

int TakeIdle(const std::string& pool) {
  auto hold = Lock();
  auto& sockets = state().idle[pool];
  if (sockets.empty()) return -1;
  const int socket = sockets.back();
  sockets.pop_back();
  return socket;
}

void GiveIdle(const std::string& card, const std::string& pool, int socket) {
  auto hold = Lock();
  state().known.insert(card);
  state().idle[pool].push_back(socket);
}

void DropIdle(const std::string& pool) {
  auto hold = Lock();
  CloseAll(state().idle[pool]);
  state().idle.erase(pool);
}

// -- names -------------------------------------------------------------------------------------------------------

struct Name {
  std::string card;
  std::string pool;      // whose connections are used: those of the card, unless a file is written
  std::string path;      // with parameters, as the card gets it
  double timeout_s = 0;
  bool pixels = false;   // an image or records: a reply may have more bytes than were asked for
};

// Take a URI apart. The card checks the parameters; only what the plugin must know as well is read here.
Name Parse(const char* uri) {
  std::string text(uri);
  if (text.compare(0, strlen(kScheme), kScheme) == 0) text.erase(0, strlen(kScheme));
  const size_t slash = text.find('/');
  Name name;
  name.pool = name.card = text.substr(0, slash);
  name.path = slash == std::string::npos ? "" : text.substr(slash + 1);
  if (name.card.empty() || name.card.size() > kCardLimit || name.card[0] == '-' || name.card[0] == '_' ||
      name.card.find_first_not_of(kCardLetters) != std::string::npos)
    throw Failure{TF_INVALID_ARGUMENT,
                  "the card in '" + std::string(uri) + "' is '" + name.card +
                      "'; allowed: the name of one card, such as card0: up to 32 letters, digits, - and _, no pattern"};
  if (name.path.size() > kNameLimit)
    throw Failure{TF_INVALID_ARGUMENT, "the name has " + std::to_string(name.path.size()) + " bytes; allowed: " +
                                           std::to_string(kNameLimit)};
  name.timeout_s = (Lock(), state().timeout_s);
  const size_t mark = name.path.rfind('?');
  if (mark == std::string::npos || name.path.find('=', mark) == std::string::npos ||
      name.path.find('/', mark) != std::string::npos)
    return name;
  const std::string query = "&" + name.path.substr(mark + 1);
  name.pixels = query.find("&size=") != std::string::npos;
  const size_t timeout = query.find("&timeout=");
  const double asked = timeout == std::string::npos ? 0 : strtod(&query[timeout + strlen("&timeout=")], nullptr);
  if (asked > 0 && asked <= kTimeoutLimitS) name.timeout_s = asked;
  return name;
}

// -- one request, one reply ----------------------------------------------------------------------------------------

struct Reply {
  TF_Code code = TF_OK;
  uint64_t size = 0;
  std::unique_ptr<char[]> data;

  // The payload, or its beginning, as one of the structures above.
  template <typename Part>
  const Part& as() const { return *reinterpret_cast<const Part*>(data.get()); }
};

// Wait until a socket is ready. False where the time is up or this process ends.
bool Wait(int socket, short events, Clock::time_point until) {
  while (!state().closing && Clock::now() < until) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()) + milliseconds(1);
    pollfd one = {socket, events, 0};
    if (poll(&one, 1, static_cast<int>(std::min(left, milliseconds(100)).count())) > 0) return true;
  }
  return false;
}

int Connect(const std::string& card) {
  const std::string path = (Lock(), state().folder) + "/" + card + ".sock";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);  // process.py chooses a folder where it fits
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  fcntl(socket, F_SETFL, O_NONBLOCK);
  if (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return socket;
  const int error = errno;
  close(socket);
  throw Broken{error == ENOENT         ? "it has no socket"
               : error == ECONNREFUSED ? "nobody listens on its socket: it was killed"
                                       : std::string("its socket cannot be used: ") + strerror(error),
               error == ENOENT};
}

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0  // macOS; Python ignores the signal
#endif

// Send or receive `size` bytes.
void Transfer(bool sending, int socket, void* data, size_t size, Clock::time_point until) {
  for (size_t done = 0; done < size;) {
    char* const at = static_cast<char*>(data) + done;
    const ssize_t count = sending ? send(socket, at, size - done, MSG_NOSIGNAL) : recv(socket, at, size - done, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
      throw Broken{sending ? "it left before it had the request" : "it left in the middle of a reply"};
    if (count > 0) done += count;
    // The time also ends for a card that sends byte by byte.
    if (done < size && (count > 0 ? Clock::now() >= until : !Wait(socket, sending ? POLLOUT : POLLIN, until)))
      throw Broken{sending ? "it takes no requests" : "its reply was not whole in time"};
  }
}

// Send one request on an open connection and return the reply to it.
Reply Exchange(int socket, Op op, const Name& name, uint64_t offset, uint64_t count, const std::string& rest,
               Clock::time_point until) {
  const uint64_t id = state().id++;
  RequestHead request = {{0, {}, op, id}, offset, count};
  request.head.length = htonl(sizeof(request) - sizeof(request.head.length) + rest.size());
  memcpy(request.head.magic, kMagic, 4);
  std::string message = std::string(reinterpret_cast<const char*>(&request), sizeof(request)) + rest;
  Transfer(true, socket, message.data(), message.size(), until);

  Head answer;
  Transfer(false, socket, &answer, sizeof(answer), until);
  if (memcmp(answer.magic, kMagic, 4) != 0 || !kCodes.count(answer.kind) || answer.id != id)
    throw Broken{"its reply was none to the request"};
  const bool good = answer.kind == TF_OK, read = good && op == kRead, stat = good && op == kStat;
  const bool begin = good && op == kBegin, names = good && (op == kList || op == kGlob);
  const uint64_t least = read ? sizeof(Stretch) : stat ? sizeof(Statistics) : begin ? sizeof(uint64_t) : 0;
  const uint64_t most = !good                             ? kSentenceLimit
                        : names || (read && name.pixels) ? kReplyLimit
                                                          : least + (read ? count : 0);
  Reply reply;
  reply.code = static_cast<TF_Code>(answer.kind);
  reply.size = uint64_t{ntohl(answer.length)} + sizeof(answer.length) - sizeof(answer);
  if (reply.size < least || reply.size > most)
    throw Broken{"its reply had an impossible length of " + std::to_string(reply.size) + " bytes"};
  reply.data.reset(new char[reply.size]);
  Transfer(false, socket, reply.data.get(), reply.size, until);
  if (!read) return reply;
  const auto [place, end, version] = reply.as<Stretch>();
  const bool holds = place <= offset && (offset - place < reply.size - sizeof(Stretch) || offset >= end);
  if (!holds || (place != offset && !name.pixels)) throw Broken{"its reply was about another place in the file"};
  return reply;
}

// Ask until there is a reply or the time is up.
Reply Ask(const Name& name, Op op, uint64_t offset, uint64_t count, const std::string& rest) {
  const auto start = Clock::now();
  const auto until = start + std::chrono::microseconds(static_cast<int64_t>(name.timeout_s * 1e6));
  for (auto pause = milliseconds(5);; pause = std::min(2 * pause, milliseconds(200))) {
    int socket = TakeIdle(name.pool);
    const bool used = socket >= 0;
    try {
      if (!used) socket = Connect(name.card);
      Reply reply = Exchange(socket, op, name, offset, count, rest, until);
      GiveIdle(name.card, name.pool, socket);
      if (reply.code != TF_OK) throw Failure{reply.code, std::string(reply.data.get(), reply.size)};
      return reply;
    } catch (const Broken& broken) {
      if (socket >= 0) close(socket);
      DropIdle(name.pool);  // what happened to this connection has happened to the others
      if (state().closing)
        throw Failure{TF_CANCELLED, "this process ends, and asks the card " + name.card + " no more"};
      if (broken.missing && Clock::now() - start >= kStartGrace && !(Lock(), state().known.count(name.card)))
        throw Failure{TF_FAILED_PRECONDITION,
                      "no card called " + name.card + " runs on this machine: `labkit card status` lists those that " +
                          "run, `labkit card start` or labextras.card.Card starts one"};
      if (Clock::now() >= until) {
        std::ostringstream sentence;
        sentence << "the card " << name.card << " gave no answer within " << name.timeout_s << " s: " << broken.why;
        throw Failure{TF_DEADLINE_EXCEEDED, sentence.str()};
      }
    }
    // A connection that was used before may have been old: a new one is tried at once.
    if (!used) std::this_thread::sleep_until(std::min(until, Clock::now() + pause));
  }
}

Reply Ask(const Name& name, Op op, uint64_t offset = 0, uint64_t count = 0) {
  return Ask(name, op, offset, count, name.path);
}

// By which a card knows a change that it has done. Those of all processes are different.
uint64_t Token() {
  static thread_local std::random_device source;
  return uint64_t{source()} << 32 | source();
}

// -- files that are read ---------------------------------------------------------------------------------------------

// One open file. It keeps the last stretch that the card gave: TensorFlow reads an image of 3 MB in three pieces, and
// an image and a record come whole.
struct File {
  Name name;
  std::mutex lock;
  Reply reply;
  Stretch kept = {0, ~0ull, 0};  // the place of the stretch, and the length of the file as soon as it is known
  bool begun = false;         // there has been a stretch
  uint64_t size = 0;          // bytes of the stretch
};

// Read bytes and return how many; `ended` says whether there are no more because the file ends.
size_t ReadAt(File* file, uint64_t offset, size_t count, char* buffer, bool* ended) {
  std::lock_guard<std::mutex> hold(file->lock);
  size_t done = 0;
  while (done < count && offset + done < file->kept.end) {
    const uint64_t at = offset + done, skip = at - file->kept.place;
    if (at < file->kept.place || skip >= file->size) {
      file->size = 0;
      try {
        file->reply = Ask(file->name, kRead, at, std::min<uint64_t>(count - done, kAskLimit));
      } catch (const Failure& failure) {
        // TensorFlow throws away what comes with an error, and here those are the good records before a damaged one.
        // After a short read without an error it asks again, and then it gets the error alone.
        if (done && (failure.code == TF_DATA_LOSS || failure.code == TF_INVALID_ARGUMENT)) return done;
        throw;
      }
      const Stretch& stretch = file->reply.as<Stretch>();
      if (file->begun && stretch.version != file->kept.version)
        throw Failure{TF_FAILED_PRECONDITION, "'" + file->name.path + "' was changed while it was read; open it again"};
      file->begun = true;
      file->kept = stretch;
      file->size = file->reply.size - sizeof(Stretch);
      continue;
    }
    const size_t part = std::min<size_t>(count - done, file->size - skip);
    memcpy(buffer + done, file->reply.data.get() + sizeof(Stretch) + skip, part);
    done += part;
  }
  *ended = done < count;
  return done;
}

// Nothing is asked yet: one request is enough for most files, and it is sent by the first read.
void Open(const TF_Filesystem*, const char* uri, TF_RandomAccessFile* file, TF_Status* status) {
  Guard(status, [&] {
    auto opened = std::make_unique<File>();
    opened->name = Parse(uri);
    file->plugin_file = opened.release();
  });
}

int64_t Read(const TF_RandomAccessFile* file, uint64_t offset, size_t count, char* buffer, TF_Status* status) {
  int64_t done = 0;
  bool ended = false;
  Guard(status, [&] { done = ReadAt(static_cast<File*>(file->plugin_file), offset, count, buffer, &ended); });
  if (ended) TF_SetStatus(status, TF_OUT_OF_RANGE, "the file ends here");
  return done;
}

void Close(TF_RandomAccessFile* file) { delete static_cast<File*>(file->plugin_file); }

// What a name stands for. TensorFlow makes IsDirectory, GetFileSize and FilesExist of this and of PathExists.
void Stat(const TF_Filesystem*, const char* uri, TF_FileStatistics* found, TF_Status* status) {
  Guard(status, [&] {
    const Reply reply = Ask(Parse(uri), kStat);
    const Statistics& statistics = reply.as<Statistics>();
    *found = {statistics.length, statistics.mtime_ns, statistics.folder != 0};
  });
}

void PathExists(const TF_Filesystem* filesystem, const char* uri, TF_Status* status) {
  TF_FileStatistics found;
  Stat(filesystem, uri, &found, status);
}

// A file as memory. TensorFlow uses it as the memory of a tensor, which must begin at a multiple of 64 bytes.
struct Region {
  std::unique_ptr<void, decltype(&free)> data{nullptr, &free};
  uint64_t size = 0;
};

void OpenRegion(const TF_Filesystem*, const char* uri, TF_ReadOnlyMemoryRegion* region, TF_Status* status) {
  Guard(status, [&] {
    File file;
    file.name = Parse(uri);
    const uint64_t length = Ask(file.name, kStat).as<Statistics>().length;
    if (length == 0) throw Failure{TF_INVALID_ARGUMENT, std::string(uri) + " is empty"};
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, length) != 0) throw std::bad_alloc();
    auto made = std::make_unique<Region>();
    made->data.reset(memory);
    bool ended = false;
    made->size = ReadAt(&file, 0, length, static_cast<char*>(memory), &ended);
    region->plugin_memory_region = made.release();
  });
}

Region* RegionOf(const TF_ReadOnlyMemoryRegion* region) { return static_cast<Region*>(region->plugin_memory_region); }
const void* RegionData(const TF_ReadOnlyMemoryRegion* region) { return RegionOf(region)->data.get(); }
uint64_t RegionLength(const TF_ReadOnlyMemoryRegion* region) { return RegionOf(region)->size; }
void CloseRegion(TF_ReadOnlyMemoryRegion* region) { delete RegionOf(region); }

// -- files that are written --------------------------------------------------------------------------------------------

// One file that is written. The card holds it aside until it is closed. It has a connection of its own: where that
// ends, the card knows that the writer is gone.
struct Writing {
  Name name;
  uint64_t token = Token();
  uint64_t sent = 0;                 // bytes that the card holds
  std::string waiting;               // those behind them
  std::unique_ptr<Failure> failure;  // after one the card holds nothing any more
  ~Writing() { DropIdle(name.pool); }
};

Writing* WritingOf(const TF_WritableFile* file) { return static_cast<Writing*>(file->plugin_file); }

template <bool appends>
void Begin(const TF_Filesystem*, const char* uri, TF_WritableFile* file, TF_Status* status) {
  Guard(status, [&] {
    auto begun = std::make_unique<Writing>();
    begun->name = Parse(uri);
    begun->name.pool += "/" + std::to_string(begun->token);
    begun->sent = Ask(begun->name, kBegin, appends, begun->token).as<uint64_t>();
    file->plugin_file = begun.release();
  });
}

// Ask for what the file needs; where that fails, all that follows fails in the same way.
void Put(Writing* file, Op op, const std::string& rest) {
  if (file->failure) throw *file->failure;
  try {
    Ask(file->name, op, file->sent, file->token, rest);
  } catch (const Failure& failure) {
    file->failure = std::make_unique<Failure>(failure);
    throw;
  }
}

void Send(Writing* file) {
  if (file->waiting.empty() && !file->failure) return;
  Put(file, kWrite, file->waiting);
  file->sent += file->waiting.size();
  file->waiting.clear();
}

void Append(const TF_WritableFile* file, const char* buffer, size_t size, TF_Status* status) {
  Guard(status, [&] {
    Writing* const to = WritingOf(file);
    for (size_t done = 0; done < size;) {
      const size_t part = std::min(size - done, kPieceLimit - to->waiting.size());
      to->waiting.append(buffer + done, part);
      done += part;
      if (to->failure || to->waiting.size() == kPieceLimit) Send(to);
    }
  });
}

int64_t Tell(const TF_WritableFile* file, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  return WritingOf(file)->sent + WritingOf(file)->waiting.size();
}

// The card holds all bytes then. They are in the file when it is closed, and not before.
void Flush(const TF_WritableFile* file, TF_Status* status) {
  Guard(status, [&] { Send(WritingOf(file)); });
}

void CloseWriting(const TF_WritableFile* file, TF_Status* status) {
  Guard(status, [&] {
    Send(WritingOf(file));
    Put(WritingOf(file), kCommit, "");
  });
}

// A file that was not closed is none: its connection ends here.
void Abandon(TF_WritableFile* file) { delete WritingOf(file); }

// -- changes -----------------------------------------------------------------------------------------------------------

template <Op op>
void Change(const TF_Filesystem*, const char* uri, TF_Status* status) {
  Guard(status, [&] { Ask(Parse(uri), op, 0, Token()); });
}

void DeleteTree(const TF_Filesystem* filesystem, const char* uri, uint64_t* files, uint64_t* folders,
                TF_Status* status) {
  Change<kDeleteTree>(filesystem, uri, status);
  *files = 0;
  *folders = TF_GetCode(status) != TF_OK;
}

void Rename(const TF_Filesystem*, const char* from, const char* to, TF_Status* status) {
  Guard(status, [&] {
    const Name source = Parse(from), target = Parse(to);
    if (source.card != target.card)
      throw Failure{TF_INVALID_ARGUMENT, std::string(from) + " cannot become " + to +
                                             ": they are on two cards; allowed: a name on the same card, or a copy"};
    Ask(source, kRename, 0, Token(), source.path + '\0' + target.path);
  });
}

// -- folders -------------------------------------------------------------------------------------------------------

// Ask for names and hand them over as a list that TensorFlow frees; what fits a pattern gets scheme and card in front.
int Names(const char* uri, Op op, TF_Status* status, char*** entries) {
  std::vector<char*> names;
  Guard(status, [&] {
    const Name name = Parse(uri);
    const Reply reply = Ask(name, op);
    const std::string before = op == kGlob ? kScheme + name.card + "/" : "";
    std::istringstream text(std::string(reply.data.get(), reply.size));
    for (std::string one; std::getline(text, one, '\0');) names.push_back(strdup((before + one).c_str()));
  });
  if (TF_GetCode(status) != TF_OK) return -1;
  *entries = static_cast<char**>(calloc(names.size() + 1, sizeof(char*)));
  std::copy(names.begin(), names.end(), *entries);
  return static_cast<int>(names.size());
}

int GetChildren(const TF_Filesystem*, const char* uri, char*** entries, TF_Status* status) {
  return Names(uri, kList, status, entries);
}

int GetMatchingPaths(const TF_Filesystem*, const char* pattern, char*** entries, TF_Status* status) {
  return Names(pattern, kGlob, status, entries);
}

// TensorFlow's own way would lose the parameters and the name of the card.
char* TranslateName(const TF_Filesystem*, const char* uri) { return strdup(uri); }

// Nothing is cached but connections.
void FlushCaches(const TF_Filesystem*) {
  auto hold = Lock();
  for (auto& [card, sockets] : state().idle) CloseAll(sockets);
}

void Init(TF_Filesystem*, TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }
void Cleanup(TF_Filesystem*) {}

// TensorFlow frees the tables of operations.
template <typename Operations>
Operations* Table() {
  return static_cast<Operations*>(calloc(1, sizeof(Operations)));
}

}  // namespace

extern "C" {

// Where the sockets lie, and how long a request may take unless its name says another time. May be called again.
TF_CAPI_EXPORT void labkit_card_configure(const char* folder, double timeout_s) {
  auto hold = Lock();
  state().folder = folder;
  state().timeout_s = timeout_s;
}

// A card was stopped on purpose: its readers need not wait until it comes back.
TF_CAPI_EXPORT void labkit_card_forget(const char* card) {
  auto hold = Lock();
  CloseAll(state().idle[card]);
  state().known.erase(card);
}

// The process ends: whoever waits for a card stops, and nobody asks again.
TF_CAPI_EXPORT void labkit_card_close() { state().closing = true; }

TF_CAPI_EXPORT void TF_InitPlugin(TF_FilesystemPluginInfo* info) {
  info->plugin_memory_allocate = malloc;
  info->plugin_memory_free = free;
  info->num_schemes = 1;
  auto* ops = info->ops = Table<TF_FilesystemPluginOps>();
  ops->scheme = strdup("smartssd");
  TF_SetFilesystemVersionMetadata(ops);

  auto* file = ops->random_access_file_ops = Table<TF_RandomAccessFileOps>();
  file->cleanup = Close;
  file->read = Read;

  auto* writer = ops->writable_file_ops = Table<TF_WritableFileOps>();
  writer->cleanup = Abandon;
  writer->append = Append;
  writer->tell = Tell;
  writer->flush = writer->sync = Flush;
  writer->close = CloseWriting;

  auto* region = ops->read_only_memory_region_ops = Table<TF_ReadOnlyMemoryRegionOps>();
  region->cleanup = CloseRegion;
  region->data = RegionData;
  region->length = RegionLength;

  auto* system = ops->filesystem_ops = Table<TF_FilesystemOps>();
  system->init = Init;
  system->cleanup = Cleanup;
  system->new_random_access_file = Open;
  system->new_read_only_memory_region_from_file = OpenRegion;
  system->path_exists = PathExists;
  system->stat = Stat;
  system->get_children = GetChildren;
  system->get_matching_paths = GetMatchingPaths;
  system->translate_name = TranslateName;
  system->flush_caches = FlushCaches;
  system->new_writable_file = Begin<false>;
  system->new_appendable_file = Begin<true>;
  system->create_dir = Change<kMakeFolder>;
  system->delete_file = Change<kDelete>;
  system->delete_dir = Change<kDeleteFolder>;
  system->delete_recursively = DeleteTree;
  system->rename_file = Rename;
  // TensorFlow itself makes RecursivelyCreateDir and CopyFile of these.
}

}  // extern "C"
