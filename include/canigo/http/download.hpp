#pragma once

#include "canigo/http/client.hpp"
#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>

#include <filesystem>

namespace canigo::http {

/// Sends the request, and writes the body of the response to the file `to`.
///
/// The file appears completely or not at all: the body is written to a new file in the same folder, which replaces `to`
/// at the end. After an error the new file is removed. The result is the head of the response, with its body_size. If
/// its status is not 200 to 299, no file is written, and an existing file stays.
///
/// The client must live until the head has arrived. As for client::open(), the body has no time limit. The file mode is
/// 0666 minus the umask of the process. The file is written with blocking calls, so a slow disk blocks the thread. The
/// file is not flushed to the disk.
///
/// Errors: those of client::open() and exchange::read_some(), whose text describes the problem; those of the system
/// category, whose text names the file. If `to` exists and is no regular file: errc::invalid_argument, and nothing is
/// sent.
/// Cancellation: as for client::open() and exchange::read_some().
/// Allocates: 64 KiB, up to 256 KiB for a body that arrives fast, and the coroutine's frame.
net::awaitable<response> download(client& c, request r, std::filesystem::path to);

}  // namespace canigo::http
